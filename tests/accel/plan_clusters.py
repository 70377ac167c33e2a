"""Makes a cluster's hosts and metadata without a server, for the tests of query plans."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from typing import Any

from cassandra import policies
from cassandra.connection import DefaultEndPoint
from cassandra.metadata import Metadata, Murmur3Token, TokenMap
from cassandra.policies import SimpleConvictionPolicy
from cassandra.pool import Host

KEYSPACE = "shop"
HAS_RACKS = hasattr(policies, "RackAwareRoundRobinPolicy")
CHILDREN = ["RoundRobinPolicy", "DCAwareRoundRobinPolicy", "DCAware with remote hosts"]
if HAS_RACKS:
    CHILDREN += ["RackAwareRoundRobinPolicy", "RackAware with remote hosts"]


def child_policy(name: str) -> Any:
    """Returns a new policy for a name in `CHILDREN`. The policy can be the child of a token-aware
    policy.
    """
    remote = 2 if name.endswith("remote hosts") else 0
    if name.startswith("DCAware"):
        return policies.DCAwareRoundRobinPolicy("here", remote)
    if name.startswith("RackAware"):
        return policies.RackAwareRoundRobinPolicy("here", "r1", remote)
    return policies.RoundRobinPolicy()


class Ring:
    """A cluster with hosts in two datacenters. Each token has six replicas, chosen at random."""

    def __init__(self, hosts: int = 12) -> None:
        self.hosts = [self._host(number) for number in range(hosts)]
        self.metadata = Metadata()
        for host in self.hosts:
            self.metadata.add_or_return_host(host)
        numbers = random.Random(5)
        tokens = sorted(numbers.randrange(-(2**63), 2**63) for _ in range(hosts * 16))
        ring = [Murmur3Token(token) for token in tokens]
        token_map = TokenMap(Murmur3Token, {}, ring, self.metadata)
        token_map.tokens_to_hosts_by_ks[KEYSPACE] = {
            token: numbers.sample(self.hosts, 6) for token in ring
        }
        self.metadata.token_map = token_map
        self.metadata.partitioner = "org.apache.cassandra.dht.Murmur3Partitioner"

    def _host(self, number: int) -> Any:
        host = Host(
            DefaultEndPoint(f"10.0.0.{number}"),
            SimpleConvictionPolicy,
            datacenter="here" if number % 2 else "there",
            rack=f"r{number % 3}",
            host_id=uuid.UUID(int=number + 1),
        )
        host.is_up = True
        # `DefaultLoadBalancingPolicy` compares the target host of a statement with this address.
        host.broadcast_rpc_address = f"10.0.0.{number}"
        return host

    def add_host(self) -> Any:
        """Adds a host and returns it. The caller must notify the policies of the new host."""
        host = self._host(len(self.hosts))
        self.hosts.append(host)
        return host

    def token_aware(self, child: str, **options: Any) -> Any:
        """Returns a token-aware policy that knows all hosts."""
        policy = policies.TokenAwarePolicy(child_policy(child), **options)
        policy.populate(self, sorted(self.hosts, key=lambda host: host.datacenter))
        policy._child_policy._position = 0
        return policy


def addresses(plan: Any) -> list[str]:
    """Returns the addresses of a plan's hosts."""
    return [host.address for host in plan]


def first_hosts(policy: Any, statements: list[Any], plans: int) -> Counter[tuple[str, ...]]:
    """Makes `plans` plans for the statements, which take turns. Counts how often each pair of hosts
    comes first in a plan.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for number in range(plans):
        statement = statements[number % len(statements)]
        plan = iter(policy.make_query_plan(None, statement))
        counts[next(plan).address, next(plan).address] += 1
    return counts
