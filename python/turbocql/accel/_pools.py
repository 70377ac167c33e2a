"""Patches the methods of connection pools that lend connections and take them back."""

from __future__ import annotations

import collections
import threading
from typing import Any

from .. import _core
from ._checked import Checked, loaded
from ._frames import expect_fields, has_fields
from ._origin import NotReplaced
from ._patch import Driver, Group, Patch
from ._sources import Sources
from ._statements import CLUSTER
from ._thread_events import thread_events

__all__ = ["Borrowing", "Returning", "native_pools"]

_RETURN_CONNECTION = ("174f793685be", "1301db82f41b")


class Returning(Group):
    """Patches the method that returns a connection to its pool after each response."""

    part = "responses"
    needs = CLUSTER
    names = ("pool.HostConnection.return_connection",)

    def patches(self, driver: Driver) -> list[Patch]:
        pool, cluster = loaded("pool"), loaded("cluster")
        checked = Checked(Sources())
        name = "return_connection"
        original = checked.expect(pool, f"HostConnection.{name}", _RETURN_CONNECTION)
        checked.add_entry(pool, "Condition", threading.Condition)
        events = thread_events(cluster, checked)
        owner = pool.HostConnection
        checked.expect_none(owner, "__setattr__", "__getattribute__", "__getattr__")
        expect_fields(checked, owner, ("_trash", "_stream_available_condition"))
        has = has_fields(("lock", "in_flight"), is_defunct=False, is_closed=False)
        stand_in = _core.ReturnStandIn(original, owner, checked.usual(), has, events)
        replacement = stand_in.function()
        patch = Patch(
            owner, name, self.names[0], replacement, stand_in.counts, problem=checked.problem
        )
        return [patch]


_BORROW = "HostConnection.borrow_connection"
_OF_CASSANDRA: dict[str, tuple[str, ...]] = {
    _BORROW: ("38d2c17854da",),
    "HostConnection._get_connection": ("7edfd67e6df1",),
}
_OF_SCYLLA: dict[str, tuple[str, ...]] = {
    _BORROW: ("fe88300c3c18",),
    "HostConnection._get_connection_for_routing_key": ("1990dc76118b",),
}
"""The methods of cassandra-driver's and of scylla-driver's pools whose work is done natively, and
the digests of their known sources."""
_GET_REQUEST_ID = ("eab8e244581c",)
_SHARD_OF_TOKEN = ("75fdd5c1885b",)
_TABLET_OF_TOKEN = ("c1ed1a8085eb", "602ba21657ca")


class Borrowing(Group):
    """Patches the method that takes a connection and a stream of it from a pool.

    Native code also does the work of the pool's method that selects the connection.
    """

    part = "responses"
    needs = CLUSTER
    names = ("pool.HostConnection.borrow_connection",)

    def patches(self, driver: Driver) -> list[Patch]:
        pools, checked, original = _pools(driver)
        stand_in = _core.BorrowStandIn(original, pools)
        patch = Patch(
            loaded("pool").HostConnection,
            "borrow_connection",
            self.names[0],
            stand_in.function(),
            stand_in.counts,
            problem=checked.problem,
        )
        return [patch]


def native_pools(driver: Driver) -> _core.Pools:
    """Returns the object with which native code borrows connections. All groups share it.

    Raises: NotReplaced, if turbocql does not know the driver's pools.
    """
    return _pools(driver)[0]


def _pools(driver: Driver) -> tuple[_core.Pools, Checked, Any]:
    """Returns the shared object, what it depends on, and the driver's `borrow_connection`."""
    if driver.pools is None:
        driver.pools = _new_pools()
    pools: tuple[_core.Pools, Checked, Any] = driver.pools
    return pools


def _new_pools() -> tuple[_core.Pools, Checked, Any]:
    pool, connection = loaded("pool"), loaded("connection")
    sources = Sources()
    checked = Checked(sources)
    owner = pool.HostConnection
    is_scylla = "routing_key" in sources.source(pool, _BORROW)
    originals = {
        name: checked.expect(pool, name, digests)
        for name, digests in (_OF_SCYLLA if is_scylla else _OF_CASSANDRA).items()
    }
    checked.expect_none(owner, "__setattr__", "__getattribute__", "__getattr__")
    fields = ("host", "_session", "_keyspace", "_connection", "_connections")
    expect_fields(checked, owner, fields)
    _expect_false(checked, owner, "is_shutdown")
    get_request_id = sources.expect_method(
        connection, connection.Connection, "get_request_id", _GET_REQUEST_ID
    )
    shards = None
    if is_scylla:
        _expect_false(checked, owner, "supports_tablet_routing")
        shards = _shards(checked)
    pools = _core.Pools(
        owner,
        checked.usual(),
        has_fields(
            ("lock", "in_flight", "max_request_id", "request_ids"),
            get_request_id=get_request_id,
            is_closed=False,
            orphaned_threshold_reached=False,
        ),
        collections.deque,
        type(threading.RLock()),
        shards,
    )
    return pools, checked, originals[_BORROW]


def _expect_false(checked: Checked, owner: Any, name: str) -> None:
    """Watches an attribute of a class. Its value must be False."""
    if vars(owner).get(name) is not False:
        raise NotReplaced(f"{owner.__module__}.{owner.__name__}.{name} has been replaced")
    checked.add_attribute(owner, name)


def _shards(checked: Checked) -> Any:
    """Returns the classes that native code needs to find the shard of a partition.

    Raises: NotReplaced, if turbocql does not know how this driver finds shards.
    """
    metadata, sharding = loaded("metadata"), loaded("shard_info")
    checked.expect(sharding, "_ShardingInfo.shard_id_from_token", _SHARD_OF_TOKEN)
    checked.expect(loaded("tablets"), "Tablets.get_tablet_for_key", _TABLET_OF_TOKEN)
    tablets = loaded("tablets").Tablets
    for owner in (sharding._ShardingInfo, tablets, metadata.Murmur3Token):
        checked.expect_none(owner, "__getattribute__", "__getattr__")
    checked.expect_none(metadata.Murmur3Token, "value")
    names = ("shard_aware_options", "metadata", "sharding_info", "host_id")
    return metadata.Murmur3Token, tablets, sharding._ShardingInfo, has_fields(names)
