"""Tests the bodies of requests: the bytes of each part, and the messages that are refused."""

from __future__ import annotations

import doctest
import struct
import threading
from array import array
from collections import OrderedDict, UserDict, UserList
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import turbocql.protocol
from turbocql import UNSET, Consistency
from turbocql.errors import EncodeError
from turbocql.protocol import BatchMessage, ExecuteMessage, QueryMessage

CODES = {level: code for code, level in enumerate(Consistency)}
CODES |= {Consistency.SERIAL: 8, Consistency.LOCAL_SERIAL: 9, Consistency.LOCAL_ONE: 10}
CLASSES: list[Callable[..., Any]] = [QueryMessage, ExecuteMessage, BatchMessage]
FIRST: dict[Callable[..., Any], Any] = {QueryMessage: "Q", ExecuteMessage: b"id", BatchMessage: []}


def query(*arguments: Any, **keywords: Any) -> QueryMessage:
    return QueryMessage("Q", *arguments, **keywords)


def after_text(message: QueryMessage, version: int) -> bytes:
    """Returns the bytes of a QUERY after its text."""
    body = message.encode(version)
    assert body[:5] == b"\0\0\0\x01Q"
    return body[5:]


class OddBytes(bytes):
    def __len__(self) -> int:
        return 1

    def __bytes__(self) -> bytes:
        return b"lie"

    def __eq__(self, other: object) -> bool:
        raise AssertionError("nobody compares")

    __hash__ = bytes.__hash__


class Text(str):
    def encode(self, *_: Any) -> bytes:
        return b"lie"


class LongList(list[Any]):
    def __len__(self) -> int:
        return 10**12


def test_examples_run() -> None:
    failed, attempted = doctest.testmod(turbocql.protocol)
    assert failed == 0
    assert attempted > 12


@pytest.mark.parametrize("level", Consistency)
def test_consistency_levels(level: Consistency) -> None:
    for given in (level, level.value):
        assert after_text(query(consistency=given), 4) == struct.pack(">HB", CODES[level], 0)
    assert query(consistency=level.value).consistency is level


@pytest.mark.parametrize("cls", CLASSES)
def test_serial_consistency(cls: Callable[..., Any]) -> None:
    for level in ("SERIAL", "LOCAL_SERIAL"):
        message = cls(FIRST[cls], serial_consistency=level)
        assert message.encode(4)[-5:] == b"\0\x01\x10" + struct.pack(
            ">H", CODES[Consistency(level)]
        )
        assert message.serial_consistency is Consistency(level)
    for wrong in ("ONE", "serial", 8):
        with pytest.raises(EncodeError, match=r"^serial_consistency: expected"):
            cls(FIRST[cls], serial_consistency=wrong)


@pytest.mark.parametrize("number", [0, -1, 1, 2**63 - 1, -(2**63) + 1])
@pytest.mark.parametrize("cls", CLASSES)
def test_timestamps(cls: Callable[..., Any], number: int) -> None:
    message = cls(FIRST[cls], timestamp=number)
    assert message.encode(3)[-9:] == b"\x20" + struct.pack(">q", number)
    assert message.timestamp == number


@pytest.mark.parametrize("cls", CLASSES)
def test_keyspace_and_now_in_seconds_need_version_5(cls: Callable[..., Any]) -> None:
    extra = {"result_metadata_id": b"m"} if cls is ExecuteMessage else {}
    both = cls(FIRST[cls], keyspace="kß", now_in_seconds=-2, **extra)
    assert both.encode(5).endswith(b"\0\x01\0\0\x01\x80\0\x03k\xc3\x9f\xff\xff\xff\xfe")
    assert (both.keyspace, both.now_in_seconds) == ("kß", -2)
    for name, value in (("keyspace", "k"), ("now_in_seconds", 1)):
        for version in (3, 4):
            with pytest.raises(
                EncodeError, match=f"^{name} needs protocol version 5, got {version}$"
            ):
                cls(FIRST[cls], **{name: value}).encode(version)


def test_names_for_values() -> None:
    values = {"a": b"x", "é": None}
    expected = b"\0\x02\0\x01a\0\0\0\x01x\0\x02\xc3\xa9\xff\xff\xff\xff"
    for mapping in (values, OrderedDict(values), UserDict(values)):
        assert after_text(query(mapping), 3) == b"\0\x01\x41" + expected
        message = ExecuteMessage(b"i", mapping, result_metadata_id=b"")
        assert message.encode(5) == b"\0\x01i\0\0\0\x01\0\0\0\x41" + expected
        assert message.values == values
    assert after_text(query({}), 4) == b"\0\x01\x41\0\0"
    with pytest.raises(
        EncodeError, match=r'^value \["a"\]: UNSET needs protocol version 4, got 3$'
    ):
        query({"a": UNSET}).encode(3)


