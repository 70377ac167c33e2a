"""Places, moves, splits and merges tablets: the token ranges of a table and their replicas."""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from ..frames import value_bytes
from .murmur3 import MIN_TOKEN

__all__ = ["Replica", "Tablet", "TabletMap", "place_tablets", "power_of_two"]

DEFAULT_COUNT = 8
MAX_COUNT = 1 << 16
V1_KEY, V2_KEY = "tablets-routing-v1", "tablets-routing-v2"
"""The names of the entries in the custom payload of a response."""


@dataclass(frozen=True)
class Replica:
    """One copy of a tablet: the index of its node, the node's host id, and a shard."""

    node: int
    host_id: UUID
    shard: int


@dataclass(frozen=True)
class Tablet:
    """A range of tokens and its replicas.

    The range begins after `first_token` and ends with `last_token`.
    """

    first_token: int
    last_token: int
    replicas: tuple[Replica, ...]

    @property
    def version(self) -> int:
        """An unsigned number of 64 bits, hashed from the replicas in their order."""
        described = b"".join(
            replica.host_id.bytes + struct.pack(">i", replica.shard) for replica in self.replicas
        )
        return int.from_bytes(hashlib.sha256(described).digest()[:8], "big")

    def matches(self, block: int) -> bool:
        """Whether `block`, the last byte of an EXECUTE, agrees with the tablet's version.

        The version is 16 groups of four bits. The byte's high four bits are the number of a group,
        where group 0 is the least significant. Its low four bits must be equal to that group.
        """
        return self.version >> 4 * (block >> 4) & 0x0F == block & 0x0F

    def routing(self, *, has_version: bool) -> bytes:
        """The payload entry's value: tuple<bigint, bigint, list<tuple<uuid, int>>[, bigint]>.

        With `has_version`, the tuple ends with the tablet's version.
        """
        listed = [struct.pack(">i", len(self.replicas))]
        for replica in self.replicas:
            pair = value_bytes(replica.host_id.bytes)
            pair += value_bytes(struct.pack(">i", replica.shard))
            listed.append(value_bytes(pair))
        parts = [struct.pack(">q", self.first_token), struct.pack(">q", self.last_token)]
        parts.append(b"".join(listed))
        if has_version:
            parts.append(struct.pack(">Q", self.version))
        return b"".join(map(value_bytes, parts))


def power_of_two(count: int) -> int:
    """The least power of two that is not below `count`, at most 65,536."""
    return min(1 << max(count - 1, 0).bit_length(), MAX_COUNT)


def place_tablets(count: int, factor: int, nodes: Sequence[tuple[UUID, int]]) -> list[Tablet]:
    """Makes `count` tablets of equal size with `factor` replicas each.

    `nodes` are the host id and the number of shards of each node. Replicas go to the nodes in turn,
    and on a node to its shards in turn.
    """
    factor = max(1, min(factor, len(nodes)))
    size = (1 << 64) // count
    dealt = [0] * len(nodes)
    tablets = []
    for number in range(count):
        replicas = []
        for step in range(factor):
            node = (number + step) % len(nodes)
            host_id, shards = nodes[node]
            replicas.append(Replica(node, host_id, dealt[node] % shards))
            dealt[node] += 1
        first = MIN_TOKEN + number * size - (1 if number else 0)
        last = MIN_TOKEN + (number + 1) * size - 1
        tablets.append(Tablet(first, last, tuple(replicas)))
    return tablets


class TabletMap:
    """The tablets of one table, which cover all tokens without overlap."""

    def __init__(self, tablets: Iterable[Tablet]) -> None:
        self._set(list(tablets))

    def _set(self, tablets: list[Tablet]) -> None:
        self.tablets = tablets
        self._lasts = [tablet.last_token for tablet in tablets]

    def of(self, token: int) -> Tablet:
        """The tablet that owns a token."""
        return self.tablets[bisect_left(self._lasts, token)]

    def move(self, token: int | None, nodes: Sequence[tuple[UUID, int]]) -> int:
        """Moves the replicas of the tablet of `token`, or of all tablets.

        Each replica goes to the next node, and there to the shard after its own. In a cluster of
        one node with one shard, nothing changes.

        Returns: the number of tablets whose replicas have changed.
        """
        chosen = self.of(token) if token is not None else None
        moved = [
            _moved(tablet, nodes) if chosen is None or tablet is chosen else tablet
            for tablet in self.tablets
        ]
        changed = sum(a != b for a, b in zip(moved, self.tablets, strict=True))
        self._set(moved)
        return changed

    def split(self) -> int:
        """Cuts each tablet into two halves with the same replicas. Returns the number of halves.

        Raises: `ValueError` if there would be more than 65,536 tablets.
        """
        if 2 * len(self.tablets) > MAX_COUNT:
            raise ValueError(f"a table has at most {MAX_COUNT} tablets")
        halves = []
        for tablet in self.tablets:
            middle = (tablet.first_token + tablet.last_token) // 2
            halves.append(replace(tablet, last_token=middle))
            halves.append(replace(tablet, first_token=middle))
        self._set(halves)
        return len(halves)

    def merge(self) -> int:
        """Joins neighbors in pairs, with the replicas of the first. Returns the number of pairs.

        Raises: `ValueError` if there is only one tablet.
        """
        if len(self.tablets) < 2:
            raise ValueError("the table has one tablet, which has no neighbour")
        pairs = zip(self.tablets[::2], self.tablets[1::2], strict=True)
        self._set([replace(first, last_token=second.last_token) for first, second in pairs])
        return len(self.tablets)

    def fit(self, node: int, shards: int) -> None:
        """Adapts the tablets to the new number of shards of `node`, which is `shards`. Replicas on
        shards that the node no longer has move to shards that it has.
        """
        self._set(
            [
                replace(
                    tablet,
                    replicas=tuple(
                        replace(replica, shard=replica.shard % shards)
                        if replica.node == node
                        else replica
                        for replica in tablet.replicas
                    ),
                )
                for tablet in self.tablets
            ]
        )


def _moved(tablet: Tablet, nodes: Sequence[tuple[UUID, int]]) -> Tablet:
    replicas = []
    for replica in tablet.replicas:
        node = (replica.node + 1) % len(nodes)
        host_id, shards = nodes[node]
        replicas.append(Replica(node, host_id, (replica.shard + 1) % shards))
    return replace(tablet, replicas=tuple(replicas))
