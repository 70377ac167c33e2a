"""Helpers that show at which node and shard requests arrived, and where they should arrive."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from turbocql.cluster import Node
from turbocql.testing import Scylla
from turbocql.testing.scylla import ClientConnection, Request

SHARDS = {0: 4, 1: 2}
"""Maps a node's index to its number of shards. The third node announces no shards, like a node of
Cassandra."""
ROWS = 200
"""The number of rows of each table. Row n, from 0, has the id n and the digits of n as text."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds, and fails after 30 s."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition did not hold within 30 s"
        time.sleep(0.05)


def pools_are_full(
    scylla: Scylla,
    shards: Mapping[int, int] = SHARDS,
    others: Sequence[ClientConnection] = (),
) -> bool:
    """Whether each shard of each node has a connection that is not in `others`."""
    others_ends = set(map(_ends, others))
    connections = [client for client in scylla.connections() if _ends(client) not in others_ends]
    return all(
        {connection.shard for connection in connections if connection.node == node}
        == set(range(shards.get(node, 1)))
        for node in range(3)
    )


def _ends(connection: ClientConnection) -> tuple[int, bool, str, int]:
    """Returns fields that identify a connection."""
    client = connection.client_address, connection.client_port
    return connection.node, connection.shard_aware_port, *client


def executes(scylla: Scylla) -> list[Request]:
    """Returns the EXECUTEs on the tests' tables that have arrived."""
    return [
        request
        for request in scylla.requests()
        # A session itself reads system tables after schema events, so these requests are left out.
        if request.opcode == "EXECUTE" and request.text and " system" not in request.text
    ]


def arrived(scylla: Scylla, work: Callable[[], object]) -> list[Request]:
    """Runs `work` and returns the EXECUTEs on the tests' tables that arrived during it."""
    scylla.reset()
    work()
    return executes(scylla)


def shard_of(token: int, shards: int) -> int:
    """Returns the shard of a token in a table without tablets.

    ScyllaDB's formula ignores the 12 highest bits of the token.
    """
    return (((token + 2**63) << 12) % 2**64) * shards >> 64


def owner(nodes: Sequence[Node], token: int) -> int:
    """Returns the index of the node that owns the first ring token not less than `token`."""
    ring = sorted((own, index) for index, node in enumerate(nodes) for own in node.tokens)
    return ring[bisect_left(ring, (token, -1)) % len(ring)][1]


def at_wrong_shards(requests: list[Request], shards: Mapping[int, int] = SHARDS) -> list[Request]:
    """Returns the requests that did not arrive at the shard of their token."""
    wrong = []
    for request in requests:
        assert request.token is not None
        if request.shard != shard_of(request.token, shards.get(request.node, 1)):
            wrong.append(request)
    return wrong