def test_names_do_not_work_in_batches() -> None:
    for values in ({"a": b""}, UserDict({"a": b""})):
        statements: Any = [("Q", []), ("Q", values)]
        with pytest.raises(
            EncodeError, match=r"^statement \[1\]: values by name .*CASSANDRA-10246"
        ):
            BatchMessage(statements)


def test_an_execute_has_a_metadata_id_in_version_5_only() -> None:
    assert ExecuteMessage(b"i").encode(4) == b"\0\x01i\0\x01\0"
    with pytest.raises(EncodeError, match=r"^protocol version 5 needs result_metadata_id$"):
        ExecuteMessage(b"i").encode(5)
    message = ExecuteMessage(b"i", result_metadata_id=bytearray(b"mm"))
    assert message.encode(5) == b"\0\x01i\0\x02mm\0\x01\0\0\0\0"
    with pytest.raises(EncodeError, match=r"^result_metadata_id needs protocol version 5, got 4$"):
        message.encode(4)


def test_unset_in_version_3() -> None:
    batch = BatchMessage([("Q", [None]), (b"id", [b"", UNSET])])
    with pytest.raises(EncodeError, match=r"^statement \[1\], value \[1\]: UNSET needs") as caught:
        batch.encode(3)
    assert caught.value.path == "statement [1], value [1]"
    with pytest.raises(EncodeError, match=r"^value \[0\]: UNSET needs protocol version 4, got 3$"):
        query([UNSET]).encode(3)


@pytest.mark.parametrize("version", [2, 6, 0, -1, 2**80, True, "4", None, 4.0])
def test_versions(version: Any) -> None:
    for cls in CLASSES:
        with pytest.raises(ValueError, match=r"^protocol_version must be 3, 4 or 5, got"):
            cls(FIRST[cls]).encode(version)


def test_batch_kinds() -> None:
    for code, kind in enumerate(("logged", "unlogged", "counter")):
        message = BatchMessage([], kind=kind)  # type: ignore[arg-type]
        assert message.encode(4) == bytes([code, 0, 0, 0, 1, 0])
        assert message.kind == kind
    assert BatchMessage([]).kind == "logged"
    for wrong in ("LOGGED", "", 1, b"logged", "\ud800"):
        with pytest.raises(EncodeError, match=r"^kind: expected 'logged', 'unlogged' or 'counter'"):
            BatchMessage([], kind=wrong)  # type: ignore[arg-type]


def test_bytes_like_values_are_copied() -> None:
    changing = bytearray(b"abc")
    given: list[Any] = [changing, memoryview(changing)[1:], OddBytes(b"true"), array("B", [1, 2])]
    messages: list[Any] = [query(given), ExecuteMessage(b"i", given), BatchMessage([("Q", given)])]
    before = [message.encode(4) for message in messages]
    changing[:] = b"xyz"
    given[2:] = [b"other"]
    given.append(b"more")
    assert [message.encode(4) for message in messages] == before
    assert messages[0].values == (b"abc", b"bc", b"true", b"\1\2")
    assert {type(value) for value in messages[0].values} == {bytes}


def test_sequences_and_iterables_of_values() -> None:
    values = [b"a", None]
    expected = query(values).encode(4)
    for given in (
        tuple(values),
        UserList(values),
        LongList(values),
        iter(values),
        dict(enumerate(values)).values(),
    ):
        assert query(given).encode(4) == expected


@pytest.mark.parametrize("change", ["clear", "pop", "reverse"])
def test_a_list_that_changes_while_it_is_read(change: str) -> None:
    class Trap:
        def __iter__(self) -> Iterator[bytes]:
            getattr(statements, change)()
            return iter([b"x"])

    statements: list[Any] = [("Q", Trap()) for _ in range(100)]
    message = BatchMessage(statements)
    assert set(message.statements) == {("Q", (b"x",))}
    count = len(message.statements)
    assert message.encode(4)[1:3] == struct.pack(">H", count)
    assert count == {"clear": 1, "pop": 50, "reverse": 100}[change]


def test_texts_and_ids_of_subclasses_are_taken_by_their_contents() -> None:
    assert QueryMessage(Text("é")).encode(4)[:6] == b"\0\0\0\x02\xc3\xa9"
    assert type(QueryMessage(Text("é")).query) is str
    message = ExecuteMessage(OddBytes(b"id"))
    assert message.encode(4)[:4] == b"\0\x02id"
    assert type(message.query_id) is bytes
    batch = BatchMessage([Text("é"), OddBytes(b"id"), bytearray(b"id"), (Text("q"), ())])
    assert batch.statements == (("é", ()), (b"id", ()), (b"id", ()), ("q", ()))


