"""One node: a Java process under a guard process, and the address and files that outlive both."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .addresses import CQL_PORT
from .errors import CassandraError
from .probe import Connection, ProbeError

__all__ = ["Access", "Node", "NodeFiles"]

_GUARD = Path(__file__).with_name("guard.py")
_TAIL_LINES = 40
_POLL_S = 0.1
_KILL_S = 30.0
_PAUSE_S = 5.0


@dataclass(frozen=True)
class Access:
    """The TLS context and credentials that a client needs to connect."""

    context: ssl.SSLContext | None
    user: str | None
    password: str | None


@dataclass(frozen=True)
class NodeFiles:
    """The files of a node, and the folders that its guard removes when this process has ended."""

    folder: Path
    log: Path
    log_is_kept: bool
    remove: Sequence[Path]


class Node:
    """One node of a `Cassandra` cluster. The cluster creates and starts it.

    `stop`, `kill` and `start` keep the address and the data. A paused node keeps its connections
    and does not answer.
    """

    def __init__(
        self,
        *,
        address: str,
        command: Sequence[str],
        files: NodeFiles,
        access: Access,
        timeout_s: float,
        after_start: Callable[[], None],
    ) -> None:
        self.address = address
        self.upstream_address = address
        """The node's own address. `address` is the simulator's address if one is in front of the
        node."""
        self.contact_point = f"{address}:{CQL_PORT}"
        self.log = files.log
        self.pid: int | None = None
        self.is_paused = False
        self._command = list(command)
        self._files = files
        self._access = access
        self._timeout_s = timeout_s
        self._after_start = after_start
        self._guard: subprocess.Popen[bytes] | None = None
        self._last_error: Exception | None = None

    def __repr__(self) -> str:
        state = "paused" if self.is_paused else "running" if self.is_running else "not running"
        return f"<Node {self.contact_point} {state}>"

    @property
    def is_running(self) -> bool:
        """Whether the node's process exists. It also exists while the node is paused."""
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> None:
        """Starts the node, unless it runs, and waits until it answers CQL.

        If all nodes of the cluster run and none is paused, it also waits until each sees all
        others.

        Raises: `CassandraError` with the end of the node's log if the node does not answer in time.
        """
        self.launch()
        self.wait_until_answering()
        self._after_start()

    def launch(self) -> None:
        """Starts the node's process, unless it runs, and does not wait for it."""
        if not self.is_running:
            self._forget()  # clears the state of a process that ended by itself
            self._spawn()

    def stop(self) -> None:
        """Shuts the node down by SIGTERM, and waits until it has ended. Before the server ends, it
        drains, as with `nodetool drain`.
        """
        self.resume()
        self._end(signal.SIGTERM, self._timeout_s)

    def kill(self) -> None:
        """Kills the node at once (SIGKILL), like a power cut, and waits until it has ended."""
        self._end(signal.SIGKILL, _KILL_S)

    def pause(self) -> None:
        """Suspends the node's process (SIGSTOP), like a long pause of the JVM's GC."""
        self._require_running("pause")
        self._signal(signal.SIGSTOP)
        self.is_paused = True
        # The guard sends the signal a little later, so this method waits until the process stops.
        deadline = time.monotonic() + _PAUSE_S
        while self._state() not in ("T", None) and time.monotonic() < deadline:
            time.sleep(0.002)

    def _state(self) -> str | None:
        """Returns the state of the node's process as one letter, or `None` if /proc has none."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return None
        return text.rpartition(")")[2].split()[0]

    def resume(self) -> None:
        """Resumes a paused node (SIGCONT). A node that is not paused is not affected."""
        if self.is_paused and self.is_running:
            self._signal(signal.SIGCONT)
        self.is_paused = False

    def stand_behind(self, address: str) -> None:
        """Makes clients connect to the address of the simulator in front of the node."""
        self.address, self.contact_point = address, f"{address}:{CQL_PORT}"

    def probe(self, *, timeout_s: float = 10.0) -> Connection:
        """Opens a raw connection to the node, for tests that need statements without a driver."""
        access = self._access
        return Connection(
            self.upstream_address,
            CQL_PORT,
            context=access.context,
            user=access.user,
            password=access.password,
            timeout_s=timeout_s,
        )

    def log_tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines of the node's log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def wait_until_answering(self) -> None:
        """Waits until a client can connect, log in and run a query.

        Raises: `CassandraError` with the end of the node's log if the node ends or takes too long.
        """
        deadline = time.monotonic() + self._timeout_s
        while not self._answers():
            if not self.is_running:
                raise self.failure("ended while it was starting")
            if time.monotonic() > deadline:
                raise self.failure(
                    f"did not answer within {self._timeout_s:g} s ({self._last_error})"
                )
            time.sleep(_POLL_S)

    def failure(self, what: str) -> CassandraError:
        """Makes an error that describes a failure of this node and shows the end of its log."""
        kept_log = f" (kept in {self.log})" if self._files.log_is_kept else ""
        return CassandraError(
            f"node {self.address} {what}; the end of its log{kept_log}:\n{self.log_tail()}"
        )

    def _answers(self) -> bool:
        try:
            with self.probe(timeout_s=5.0) as connection:
                connection.query("SELECT key FROM system.local")
        except (OSError, ProbeError) as error:  # not listening yet, or the user does not exist yet
            self._last_error = error
            return False
        return True

    def _spawn(self) -> None:
        order = {
            "starter": os.getpid(),
            "command": self._command,
            "folder": str(self._files.folder),
            "remove": [str(path) for path in self._files.remove],
        }
        with self.log.open("ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                # Ctrl-C signals the whole foreground process group. The guard gets a group of its
                # own, so Ctrl-C ends neither the guard nor the node.
                start_new_session=True,
            )
        assert self._guard.stdout is not None
        number = self._guard.stdout.readline()
        self.pid = int(number) if number else None
        if self.pid is None:
            self._guard.wait()
            raise self.failure("could not be started")

    def _end(self, number: int, timeout_s: float) -> None:
        guard = self._guard
        if guard is None:
            return
        self._signal(number)
        try:
            guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {timeout_s:g} s") from None
        self._forget()

    def _forget(self) -> None:
        """Clears the state of a guard that has ended."""
        if self._guard is not None:
            for pipe in (self._guard.stdin, self._guard.stdout):
                if pipe is not None:
                    pipe.close()
        self._guard = None
        self.pid = None
        self.is_paused = False

    def _signal(self, number: int) -> None:
        if self._guard is None or self._guard.stdin is None:
            return
        with suppress(BrokenPipeError):  # the guard has ended by itself
            self._guard.stdin.write(b"%d\n" % number)

    def _require_running(self, verb: str) -> None:
        if not self.is_running:
            raise CassandraError(f"cannot {verb} node {self.address}: it is not running")
