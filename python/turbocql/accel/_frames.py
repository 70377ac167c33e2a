"""Patches the functions that make the frames of requests, and read the frames of responses."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import _core
from ._checked import Checked, is_same, loaded
from ._connections import CONNECTION
from ._origin import NotReplaced, expect_versions, function, is_function_of, resolved
from ._patch import Driver, Group, Patch
from ._sources import Sources

__all__ = ["expect_fields", "frame_groups", "has_fields", "has_methods"]

_SOURCES: dict[str, tuple[str, ...]] = {
    "Connection.process_io_buffer": ("9757693dcced", "ca228df7ebdc"),
    "_Frame.__init__": ("d15d6532b2f4",),
    "_ConnectionIOBuffer.reset_io_buffer": ("fe690c28b7fc",),
    "_ConnectionIOBuffer.reset_cql_frame_buffer": ("2de4c84e9cdc",),
}
"""Functions of `cassandra.connection`, and the digests of their known sources."""
_DECORATED: dict[str, tuple[str, ...]] = {
    "process_msg": ("8bf193f5c302", "c5ddadea0bd7"),
    "_process_segment_buffer": ("4caa66cc4c08",),
    "_read_frame_header": ("6f123276a10e", "f373d1a730f2"),
}
"""Methods of `Connection` with the decorator `defunct_on_error`."""
_DEFUNCT_ON_ERROR = ("bcfc2d0ba098",)
_DECODING: dict[str, tuple[str, ...]] = {
    "_ProtocolHandler.decode_message": ("ebf2a6947a85", "6b5fb5c8dd7d"),
    "ResultMessage.recv_body": ("87c9f60a0407", "ece0d1cb7f3a"),
    "ResultMessage.recv": ("b32874c2ec78", "9cd92d894589"),
    "ResultMessage.__init__": ("635de72d48cd",),
}
"""Functions of `cassandra.protocol` that decode responses, and the digests of their sources."""


def _decorated(sources: Sources, module: ModuleType, name: str) -> Any:
    """Returns a method of `Connection` that has the decorator `defunct_on_error`.

    Raises: NotReplaced, if the method was replaced, or if turbocql does not know its source.
    """
    attribute = vars(module.Connection).get(name)
    inner = getattr(attribute, "__wrapped__", None)
    if (
        not is_function_of(module, attribute)
        or not is_function_of(module, inner)
        or getattr(inner, "__qualname__", None) != f"Connection.{name}"
        or hasattr(inner, "__wrapped__")
    ):
        raise NotReplaced(f"cassandra.connection.Connection.{name} has been replaced")
    digest = sources.digest(module, f"Connection.{name}")
    if digest not in _DECORATED[name]:
        raise NotReplaced(f"turbocql does not know the source of Connection.{name} ({digest})")
    return attribute


def has_methods(own: dict[str, Any]) -> Callable[[type[Any]], bool]:
    """Returns a function that says whether a class has the attributes `own`, or native stand-ins
    for them.
    """

    def is_usual(cls: type[Any]) -> bool:
        for name, value in own.items():
            current = resolved(cls, name)
            if current is None or not is_same(current[1], value):
                return False
        return True

    return is_usual


def has_fields(names: tuple[str, ...], **own: Any) -> Callable[[type[Any]], bool]:
    """Returns a function that says whether native code may read the attributes of a class's
    instances in their dicts.

    The class must not have descriptors that compute or store the attributes `names`. The attributes
    `own` of the class must have these values, or be native stand-ins for them.
    """
    is_usual = has_methods(
        {
            **own,
            "__setattr__": object.__setattr__,
            "__getattribute__": object.__getattribute__,
        }
    )

    def has(cls: type[Any]) -> bool:
        if not is_usual(cls) or any(resolved(cls, name) for name in ("__bool__", "__len__")):
            return False
        found = [resolved(cls, name) for name in names]
        return not any(each and hasattr(type(each[1]), "__get__") for each in found)

    return has


def expect_fields(checked: Checked, owner: type[Any], names: tuple[str, ...]) -> None:
    """Watches attributes of a class, which native code reads in the dicts of instances.

    Raises: NotReplaced, if the class computes or stores one of the attributes.
    """
    if not has_fields(names)(owner):
        raise NotReplaced(f"{owner.__module__}.{owner.__name__} has attributes of another kind")
    for name in names:
        checked.add_attribute(owner, name)


class Frames(Group):
    """Patches the methods of connections that read frames, and decode and dispatch messages."""

    part = "frames"
    needs = CONNECTION
    names = ("connection.Connection.process_io_buffer", "connection.Connection.process_msg")

    def patches(self, driver: Driver) -> list[Patch]:
        connection = loaded("connection")
        sources = Sources()
        checked = Checked(sources)
        originals = {
            name: checked.expect(connection, name, digests) for name, digests in _SOURCES.items()
        }
        checked.expect(connection, "defunct_on_error", _DEFUNCT_ON_ERROR)
        owner = connection.Connection
        methods = {name: _decorated(sources, connection, name) for name in _DECORATED}
        methods["process_io_buffer"] = originals["Connection.process_io_buffer"]
        codec = loaded("segment").SegmentCodec
        for name in ("decode_header", "decode", "decompress"):
            checked.add_attribute(codec, name)
            replaced = vars(codec).get(name)
            if not is_function_of(loaded("segment"), getattr(replaced, "__wrapped__", replaced)):
                raise NotReplaced(f"cassandra.segment.SegmentCodec.{name} has been replaced")
        for name, value in (
            ("io", io),
            ("_Frame", connection._Frame),
            ("ProtocolException", driver.protocol.ProtocolException),
            ("log", connection.log),
            ("ProtocolVersion", driver.protocol.ProtocolVersion),
        ):
            checked.add_entry(connection, name, value)
        if not {3, 4, 5} <= set(driver.protocol.ProtocolVersion.SUPPORTED_VERSIONS):
            raise NotReplaced("the driver does not support protocol versions 3 to 5")
        checked.add_attribute(driver.protocol.ProtocolVersion, "SUPPORTED_VERSIONS")
        frames = _core.Frames(
            checked.usual(),
            has_fields(
                (
                    *("_continuous_paging_sessions", "orphaned_request_ids", "msg_received"),
                    *("_requests", "lock", "request_ids"),
                ),
                **methods,
            ),
            originals["Connection.process_io_buffer"],
            connection._ConnectionIOBuffer,
            io.BytesIO,
            codec,
            connection._Frame,
            driver.protocol.ProtocolException,
            connection.log,
            _has_features(sources, driver),
        )
        patches = []
        for function_name in self.names:
            name = function_name.rpartition(".")[2]
            stand_in = _core.FrameStandIn(methods[name], frames, name)
            patches.append(
                Patch(
                    owner,
                    name,
                    function_name,
                    stand_in.function(),
                    stand_in.counts,
                    problem=checked.problem,
                )
            )
        return patches


def _has_features(sources: Sources, driver: Driver) -> bool:
    """Whether `decode_message` has the parameter `protocol_features`, as in scylla-driver."""
    source = sources.source(driver.protocol, "_ProtocolHandler.decode_message")
    return "protocol_features" in source


class Decoding(Group):
    """Patches the class method that decodes responses.

    Native code decodes only results of the kind VOID, with which the server answers most writes.
    """

    part = "frames"
    names = ("protocol._ProtocolHandler.decode_message",)

    def patches(self, driver: Driver) -> list[Patch]:
        protocol = driver.protocol
        sources = Sources()
        checked = Checked(sources)
        originals = {
            name: checked.expect(protocol, name, digests) for name, digests in _DECODING.items()
        }
        checked.add_entry(protocol, "read_int", protocol.read_int)
        original = originals["_ProtocolHandler.decode_message"]
        if not isinstance(original, classmethod):
            raise NotReplaced("it is not a class method")
        own = {
            name: originals[f"ResultMessage.{name}"] for name in ("recv_body", "recv", "__init__")
        }
        own |= {"__setattr__": object.__setattr__, "__new__": object.__new__}
        has_features = _has_features(sources, driver)
        stand_in = _core.DecodeStandIn(
            function(original), checked.usual(), has_methods(own), has_features
        )
        replacement = stand_in.function()
        self._expect_same_message(protocol, original, replacement, has_features)
        owner, name = protocol._ProtocolHandler, "decode_message"
        patch = Patch(
            owner,
            name,
            self.names[0],
            classmethod(replacement),
            stand_in.counts,
            problem=checked.problem,
        )
        patch.count_from_here()
        return [patch]

    def _expect_same_message(
        self, protocol: ModuleType, original: Any, replacement: Any, has_features: bool
    ) -> None:
        features = (None,) if has_features else ()
        handler = protocol.ProtocolHandler
        arguments = (handler, 4, *features, {}, 7, 0, 8, b"\0\0\0\1", None, None)
        messages = [decode(*arguments) for decode in (function(original), replacement)]
        first, second = ((type(message), vars(message)) for message in messages)
        if first != second:
            raise NotReplaced("it decodes results differently from turbocql")


_ENCODING: dict[str, tuple[str, ...]] = {
    "_ProtocolHandler.encode_message": ("dc4cc7c1a95f", "1880eb56283a", "be1f2cbf4296"),
    "_ProtocolHandler._write_header": ("ca3af8af72ae", "74c5349f2370"),
}
"""Functions of `cassandra.protocol` that make frames of requests."""


class _Body:
    """Imitates a message of the driver, for comparing native frames with the driver's frames."""

    opcode, custom_payload, tracing = 0x0A, None, False

    def send_body(self, buffer: Any, *arguments: Any) -> None:
        buffer.write(b"body")


