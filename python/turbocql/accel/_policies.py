"""Replaces the `make_query_plan` of the driver's load balancing policies by native functions."""

from __future__ import annotations

import random
import sys
import threading
import uuid
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .. import _core
from ._checked import Checked, loaded
from ._origin import NotReplaced
from ._patch import Driver, Group, Patch
from ._sources import Sources
from ._statements import CLUSTER

__all__ = ["policy_groups"]


_SOURCES: dict[str, tuple[str, ...]] = {
    "policies.DCAwareRoundRobinPolicy.distance": ("41e89f06ae81",),
    "policies.DCAwareRoundRobinPolicy._dc": ("b2d7293b08bb",),
    "policies.RoundRobinPolicy.distance": ("40e9e6090883",),
    "metadata.Metadata.get_replicas": ("19ad955b24b3",),
    "metadata.TokenMap.get_replicas": ("6472de228823",),
    "metadata.Token.from_key": ("1a698bd39045",),
    "metadata.Token.__init__": ("c232cdbe0e69",),
    "metadata.Token.__lt__": ("1f3be6a29029",),
    "metadata.Token.__eq__": ("3482cb70b4e1",),
    "metadata.Token.__hash__": ("f323b908824d",),
    "metadata.Murmur3Token.hash_fn": ("f30b0aadb16f",),
    "metadata.Murmur3Token.__init__": ("ec883b7d3041", "e1fcd5ad0877"),
}
"""The functions that native code imitates when it makes plans, with the digests of their known
sources."""
_SCYLLA_SOURCES: dict[str, tuple[str, ...]] = {
    "policies.RackAwareRoundRobinPolicy.distance": ("4bff36b6ff11",),
    "policies.RackAwareRoundRobinPolicy._dc": ("b2d7293b08bb",),
    "policies.RackAwareRoundRobinPolicy._rack": ("2dd77aa37bf7",),
    "tablets.Tablets.get_tablet_for_key": ("c1ed1a8085eb", "602ba21657ca"),
}
"""The imitated functions that only scylla-driver has, with the digests of their known sources."""


@dataclass(frozen=True)
class _Flavor:
    """How a token-aware policy orders the hosts of a plan."""

    by_distance: bool
    """If true, a plan has first the replicas and then the other hosts, and both groups are sorted
    by distance, as in scylla-driver. If false, a plan has first the local replicas and then the
    other hosts, in the order of the wrapped policy's plan."""
    has_leaders: bool
    """Whether the driver supports leaders of tablets. A plan for a tablet with a leader may begin
    with this leader. Only tablets of strongly consistent keyspaces have leaders."""


_TOKEN_AWARE = {
    "c52fb113d45a": _Flavor(by_distance=False, has_leaders=False),
    "8a51a8711cb3": _Flavor(by_distance=True, has_leaders=False),
    "fad491cb9358": _Flavor(by_distance=True, has_leaders=True),
}
"""Maps the digest of each known source of `TokenAwarePolicy.make_query_plan` to the order in which
that version of the function yields hosts."""
_DEFAULT = ("15bcb9326e8e",)
_IS_SERIAL = ("3858340642ad",)


