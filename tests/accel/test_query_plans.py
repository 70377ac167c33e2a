"""Native query plans have the same hosts in the same order as the driver's plans."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cassandra import ConsistencyLevel, metadata, policies
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    DefaultLoadBalancingPolicy,
    HostDistance,
    RoundRobinPolicy,
    TokenAwarePolicy,
)
from cassandra.query import BatchStatement, SimpleStatement
from tests.accel.answers import answer
from tests.accel.plan_clusters import (
    CHILDREN,
    KEYSPACE,
    Ring,
    addresses,
    first_hosts,
)
from tests.accel.statements import seams

from turbocql import accel

TOKEN_AWARE = "policies.TokenAwarePolicy.make_query_plan"
KEYS = [None, b"", *(b"%d" % number for number in range(40))]


def statements() -> list[Any]:
    """Returns statements of all kinds, with and without keys and keyspaces."""
    made: list[Any] = [SimpleStatement("", routing_key=key, keyspace=KEYSPACE) for key in KEYS]
    made += [SimpleStatement("", routing_key=b"a"), SimpleStatement("", keyspace=KEYSPACE)]
    made += [SimpleStatement("", routing_key=b"a", keyspace="unknown"), None]
    batch = BatchStatement()
    made.append(batch)
    batch = BatchStatement()
    batch.add(SimpleStatement("", routing_key=b"b", keyspace=KEYSPACE))
    made.append(batch)
    serial = SimpleStatement("", routing_key=b"c", keyspace=KEYSPACE)
    serial.consistency_level = ConsistencyLevel.LOCAL_SERIAL
    made.append(serial)
    return made


def changes(ring: Ring, policy: Any) -> Iterator[None]:
    """Changes a cluster step by step, as events of the server would do. Yields before the first
    step and after each step.
    """
    yield
    ring.hosts[1].is_up = False
    policy.on_down(ring.hosts[1])
    yield
    ring.hosts[3].is_up = None
    yield
    policy.on_remove(ring.hosts[5])
    ring.hosts[5].is_up = False
    yield
    policy.on_add(ring.add_host())
    yield
    ring.hosts[1].is_up = True
    policy.on_up(ring.hosts[1])
    yield
    ring.hosts[7].set_location_info("elsewhere", "r9")
    yield
    token_map = ring.metadata.token_map
    token_map.tokens_to_hosts_by_ks[KEYSPACE] = {
        token: hosts[::-1] for token, hosts in token_map.tokens_to_hosts_by_ks[KEYSPACE].items()
    }
    yield
    token_map.ring.clear()
    token_map.tokens_to_hosts_by_ks[KEYSPACE].clear()
    yield
    ring.metadata.token_map = None
    yield


def all_plans(make_policy: Callable[[Ring], Any]) -> list[Any]:
    """Makes a cluster and changes it step by step. After each step, makes plans for all statements.
    Returns all plans.
    """
    random.seed(17)
    ring = Ring()
    policy = make_policy(ring)
    plans: list[Any] = []
    for _ in changes(ring, policy):
        for statement in statements():
            for keyspace in (None, KEYSPACE):
                plan = policy.make_query_plan(keyspace, statement)
                plans.append(answer(addresses, plan))
                plans.append(answer(next, iter(plan)))
        plans.append(random.random())
    return plans


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("child", CHILDREN)
def test_plans_equal_those_of_the_driver(child: str, shuffle: bool) -> None:
    def make_policy(ring: Ring) -> Any:
        return ring.token_aware(child, shuffle_replicas=shuffle)

    plain = all_plans(make_policy)
    with accel.accelerated():
        assert all_plans(make_policy) == plain
        assert seams()[TOKEN_AWARE].native > 500


def test_plans_of_the_default_policy() -> None:
    class Targeted(SimpleStatement):  # type: ignore[misc]
        """A statement of a program's own class."""

    def plans() -> list[Any]:
        ring = Ring()
        policy = DefaultLoadBalancingPolicy(DCAwareRoundRobinPolicy("here", 2))
        policy.populate(ring, ring.hosts)
        policy._child_policy._position = 0
        ring.hosts[3].is_up = False
        made = [addresses(policy.make_query_plan(None, statement)) for statement in statements()]
        for address in ("10.0.0.2", "10.0.0.3", "10.9.9.9", None):
            for cls in (SimpleStatement, Targeted):
                statement = cls("", routing_key=b"a")
                statement.target_host = address
                made.append(addresses(policy.make_query_plan(KEYSPACE, statement)))
        return made

    plain = plans()
    with accel.accelerated():
        assert plans() == plain
        assert seams()["policies.DefaultLoadBalancingPolicy.make_query_plan"].native > 10


