r"""Runs one node and kills it when the node's starter ends. It is run as a script, not imported.

The starter is the process that started the cluster. To send a signal to the node, it writes the
signal's number as a line to the standard input of this script, the guard. Only the parent of a
process knows whether its process id is still valid. The guard is the node's parent, so a signal
never reaches another process that has reused the id. When the starter closes the guard's standard
input, or ends for any reason, the guard kills the node and removes its files.

    starter --- stdin: "15\n" ---> guard ---> java
            <-- stdout: "4711\n"

Linux's PR_SET_PDEATHSIG would not work in the starter. It kills a child when the thread that forked
the child ends, even if the process lives on. The guard has only one thread, so the guard uses
PR_SET_PDEATHSIG to end the node if the guard dies.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_LOOK_FOR_STARTER_S = 0.5


def main(order: dict[str, Any]) -> int:
    """Runs the node's command, and returns its exit status: -N if the signal N has ended it."""
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    os.set_blocking(wake_reader, False)
    signal.set_wakeup_fd(wake_writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    node = _start(order["command"], order["folder"])
    try:
        os.write(1, b"%d\n" % node.pid)
        while node.poll() is None and os.getppid() == order["starter"]:
            ready, _, _ = select.select([0, wake_reader], [], [], _LOOK_FOR_STARTER_S)
            if wake_reader in ready:
                os.read(wake_reader, 512)
            if 0 in ready:
                signal_numbers = os.read(0, 512)
                if not signal_numbers:
                    break
                for number in signal_numbers.split():
                    if node.poll() is None:
                        os.killpg(node.pid, int(number))
        return node.returncode if node.returncode is not None else 1
    finally:
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGKILL)
            node.wait()
            # The starter has ended or closed the input, so it will not start the node again, and
            # the node's files are removed. If the node has ended by itself or by a signal from the
            # starter, its files stay for another start.
            for folder in order["remove"]:
                shutil.rmtree(folder, ignore_errors=True)


def _start(command: list[str], folder: str) -> subprocess.Popen[bytes]:
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def die_with_guard() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)

    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=2,  # the guard's standard error is the node's log
        stderr=2,
        start_new_session=True,
        preexec_fn=die_with_guard,  # this process has one thread, so no other thread holds a lock
    )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])) & 0xFF)
