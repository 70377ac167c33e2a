"""What arrived at which node and shard, and where it should arrive."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from turbocql.cluster import Node
from turbocql.testing import Scylla
from turbocql.testing.scylla import ClientConnection, Request

SHARDS = {0: 4, 1: 2}
"""The shards of the nodes. The third is an old node, which announces nothing."""
ROWS = 200
"""The rows of each table: an int from 0, and its digits as text."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for something that other threads do."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it has not come true within 30 s"
        time.sleep(0.05)


def pools_are_full(
    scylla: Scylla,
    shards: Mapping[int, int] = SHARDS,
    others: Sequence[ClientConnection] = (),
) -> bool:
    """Whether each node has a connection to each of its shards, beside those of other sessions."""
    others_ends = set(map(_ends, others))
    connections = [client for client in scylla.connections() if _ends(client) not in others_ends]
    return all(
        {connection.shard for connection in connections if connection.node == node}
        == set(range(shards.get(node, 1)))
        for node in range(3)
    )


def _ends(connection: ClientConnection) -> tuple[int, bool, str, int]:
    """What tells a connection from every other."""
    client = connection.client_address, connection.client_port
    return connection.node, connection.shard_aware_port, *client


def executes(scylla: Scylla) -> list[Request]:
    """The EXECUTEs on the tests' tables that have arrived."""
    return [
        request
        for request in scylla.requests()
        # A session reads the schema whenever an event tells it to.
        if request.opcode == "EXECUTE" and request.text and " system" not in request.text
    ]


def arrived(scylla: Scylla, work: Callable[[], object]) -> list[Request]:
    """The EXECUTEs on the tests' tables that arrive while something runs."""
    scylla.reset()
    work()
    return executes(scylla)


def shard_of(token: int, shards: int) -> int:
    """ScyllaDB's formula for tables without tablets, with 12 bits ignored."""
    return (((token + 2**63) << 12) % 2**64) * shards >> 64


def owner(nodes: Sequence[Node], token: int) -> int:
    """The index of the node that owns a token: of the first token of the ring that is not less."""
    ring = sorted((own, index) for index, node in enumerate(nodes) for own in node.tokens)
    return ring[bisect_left(ring, (token, -1)) % len(ring)][1]


def at_wrong_shards(requests: list[Request], shards: Mapping[int, int] = SHARDS) -> list[Request]:
    """The requests that are not at the shard of their token."""
    wrong = []
    for request in requests:
        assert request.token is not None
        if request.shard != shard_of(request.token, shards.get(request.node, 1)):
            wrong.append(request)
    return wrong
