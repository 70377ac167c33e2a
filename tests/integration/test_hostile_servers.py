"""Tests of servers whose frames are wrong.

The tests check that each call ends, and that it needs only bounded memory and time. They also check
that the session works again when the server sends correct frames.
"""

from __future__ import annotations

import resource
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Literal

import pytest
from tests.support.changing_proxy import (
    BATCH,
    ERROR,
    EVENT,
    EXECUTE,
    PREPARE,
    QUERY,
    RESULT,
    SUPPORTED,
    Answer,
    ChangingProxy,
)
from tests.support.nodes import eventually

import turbocql
from turbocql import errors
from turbocql.testing import Cassandra

GIB = 1 << 30
MARK = "SELECT release_version FROM system.local"
ROWS, PREPARED, SCHEMA_CHANGE = 2, 4, 5
GLOBAL_TABLE = 1

Lie = Callable[[Answer], bytes]


@pytest.fixture(scope="module", autouse=True)
def edited() -> None:
    """Fails if the crate scylla was built without edits/*.patch.

    Without these patches, most tests of this module would hang or crash Python.
    """
    assert turbocql.diagnosis().engine_edits, "the core was built without the edits of its engine"


@pytest.fixture
def bounded() -> Iterator[None]:
    """Fails if the peak memory of the process grows by 1 GiB or more during the test."""
    before = peak()
    yield
    assert peak() - before < GIB, "memory is not bounded"


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def string(text: str | bytes) -> bytes:
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack(">H", len(data)) + data


def rows(column_type: bytes, *, columns: int = 1, count: int = 1, cells: bytes = b"") -> bytes:
    """Returns the body of a RESULT whose columns have this type."""
    table = string("ks") + string("t")
    described = (string("c") + column_type) * min(columns, 1)
    head = struct.pack(">iii", ROWS, GLOBAL_TABLE, columns)
    return head + table + described + struct.pack(">i", count) + cells


def prepared(markers: int, keys: int) -> bytes:
    """Returns the body of a PREPARED result with these numbers of bind markers and key columns."""
    head = struct.pack(">i", PREPARED) + string(b"\1" * 16)
    return head + struct.pack(">iii", GLOBAL_TABLE, markers, keys) + string("ks") + string("t")


def custom(text: str) -> bytes:
    return struct.pack(">H", 0) + string(text)


def body(made: bytes) -> Lie:
    return lambda answer: answer.with_body(made).frame()


def opcode(number: int, made: bytes = b"") -> Lie:
    return lambda answer: answer.with_body(made, opcode=number).frame()


def flagged(flags: int, made: bytes) -> Lie:
    return lambda answer: answer.with_body(made, flags=flags).frame()


def announced(length: int) -> Lie:
    return lambda answer: answer.frame(length)


def stream(number: int) -> Lie:
    def lie(answer: Answer) -> bytes:
        head = bytearray(answer.frame())
        head[2:4] = struct.pack(">h", number)
        return bytes(head)

    return lie


def version(number: int) -> Lie:
    return lambda answer: bytes([number]) + answer.frame()[1:]


def event(made: bytes) -> Lie:
    """Returns a `Lie` that sends an event before the response.

    It sends the event on a connection that has not registered for events.
    """
    head = struct.pack(">BBhBI", 0x84, 0, -1, EVENT, len(made))
    return lambda answer: head + made + answer.frame()


INT, TUPLE, LIST, UDT = b"\0\x09", b"\0\x31", b"\0\x20", b"\0\x30"
INVALID_UTF8 = b"\xff\xfe"
MAX_INT = 2**31 - 1