@pytest.mark.parametrize("given", ["x", b"x", bytearray(1), memoryview(b"x"), 7, {b"x"}, object()])
def test_values_must_be_a_sequence(given: Any) -> None:
    message = "values: expected a sequence of bytes, None and UNSET, got"
    with pytest.raises(EncodeError, match=f"^{message}"):
        query(given)
    with pytest.raises(EncodeError, match=rf"^statement \[1\], {message}"):
        BatchMessage(["Q", ("Q", given)])


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (7, "int 7"),
        ("x", 'str "x"'),
        (True, "bool True"),
        ([b""], "list of length 1"),
        (1.5, "float 1.5"),
        (array("i", [1]), "array.array"),
    ],
)
def test_other_objects_are_no_values(value: Any, got: str) -> None:
    for given, path in (([b"", value], r"\[1\]"), ({"a": None, "b": value}, r'\["b"\]')):
        with pytest.raises(
            EncodeError, match=f"^value {path}: expected bytes, None or UNSET, got {got}$"
        ):
            query(given)
    expected = rf"^statement \[3\], value \[1\]: expected bytes, None or UNSET, got {got}$"
    with pytest.raises(EncodeError, match=expected):
        BatchMessage(["a", "b", "c", ("d", [b"", value])])


@pytest.mark.parametrize("given", [7, None, (), ("Q",), ("Q", [], 1), object(), {"Q": []}])
def test_other_objects_are_no_statements(given: Any) -> None:
    with pytest.raises(
        EncodeError, match=r"^statement \[1\]: expected str, the bytes of an id, or"
    ):
        BatchMessage(["Q", given])
    with pytest.raises(EncodeError, match=r"^statement \[0\]: expected str or the bytes of an id"):
        BatchMessage([(7, [])])  # type: ignore[list-item]
    with pytest.raises(EncodeError, match=r"^statements: expected a sequence"):
        BatchMessage("Q")


def test_counts_have_bounds() -> None:
    def endless() -> Iterator[None]:
        while True:
            yield None

    for values in ([None] * 65_536, [None] * 100_000, endless()):
        with pytest.raises(EncodeError, match=r"^more than 65535 values: no more can be sent$"):
            query(values)
    with pytest.raises(EncodeError, match=r"^more than 65535 values"):
        query({str(i): None for i in range(65_536)})
    with pytest.raises(EncodeError, match=r"^statement \[1\]: more than 65535 values"):
        BatchMessage(["Q", ("Q", endless())])
    with pytest.raises(EncodeError, match=r"^more than 65535 statements: no more can be sent$"):
        BatchMessage(["Q"] * 100_000)
    assert len(query([None] * 65_535).encode(4)) == 10 + 65_535 * 4
    assert len(BatchMessage(["Q"] * 65_535).encode(4)) == 6 + 65_535 * 8


def test_lengths_have_bounds() -> None:
    long = bytes(65_536)
    for make in (
        lambda: ExecuteMessage(long),
        lambda: ExecuteMessage(b"", result_metadata_id=long),
        lambda: BatchMessage([(long, [])]),
        lambda: query(keyspace="é" * 32_768),
        lambda: query({"é" * 32_768: None}),
    ):
        with pytest.raises(EncodeError, match=r"65536 bytes.*: at most 65535 can be sent$"):
            make()
    assert len(ExecuteMessage(long[1:]).encode(4)) == 2 + 65_535 + 3


def test_values_beyond_2_gib() -> None:
    # Nothing reads or writes these bytes, so they take no physical memory.
    huge = bytes(2**31)
    expected = r"value \[1\]: a value of 2147483648 bytes: at most 2147483647 can be sent$"
    with pytest.raises(EncodeError, match=f"^{expected}"):
        query([b"", huge])
    with pytest.raises(EncodeError, match=rf"^statement \[0\], {expected}"):
        BatchMessage([("Q", [b"", huge])])
    with pytest.raises(EncodeError, match=r"^paging_state: 2147483648 bytes: at most"):
        query(paging_state=huge)
    del huge
    large = bytes(2**31 - 1)
    with pytest.raises(EncodeError, match=r"^a body of 4294967315 bytes: at most 2147483647"):
        query([large, large]).encode(5)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("timestamp", [2**63, -(2**63), 2**70]),
        ("page_size", [0, -1, 2**31]),
        ("now_in_seconds", [2**31, -(2**31) - 1]),
    ],
)
def test_numbers_have_bounds(name: str, wrong: list[int]) -> None:
    for number in wrong:
        with pytest.raises(EncodeError, match=f"^{name} must be from -?[0-9]+ to [0-9]+, got int"):
            query(**{name: number})
    for other in ("1", 1.5, True, b""):
        with pytest.raises(EncodeError, match=f"^{name}: expected int, got"):
            query(**{name: other})


