"""Forwards the two directions of a proxied connection, and injects faults into them."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["FAULTS", "Fault", "Frames", "Stream"]

FAULTS = (
    "pass",
    "delay",
    "throttle",
    "swallow",
    "drop",
    "cut",
    "half-close",
    "silent",
    "reset",
)
"""The faults of a proxy:

- `pass`: forwards everything
- `delay`: forwards each piece of data `seconds` later
- `throttle`: forwards at most `bytes_per_s`, per connection and direction
- `swallow`: discards all data in both directions; an affected connection passes no data again, even
  after the fault
- `drop`: discards each frame with the probability `share`; the connection stays open
- `cut`: ends a connection in the middle of a frame
- `half-close`: on each open connection, ends the stream to the client, but still forwards the
  client's requests
- `silent`: resets open connections; accepts new ones and never answers on them
- `reset`: resets open connections, and new ones as soon as they are accepted
"""

_HEADER = 9
_MAX_BEFORE_CUT = 30_000


@dataclass(frozen=True)
class Fault:
    """The current fault of a proxy."""

    kind: str = "pass"
    seconds: float = 0.0
    bytes_per_s: float = 0.0
    share: float = 0.0


class Frames:
    """Finds CQL frames in a stream of bytes. It supports version 4 of the protocol."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a frame."""
        return not self._left and not self._head

    def split(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """Splits data where frames end. Yields whether a piece begins a frame, and the piece."""
        at = 0
        while at < len(data):
            begins, start = self.is_between, at
            if not self._left:
                at = min(len(data), start + _HEADER - len(self._head))
                self._head += data[start:at]
                if len(self._head) == _HEADER:
                    self._left = int.from_bytes(self._head[5:9], "big")
                    self._head.clear()
            if self._left:
                end = min(len(data), at + self._left)
                self._left -= end - at
                at = end
            yield begins, data[start:at]


class Stream:
    """One direction of a proxied connection.

    Calling `cut` ends the connection. Calling `effect` adds to the number of hits of the fault.
    """

    def __init__(
        self, chance: random.Random, cut: Callable[[], None], effect: Callable[[int], None]
    ) -> None:
        self.target: asyncio.Transport | None = None
        """The transport that receives the bytes; `None` until it is connected."""
        self.fault = Fault()
        self._chance = chance
        self._cut = cut
        self._effect = effect
        self._frames = Frames()
        self._dropping = False
        self._swallows = False
        self._left_before_cut = 0
        self._late: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def begin(self, fault: Fault) -> None:
        """Begins a fault. The fault `pass` ends the current fault."""
        self.fault = fault
        if fault.kind == "swallow":
            self._swallows = True
        elif fault.kind == "cut":
            self._left_before_cut = self._chance.randrange(1, _MAX_BEFORE_CUT)
        elif fault.kind == "pass":
            self.flush()

    def connected(self, target: asyncio.Transport) -> None:
        """Sets the target, and sends it the earlier bytes whose delay has ended."""
        self.target = target
        self._send_late()

    def feed(self, data: bytes) -> None:
        """Forwards received bytes, or applies the current fault to them."""
        if self._swallows or self.fault.kind == "silent":
            self._swallows = True
            self._effect(len(data))
            return
        kept: list[bytes] = []
        for begins, piece in self._frames.split(data):
            if begins:
                self._dropping = self.fault.kind == "drop" and (
                    self._chance.random() < self.fault.share
                )
                if self._dropping:
                    self._effect(1)
            if self._dropping:
                continue
            if self.fault.kind == "cut":
                self._left_before_cut -= len(piece)
                if self._left_before_cut < 0 and len(piece) > 1:
                    self._write(b"".join([*kept, piece[: self._chance.randrange(1, len(piece))]]))
                    self._effect(1)
                    self._cut()
                    return
            kept.append(piece)
        if kept:
            self._write(b"".join(kept))

    def flush(self) -> None:
        """Sends all delayed data now."""
        self._late = deque((0.0, data) for _, data in self._late)
        self._due = 0.0
        self._send_late()

    def close(self) -> None:
        """Discards the delayed data and cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._late.clear()

    def _write(self, data: bytes) -> None:
        now = asyncio.get_running_loop().time()
        due = 0.0
        if self.fault.kind == "delay":
            due = now + self.fault.seconds
            self._effect(1)
        elif self.fault.kind == "throttle":
            due = self._due = max(now, self._due) + len(data) / self.fault.bytes_per_s
            self._effect(len(data))
        # The data must wait if the fault delays it, if earlier data still waits, or if the target
        # is not connected yet.
        if due or self._late or self.target is None:
            self._late.append((due, data))
            self._send_late()
        elif not self.target.is_closing():
            self.target.write(data)

    def _send_late(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.target is None:
            return
        loop = asyncio.get_running_loop()
        while self._late and self._late[0][0] <= loop.time():
            _, data = self._late.popleft()
            if not self.target.is_closing():
                self.target.write(data)
        if self._late:
            self._timer = loop.call_at(self._late[0][0], self._send_late)