LIES: dict[str, Lie] = {
    "custom type without its bracket": body(rows(custom("ListType(Int32Type"))),
    "custom type with too many parameters": body(rows(custom("ListType(" + "ListType(" * 40))),
    "custom types, nested deeply": body(
        rows(custom("ListType(" * 5000 + "Int32Type" + ")" * 5000))
    ),
    "custom types, nested, too many parameters": body(
        rows(custom("ListType(" * 60 + "Int32Type,Int32Type" + ")" * 60))
    ),
    "custom user type without an end": body(rows(custom("UserType(ks,61,62:"))),
    "custom type that is not UTF-8": body(rows(struct.pack(">H", 0) + string(INVALID_UTF8))),
    "lists, nested deeply": body(rows(LIST * 5000 + INT)),
    "tuples with large counts, nested": body(rows((TUPLE + b"\xff\xff") * 300)),
    "user type with a large count": body(rows(UDT + string("k") + string("t") + b"\xff\xff")),
    "2^31-1 columns": body(rows(INT, columns=MAX_INT)),
    "minus one columns": body(rows(INT, columns=-1)),
    "2^31-1 rows without columns": body(rows(b"", columns=0, count=MAX_INT)),
    "2^31-1 rows without bytes": body(rows(INT, count=MAX_INT)),
    "minus one rows": body(rows(INT, count=-1)),
    "a cell that is longer than the page": body(rows(INT, cells=struct.pack(">i", MAX_INT))),
    "a result that ends early": body(rows(INT)[:-6]),
    "a result of an unknown kind": body(struct.pack(">i", 99)),
    "a result without a body": body(b""),
    "a schema change of nothing": body(struct.pack(">i", SCHEMA_CHANGE)),
    "an error without a code": opcode(ERROR),
    "an error of an unknown code": opcode(ERROR, struct.pack(">i", 0x7777) + string("odd")),
    "an error that is not UTF-8": opcode(ERROR, struct.pack(">i", 0x2200) + string(INVALID_UTF8)),
    "a timeout that ends early": opcode(ERROR, struct.pack(">i", 0x1100) + string("t") + b"\0"),
    "an unknown opcode": opcode(0x55),
    "a request as an answer": version(0x04),
    "version 5": version(0x85),
    "a stream that was not used": stream(31_000),
    "another negative stream": stream(-7),
    "an event without a body": event(b""),
    "an event of an unknown kind": event(string("ODD_CHANGE")),
    "an event that is not UTF-8": event(string(INVALID_UTF8)),
    "an event about an address of 7 bytes": event(string("STATUS_CHANGE") + string("UP") + b"\7"),
    "warnings that are not UTF-8": flagged(0x08, struct.pack(">H", 1) + string(INVALID_UTF8)),
    "65,535 warnings that are not there": flagged(0x08, b"\xff\xff"),
    "a trace id that is not there": flagged(0x02, b"\1"),
    "a payload of 65,535 parts": flagged(0x04, b"\xff\xff"),
    "a compressed body without compression": flagged(0x01, b"\0\0\0\1a"),
    "2 GiB announced": announced(2 * GIB),
    "4 GiB announced": announced(4 * GIB - 1),
    "one byte more than there is": lambda answer: answer.frame(len(answer.body) + 1),
}


HARMLESS = {
    # Only the value is invalid, not the frame. A correct server can also send such a value, because
    # it can have stored bytes that were valid under an older table definition.
    "a cell that is longer than the page",
    # A later version of the protocol may define this code or use this stream.
    "an error of an unknown code",
    "another negative stream",
    # The connection has not registered for events. Only the control connection reads events, so
    # this connection ignores them.
    "an event without a body",
    "an event of an unknown kind",
    "an event that is not UTF-8",
    "an event about an address of 7 bytes",
}
"""The lies (wrong frames) after which the connection stays open."""


def make_table(cassandra: Cassandra, table: str) -> None:
    """Creates a table and the keyspace of these tests if they do not exist."""
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS hostile_servers WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"CREATE TABLE IF NOT EXISTS {table}")


def asking(session: turbocql.Session) -> None:
    """Executes the query whose response the server falsifies, and ignores any turbocql error."""
    with suppress(errors.Error):
        list(session.execute(MARK, timeout_s=4))


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("name", LIES)
def test_a_lie_ends_in_an_error(name: str, cassandra: Cassandra) -> None:
    lies = threading.Event()

    def change(answer: Answer) -> bytes:
        if lies.is_set() and answer.answers(QUERY, MARK):
            return LIES[name](answer)
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(
            proxy.contact_point,
            retry="fallthrough",
            keepalive_interval_s=0.5,
            keepalive_timeout_s=0.5,
        ) as session,
    ):
        assert session.execute(MARK).one()
        open_until_now = proxy.ended
        lies.set()
        began = time.monotonic()
        asking(session)
        lies.clear()
        assert eventually(lambda: proxy.ended > open_until_now, 2) == (name not in HARMLESS)
        assert eventually(lambda: works(session), 20), "the session does not work any more"
        assert time.monotonic() - began < 30


