"""Cases of query plans: a cluster of twelve hosts in two datacenters, for which no server runs."""

from __future__ import annotations

import random
import uuid
from functools import partial
from typing import Any

import cassandra.cluster  # noqa: F401  (until then, the accelerator patches no policies)
from cassandra import policies
from cassandra.connection import DefaultEndPoint
from cassandra.metadata import Metadata, Murmur3Token, TokenMap
from cassandra.policies import SimpleConvictionPolicy
from cassandra.pool import Host
from cassandra.query import SimpleStatement

from bench.harness.timing import Case, Maker
from bench.suites.codec.cases import PLANS

__all__ = ["cases"]

HOSTS, TOKENS, REPLICAS = 12, 192, 3
KEYSPACE = "shop"


class Cluster:
    """Has the metadata that policies read. Each token has three replicas in each datacenter."""

    def __init__(self) -> None:
        numbers = random.Random(5)
        self.metadata = Metadata()
        self.hosts = [host(number) for number in range(HOSTS)]
        for added in self.hosts:
            self.metadata.add_or_return_host(added)
        ring = [Murmur3Token(token) for token in sorted(_tokens(numbers))]
        token_map = TokenMap(Murmur3Token, {}, ring, self.metadata)
        here, there = (
            [host for host in self.hosts if host.datacenter == datacenter]
            for datacenter in ("here", "there")
        )
        token_map.tokens_to_hosts_by_ks[KEYSPACE] = {
            token: [*numbers.sample(here, REPLICAS), *numbers.sample(there, REPLICAS)]
            for token in ring
        }
        self.metadata.token_map = token_map
        self.metadata.partitioner = "org.apache.cassandra.dht.Murmur3Partitioner"


def _tokens(numbers: random.Random) -> list[int]:
    return [numbers.randrange(-(2**63), 2**63) for _ in range(TOKENS)]


def host(number: int) -> Any:
    datacenter = "here" if number % 2 else "there"
    about = {"datacenter": datacenter, "rack": "r1", "host_id": uuid.UUID(int=number + 1)}
    endpoint = DefaultEndPoint(f"10.0.0.{number}")
    running = Host(endpoint, SimpleConvictionPolicy, **about)
    running.is_up = True
    return running


def cases() -> dict[str, Maker]:
    """Maps each name in `PLANS` to a function that makes the case."""
    return {name: partial(_plan, name) for name in PLANS}


def _plan(name: str) -> Case:
    cluster = Cluster()
    policy = policies.TokenAwarePolicy(policies.DCAwareRoundRobinPolicy("here"))
    policy.populate(cluster, sorted(cluster.hosts, key=lambda host: host.datacenter))
    statement = SimpleStatement("SELECT", routing_key=b"key", keyspace=KEYSPACE)
    plan = policy.make_query_plan
    expression = "list(plan(None, statement))" if "all" in name else "first(plan(None, statement))"

    def outcome() -> list[list[str]]:
        # Both parts are sorted, because the policies shuffle replicas and rotate the other hosts.
        addresses = [host.address for host in policy.make_query_plan(None, statement)]
        return [sorted(addresses[:REPLICAS]), sorted(addresses[REPLICAS:])]

    return Case(expression, {"plan": plan, "statement": statement, "first": _first}, outcome)


def _first(plan: Any) -> Any:
    """Returns the first host of a plan. A request that succeeds there needs no other host."""
    return next(iter(plan))
