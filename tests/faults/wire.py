"""Both directions of a proxied connection, and the faults that change what passes."""

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
"""What a proxy can do:

- `pass`: nothing
- `delay`: every piece arrives `seconds` later
- `throttle`: `bytes_per_s` at most, per connection and direction
- `swallow`: from now on nothing arrives, in either direction; a connection never recovers from it
- `drop`: each frame is lost with the probability `share`; the connection stays whole
- `cut`: a connection ends in the middle of a frame
- `half-close`: the client is sent the end of the stream, and its requests still reach the node
- `silent`: connections are accepted, and nothing is ever answered; those from before are reset
- `reset`: connections are reset as soon as they are accepted; so are those from before
"""

_HEADER = 9
_MOST_BEFORE_CUT = 30_000


@dataclass(frozen=True)
class Fault:
    """What a proxy does now."""

    kind: str = "pass"
    seconds: float = 0.0
    bytes_per_s: float = 0.0
    share: float = 0.0


class Frames:
    """Finds the frames of CQL in a stream of bytes. Reads version 4 of the protocol."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a frame."""
        return not self._left and not self._head

    def split(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """The pieces of the frames in the data, each with whether it begins a frame."""
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

    `cut` is called to end the connection; `effect` counts what the fault did.
    """

    def __init__(
        self, chance: random.Random, cut: Callable[[], None], effect: Callable[[int], None]
    ) -> None:
        self.target: asyncio.Transport | None = None
        """Where the bytes go; `None` until it is connected."""
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
        """Begins a fault, or ends the one before with `pass`."""
        self.fault = fault
        if fault.kind == "swallow":
            self._swallows = True
        elif fault.kind == "cut":
            self._left_before_cut = self._chance.randrange(1, _MOST_BEFORE_CUT)
        elif fault.kind == "pass":
            self.flush()

    def connected(self, target: asyncio.Transport) -> None:
        """The bytes that have arrived, and all further ones, go to this target."""
        self.target = target
        self._send_late()

    def feed(self, data: bytes) -> None:
        """Bytes have arrived."""
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
        """Sends all that is late."""
        self._late = deque((0.0, data) for _, data in self._late)
        self._due = 0.0
        self._send_late()

    def close(self) -> None:
        """Sends nothing any more."""
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
        # What was late before this must arrive before it.
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