def works(session: turbocql.Session) -> bool:
    try:
        return session.execute(MARK, timeout_s=1).one() is not None
    except errors.Error:
        return False


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "made",
    [prepared(MAX_INT, 0), prepared(1, MAX_INT), prepared(-1, 0), prepared(65_535, 65_535), b""],
    ids=["markers", "key", "negative", "short counts", "empty"],
)
def test_a_lie_about_a_prepared_statement(made: bytes, cassandra: Cassandra) -> None:
    def change(answer: Answer) -> bytes:
        return (
            answer.with_body(made).frame() if answer.request_opcode == PREPARE else answer.frame()
        )

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point, retry="fallthrough") as session,
        pytest.raises(errors.Error),
    ):
        session.prepare(f"{MARK} WHERE key = ?")


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    ("compression", "bomb"),
    [
        # These 4 MB of LZ4 data announce 1 GiB. They contain a literal and many copies of it.
        ("lz4", struct.pack(">I", GIB) + b"\x1fa\1\0" + b"\xff" * (4 << 20) + b"\0"),
        # Snappy data begins with the uncompressed length as a varint with 7 bits per byte. This
        # data announces 1 GiB, too.
        ("snappy", b"\x80\x80\x80\x80\x04" + b"\xfe\1\0" * (1 << 20)),
    ],
)
def test_a_compressed_body_that_becomes_large(
    compression: Literal["lz4", "snappy"], bomb: bytes, cassandra: Cassandra
) -> None:
    def change(answer: Answer) -> bytes:
        if answer.request_opcode == QUERY and answer.opcode == RESULT and lies.is_set():
            return answer.with_body(bomb, flags=0x01).frame()
        return answer.frame()

    lies = threading.Event()
    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(
            proxy.contact_point, compression=compression, retry="fallthrough"
        ) as session,
    ):
        lies.set()
        with pytest.raises(errors.Error, match="once decompressed"):
            session.execute(MARK, timeout_s=5)
        lies.clear()
        assert eventually(lambda: works(session))


def test_a_frame_within_the_setting_is_read(cassandra: Cassandra) -> None:
    """A frame within `max_frame_bytes` is read. A longer one fails."""
    text = "x" * 200_000
    keyspace = "hostile_servers"
    make_table(cassandra, f"{keyspace}.t (k int PRIMARY KEY, v text)")
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(f"INSERT INTO {keyspace}.t (k, v) VALUES (?, ?)", (1, text))
    select = f"SELECT v FROM {keyspace}.t"
    with turbocql.connect(cassandra.contact_points, max_frame_bytes=300_000) as session:
        assert session.execute(select).all() == [(text,)]
    with turbocql.connect(
        cassandra.contact_points, max_frame_bytes=100_000, retry="fallthrough"
    ) as session:
        with pytest.raises(errors.Error, match="at most 100000"):
            session.execute(select, timeout_s=5)
        assert eventually(lambda: works(session))


