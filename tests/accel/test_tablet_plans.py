"""Tests native query plans for tables with tablets. Only scylla-driver supports tablets."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest
from cassandra import metadata
from cassandra.query import SimpleStatement
from cassandra.tablets import Tablet
from tests.accel.answers import answer
from tests.accel.plan_clusters import CHILDREN, KEYSPACE, Ring, addresses
from tests.accel.statements import seams

from turbocql import accel

TOKEN_AWARE = "policies.TokenAwarePolicy.make_query_plan"


@pytest.mark.parametrize("child", CHILDREN)
@pytest.mark.parametrize("tablet_version", [None, 5])
def test_the_next_plan_uses_a_new_tablet(child: str, tablet_version: int | None) -> None:
    def plans() -> list[Any]:
        random.seed(9)
        ring = Ring()
        policy = ring.token_aware(child)
        query = SimpleStatement("", routing_key=b"key", keyspace=KEYSPACE)
        query.table = "t"
        token = metadata.Murmur3Token.from_key(b"key").value
        made = [addresses(policy.make_query_plan(None, query))]
        ids = [host.host_id for host in ring.hosts]
        spans = [(-(2**63), token - 5), (token - 5, token), (token, token + 9), (token - 9, token)]
        for number, (first, last) in enumerate(spans):
            replicas = [(ids[number + 2 * step], step) for step in range(3)]
            if number == 3:
                replicas.append((uuid.UUID(int=999), 1))
            tablet = Tablet(first, last, replicas)
            tablet.tablet_version = tablet_version
            ring.metadata._tablets.add_tablet(KEYSPACE, "t", tablet)
            made += [addresses(policy.make_query_plan(None, query)) for _ in range(20)]
        tablet.replicas = [("not a uuid", 1), (ids[1], 2)]
        made.append(addresses(policy.make_query_plan(None, query)))
        tablet.replicas = None
        made.append(answer(addresses, policy.make_query_plan(None, query)))
        ring.metadata._tablets.drop_tablets(KEYSPACE, "t")
        made.append(addresses(policy.make_query_plan(None, query)))
        return made

    plain = plans()
    with accel.accelerated():
        assert plans() == plain
        assert seams()[TOKEN_AWARE].native > 60


def test_leaders_of_tablets_equal_those_of_the_driver() -> None:
    # Tablets have leaders only in keyspaces whose consistency mode is not EVENTUAL. Earlier
    # releases of the driver support neither consistency modes nor leaders.
    modes = getattr(metadata, "_ConsistencyMode", [None])

    def plans() -> list[Any]:
        random.seed(9)
        ring = Ring()
        policy = ring.token_aware(CHILDREN[1])
        query = SimpleStatement("", routing_key=b"key", keyspace=KEYSPACE)
        query.table = "t"
        replicas = [(host.host_id, 1) for host in ring.hosts[5:9]]
        tablet = Tablet(-(2**63), 2**63 - 1, replicas)
        tablet.tablet_version = 5
        ring.metadata._tablets.add_tablet(KEYSPACE, "t", tablet)
        made = []
        for mode in modes:
            keyspace = metadata.KeyspaceMetadata(KEYSPACE, True, "SimpleStrategy", {})
            keyspace._consistency_mode = mode
            ring.metadata.keyspaces[KEYSPACE] = keyspace
            made += [addresses(policy.make_query_plan(None, query)) for _ in range(20)]
        return made

    plain = plans()
    with accel.accelerated():
        assert plans() == plain
        assert seams()[TOKEN_AWARE].native >= 20
