"""Native code writes request bodies only into a plain `BytesIO`.

If a program has changed methods or constants of `ProtocolVersion`, the driver writes the bodies.
"""

from __future__ import annotations

import io
import itertools
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from cassandra import ProtocolVersion, protocol
from cassandra.query import BatchType
from tests.accel.answers import answer

from turbocql import accel

BODIES = ("QueryMessage", "ExecuteMessage", "BatchMessage")


def bodies() -> dict[str, accel.Seam]:
    """Maps each message class to the seam of its `send_body`, which counts its calls."""
    found = {seam.name: seam for seam in accel.status().seams}
    return {name: found[f"protocol.{name}.send_body"] for name in BODIES}


def native() -> int:
    """Returns how many bodies of all message classes were written natively."""
    return sum(seam.native for seam in bodies().values())


def messages() -> list[Any]:
    """Returns one message of each class."""
    values = [b"value", None, b""]
    paging = {"fetch_size": 100, "paging_state": b"state", "timestamp": 5}
    execute = protocol.ExecuteMessage(b"id", values, 1, serial_consistency_level=8, **paging)
    execute.result_metadata_id = b"metadata"
    queries = [(True, b"id", values), (False, "text \u20ac", [])]
    return [
        protocol.QueryMessage("text \u20ac", 1, **paging),
        execute,
        protocol.BatchMessage(BatchType.LOGGED, queries, 6, timestamp=5),
    ]


class Watching:
    """Records each write separately. The write with the index `failing` raises OSError."""

    def __init__(self, failing: int = -1) -> None:
        self.writes: list[bytes] = []
        self.failing = failing

    def write(self, data: bytes) -> int:
        """Records the bytes, or raises OSError."""
        if len(self.writes) == self.failing:
            raise OSError("full")
        self.writes.append(bytes(data))
        return len(data)


