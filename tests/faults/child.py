"""Runs a child process that answers commands.

Commands and replies are lines of JSON on the child's standard input and output.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoResult
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Child", "ChildError", "NoReply", "serve"]

_ROOT = Path(__file__).resolve().parents[2]

Reply = dict[str, Any]


class ChildError(Exception):
    """A child process failed to carry out a command."""


class NoReply(ChildError):
    """A child process is running, and has not replied in time."""


class Child:
    """Runs a module in its own process during the `with` block.

    The process writes its standard error to a file, and `complaints` returns the content.
    """

    def __init__(self, module: str, folder: Path, *arguments: str) -> None:
        self.name = module.rpartition(".")[2]
        self._stderr = folder / f"{self.name}.stderr"
        self._command = [sys.executable, "-W", "error", "-X", "faulthandler", "-m", module]
        self._command += arguments
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Reply]] = {}
        self._number = 0
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Child:
        with self._stderr.open("w") as stderr:
            self._process = subprocess.Popen(
                self._command,
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                bufsize=1,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()  # the child ends at the end of its input
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(5)
        if process.stdout is not None:
            process.stdout.close()

    def ask(self, do: str, *, within_s: float = 30.0, **arguments: Any) -> Reply:
        """Sends a command and waits for the reply.

        Raises: `ChildError` if the child failed or has ended; `NoReply` if it does not reply in
            time.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        reply: Future[Reply] = Future()
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = reply
            try:
                process.stdin.write(json.dumps({"number": number, "do": do, **arguments}) + "\n")
                process.stdin.flush()
            except (OSError, ValueError) as error:
                raise ChildError(f"{self.name} has ended:\n{self.complaints()}") from error
        try:
            answer = reply.result(within_s)
        except NoResult:
            message = f"{self.name}: no reply to {do!r} within {within_s:g} s"
            raise NoReply(message) from None
        if "failure" in answer:
            raise ChildError(f"{self.name}: {do!r} failed:\n{answer['failure']}")
        return answer

    def complaints(self) -> str:
        """Returns what the child has written to its standard error."""
        return self._stderr.read_text(encoding="utf-8", errors="replace")

    def abort(self) -> None:
        """Kills a child that hangs. First, faulthandler writes the child's stacks to stderr."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGABRT)  # faulthandler handles this signal
            deadline = time.monotonic() + 5
            while self._process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            self._process.kill()

    def _read(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        for line in process.stdout:
            answer: Reply = json.loads(line)
            with self._lock:
                waiting = self._waiting.pop(answer.pop("number"))
            waiting.set_result(answer)
        with self._lock:
            left, self._waiting = self._waiting, {}
        for waiting in left.values():
            waiting.set_exception(ChildError(f"{self.name} has ended:\n{self.complaints()}"))


def serve(handle: Callable[[str, Reply], Reply]) -> None:
    """Handles each command from standard input in a thread of its own, until the input ends."""
    lock = threading.Lock()

    def answer(number: int, do: str, arguments: Reply) -> None:
        try:
            reply = handle(do, arguments)
        except BaseException as error:
            reply = {"failure": f"{type(error).__name__}: {error}"}
        with lock:
            print(json.dumps({"number": number, **reply}), flush=True)

    for line in sys.stdin:
        arguments: Reply = json.loads(line)
        number, do = arguments.pop("number"), arguments.pop("do")
        threading.Thread(target=answer, args=(number, do, arguments), daemon=True).start()
