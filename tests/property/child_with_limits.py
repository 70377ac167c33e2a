"""Runs calls that could crash, hang or use all memory, in a child process with limits."""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Outcome", "limited"]

Outcome = tuple[type[BaseException] | None, str]
"""The class and message of the exception, or None and the repr of the result."""


def limited(call: Callable[[], Any], *, memory: int = 1 << 30, seconds: int = 20) -> Outcome:
    """Runs a call in a child that may use `memory` bytes more than this process uses now.

    Returns the outcome. Fails if the child dies, or if the call takes longer than `seconds`.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            faulthandler.disable()
            # The default action of SIGALRM ends the child, even if the call never lets a Python
            # signal handler run.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            bound = pages * resource.getpagesize() + memory
            resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            try:
                outcome: Outcome = (None, repr(call())[:500])
            except BaseException as error:
                outcome = (type(error), str(error)[:500])
            os.write(writing, pickle.dumps(outcome))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the process died of signal {-status}"
    assert answer, "the process ended without an answer"
    kind, message = pickle.loads(answer)
    return kind, message
