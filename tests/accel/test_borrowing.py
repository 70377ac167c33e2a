"""Pools lend connections natively as the driver's pools do."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import pool as pools
from cassandra.metadata import Murmur3Token
from cassandra.pool import HostConnection
from tests.accel.answers import answer
from tests.accel.environments import LEFT, installed_driver
from tests.accel.futures import IS_SCYLLA
from tests.accel.pools import Connection, a_pool, all_connections
from tests.accel.statements import seams

from turbocql import accel

BORROW = "pool.HostConnection.borrow_connection"
# turbocql knows the source code of the pools of some releases only.
pytestmark = pytest.mark.needs(BORROW not in LEFT[installed_driver()], "a known release")
TOKENS = [-(2**63) + 1, -(2**40), -1, 0, 5, 2**52 + 12345, 2**63 - 1]


def borrowed(pool: Any, token: Any = 5, *, timeout: float = 0.0, **changes: Any) -> Any:
    """Borrows a connection and returns everything that can be seen of it."""
    if IS_SCYLLA:
        target = {
            "routing_key": b"key",
            "keyspace": "shop",
            "table": "items",
            "routing_token": Murmur3Token(token) if isinstance(token, int) else token,
        }
        target.update(changes)
        result = answer(lambda: pool.borrow_connection(timeout=timeout, **target))
    else:
        result = answer(lambda: pool.borrow_connection(timeout=timeout))
    if isinstance(result, tuple):
        result = type(result), result[0].name, result[1]
    return (
        result,
        [
            (each.in_flight, list(each.request_ids), each.highest_request_id, each.lock._is_owned())
            for each in (
                connection for connection in all_connections(pool) if connection is not None
            )
        ],
        pool._session.submitted,
    )


def same(make: Callable[[], Any], *, native: bool | None = None) -> Any:
    """Asserts that a call returns the same with and without the accelerator, and whether the
    accelerator did the work. Returns the result.
    """
    random.seed(5)
    plain = make()
    with accel.accelerated():
        before = seams()[BORROW].native if BORROW in seams() else 0
        random.seed(5)
        assert make() == plain
        if native is not None:
            assert (seams()[BORROW].native > before) == native
    return plain


# cassandra-driver has no shards.
only_scylla = pytest.mark.needs(IS_SCYLLA, "shards")


@pytest.mark.parametrize("token", TOKENS)
def test_connections_are_lent(token: int) -> None:
    (result, *_) = same(lambda: borrowed(a_pool(), token), native=True)
    assert result[2] == 10


def test_streams_are_lent_in_their_order() -> None:
    def outcome() -> Any:
        pool = a_pool()
        return [borrowed(pool) for _ in range(30)]

    same(outcome, native=True)


def change(name: str, value: Any) -> Callable[[Any], None]:
    def apply(pool: Any) -> None:
        for each in all_connections(pool):
            setattr(each, name, value)

    return apply


def one_closed(pool: Any) -> None:
    all_connections(pool)[-1].is_closed = True


def no_connections(pool: Any) -> None:
    if IS_SCYLLA:
        pool._connections.clear()
    else:
        pool._connection = None


CHANGES: dict[str, Callable[[Any], None]] = {
    "closed": change("is_closed", True),
    "one closed": one_closed,
    "orphaned": change("orphaned_threshold_reached", True),
    "at the limit": change("in_flight", 100),
    "below the limit": change("in_flight", 99),
    "over the limit": change("in_flight", 2**40),
    "odd limit": change("max_request_id", 99.5),
    "odd count": change("in_flight", 1.5),
    "no count": change("in_flight", "3"),
    "no free ids": change("request_ids", deque()),
    "ids in a list": change("request_ids", [1, 2]),
    "no connections": no_connections,
    "shut down": lambda pool: setattr(pool, "is_shutdown", True),
    "another lock": change("lock", threading.RLock()),
    "own ids": change("get_request_id", lambda: 77),
}


@pytest.mark.parametrize("name", CHANGES)
def test_rare_states_are_handled_as_by_the_driver(name: str) -> None:
    def outcome() -> Any:
        pool = a_pool()
        CHANGES[name](pool)
        return borrowed(pool), borrowed(pool, -1)

    same(outcome)


@only_scylla
@pytest.mark.parametrize("ignored_bits", [0, 1, 12, 63, 64])
@pytest.mark.parametrize("shards", [1, 3, 64])
def test_shards_of_tokens(shards: int, ignored_bits: int) -> None:
    def outcome() -> Any:
        pool = a_pool()
        pool._connections = {shard: Connection(shard) for shard in range(shards)}
        pool.host.sharding_info.shards_count = shards
        pool.host.sharding_info.sharding_ignore_msb = ignored_bits
        tokens = [*TOKENS, *(random.getrandbits(64) - 2**63 for _ in range(50))]
        return [borrowed(pool, token)[0] for token in tokens]

    same(outcome)


@only_scylla
@pytest.mark.parametrize(
    "changes",
    [
        {"routing_key": None},
        {"routing_key": b""},
        {"routing_token": None},
        {"table": None},
        {"keyspace": None},
        {"colour": "red"},
        {"routing_token": SimpleNamespace(value=7)},
        {"routing_token": Murmur3Token(2**70)},
    ],
    ids=str,
)
def test_targets(changes: dict[str, Any]) -> None:
    same(lambda: borrowed(a_pool(), **changes))


def test_arguments() -> None:
    def outcome() -> Any:
        pool = a_pool()
        return [
            answer(lambda: pool.borrow_connection()),
            answer(lambda: pool.borrow_connection(0, 1, 2, 3, 4, 5)),
            answer(lambda: pool.borrow_connection(timeout=0, colour="red")),
            answer(lambda: HostConnection.borrow_connection(5, 0)),
        ]

    same(outcome)


def _disable(pool: Any) -> None:
    pool._session.cluster.shard_aware_options.disable = True


def _no_sharding(pool: Any) -> None:
    pool.host.sharding_info = None


def _other_sharding(pool: Any) -> None:
    pool.host.sharding_info = SimpleNamespace(shard_id_from_token=lambda token: token % 3)


def _own_sharding(pool: Any) -> None:
    pool.host.sharding_info.shard_id_from_token = lambda token: 2


def _many_shards(pool: Any) -> None:
    pool.host.sharding_info.shards_count = 2**40


def _missing(pool: Any) -> None:
    del pool._connections[0]
    del pool._connections[2]


def _gone(pool: Any) -> None:
    del pool._session


def _own_selection(pool: Any) -> None:
    chosen = pool._connections[1]
    pool._get_connection_for_routing_key = lambda *target: chosen


SHARD_CHANGES: list[Callable[[Any], None]] = [
    *(_disable, _no_sharding, _other_sharding, _own_sharding, _many_shards, _missing, _gone),
    _own_selection,
]


@only_scylla
@pytest.mark.parametrize("apply", SHARD_CHANGES)
def test_shards(apply: Callable[[Any], None]) -> None:
    def outcome() -> Any:
        pool = a_pool()
        apply(pool)
        if not hasattr(pool, "_session") or pool._session is None:
            return answer(lambda: pool.borrow_connection(0, b"key", "a", "b", Murmur3Token(5)))
        return [borrowed(pool, token) for token in TOKENS]

    same(outcome)


@only_scylla
@pytest.mark.parametrize("keyspace", ["shop", None, "other"])
@pytest.mark.parametrize("replicas", [[("host 1", 3)], [("host 2", 3), ("host 1", 1)], [], None])
@pytest.mark.parametrize("own", [False, True])
def test_tablets(keyspace: Any, replicas: Any, own: bool) -> None:
    def outcome() -> Any:
        pool = a_pool()
        pool.supports_tablet_routing = True
        tablet = SimpleNamespace(first_token=-100, last_token=2**60, replicas=replicas)
        tablets = pool._session.cluster.metadata._tablets
        tablets._tablets = {("shop", "items"): [tablet]}
        if own:
            tablets.get_tablet_for_key = lambda *target: tablet
        return [borrowed(pool, token, keyspace=keyspace) for token in TOKENS]

    same(outcome, native=None if own or replicas is None else True)


@only_scylla
def test_a_pool_without_tablets_asks_no_tablets() -> None:
    def outcome() -> Any:
        pool = a_pool()
        pool._session.cluster.metadata._tablets = None
        return borrowed(pool)

    same(outcome, native=True)


class OwnConnection(Connection):
    """A program's own class of connections."""

    @property
    def max_request_id(self) -> int:
        return 4

    @max_request_id.setter
    def max_request_id(self, value: int) -> None:
        pass


