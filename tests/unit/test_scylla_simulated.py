"""Tests parts of the simulated ScyllaDB without a server: results, statements, tablets, paging."""

import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from turbocql.testing import Cassandra, frames
from turbocql.testing.scylla import Shards
from turbocql.testing.scylla.messages import paging_of, unwrap, wrap
from turbocql.testing.scylla.murmur3 import routing_key, token_of
from turbocql.testing.scylla.results import TEXT, Column, Prepared, Rows, metadata_id, rows_of
from turbocql.testing.scylla.statements import analyse
from turbocql.testing.scylla.tablets import Replica, Tablet, TabletMap, place_tablets

A, B = Column("ks", "t", "a", TEXT), Column("ks", "t", "b", TEXT)
NODES = [(UUID(int=1), 4), (UUID(int=2), 2)]


# The servers of the simulation in Rust are tested with the same cases.
CASES = (Path(__file__).parents[2] / "simulation" / "cases" / "scylla.txt").read_text().splitlines()


def cases(kind: str) -> list[list[str]]:
    """Returns the fields of the cases of a kind."""
    return [fields for fields in map(str.split, CASES) if fields[0] == kind]


@pytest.mark.parametrize(("key", "token"), [fields[1:] for fields in cases("token")])
def test_tokens_are_those_of_the_shared_cases(key: str, token: str) -> None:
    assert token_of(bytes.fromhex(key.strip("-"))) == int(token)


@pytest.mark.parametrize("case", [fields[1:] for fields in cases("tablet")])
def test_tablets_are_described_as_in_the_shared_cases(case: list[str]) -> None:
    first, last, replicas, value = case
    described = Tablet(
        int(first),
        int(last),
        tuple(
            Replica(0, UUID(host_id), int(shard))
            for host_id, shard in (replica.split(":") for replica in replicas.split(","))
        ),
    )
    assert described.routing(has_version=False).hex() == value


@pytest.mark.parametrize("columns", [[A], [A, B], [A, Column("ks", "other", "b", TEXT)]])
@pytest.mark.parametrize("state", [None, b"state"])
def test_results_are_read_as_they_were_written(columns: list[Column], state: bytes | None) -> None:
    cells: list[list[bytes | None]] = [[b"x"] * len(columns), [None] * len(columns)]
    rows = Rows.parse(rows_of(columns, cells, state).encoded())
    assert (rows.column_specs(), rows.cells(), rows.paging_state) == (columns, cells, state)
    bare = Rows.parse(rows.encoded(is_bare=True))
    assert (bare.count, bare.columns, bare.cells()) == (len(columns), b"", cells)


def test_an_earlier_result_with_fewer_columns_does_not_cut_a_later_one() -> None:
    """The metadata of an earlier result is known when a later result is parsed.

    The metadata of the columns A and B begins with the bytes of the metadata of A alone. The parser
    must still find both columns.
    """
    earlier, later = rows_of([A], [[b"1"]]), rows_of([A, B], [[b"1", b"2"]])
    assert later.columns.startswith(earlier.columns)
    for message in (earlier, later):
        for before in (None, earlier, later):
            read = Rows.parse(message.encoded(), before)
            assert (read.columns, read.cells()) == (message.columns, message.cells())


def test_metadata_ids_follow_the_columns_and_the_salt() -> None:
    ids = {
        metadata_id(rows.count, rows.columns, salt)
        for rows in (rows_of([A], []), rows_of([A, B], []))
        for salt in (b"", b"salt")
    }
    assert len(ids) == 4
    assert {len(name) for name in ids} == {16}


@pytest.mark.parametrize("version", [3, 4])
def test_prepared_statements_carry_the_highest_bit_and_the_id(version: int) -> None:
    flags = 0x80000001
    table = frames.string("ks") + frames.string("t")
    prepared = Prepared(b"id", flags, 0, (1, 0) if version == 4 else (), table, 4, 0, b"")
    assert Prepared.parse(prepared.encoded(version), version) == prepared
    with_id = prepared.encoded(version, b"metadata")
    assert with_id.startswith(b"\0\0\0\x04\0\x02id\0\x08metadata" + struct.pack(">I", flags))


@pytest.mark.parametrize(
    ("text", "is_conditional"),
    [
        ("INSERT INTO t (a) VALUES (1) IF NOT EXISTS", True),
        ("update t set a = 1 where k = 2 if a = 3", True),
        ("BEGIN BATCH DELETE FROM t WHERE k = 1 IF EXISTS APPLY BATCH", True),
        ("INSERT INTO t (a) VALUES ('x IF NOT EXISTS')", False),
        ('UPDATE t SET "if" = 1 WHERE k = 2', False),
        ("UPDATE t SET a = 1 /* IF a = 2 */ WHERE k = 2 -- IF EXISTS", False),
        ("UPDATE t SET a = :if WHERE k = 2", False),
        ("CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY)", False),
    ],
)
def test_conditional_statements_are_recognized(text: str, is_conditional: bool) -> None:
    assert analyse(text).is_conditional is is_conditional


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("SELECT * FROM t USING TIMEOUT 2000ms", "SELECT * FROM t"),
        (
            "INSERT INTO t (a) VALUES (1) USING TTL 5 AND TIMEOUT 2s",
            "INSERT INTO t (a) VALUES (1) USING TTL 5",
        ),
        ("SELECT ' USING TIMEOUT 1s' FROM t", "SELECT ' USING TIMEOUT 1s' FROM t"),
        ("SELECT * FROM t USING TIMEOUT ?", "SELECT * FROM t USING TIMEOUT ?"),
    ],
)
def test_timeouts_are_removed_from_statements(text: str, left: str) -> None:
    # The timeout becomes a comment in the statement. So if two statements differ only in their
    # timeout, their ids still differ.
    assert analyse(text).text.partition("/*")[0].strip() == left