def test_lone_surrogates() -> None:
    for make in (
        lambda: QueryMessage("\ud800"),
        lambda: BatchMessage(["\ud800"]),
        lambda: query(keyspace="\udfff"),
        lambda: query({"\udfff": None}),
    ):
        with pytest.raises(EncodeError, match=r"text with a lone surrogate has no UTF-8 form"):
            make()


@pytest.mark.parametrize("wrong", ["one", "", "QUORUMS", 1, b"ONE", "\ud800"])
@pytest.mark.parametrize("cls", CLASSES)
def test_unknown_consistency_levels_are_refused(cls: Callable[..., Any], wrong: Any) -> None:
    with pytest.raises(EncodeError, match=r"^consistency: expected"):
        cls(FIRST[cls], consistency=wrong)


def test_other_arguments_of_other_types() -> None:
    for make, path in (
        (lambda: QueryMessage(b"Q"), "query: expected str"),  # type: ignore[arg-type]
        (lambda: ExecuteMessage("id"), "query_id: expected bytes"),  # type: ignore[arg-type]
        (lambda: query(paging_state="x"), "paging_state: expected bytes"),
        (lambda: query(keyspace=b"x"), "keyspace: expected str"),
        (lambda: query({1: b""}), "the name of a value: expected str"),
    ):
        with pytest.raises(EncodeError, match=f"^{path}, got"):
            make()


def test_interrupts_are_passed_on() -> None:
    class Interrupting:
        def __index__(self) -> int:
            raise KeyboardInterrupt

    def interrupted() -> Iterator[bytes]:
        yield b""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        query(timestamp=Interrupting())
    with pytest.raises(KeyboardInterrupt):
        query(interrupted())


def test_arguments_can_be_read() -> None:
    given: dict[str, Any] = {
        "consistency": Consistency.TWO,
        "serial_consistency": Consistency.SERIAL,
        "timestamp": 5,
        "keyspace": "k",
        "now_in_seconds": 6,
    }
    paged = {**given, "page_size": 7, "paging_state": b"p", "skip_metadata": True}
    messages: list[tuple[Any, dict[str, Any]]] = [
        (QueryMessage("Q", [b""], **paged), {**paged, "query": "Q", "values": (b"",)}),
        (
            ExecuteMessage(b"i", {"a": UNSET}, result_metadata_id=b"m", **paged),
            {**paged, "query_id": b"i", "values": {"a": UNSET}, "result_metadata_id": b"m"},
        ),
        (
            BatchMessage([("Q", [None])], kind="counter", **given),
            {**given, "statements": (("Q", (None,)),), "kind": "counter"},
        ),
    ]
    for message, expected in messages:
        assert {name: getattr(message, name) for name in expected} == expected
        with pytest.raises(AttributeError):
            message.timestamp = 1
    bare: Any = QueryMessage("Q")
    assert {getattr(bare, name) for name in paged} == {Consistency.ONE, None, False}
    assert bare.values is None


def test_equality() -> None:
    same = [query([b"a", None], timestamp=1), query((bytearray(b"a"), None), timestamp=1)]
    assert same[0] == same[1]
    assert hash(same[0]) == hash(same[1])
    others = [
        query([b"a", UNSET], timestamp=1),
        query([b"a", None], timestamp=2),
        query([b"a", None]),
        query({"a": b"a", "b": None}, timestamp=1),
        query(None, timestamp=1),
        QueryMessage("R", [b"a", None], timestamp=1),
        ExecuteMessage(b"Q", [b"a", None], timestamp=1),
        BatchMessage([("Q", [b"a", None])], timestamp=1),
        "Q",
    ]
    for other in others:
        assert same[0] != other
    assert len({*same, *others}) == 1 + len(others)
    assert BatchMessage(["Q"]) == BatchMessage([("Q", ())]) != BatchMessage([b"Q"])
    assert BatchMessage([("Q", [None]), "Q"]) != BatchMessage(["Q", ("Q", [None])])


def test_a_repr_is_short_and_shows_no_values() -> None:
    secret = b"secret" * 1000
    messages = [
        QueryMessage("Q" * 1000, [secret]),
        ExecuteMessage(bytes(200), [secret]),
        BatchMessage([("Q", [secret])]),
    ]
    for message in messages:
        assert len(repr(message)) < 100
        assert "secret" not in repr(message)
    assert repr(ExecuteMessage(b"\xab", [None, None])) == "<ExecuteMessage 0xab, 2 values>"


def test_threads_share_a_message() -> None:
    message = BatchMessage([(b"id", [bytes(1000), None])] * 100)
    expected, wrong = message.encode(5), []

    def encode() -> None:
        wrong.extend([1 for _ in range(500) if message.encode(5) != expected])

    threads = [threading.Thread(target=encode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