class OwnIds(Connection):
    """A program's own class of connections, with its own stream ids."""

    def get_request_id(self) -> int:
        return 1234


class NoConnection(Connection):
    """A program's own class of connections, which are false."""

    def __bool__(self) -> bool:
        return False


@pytest.mark.parametrize("cls", [OwnConnection, OwnIds, NoConnection])
def test_a_programs_connections_win(cls: type[Any]) -> None:
    def outcome() -> Any:
        pool = a_pool()
        for each in all_connections(pool):
            each.__class__ = cls
        return [borrowed(pool) for _ in range(3)]

    same(outcome)


class OwnPool(HostConnection):  # type: ignore[misc]
    """A program's own class of pools."""

    def borrow_connection(self, timeout: float, *target: Any, **named: Any) -> Any:
        connection, stream = super().borrow_connection(timeout, *target, **named)
        return connection, stream + 1000


def test_a_programs_pools_win() -> None:
    def outcome() -> Any:
        pool = a_pool()
        pool.__class__ = OwnPool
        return borrowed(pool)

    assert same(outcome)[0][2] == 1010


SELECT = "_get_connection_for_routing_key" if IS_SCYLLA else "_get_connection"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_replaced_selection_wins(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def select(self: Any, *target: Any) -> Any:
        return all_connections(self)[0]

    with monkeypatch.context() as patch:
        patch.setattr(HostConnection, SELECT, select)
        plain = borrowed(a_pool(), -1)
    if when == "before":
        monkeypatch.setattr(HostConnection, SELECT, select)
    with accel.accelerated():
        if when == "after":
            monkeypatch.setattr(HostConnection, SELECT, select)
        assert borrowed(a_pool(), -1) == plain
        assert "has been replaced" in seams()[BORROW].why
        monkeypatch.undo()


def test_a_stream_becomes_free_during_the_wait() -> None:
    def outcome() -> Any:
        pool = a_pool()
        for each in all_connections(pool):
            each.in_flight = 100

        def free() -> None:
            time.sleep(0.05)
            for each in all_connections(pool):
                pool.return_connection(each)

        thread = threading.Thread(target=free)
        thread.start()
        lent = borrowed(pool, timeout=20.0)[0]
        thread.join()
        return lent

    assert same(outcome)[2] == 10


def test_a_connection_closes_while_its_lock_is_held() -> None:
    def outcome() -> Any:
        pool = a_pool()
        locked, is_done = threading.Event(), threading.Event()

        def close() -> None:
            for each in all_connections(pool):
                each.lock.acquire()
            locked.set()
            is_done.wait(0.1)
            for each in all_connections(pool):
                each.is_closed = each.orphaned_threshold_reached = True
                each.lock.release()

        thread = threading.Thread(target=close)
        thread.start()
        locked.wait()
        lent = borrowed(pool)
        thread.join()
        return lent

    plain = outcome()
    with accel.accelerated():
        # Among closed connections, the driver chooses at random.
        lent = outcome()
        assert type(lent[0]) is type(plain[0])
        if not IS_SCYLLA:
            assert "NoConnectionsAvailable" in repr(lent[0])


def test_many_threads_borrow_and_return() -> None:
    with accel.accelerated():
        pool = a_pool()

        def work() -> None:
            for _ in range(200):
                lent, stream = pool.borrow_connection(
                    5.0, *((b"key", "shop", "items", Murmur3Token(5)) if IS_SCYLLA else ())
                )
                pool.return_connection(lent)
                with lent.lock:
                    lent.request_ids.append(stream)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for each in all_connections(pool):
        assert each.in_flight == 3
        assert len(set(each.request_ids)) == len(each.request_ids)


def test_the_driver_has_these_names() -> None:
    assert pools.HostConnection is HostConnection
    assert not HostConnection.is_shutdown