def test_a_frame_whose_announced_body_never_comes(cassandra: Cassandra) -> None:
    """The server announces a long frame, but never sends the rest of it.

    The keepalive closes the connection.
    """
    lies = threading.Event()

    def change(answer: Answer) -> bytes:
        if lies.is_set() and answer.answers(QUERY, MARK):
            lies.clear()
            return answer.frame(200 << 20)
        return answer.frame() if not silent.is_set() else b""

    silent = threading.Event()
    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(
            proxy.contact_point,
            keepalive_interval_s=0.5,
            keepalive_timeout_s=0.5,
            retry="fallthrough",
        ) as session,
    ):
        lies.set()
        silent.set()
        began = time.monotonic()
        with pytest.raises(errors.Error):
            session.execute(MARK, timeout_s=20)
        assert time.monotonic() - began < 15
        silent.clear()
        assert eventually(lambda: works(session), 20)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "made",
    [
        b"\xff\xff",
        struct.pack(">H", 1) + string("SCYLLA_NR_SHARDS") + b"\xff\xff",
        struct.pack(">H", 1) + string(INVALID_UTF8) + b"\0\0",
        b"",
    ],
    ids=["count", "values", "utf-8", "empty"],
)
def test_a_lie_in_supported(made: bytes, cassandra: Cassandra) -> None:
    def change(answer: Answer) -> bytes:
        return answer.with_body(made).frame() if answer.opcode == SUPPORTED else answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        pytest.raises(errors.ConnectError),
    ):
        turbocql.connect(proxy.contact_point, connect_timeout_s=3)


def test_a_lie_about_the_number_of_shards(cassandra: Cassandra) -> None:
    """A node announces 65,535 shards. The session opens fewer than 10 connections and works."""
    said = {"SCYLLA_SHARD": "0", "SCYLLA_NR_SHARDS": "65535", "SCYLLA_SHARDING_IGNORE_MSB": "12"}
    options = b"".join(string(name) + b"\0\1" + string(value) for name, value in said.items())

    def change(answer: Answer) -> bytes:
        if answer.opcode == SUPPORTED:
            return answer.with_body(struct.pack(">H", len(said)) + options).frame()
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        time.sleep(3)
        assert session.execute(MARK).one()
        assert proxy.connections < 10