class Encoding(Group):
    """Patches the class method that makes the frames of requests. Native code makes only frames
    that are not compressed.
    """

    part = "frames"
    names = ("protocol._ProtocolHandler.encode_message",)

    def patches(self, driver: Driver) -> list[Patch]:
        protocol = driver.protocol
        sources = Sources()
        checked = Checked(sources)
        originals = {
            name: checked.expect(protocol, name, digests) for name, digests in _ENCODING.items()
        }
        original = originals["_ProtocolHandler.encode_message"]
        if not isinstance(original, classmethod):
            raise NotReplaced("it is not a class method")
        checked.add_entry(protocol, "io", io)
        for name in ("v3_header_pack", "write_int"):
            checked.add_entry(protocol, name, vars(protocol)[name])
        versions, _ = expect_versions(protocol)
        checked.add_attribute(versions, "has_checksumming_support")
        source = sources.source(protocol, "_ProtocolHandler.encode_message")
        has_features, reserves_header = "protocol_features" in source, "buff.seek(9)" in source
        own = {"_write_header": originals["_ProtocolHandler._write_header"]}
        stand_in = _core.EncodeStandIn(
            function(original),
            checked.usual(),
            has_methods(own),
            io.BytesIO,
            has_features,
            reserves_header,
        )
        replacement = stand_in.function()
        for version in (3, 4, 5):
            features = (None,) if has_features else ()
            arguments = (protocol.ProtocolHandler, _Body(), 700, version, None, False, *features)
            if function(original)(*arguments) != replacement(*arguments):
                raise NotReplaced("it makes frames that differ from those of turbocql")
        patch = Patch(
            protocol._ProtocolHandler,
            "encode_message",
            self.names[0],
            classmethod(replacement),
            stand_in.counts,
            problem=checked.problem,
        )
        patch.count_from_here()
        return [patch]


def frame_groups() -> list[Group]:
    """All groups that patch how frames are made and read."""
    return [Frames(), Decoding(), Encoding()]
