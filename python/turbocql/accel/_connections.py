"""Native functions for connections: segments, and the timers of requests."""

from __future__ import annotations

import io
import sys
import zlib
from types import ModuleType
from typing import Any

from .. import _core
from ._origin import Left, documented, expect_own, expect_parameters, is_function_of
from ._patch import Driver, Group, Patch

__all__ = ["CONNECTION", "connection_groups"]

CONNECTION = "cassandra.connection"
"""`Segments` and `Timers` are applied only after this module is imported."""


def _compressed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + zlib.compress(data)


def _decompressed(data: bytes) -> bytes:
    return zlib.decompress(data[4:])


_CALLED = {
    "encode": ("self", "buffer", "msg"),
    "decode_header": ("self", "buffer"),
    "decode": ("self", "buffer", "header"),
}
"""Functions of the segment codec, and their parameters."""


class Segments(Group):
    """The codec of segments. In protocol version 5, frames are sent in segments with checksums."""

    part = "segments"
    needs = CONNECTION
    names = tuple(f"segment.SegmentCodec.{name}" for name in _CALLED)
    _INSIDE = ("_encode_segment", "encode_header", "compress", "decompress", "compression")

    def patches(self, driver: Driver) -> list[Patch]:
        segment = sys.modules.get("cassandra.segment")
        owner: Any = getattr(segment, "SegmentCodec", None)
        if segment is None or owner is None:
            raise Left("the driver has no such function")
        self._expect_helpers(driver, segment, owner)
        made = {"decode_header": segment.SegmentHeader, "decode": segment.Segment}
        for cls in made.values():
            expect_own(segment, cls, "__init__")
        found, ours = [], {}
        for (name, parameters), said in zip(_CALLED.items(), self.names, strict=True):
            original = expect_own(segment, owner, name)
            expect_parameters(original, parameters)
            stand_in = _core.SegmentStandIn(original, owner, name, io.BytesIO, made.get(name))
            ours[name] = stand_in.function(documented(original))
            found.append(Patch(owner, name, said, ours[name], stand_in.counts))
        for codec in (owner(), owner(_compressed, _decompressed)):
            for message in (b"", b"abc", b"abc" * 100, bytes(range(256)) * 513):
                if _travelled(codec, message, ours) != _travelled(codec, message, vars(owner)):
                    raise Left("it writes or reads segments differently from turbocql")
        for patch in found:
            patch.count_from_here()
        return found

    def _expect_helpers(self, driver: Driver, segment: ModuleType, owner: Any) -> None:
        for name in self._INSIDE:
            try:
                expect_own(segment, owner, name)
            except Left as left:
                raise Left(f"{left}: cassandra.segment.SegmentCodec.{name}") from None
        for name in ("compute_crc24", "compute_crc32"):
            if not is_function_of(segment, vars(segment).get(name)):
                raise Left(f"cassandra.segment.{name} has been replaced")
        for name in ("read_uint_le", "write_uint_le"):
            own = vars(driver.protocol).get(name)
            if vars(segment).get(name) is not own or not is_function_of(driver.protocol, own):
                raise Left(f"{name} of the driver has been replaced")


def _travelled(codec: Any, message: bytes, by: Any) -> list[Any]:
    """Encodes a message and decodes it: the segments, their parts, and the stream positions."""
    out = io.BytesIO()
    by["encode"](codec, out, message)
    told: list[Any] = [out.getvalue()]
    out.seek(0)
    while out.tell() < len(told[0]):
        header = by["decode_header"](codec, out)
        told += [vars(header), vars(by["decode"](codec, out, header)), out.tell()]
    return told


def _nothing() -> None:
    """The callback of a canceled timer."""


class Timers(Group):
    """The timers of requests. A canceled timer drops its callback, which refers to the request.

    If the timer kept the callback, an answered request would be in a reference cycle, which only
    the GC can free.
    """

    part = "timers"
    needs = CONNECTION
    names = ("connection.Timer.cancel",)

    def patches(self, driver: Driver) -> list[Patch]:
        connection = sys.modules[self.needs]
        owner: Any = getattr(connection, "Timer", None)
        original = expect_own(connection, owner, "cancel")
        for name in ("__init__", "finish"):
            expect_own(connection, owner, name)
        expect_parameters(original, ("self",))
        stand_in = _core.TimerStandIn(original, owner, _nothing)
        ours = stand_in.function(documented(original))
        self._try(owner, original, ours)
        patch = Patch(owner, "cancel", self.names[0], ours, stand_in.counts)
        patch.count_from_here()
        return [patch]

    def _try(self, owner: Any, original: Any, ours: Any) -> None:
        called: list[int] = []
        for cancel, left in ((original, called.append), (ours, _nothing)):
            timer = owner(0, called.append)
            before = vars(timer).copy()
            cancel(timer)
            after = {**before, "canceled": True, "callback": left}
            usual = set(before) == {"end", "callback"} and vars(timer) == after
            if not usual or timer.finish(timer.end + 1) is not True or called:
                raise Left("its timers differ from those that turbocql knows")


def connection_groups() -> list[Group]:
    """All groups that patch connections."""
    return [Segments(), Timers()]