def test_tablet_options_of_a_keyspace_are_removed() -> None:
    with_tablets = analyse(
        "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'dc': 2}"
        " AND tablets = {'enabled': true, 'initial': 8}"
    )
    assert "tablets" not in with_tablets.text
    change = with_tablets.change
    assert change is not None
    assert (change.keyspace, change.has_tablets, change.initial) == ("k", True, 8)
    assert change.replication_factor == 2


@pytest.mark.parametrize("count", [1, 2, 8, 64])
def test_every_token_has_one_tablet(count: int) -> None:
    tablets = TabletMap(place_tablets(count, 2, NODES))
    for change in (tablets.split, lambda: tablets.move(None, NODES), tablets.merge):
        change()
        lasts = [tablet.last_token for tablet in tablets.tablets]
        assert [tablet.first_token for tablet in tablets.tablets][1:] == lasts[:-1]
        assert (tablets.tablets[0].first_token, lasts[-1]) == (-(2**63), 2**63 - 1)
        for tablet in tablets.tablets:
            # A tablet's range excludes its first token and includes its last one.
            assert tablets.of(tablet.last_token) is tablet
            assert tablets.of(tablet.first_token + 1) is tablet
            assert all(replica.shard < NODES[replica.node][1] for replica in tablet.replicas)


def test_a_version_of_a_tablet_is_compared_by_four_bits() -> None:
    (tablet,) = place_tablets(1, 2, NODES)
    for block in range(16):
        value = tablet.version >> 4 * block & 0x0F
        assert tablet.matches(block << 4 | value)
        assert not tablet.matches(block << 4 | (value ^ 1))


def test_tokens_are_those_of_cassandra() -> None:
    # Cassandra 5.0 returned these tokens for `SELECT token(id)`, with the ids 0 and 1.
    assert token_of(struct.pack(">i", 0)) == -3485513579396041028
    assert token_of(struct.pack(">i", 1)) == -4069959284402364209
    assert routing_key([b"ab", b"c"]) == b"\0\x02ab\0\0\x01c\0"
    assert routing_key([b"ab"]) == b"ab"


@pytest.mark.parametrize("inner", [None, b"", b"state"])
def test_states_of_empty_pages_contain_those_of_the_server(inner: bytes | None) -> None:
    assert unwrap(wrap(3, inner)) == (3, inner)
    assert unwrap(inner) is None
    parameters = b"\0\x01\x05\0\x01\0\0\0\x01v\0\0\0\x64"
    changed = paging_of(parameters).with_state(parameters, inner)
    assert paging_of(changed)[:2] == (100, inner)
    assert paging_of(changed).with_state(changed, None) == parameters


def test_frames_are_found_in_a_split_stream() -> None:
    sent = [frames.Frame(4, 0, n, frames.QUERY, bytes(n * 7)) for n in range(5)]
    data = b"".join(frame.encoded() for frame in sent)
    for size in (1, 2, 9, 10, 1000):
        reader = frames.FrameReader()
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        assert [frame for part in parts for frame in reader.feed(part)] == sent
    oversized = frames.HEADER.pack(4, 0, 0, frames.QUERY, frames.MAX_BODY_BYTES + 1)
    with pytest.raises(frames.FrameError, match="longer than"):
        list(frames.FrameReader().feed(oversized))


ODD: list[tuple[Any, Any]] = [(4.0, 12), (True, 12), ("4", 12), (4, "x"), (4, 1.5)]


@pytest.mark.parametrize(("count", "ignore_msb"), [(0, 12), (4097, 12), (4, -1), (4, 64), *ODD])
def test_shards_out_of_range_are_refused(count: Any, ignore_msb: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        Shards(count, ignore_msb=ignore_msb)


@pytest.mark.parametrize(
    "options", [{"metadata_ids": "no"}, {"tablets_v2": 1}, {"version": 3}, {"lwt_mark": None}]
)
def test_other_options_of_shards_must_be_bools(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Shards(4, **options)


@pytest.mark.parametrize("scylla", [4, [4], "4", [Shards(4), 4], {"a": Shards(4)}])
def test_scylla_must_be_shards(scylla: Any) -> None:
    with pytest.raises(TypeError, match=r"expected Shards\(count\), or a list"):
        Cassandra(nodes=1, scylla=scylla)


def test_a_list_must_have_shards_for_each_node() -> None:
    with pytest.raises(ValueError, match="settings of 2 nodes, got 0"):
        Cassandra(nodes=2, scylla=[])