class QueryPlans(Group):
    """Patches `make_query_plan` of `TokenAwarePolicy` and `DefaultLoadBalancingPolicy`.

    `TokenAwarePolicy` wraps another policy. If the wrapped policy is one of the driver's round
    robin policies, native code also does the work of the wrapped policy's `make_query_plan`.
    """

    part = "query_plans"
    needs = CLUSTER
    names = (
        "policies.TokenAwarePolicy.make_query_plan",
        "policies.DefaultLoadBalancingPolicy.make_query_plan",
    )

    def patches(self, driver: Driver) -> list[Patch]:
        modules = {name: loaded(name) for name in ("policies", "metadata")}
        policies, metadata = modules["policies"], modules["metadata"]
        sources = Sources()
        digest = sources.digest(policies, "TokenAwarePolicy.make_query_plan")
        flavor = _TOKEN_AWARE.get(digest)
        if flavor is None:
            raise NotReplaced(f"turbocql does not know the source of token-aware plans ({digest})")
        token_aware = sources.expect_method(
            policies, policies.TokenAwarePolicy, "make_query_plan", (digest,)
        )
        default = sources.expect_method(
            policies, policies.DefaultLoadBalancingPolicy, "make_query_plan", _DEFAULT
        )
        if flavor.by_distance:
            modules["tablets"] = loaded("tablets")
        checked = self._checked(sources, modules, flavor)
        usual = checked.usual()
        distance = policies.HostDistance
        rack_aware = policies.RackAwareRoundRobinPolicy if flavor.by_distance else None
        own_rack = [distance.LOCAL_RACK] if flavor.by_distance else []
        tablets = None
        if flavor.by_distance:
            mode = metadata._ConsistencyMode.EVENTUAL if flavor.has_leaders else None
            tablets = (modules["tablets"].Tablets, mode, uuid.UUID)
        stand_ins = [
            _core.PlanStandIn(
                token_aware,
                policies.TokenAwarePolicy,
                usual,
                _statements(driver),
                (
                    (policies.DCAwareRoundRobinPolicy, rack_aware, policies.RoundRobinPolicy),
                    [*own_rack, distance.LOCAL, distance.REMOTE],
                    (metadata.Metadata, metadata.TokenMap, metadata.Murmur3Token, tablets),
                    _shuffle(policies.shuffle),
                    (flavor.by_distance, flavor.has_leaders),
                ),
            ),
            _core.PlanStandIn(
                default, policies.DefaultLoadBalancingPolicy, usual, _statements(driver), None
            ),
        ]
        replacements = [stand_in.function() for stand_in in stand_ins]
        _expect_same_plans(driver, modules, token_aware, replacements[0])
        patches = [
            Patch(
                owner,
                "make_query_plan",
                name,
                replacement,
                stand_in.counts,
                problem=checked.problem,
            )
            for owner, name, replacement, stand_in in zip(
                (policies.TokenAwarePolicy, policies.DefaultLoadBalancingPolicy),
                self.names,
                replacements,
                stand_ins,
                strict=True,
            )
        ]
        for patch in patches:
            patch.count_from_here()
        return patches

    def _checked(
        self, sources: Sources, modules: dict[str, ModuleType], flavor: _Flavor
    ) -> Checked:
        policies, metadata = modules["policies"], modules["metadata"]
        checked = Checked(sources)
        imitated = _SOURCES | (_SCYLLA_SOURCES if flavor.by_distance else {})
        for name, digests in imitated.items():
            module, _, function = name.partition(".")
            checked.expect(modules[module], function, digests)
        # These subclasses of `Token` must inherit the methods that were checked above.
        for name in ("from_key", "__eq__", "__lt__", "__hash__"):
            for token in (metadata.Murmur3Token, metadata.HashToken):
                checked.add_attribute(token, name)
                if name in vars(token):
                    raise NotReplaced(f"cassandra.metadata.{token.__name__}.{name} is not known")
        package = sys.modules["cassandra"]
        checked.expect(package, "ConsistencyLevel.is_serial", _IS_SERIAL)
        for level, number in (("SERIAL", 8), ("LOCAL_SERIAL", 9)):
            checked.add_attribute(package.ConsistencyLevel, level)
            if vars(package.ConsistencyLevel)[level] != number:
                raise NotReplaced(f"cassandra.ConsistencyLevel.{level} has been replaced")
        distances = {"IGNORED": -1, "LOCAL_RACK": 0, "LOCAL": 1, "REMOTE": 2}
        if not flavor.by_distance:
            distances = {"IGNORED": -1, "LOCAL": 0, "REMOTE": 1}
        for name, number in distances.items():
            checked.add_attribute(policies.HostDistance, name)
            if vars(policies.HostDistance)[name] != number:
                raise NotReplaced(f"cassandra.policies.HostDistance.{name} has been replaced")
        checked.add_entry(policies, "shuffle", random.shuffle)
        for name in ("shuffle", "_randbelow", "getrandbits"):
            checked.add_attribute(random.Random, name)
        checked.add_entry(policies, "HostDistance", policies.HostDistance)
        if flavor.has_leaders:
            checked.add_entry(policies, "ConsistencyLevel", package.ConsistencyLevel)
        murmur3 = vars(metadata).get("murmur3")
        if murmur3 is None:
            raise NotReplaced("the driver cannot compute tokens")
        checked.add_entry(metadata, "murmur3", murmur3)
        checked.add_entry(metadata, "bisect_left", metadata.bisect_left)
        return checked