class Buffer(io.BytesIO):
    """A buffer that records its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: Any) -> int:
        """Records the bytes and writes them."""
        self.writes.append(bytes(data))
        return super().write(data)


class Derived(io.BytesIO):
    """A subclass of `BytesIO` that changes nothing."""


def own_write() -> Any:
    """Returns a `BytesIO` with an instance attribute `write`."""
    buffer: Any = io.BytesIO()
    buffer.watching = Watching()
    buffer.write = buffer.watching.write
    return buffer


def watched(target: Any) -> Any:
    """Returns the bytes that were written to the target. If the target has recorded its writes
    separately, returns a list of them.
    """
    if isinstance(target, mock.Mock):
        return target.mock_calls
    if hasattr(target, "watching"):
        return target.watching.writes
    if hasattr(target, "writes"):
        return target.writes
    target.seek(0)
    return target.read()


TARGETS: dict[str, Callable[[], Any]] = {
    "watched": Watching,
    "the first write fails": lambda: Watching(failing=0),
    "a later write fails": lambda: Watching(failing=3),
    "buffer that watches": Buffer,
    "derived buffer": Derived,
    "buffer with a write of its own": own_write,
    "mock": mock.Mock,
    "mock of a buffer": lambda: mock.Mock(spec=io.BytesIO),
    "file": tempfile.TemporaryFile,
    "object": object,
}


@pytest.mark.parametrize("kind", TARGETS)
def test_bodies_are_written_into_buffers_alone(kind: str) -> None:
    def sent(message: Any, version: int) -> Any:
        target = TARGETS[kind]()
        raised = answer(message.send_body, target, version)
        written = None if type(target) is object else watched(target)
        if kind == "file":
            target.close()
        return raised, written

    def everything() -> list[Any]:
        return [sent(message, version) for message in messages() for version in (3, 4, 5)]

    plain = everything()
    if kind == "watched":
        assert len(plain[0][1]) > 5, "the driver's single writes"
    with accel.accelerated():
        assert everything() == plain
        for seam in bodies().values():
            assert (seam.native, seam.fallback) == (0, 3), seam


@pytest.mark.parametrize("kind", BODIES)
def test_used_and_closed_buffers(kind: str) -> None:
    message = messages()[BODIES.index(kind)]
    used, closed = io.BytesIO(b"before and behind"), io.BytesIO()
    closed.close()
    used.seek(6)
    message.send_body(used, 4)
    plain = used.getvalue(), used.tell(), answer(message.send_body, closed, 4)
    with accel.accelerated():
        used.seek(6)
        message.send_body(used, 4)
        assert (used.getvalue(), used.tell()) == plain[:2]
        assert native() == 1
        assert answer(message.send_body, closed, 4) == plain[2]


def test_a_replacement_of_bytesio_is_not_written_natively() -> None:
    with mock.patch.object(io, "BytesIO", Buffer):
        plain = [Buffer() for _ in messages()]
        for message, target in zip(messages(), plain, strict=True):
            message.send_body(target, 4)
        with accel.accelerated():
            for message, target in zip(messages(), plain, strict=True):
                same = Buffer()
                message.send_body(same, 4)
                assert same.writes == target.writes


def written() -> list[Any]:
    """Returns what `send_body` returns and writes for each message in protocol versions 3 to 5.

    The messages are sent without a keyspace, and with one.
    """
    found = []
    for version in (3, 4, 5):
        for keyspace in (None, "ks"):
            for message in messages():
                message.keyspace = keyspace
                out = io.BytesIO()
                found.append((answer(message.send_body, out, version), out.getvalue()))
    return found


def _is_native(wanted: bool = True) -> bool:
    before = native()
    written()
    return (native() > before) is wanted


METHODS = [name for name in vars(ProtocolVersion) if name.startswith(("uses_", "has_"))]
USED = ("uses_int_query_flags", "uses_prepared_metadata", "uses_keyspace_flag")
REPLACEMENTS: dict[str, Callable[[Any], Any]] = {
    "opposite": lambda usual: classmethod(lambda cls, version: not usual.__func__(cls, version)),
    "true": lambda usual: staticmethod(lambda version: True),
    "mock": lambda usual: mock.Mock(return_value=False),
    "no parameter": lambda usual: lambda: None,
    "None": lambda usual: None,
}


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("name", METHODS)
def test_methods_of_versions_replaced_after(name: str, replacement: str) -> None:
    usual = written()
    own, make = vars(ProtocolVersion)[name], REPLACEMENTS[replacement]
    with mock.patch.object(ProtocolVersion, name, make(own)):
        plain = written()
    with accel.accelerated():
        assert written() == usual
        assert _is_native()
        for _ in range(2):
            with mock.patch.object(ProtocolVersion, name, make(own)):
                assert written() == plain
                assert _is_native(False)
            assert vars(ProtocolVersion)[name] is own
            assert written() == usual
            assert _is_native()


def test_replaced_methods_of_versions_change_bodies() -> None:
    usual = written()
    changed = 0
    assert set(USED) < set(METHODS)
    for name, make in itertools.product(METHODS, REPLACEMENTS.values()):
        with mock.patch.object(ProtocolVersion, name, make(vars(ProtocolVersion)[name])):
            changed += written() != usual
    assert changed >= 3 * len(USED)


@pytest.mark.parametrize("name", USED)
def test_methods_of_versions_may_be_deleted_and_restored_in_other_ways(name: str) -> None:
    usual = written()
    own, bound = vars(ProtocolVersion)[name], getattr(ProtocolVersion, name)
    try:
        delattr(ProtocolVersion, name)
        plain = written()
        assert plain != usual
        setattr(ProtocolVersion, name, own)
        with accel.accelerated():
            assert _is_native()
            delattr(ProtocolVersion, name)
            assert written() == plain
            # A program that reads the method by attribute lookup gets a bound method, and later
            # restores this bound method.
            setattr(ProtocolVersion, name, bound)
            assert written() == usual
            assert _is_native()
            # The bare function lacks `classmethod`, so it is a replacement.
            setattr(ProtocolVersion, name, own.__func__)
            assert _is_native(False)
            # This call has the same effect as `setattr`.
            type.__setattr__(ProtocolVersion, name, own)
            assert _is_native()
    finally:
        setattr(ProtocolVersion, name, own)


def test_constants_of_versions_may_change() -> None:
    usual = written()
    with mock.patch.object(ProtocolVersion, "V5", 4):
        plain = written()
        assert plain != usual
    with accel.accelerated():
        assert _is_native()
        with mock.patch.object(ProtocolVersion, "V5", 4):
            assert written() == plain
        assert written() == usual
        assert _is_native()
        # `MAX_SUPPORTED` has no effect on bodies.
        with mock.patch.object(ProtocolVersion, "MAX_SUPPORTED", 4):
            assert _is_native()
    with mock.patch.object(ProtocolVersion, "V5", 4), accel.accelerated():
        assert written() == plain
        assert "cassandra.ProtocolVersion.V5" in bodies()["QueryMessage"].why


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("name", METHODS)
def test_methods_of_versions_replaced_before(name: str, replacement: str) -> None:
    usual = written()
    own, make = vars(ProtocolVersion)[name], REPLACEMENTS[replacement]
    with mock.patch.object(ProtocolVersion, name, make(own)):
        plain = written()
        accel.accelerate()
        why = f"cassandra.ProtocolVersion.{name} has been replaced"
        for seam in bodies().values():
            assert (seam.patched, seam.why) == (False, why)
        assert why in str(accel.status())
        assert written() == plain
    # After the method is restored, the driver still writes the bodies. Native code writes them only
    # after the accelerator has been switched off and on.
    assert written() == usual
    assert not bodies()["QueryMessage"].patched
    accel.uninstall()
    with accel.accelerated():
        assert written() == usual
        assert _is_native()


def test_a_class_of_versions_replaced_before() -> None:
    cls = type("Mine", (ProtocolVersion,), {})
    with mock.patch.object(protocol, "ProtocolVersion", cls), accel.accelerated():
        assert "cassandra.protocol.ProtocolVersion" in bodies()["BatchMessage"].why


def test_versions_replaced_again_and_again() -> None:
    """Changes of a class take effect even if CPython no longer assigns version tags to the class.

    CPython stops assigning version tags to a class that was modified too often.
    """
    usual = written()
    own = vars(ProtocolVersion)["uses_int_query_flags"]
    other = REPLACEMENTS["opposite"](own)
    message = messages()[0]

    def sent() -> bytes:
        out = io.BytesIO()
        message.send_body(out, 5)
        return out.getvalue()

    plain = sent()
    ProtocolVersion.uses_int_query_flags = other
    changed = sent()
    ProtocolVersion.uses_int_query_flags = own
    assert plain != changed
    with accel.accelerated():
        for _ in range(1500):
            assert sent() == plain
            ProtocolVersion.uses_int_query_flags = other
            assert sent() == changed
            ProtocolVersion.uses_int_query_flags = own
        assert written() == usual
        assert _is_native()