def changed(answer: Answer, random: Random) -> bytes:
    """Returns the frame of a response with one to four random changes."""
    data = bytearray(answer.body)
    opcode, flags = answer.opcode, answer.flags
    length = None
    for _ in range(random.choice((1, 1, 1, 4))):
        kind = random.randrange(9)
        at = random.randrange(len(data) + 1)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at:at] = random.randbytes(random.randrange(1, 40))
        elif kind == 2:
            data[at : at + 4] = random.choice(COUNTS)
        elif kind == 3 and data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        elif kind == 4 and data:
            data[at % len(data)] = random.randrange(256)
        elif kind == 5:
            opcode = random.choice((0x00, 0x02, 0x03, 0x06, 0x08, 0x0C, 0x0E, 0x10, 0x55))
        elif kind == 6:
            flags ^= 1 << random.randrange(4)
        elif kind == 7:
            length = random.choice((0, len(data) + 1, len(data) // 2, 1 << 20, MAX_INT))
        else:
            data = bytearray(random.randbytes(random.randrange(60)))
    made = bytearray(answer.with_body(bytes(data), opcode=opcode, flags=flags).frame(length))
    if random.random() < 0.05:
        made[random.randrange(4)] ^= 1 << random.randrange(8)
    return bytes(made)


COUNTS = [struct.pack(">i", count) for count in (-1, -2, 0, 1, 65_535, 1 << 20, MAX_INT)]
COMPRESSIONS: list[Literal["lz4", "snappy"] | None] = [None, "lz4", "snappy"]
SPEAKS_ABOUT = f"{MARK} WHERE key = ?"


def read(session: turbocql.Session, *arguments: Any) -> None:
    list(session.execute(*arguments))


def converse(seed: int, contact_point: str) -> float:
    """Runs calls on a server that lies at random. Returns the seconds of the longest call."""
    random, lock = Random(seed), threading.Lock()
    rate = random.choice((0.02, 0.1, 0.5))

    def change(answer: Answer) -> bytes:
        with lock:
            return changed(answer, random) if random.random() < rate else answer.frame()

    slowest = 0.0

    def timed(call: Callable[[], object]) -> None:
        nonlocal slowest
        began = time.monotonic()
        with suppress(errors.Error):
            call()
        slowest = max(slowest, time.monotonic() - began)

    with ChangingProxy(contact_point, change) as proxy:
        session: list[turbocql.Session] = []
        timed(
            lambda: session.append(
                turbocql.connect(
                    proxy.contact_point,
                    connect_timeout_s=2,
                    timeout_s=1,
                    compression=random.choice(COMPRESSIONS),
                    keepalive_interval_s=0.3,
                    keepalive_timeout_s=0.3,
                )
            )
        )
        for one in session:
            calls: list[Callable[[], object]] = [
                partial(read, one, "SELECT * FROM system.local"),
                partial(read, one, SPEAKS_ABOUT, ("local",)),
                partial(read, one, "SELECT * FROM system_schema.columns LIMIT 40"),
                partial(one.execute, "USE system"),
                one.schema,
            ]
            for call in calls * 3:
                timed(call)
            timed(one.close)
    return slowest


@pytest.mark.usefixtures("bounded")
def test_conversations_with_random_lies(cassandra: Cassandra, proof: bool) -> None:
    """Every call returns or raises a turbocql error, and every close ends."""
    count = 3000 if proof else 100
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(converse, seed, cassandra.contact_points[0]) for seed in range(count)]
        slowest = [call.result(timeout=600) for call in calls]
    # No call may take longer than the longest time limit. This is the limit of `schema`, 60 s.
    assert max(slowest) < 60


class Texts:
    """Calls `lie` for each response to an EXECUTE or BATCH.

    The arguments of `lie` are the response and a text. For an EXECUTE, this is the text of the
    prepared statement. For a BATCH, it is empty. `lie` returns another response, or None to leave
    the response unchanged.
    """

    def __init__(self, lie: Callable[[Answer, str], bytes | None]) -> None:
        self._lie = lie
        self._texts: dict[bytes, str] = {}

    def __call__(self, answer: Answer) -> bytes:
        body, text = answer.request_body, ""
        if answer.request_opcode == PREPARE and answer.opcode == RESULT:
            self._texts[answer.body[6:22]] = body[4:].decode()
        elif answer.request_opcode == EXECUTE:
            text = self._texts.get(body[2:18], "")
        made = self._lie(answer, text) if text or answer.request_opcode == BATCH else None
        return answer.frame() if made is None else made


PEERS = [("host_id", b"\0\x0c"), ("rpc_address", b"\0\x10"), ("data_center", b"\0\x0d")]
PEERS += [("rack", b"\0\x0d"), ("tokens", b"\0\x22\0\x0d")]


def peers(count: int, more: bool) -> bytes:
    """Returns a result of `system.peers` that contains no row.

    It announces `count` rows and, if `more` is true, another page.
    """
    head = struct.pack(">iii", ROWS, GLOBAL_TABLE | (2 if more else 0), len(PEERS))
    if more:
        head += struct.pack(">i", 1) + b"p"
    described = b"".join(string(name) + kind for name, kind in PEERS)
    return head + string("system") + string("peers") + described + struct.pack(">i", count)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "made", [peers(MAX_INT, more=False), peers(0, more=True)], ids=["rows", "pages"]
)
def test_a_lie_about_the_other_nodes(made: bytes, cassandra: Cassandra) -> None:
    """The result of `system.peers` announces 2^31-1 rows but has none, or always one more page."""
    asked = 0

    def lie(answer: Answer, text: str) -> bytes | None:
        nonlocal asked
        if "FROM system.peers" not in text:
            return None
        asked += 1
        return answer.with_body(made).frame()

    began = time.monotonic()
    with ChangingProxy(cassandra.contact_points[0], Texts(lie)) as proxy:
        with (
            suppress(errors.Error),
            turbocql.connect(proxy.contact_point, connect_timeout_s=10) as session,
        ):
            list(session.execute(MARK))
        assert time.monotonic() - began < 30
        time.sleep(1)
        before = asked
        time.sleep(1)
        assert 0 < asked == before, "the server is still asked"