def _shuffle(function: Any) -> _core.Shuffle:
    """Returns a native function that does the same as `function`, if `function` is
    `random.shuffle` and works as turbocql expects. Otherwise, returns an object that calls
    `function`.
    """
    generator = getattr(function, "__self__", None)
    if type(generator) is not random.Random or vars(generator).keys() - {"gauss_next"}:
        return _core.Shuffle(function, None)
    for length in range(1, 20):
        numbers, other_numbers = random.Random(length), random.Random(length)
        items, other_items = list(range(length)), list(range(length))
        numbers.shuffle(items)
        _core.Shuffle(None, other_numbers.getrandbits)(other_items)
        if items != other_items or numbers.getstate() != other_numbers.getstate():
            return _core.Shuffle(function, None)
    return _core.Shuffle(function, generator.getrandbits)


def _statements(driver: Driver) -> list[type[Any]]:
    query = driver.query
    return [query.BoundStatement, query.SimpleStatement, query.BatchStatement]


_KEYS = [b"", b"a", b"\0\0\0\x05", bytes(range(40)), b"\xff" * 17]
_TOKENS = [-(2**62), -1, 0, 2**61, 2**62]


class _Host:
    """A host in the cluster for which `_expect_same_plans` compares plans."""

    def __init__(self, datacenter: str | None, rack: str | None, is_up: bool) -> None:
        self.datacenter, self.rack, self.is_up = datacenter, rack, is_up
        self.host_id = uuid.UUID(int=id(self))


class _Cluster:
    """The cluster for which `_expect_same_plans` compares plans."""

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata


def _expect_same_plans(
    driver: Driver, modules: dict[str, ModuleType], original: Any, replacement: Any
) -> None:
    policies, metadata = modules["policies"], modules["metadata"]
    description = metadata.Metadata()
    hosts = [
        _Host(datacenter, rack, is_up)
        for datacenter in ("here", "there", None)
        for rack in ("r1", "r2")
        for is_up in (True, False)
    ]
    tokens = [metadata.Murmur3Token(token) for token in _TOKENS]
    token_map = metadata.TokenMap(metadata.Murmur3Token, {}, tokens, description)
    token_map.tokens_to_hosts_by_ks["ks"] = {
        token: hosts[number:] + hosts[: number - 6] for number, token in enumerate(tokens)
    }
    description.token_map = token_map
    children = [policies.DCAwareRoundRobinPolicy("here", 1), policies.RoundRobinPolicy()]
    if "tablets" in modules:
        children.append(policies.RackAwareRoundRobinPolicy("here", "r1", 1))
    for child in children:
        policy = policies.TokenAwarePolicy(child, shuffle_replicas=False)
        child._hosts_lock = threading.Lock()
        policy.populate(_Cluster(description), hosts)
        for key in [None, *_KEYS]:
            statement = driver.query.SimpleStatement("", routing_key=key, keyspace="ks")
            plans = []
            for make_plan in (original, replacement):
                child._position = 3
                plans.append(list(make_plan(policy, None, statement)))
            if plans[0] != plans[1]:
                raise NotReplaced("its plans differ from those that turbocql makes")


def policy_groups() -> list[Group]:
    """Returns all groups that patch load balancing policies."""
    return [QueryPlans()]
