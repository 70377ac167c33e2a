"""Replaces the driver's functions for the segments of connections and the timers of requests."""

from __future__ import annotations

import io
import sys
from types import ModuleType
from typing import Any

from .. import _core
from ._origin import NotReplaced, expect_own, expect_parameters, is_function_of
from ._patch import Driver, Group, Patch

__all__ = ["CONNECTION", "connection_groups"]

CONNECTION = "cassandra.connection"
"""The module that must have been imported before `Segments` and `Timers` are applied."""


_MESSAGES = (b"", b"abc", b"abc" * 100, bytes(range(255)) * 516)
"""Sample messages. `_compressed` keeps the first 255 bytes of a message. A longer sample repeats
these bytes, so that `_decompressed` can restore it. The last message is sent in two segments."""


def _compressed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data[:255]


def _decompressed(data: bytes) -> bytes:
    size = int.from_bytes(data[:4], "big")
    return (data[4:] * (size // 255 + 1))[:size]


_CODEC_PARAMETERS = {
    "encode": ("self", "buffer", "msg"),
    "decode_header": ("self", "buffer"),
    "decode": ("self", "buffer", "header"),
}
"""The methods of `SegmentCodec` that are replaced, and their parameters."""


class Segments(Group):
    """Patches the codec of segments, in which protocol version 5 sends frames with checksums."""

    part = "segments"
    needs = CONNECTION
    names = tuple(f"segment.SegmentCodec.{name}" for name in _CODEC_PARAMETERS)
    _CODEC_HELPERS = ("_encode_segment", "encode_header", "compress", "decompress", "compression")

    def patches(self, driver: Driver) -> list[Patch]:
        segment = sys.modules.get("cassandra.segment")
        owner: Any = getattr(segment, "SegmentCodec", None)
        if segment is None or owner is None:
            raise NotReplaced("the driver has no such function")
        self._expect_helpers(driver, segment, owner)
        decoded_classes = {"decode_header": segment.SegmentHeader, "decode": segment.Segment}
        for cls in decoded_classes.values():
            expect_own(segment, cls, "__init__")
        segment_patches, replacements = [], {}
        for (name, parameters), function_name in zip(
            _CODEC_PARAMETERS.items(), self.names, strict=True
        ):
            original = expect_own(segment, owner, name)
            expect_parameters(original, parameters)
            stand_in = _core.SegmentStandIn(
                original, owner, name, io.BytesIO, decoded_classes.get(name)
            )
            replacements[name] = stand_in.function()
            segment_patches.append(
                Patch(owner, name, function_name, replacements[name], stand_in.counts)
            )
        for codec in (owner(), owner(_compressed, _decompressed)):
            for message in _MESSAGES:
                if _round_trip(codec, message, replacements) != _round_trip(
                    codec, message, vars(owner)
                ):
                    raise NotReplaced("it writes or reads segments differently from turbocql")
        for patch in segment_patches:
            patch.count_from_here()
        return segment_patches

    def _expect_helpers(self, driver: Driver, segment: ModuleType, owner: Any) -> None:
        for name in self._CODEC_HELPERS:
            try:
                expect_own(segment, owner, name)
            except NotReplaced as not_replaced:
                raise NotReplaced(
                    f"{not_replaced}: cassandra.segment.SegmentCodec.{name}"
                ) from None
        for name in ("compute_crc24", "compute_crc32"):
            if not is_function_of(segment, vars(segment).get(name)):
                raise NotReplaced(f"cassandra.segment.{name} has been replaced")
        for name in ("read_uint_le", "write_uint_le"):
            helper = vars(driver.protocol).get(name)
            if vars(segment).get(name) is not helper or not is_function_of(driver.protocol, helper):
                raise NotReplaced(f"{name} of the driver has been replaced")


def _round_trip(codec: Any, message: bytes, functions: Any) -> list[Any]:
    """Encodes and decodes a message with `functions`, and returns all results.

    The results are the encoded segments, and for each segment the attributes of its header, the
    attributes of the decoded segment, and the position of the stream after the segment.
    """
    stream = io.BytesIO()
    functions["encode"](codec, stream, message)
    segment_states: list[Any] = [stream.getvalue()]
    stream.seek(0)
    while stream.tell() < len(segment_states[0]):
        header = functions["decode_header"](codec, stream)
        segment_states += [
            vars(header),
            vars(functions["decode"](codec, stream, header)),
            stream.tell(),
        ]
    return segment_states


def _no_callback() -> None:
    """Does nothing. The native `cancel` replaces the callback of a timer by this function."""


class Timers(Group):
    """Patches `Timer.cancel`, which the driver calls when a request ends before its timeout.

    The native `cancel` also drops the timer's callback, which refers to the request. If a canceled
    timer kept its callback, the request would be in a reference cycle, which only the GC can free.
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
        stand_in = _core.TimerStandIn(original, owner, _no_callback)
        replacement = stand_in.function()
        self._expect_same_effect(owner, original, replacement)
        patch = Patch(owner, "cancel", self.names[0], replacement, stand_in.counts)
        patch.count_from_here()
        return [patch]

    def _expect_same_effect(self, owner: Any, original: Any, replacement: Any) -> None:
        calls: list[int] = []
        for cancel, callback in ((original, calls.append), (replacement, _no_callback)):
            timer = owner(0, calls.append)
            before = vars(timer).copy()
            cancel(timer)
            after = {**before, "canceled": True, "callback": callback}
            equals_original = set(before) == {"end", "callback"} and vars(timer) == after
            if not equals_original or timer.finish(timer.end + 1) is not True or calls:
                raise NotReplaced("its timers differ from those that turbocql knows")


def connection_groups() -> list[Group]:
    """All groups that patch connections."""
    return [Segments(), Timers()]