def test_shuffled_replicas_have_the_drivers_frequencies() -> None:
    """The first two hosts of a plan form a pair. Each pair is about as frequent in native plans as
    in plans of the driver.
    """
    queries = [SimpleStatement("", routing_key=key, keyspace=KEYSPACE) for key in KEYS[2:6]]

    def counts() -> dict[tuple[str, ...], int]:
        policy = Ring().token_aware(CHILDREN[1], shuffle_replicas=True)
        return first_hosts(policy, queries, 100_000)

    random.seed(3)
    plain = counts()
    random.seed(4)
    with accel.accelerated():
        native = counts()
        assert seams()[TOKEN_AWARE].native == 100_000
    assert plain.keys() == native.keys()
    for pair, count in plain.items():
        # The bound is six standard deviations of the difference between two counts.
        assert abs(native[pair] - count) < 6 * (2 * count) ** 0.5, pair


def test_round_robin_keeps_its_position() -> None:
    queries = [SimpleStatement("", keyspace=KEYSPACE)]
    plain = first_hosts(Ring().token_aware(CHILDREN[1]), queries, 1000)
    with accel.accelerated():
        assert first_hosts(Ring().token_aware(CHILDREN[1]), queries, 1000) == plain


class Nearest(DCAwareRoundRobinPolicy):  # type: ignore[misc]
    """A program's own child policy."""

    def distance(self, host: Any) -> Any:
        return HostDistance.LOCAL if host.address.endswith("4") else super().distance(host)


class Reversed(TokenAwarePolicy):  # type: ignore[misc]
    """A program's own token-aware policy."""

    def make_query_plan(self, working_keyspace: Any = None, query: Any = None) -> Any:
        return list(super().make_query_plan(working_keyspace, query))[::-1]


QUERY = SimpleStatement("", routing_key=b"a", keyspace=KEYSPACE)


def plans_of(policy: Any) -> list[list[str]]:
    policy._child_policy._position = 0
    return [addresses(policy.make_query_plan(None, QUERY)) for _ in range(3)]


def test_a_programs_policies_win() -> None:
    ring = Ring()
    nearest = TokenAwarePolicy(Nearest("here"), shuffle_replicas=False)
    reversed_plans = Reversed(DCAwareRoundRobinPolicy("here"), shuffle_replicas=False)
    for policy in (nearest, reversed_plans):
        policy.populate(ring, ring.hosts)
    plain = [plans_of(policy) for policy in (nearest, reversed_plans)]
    with accel.accelerated():
        assert [plans_of(policy) for policy in (nearest, reversed_plans)] == plain


def test_methods_of_an_instance_win() -> None:
    ring = Ring()
    policy = ring.token_aware("DCAwareRoundRobinPolicy", shuffle_replicas=False)
    others = policy._child_policy

    def opposite(host: Any) -> Any:
        is_local = DCAwareRoundRobinPolicy.distance(others, host) == HostDistance.LOCAL
        return HostDistance.IGNORED if is_local else HostDistance.LOCAL

    others.distance = opposite
    plain = plans_of(policy)
    with accel.accelerated():
        assert plans_of(policy) == plain
    del others.distance
    ring.metadata.get_replicas = lambda keyspace, key: ring.hosts[:3]
    plain = plans_of(policy)
    with accel.accelerated():
        assert plans_of(policy) == plain


