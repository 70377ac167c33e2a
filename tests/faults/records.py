"""Records of the load's calls: one record per call, one line of JSON per record.

"The load" is the process of `load.py`, which makes calls of turbocql during the faults. The audit
(`audit.py`) reads the records.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from turbocql import errors

__all__ = ["About", "Call", "Recorder", "Sample", "Window", "read_calls"]

_MESSAGE = 400
"""A record keeps at most this many characters of an error's own text. Other details follow this
text."""


class About(TypedDict, total=False):
    """The data about a call that the audit needs in addition to the call's outcome.

    Each kind of call sets only some of the keys.
    """

    ids: list[int]
    """The ids of the rows that the call writes. For a conditional update, the list has one id,
    which the call writes as the winner if the update is applied."""
    failed: list[tuple[int, str, bool, bool]]
    """For an `execute_many`: one entry for each row that failed. It has the row's id, the class of
    the error, whether the row may have been written, and whether `turbocql.errors` has the class.
    """
    aside: bool
    """Whether the call uses the keyspace that is dropped and created again."""
    deltas: list[tuple[int, int]]
    """For counters: each key and the number that is added to it."""
    key: int
    """For conditional updates: the key."""
    version: int
    """For a compare-and-set: the version that the call sets."""
    applied: bool
    existing: int | None
    """The stored value that the server returned when a conditional update was not applied."""
    wrong: str
    """What is wrong with the answer. The load sets this key when the answer arrives."""
    checked: int
    """How many rows of the answer were compared with their expected values."""


@dataclass
class Call:
    """One call of turbocql. All times come from `time.monotonic` and are in seconds."""

    number: int
    kind: str
    api: str
    begun: float
    timeout_s: float
    ended: float | None = None
    """`None` for a call that did not end."""
    error: str | None = None
    """The class of the error; `None` if the call was answered."""
    message: str = ""
    may_have_applied: bool = False
    in_tree: bool = True
    """Whether the error is one of `turbocql.errors`."""
    about: About = field(default_factory=lambda: About())

    @property
    def answered(self) -> bool:
        """Whether the call ended without an error."""
        return self.ended is not None and self.error is None

    @property
    def is_unknown(self) -> bool:
        """Whether the call's effect is unknown.

        It is unknown if the call did not end, or if the call failed and may have applied. It is
        also unknown if the error is not one of `turbocql.errors`, because such an error does not
        say whether the call applied.
        """
        return self.ended is None or (
            self.error is not None and (self.may_have_applied or not self.in_tree)
        )

    def failed_with(self, error: BaseException) -> None:
        """Records the error that ended the call."""
        self.error = type(error).__name__
        self.in_tree = isinstance(error, errors.Error)
        self.may_have_applied = bool(getattr(error, "may_have_applied", False))
        self.message = str(error)[:_MESSAGE]
        for name in ("attempts", "coordinator"):
            if (value := getattr(error, name, None)) is not None:
                self.message += f" [{name} {value}]"
        if not self.in_tree:
            self.message += "\n" + "".join(traceback.format_exception(error))[-2000:]

    def line(self) -> str:
        """Returns the record as a line of JSON."""
        return json.dumps(list(vars(self).values()), separators=(",", ":")) + "\n"

    @classmethod
    def of(cls, line: str) -> Call:
        """Parses a line that `Call.line` returned."""
        return cls(*json.loads(line))

    def __str__(self) -> str:
        took = "never ended" if self.ended is None else f"{self.ended - self.begun:.3f} s"
        outcome = self.error or "answered"
        if self.error is not None:
            outcome += f", may_have_applied={self.may_have_applied}: {self.message}"
        return (
            f"call {self.number} ({self.api}, {self.kind}), begun at {self.begun:.3f}, {took} of"
            f" {self.timeout_s:g} s: {outcome}; {dict(self.about)}"
        )


@dataclass(frozen=True)
class Window:
    """The time during which a fault was active, or a time without faults."""

    kind: str
    target: str
    begun: float
    ended: float
    effect: str = ""
    """The number of things that the fault hit, such as connections that were cut, as a text of
    digits. It is empty if there was no fault."""

    def covers(self, call: Call) -> bool:
        """Whether any part of the call was within this time."""
        return call.begun <= self.ended and (call.ended is None or call.ended >= self.begun)


@dataclass(frozen=True)
class Sample:
    """Resources that the load's process holds while no call is in flight."""

    rss_mib: float
    descriptors: int
    threads: int
    tasks: int
    in_flight: int
    """Requests that the sessions count as in flight."""
    connections: int
    """Connections that the sessions count as open."""


class Recorder:
    """Writes records to a file as the calls end. It is thread-safe."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1 << 16)
        self._lock = threading.Lock()
        self._open: dict[int, Call] = {}
        self._number = 0
        self.answered = 0
        self.failed = 0

    def begin(self, kind: str, api: str, timeout_s: float, about: About) -> Call:
        """Returns the record of a call that begins now."""
        with self._lock:
            self._number += 1
            call = Call(self._number, kind, api, 0.0, timeout_s, about=about)
            self._open[call.number] = call
        call.begun = time.monotonic()
        return call

    def end(self, call: Call) -> None:
        """Writes the record of a call that has ended."""
        line = call.line()
        with self._lock:
            del self._open[call.number]
            self._file.write(line)
            if call.error is None:
                self.answered += 1
            else:
                self.failed += 1

    def open_calls(self) -> list[Call]:
        """Returns the calls that have begun and not ended."""
        with self._lock:
            return list(self._open.values())

    def close(self) -> None:
        """Writes the calls that did not end, and closes the file."""
        with self._lock:
            for call in self._open.values():
                self._file.write(call.line())
            self._open.clear()
            self._file.close()


def read_calls(path: Path) -> Iterator[Call]:
    """Yields the records of a file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield Call.of(line)


def overlapping(windows: Iterable[Window], call: Call) -> list[Window]:
    """Returns the windows during which the call was in flight."""
    return [window for window in windows if window.covers(call)]


def sample_of(answer: dict[str, Any]) -> Sample:
    """Converts the load's reply to the command `sample`."""
    return Sample(**answer)