@pytest.mark.parametrize("takes_texts", [False, True])
def test_a_batch_that_is_never_prepared(cassandra: Cassandra, takes_texts: bool) -> None:
    """The server does not know the statements of a batch. It may carry out their texts."""
    batches = 0

    def lie(answer: Answer, _text: str) -> bytes | None:
        nonlocal batches
        if answer.request_opcode != BATCH:
            return None
        batches += 1
        is_text = answer.request_body[3] == 0
        if is_text and takes_texts:
            return None
        (length,) = struct.unpack_from(">H", answer.request_body, 4)
        known = b"" if is_text else answer.request_body[6 : 6 + length]
        return answer.with_body(
            struct.pack(">i", 0x2500) + string("unprepared") + string(known), opcode=ERROR
        ).frame()

    make_table(cassandra, "hostile_servers.batches (k int PRIMARY KEY, v text)")
    with (
        ChangingProxy(cassandra.contact_points[0], Texts(lie)) as proxy,
        turbocql.connect(proxy.contact_point, retry="fallthrough") as session,
    ):
        batch = turbocql.Batch()
        key = 2 + takes_texts
        batch.add(
            session.prepare("INSERT INTO hostile_servers.batches (k, v) VALUES (?, ?)"), (key, "a")
        )
        batch.add(
            session.prepare("INSERT INTO hostile_servers.batches (v, k) VALUES (?, ?)"), ("b", -key)
        )
        batch.add(f"INSERT INTO hostile_servers.batches (k) VALUES ({key + 10})")
        if takes_texts:
            session.execute(batch, timeout_s=20)
            rows = session.execute(
                "SELECT k, v FROM hostile_servers.batches WHERE k IN ?", ([-key, key, key + 10],)
            )
            assert sorted(map(tuple, rows)) == [(-key, "b"), (key, "a"), (key + 10, None)]
        else:
            with pytest.raises(errors.Error):
                session.execute(batch, timeout_s=20)
        assert 1 < batches < 200


@pytest.mark.usefixtures("bounded")
def test_large_tuples_of_nulls(cassandra: Cassandra) -> None:
    """Each cell takes 4 bytes on the wire, but would decode to a tuple of 65,535 Nones."""
    kind = TUPLE + b"\xff\xff" + INT * 65_535
    made = rows(kind, count=20_000, cells=bytes(4) * 20_000)

    def change(answer: Answer) -> bytes:
        return answer.with_body(made).frame() if answer.answers(QUERY, MARK) else answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
        pytest.raises(errors.DecodeError),
    ):
        list(session.execute(MARK))


def test_an_unreadable_answer_to_a_write(cassandra: Cassandra) -> None:
    """A session cannot decode the answer to a write. The error says that it may have applied.

    The report of `execute_many` has the same error.
    """
    made = rows(LIST * 5000 + INT)

    def lie(answer: Answer, text: str) -> bytes | None:
        return answer.with_body(made).frame() if text.startswith("INSERT") else None

    make_table(cassandra, "hostile_servers.b (k int PRIMARY KEY)")
    with (
        ChangingProxy(cassandra.contact_points[0], Texts(lie)) as proxy,
        turbocql.connect(proxy.contact_point, retry="fallthrough") as session,
    ):
        insert = session.prepare("INSERT INTO hostile_servers.b (k) VALUES (?)")
        with pytest.raises(errors.UnreadableAnswer) as raised:
            session.execute(insert, (7,))
        assert raised.value.may_have_applied
        assert raised.value.coordinator == proxy.contact_point
        assert raised.value.attempts == 1
        assert eventually(lambda: works(session), 20)
        report = session.execute_many(insert, [(8,)], raise_failures=False)
        assert isinstance(report.failures[0].error, errors.UnreadableAnswer)
        assert report.failures[0].error.may_have_applied


def test_a_page_that_names_itself_as_the_next(cassandra: Cassandra) -> None:
    """A page has the same paging state as the request for this page. Reading it raises an error.

    If turbocql requested the next page with this paging state, paging would never end.
    """
    body = struct.pack(">iii", ROWS, GLOBAL_TABLE | 2, 1) + struct.pack(">i", 2) + b"ps"
    body += string("ks") + string("t") + string("c") + INT + struct.pack(">i", 1)
    body += struct.pack(">ii", 4, 1)

    def change(answer: Answer) -> bytes:
        if answer.answers(QUERY, MARK):
            return answer.with_body(body, opcode=RESULT).frame()
        return answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):
        iterated = iter(session.execute(MARK))
        assert next(iterated)
        with pytest.raises(errors.UnreadableAnswer, match="the paging state that it was asked for"):
            next(iterated)