REPLACEMENTS: dict[str, tuple[Any, str, Any]] = {
    "distance": (DCAwareRoundRobinPolicy, "distance", lambda self, host: HostDistance.LOCAL),
    "get_replicas": (metadata.Metadata, "get_replicas", lambda self, keyspace, key: []),
    "hash_fn": (metadata.Murmur3Token, "hash_fn", classmethod(lambda cls, key: 5)),
    "from_key": (metadata.Murmur3Token, "from_key", classmethod(lambda cls, key: cls(7))),
    "shuffle": (policies, "shuffle", lambda hosts: hosts.sort(key=lambda host: host.address)),
    "REMOTE": (HostDistance, "REMOTE", HostDistance.LOCAL),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_replaced_functions_win(name: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Ring().token_aware("DCAwareRoundRobinPolicy", shuffle_replicas=name == "shuffle")
    owner, attribute, value = REPLACEMENTS[name]
    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, value)
        plain = plans_of(policy)
    if when == "before":
        monkeypatch.setattr(owner, attribute, value)
    with accel.accelerated():
        if when == "after":
            assert seams()[TOKEN_AWARE].patched
            monkeypatch.setattr(owner, attribute, value)
        assert plans_of(policy) == plain
        assert seams()[TOKEN_AWARE].native == 0
        assert attribute in seams()[TOKEN_AWARE].why
        monkeypatch.undo()


def test_plans_do_nothing_before_their_first_host() -> None:
    policy = Ring().token_aware("RoundRobinPolicy")
    with accel.accelerated():
        plan = policy.make_query_plan(None, SimpleStatement(""))
        assert policy._child_policy._position == 0
        assert next(plan)
        assert policy._child_policy._position == 1
        # The end of this block switches the accelerator off. At that time, the plan `rest` has
        # begun, and the plan `unused` has not. Both plans stay native.
        rest, unused = policy.make_query_plan(None, QUERY), policy.make_query_plan(None, QUERY)
        hosts = [next(rest)]
    hosts += rest
    assert {host.address for host in hosts} == {host.address for host in unused}
    assert len(hosts) == 12


def test_a_plan_yields_nothing_after_its_end() -> None:
    policy = Ring().token_aware("RoundRobinPolicy")
    with accel.accelerated():
        plan = policy.make_query_plan(None, QUERY)
        assert len(list(plan)) == 12
        assert list(plan) == []
        plan = policy.make_query_plan(query=QUERY)
        assert len(list(plan)) == 12
        plan = policy.make_query_plan(None, QUERY)
        next(plan)
        plan.close()
        assert list(plan) == []


def test_an_interrupted_plan_has_ended() -> None:
    class Interrupting(RoundRobinPolicy):  # type: ignore[misc]
        def distance(self, host: Any) -> Any:
            raise KeyboardInterrupt

    policy = TokenAwarePolicy(Interrupting(), shuffle_replicas=False)
    ring = Ring()
    policy.populate(ring, ring.hosts)
    for with_accelerator in (False, True):
        if with_accelerator:
            accel.accelerate()
        plan = iter(policy.make_query_plan(None, QUERY))
        with pytest.raises(KeyboardInterrupt):
            next(plan)
        assert list(plan) == []


def test_plans_refuse_a_second_thread_as_generators_do() -> None:
    reentered: list[Any] = []

    class Reentrant(RoundRobinPolicy):  # type: ignore[misc]
        def distance(self, host: Any) -> Any:
            reentered.append(answer(next, plan))
            return HostDistance.LOCAL

    policy = TokenAwarePolicy(Reentrant(), shuffle_replicas=False)
    ring = Ring()
    policy.populate(ring, ring.hosts)
    plan = iter(policy.make_query_plan(None, QUERY))
    next(plan)
    with accel.accelerated():
        plan = policy.make_query_plan(None, QUERY)
        next(plan)
    assert len(set(map(repr, reentered))) == 1


def test_plans_are_collected() -> None:
    class Cyclic(RoundRobinPolicy):  # type: ignore[misc]
        pass

    with accel.accelerated():
        child = Cyclic()
        policy = TokenAwarePolicy(child)
        ring = Ring()
        policy.populate(ring, ring.hosts)
        child.plan = policy.make_query_plan(None, QUERY)
        child.begun = policy.make_query_plan(None, QUERY)
        next(child.begun)
        reference = weakref.ref(child)
        del child, policy
        gc.collect()
        assert reference() is None


@pytest.mark.parametrize("shuffle", [True, False])
def test_many_threads_make_plans(shuffle: bool) -> None:
    policy = Ring().token_aware("DCAwareRoundRobinPolicy", shuffle_replicas=shuffle)
    queries = [query for query in statements() if query is not None]
    lengths: set[int] = set()

    def work() -> None:
        for _ in range(200):
            for query in queries[:10]:
                lengths.add(len(list(policy.make_query_plan(KEYSPACE, query))))

    with accel.accelerated():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # With `shuffle`, the drivers shuffle a list over which all threads iterate. So a plan may have
    # a host twice, and its length may differ.
    assert lengths == {6} if not shuffle else 6 in lengths
