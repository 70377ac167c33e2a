"""The shards and extensions that a node of ScyllaDB announces."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

__all__ = ["RATE_LIMIT_CODE", "SHARD_AWARE_PORT", "Shards"]

SHARD_AWARE_PORT = 19042
RATE_LIMIT_CODE = 0xF000
LWT_MARK = 0x80000000
LWT, RATE_LIMIT, METADATA_ID = (
    "SCYLLA_LWT_ADD_METADATA_MARK",
    "SCYLLA_RATE_LIMIT_ERROR",
    "SCYLLA_USE_METADATA_ID",
)
TABLETS_V1, TABLETS_V2 = "TABLETS_ROUTING_V1", "TABLETS_ROUTING_V2_EXPERIMENTAL"
EXTENSIONS = frozenset({LWT, RATE_LIMIT, METADATA_ID, TABLETS_V1, TABLETS_V2})
"""The extensions that a client enables for its connection by naming them in STARTUP."""
_MAX_SHARDS = 4096


@dataclass(frozen=True)
class Shards:
    """One node of ScyllaDB: the number of its shards, and the extensions that it announces.

    `ignore_msb` is the number of a token's most significant bits that do not select the shard.
    `shard_aware_port` announces port 19042. Each other switch announces one extension:
    `metadata_ids` is for SCYLLA_USE_METADATA_ID, `tablets_v1` for TABLETS_ROUTING_V1, `tablets_v2`
    for TABLETS_ROUTING_V2_EXPERIMENTAL, `lwt_mark` for SCYLLA_LWT_ADD_METADATA_MARK, and
    `rate_limit_error` for SCYLLA_RATE_LIMIT_ERROR. `version` is the version in `system.versions`.

    Raises: `ValueError` for fewer than 1 or more than 4096 shards, for an `ignore_msb` outside 0 to
        63, and for a switch that is no bool.
    """

    count: int
    _: dataclasses.KW_ONLY
    ignore_msb: int = 12
    shard_aware_port: bool = True
    metadata_ids: bool = True
    tablets_v1: bool = True
    tablets_v2: bool = False
    lwt_mark: bool = True
    rate_limit_error: bool = True
    version: str = "2025.2.0"

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= _MAX_SHARDS:
            raise ValueError(f"count: expected 1 to {_MAX_SHARDS} shards, got {self.count!r}")
        if type(self.ignore_msb) is not int or not 0 <= self.ignore_msb <= 63:
            raise ValueError(f"ignore_msb: expected 0 to 63 bits, got {self.ignore_msb!r}")
        for field in dataclasses.fields(self)[2:-1]:
            switch = getattr(self, field.name)
            if not isinstance(switch, bool):
                raise ValueError(f"{field.name}: expected a bool, got {switch!r}")
        if not isinstance(self.version, str):
            raise ValueError(f"version: expected a str, got {self.version!r}")

    @property
    def extensions(self) -> frozenset[str]:
        """The names of the extensions that a client can enable."""
        switches = {
            METADATA_ID: self.metadata_ids,
            TABLETS_V1: self.tablets_v1,
            TABLETS_V2: self.tablets_v2,
            LWT: self.lwt_mark,
            RATE_LIMIT: self.rate_limit_error,
        }
        return frozenset(name for name, is_on in switches.items() if is_on)

    def supported(self, shard: int) -> dict[str, list[str]]:
        """The options that SUPPORTED has on a connection to `shard`."""
        options = {
            "SCYLLA_SHARD": [str(shard)],
            "SCYLLA_NR_SHARDS": [str(self.count)],
            "SCYLLA_PARTITIONER": ["org.apache.cassandra.dht.Murmur3Partitioner"],
            "SCYLLA_SHARDING_ALGORITHM": ["biased-token-round-robin"],
            "SCYLLA_SHARDING_IGNORE_MSB": [str(self.ignore_msb)],
        }
        if self.shard_aware_port:
            options["SCYLLA_SHARD_AWARE_PORT"] = [str(SHARD_AWARE_PORT)]
        values = {
            LWT: [f"LWT_OPTIMIZATION_META_BIT_MASK={LWT_MARK}"],
            RATE_LIMIT: [f"ERROR_CODE={RATE_LIMIT_CODE}"],
        }
        for name in sorted(self.extensions):
            options[name] = values.get(name, [""])
        return options
