"""Policies for requests, as plain data: a policy runs no code of the user's.

An [`ExecutionProfile`][turbocql.policies.ExecutionProfile] groups policies under a name. A request
selects the profile by this name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

from ._checks import (
    address,
    check_choice,
    check_flag,
    check_int,
    check_seconds,
    check_settings,
    did_you_mean,
    shown,
)
from .errors import ConfigError

__all__ = [
    "Balancing",
    "Consistency",
    "ConsistencyName",
    "ConstantSpeculation",
    "ExecutionProfile",
    "LatencyAwareness",
    "PercentileSpeculation",
    "Retry",
    "SerialConsistencyName",
    "Speculation",
]


class Consistency(str, Enum):
    """How many replicas must answer before a request succeeds.

    A parameter of this type also takes the name as a `str`, in upper or lower case. `SERIAL` and
    `LOCAL_SERIAL` are for the Paxos phase of lightweight transactions, and for reads that must see
    the outcome of such transactions.
    """

    ANY = "ANY"
    ONE = "ONE"
    TWO = "TWO"
    THREE = "THREE"
    QUORUM = "QUORUM"
    ALL = "ALL"
    LOCAL_QUORUM = "LOCAL_QUORUM"
    EACH_QUORUM = "EACH_QUORUM"
    LOCAL_ONE = "LOCAL_ONE"
    SERIAL = "SERIAL"
    LOCAL_SERIAL = "LOCAL_SERIAL"

    def __str__(self) -> str:
        return self.value


SerialConsistencyName: TypeAlias = Literal["SERIAL", "LOCAL_SERIAL", "serial", "local_serial"]
"""The name of a consistency of the Paxos phase of lightweight transactions."""

# fmt: off
ConsistencyName: TypeAlias = Literal[
    "ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "LOCAL_ONE",
    "any", "one", "two", "three", "quorum", "all", "local_quorum", "each_quorum", "local_one",
    "SERIAL", "LOCAL_SERIAL", "serial", "local_serial",
]
# fmt: on
"""The name of a consistency. Type checkers refuse other names. For a `str` from elsewhere, such as
a file, use `Consistency(name.upper())`."""

_SERIAL = (Consistency.SERIAL, Consistency.LOCAL_SERIAL)

Retry: TypeAlias = Literal["default", "fallthrough", "downgrading"]
"""The policy for sending a failed request again.

- `default`: sends it to another node or to the same one, if that may help
- `fallthrough`: never sends it again
- `downgrading`: like `default`, but lowers the consistency if too few replicas answered

No policy resends a request that may have been applied, unless the request was declared idempotent.
Statements that change nothing, such as `SELECT`, count as idempotent without a declaration.
"""


@check_settings
@dataclass(frozen=True, kw_only=True)
class ConstantSpeculation:
    """Sends an idempotent request to one more node each time `delay_s` passes without an answer.

    The first answer wins. A request that is not idempotent is never sent this way.
    """

    delay_s: float
    """Seconds to wait for an answer before the request is sent to one more node."""
    max_attempts: int = 1
    """The maximum number of further nodes to which the request is sent."""

    def __post_init__(self) -> None:
        check_seconds("delay_s", self.delay_s)
        check_int("max_attempts", self.max_attempts, 1, 100)


@check_settings
@dataclass(frozen=True, kw_only=True)
class PercentileSpeculation:
    """Sends an idempotent request to one more node when it is slower than most requests.

    The session measures the latencies of its requests, in whole milliseconds. Before there are any
    measurements, a request is slow after 100 ms.
    """

    percentile: float = 99.0
    """A request is slow if it takes longer than this percentile of the latencies. The number must
    be above 0 and below 100."""
    max_attempts: int = 1
    """The maximum number of further nodes to which the request is sent."""

    def __post_init__(self) -> None:
        value = self.percentile
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 100:
            raise ConfigError(
                f"percentile must be a number above 0 and below 100, got {shown(value)}"
            )
        check_int("max_attempts", self.max_attempts, 1, 100)


Speculation: TypeAlias = ConstantSpeculation | PercentileSpeculation


@check_settings
@dataclass(frozen=True, kw_only=True)
class LatencyAwareness:
    """The limits beyond which a node is slow. All other nodes are tried before a slow node."""

    exclusion_threshold: float = 2.0
    """A node is slow when its average latency is more than this many times the average latency of
    the fastest node."""
    retry_period_s: float = 10.0
    """A node no longer counts as slow when its last measurement is this many seconds old."""
    update_rate_s: float = 0.1
    """Seconds between two computations of the fastest node's latency."""
    minimum_measurements: int = 50
    """The latency of a node is ignored until it has been measured this many times."""
    scale_s: float = 0.1
    """If a node's last measurement is this many seconds old, a new measurement has 31 % of the
    weight in the node's average latency. If the last measurement is older, the new measurement has
    more weight."""

    def __post_init__(self) -> None:
        value = self.exclusion_threshold
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 1 < value <= 1e9:
            raise ConfigError("exclusion_threshold must be a number above 1 and up to 1e9")
        for name in ("retry_period_s", "update_rate_s", "scale_s"):
            check_seconds(name, getattr(self, name), least=0.001)
        check_int("minimum_measurements", self.minimum_measurements, 1, 2**31 - 1)

    def _native(self) -> dict[str, Any]:
        return {
            "exclusion_threshold": float(self.exclusion_threshold),
            "retry_period_s": min(self.retry_period_s, 1e9),
            "update_rate_s": min(self.update_rate_s, 1e9),
            "minimum_measurements": self.minimum_measurements,
            "scale_s": min(self.scale_s, 1e9),
        }


@check_settings
@dataclass(frozen=True, kw_only=True)
class Balancing:
    """The order in which nodes are tried for a request.

    The replicas of the row come first, then the other nodes. Within each of the two groups, nodes
    of the preferred rack come first, then the other nodes of the preferred datacenter.
    """

    datacenter: str | None = None
    """The preferred datacenter: only its nodes are tried, unless `datacenter_failover` is true.
    With `None`, the nodes of all datacenters are tried."""
    rack: str | None = None
    """The preferred rack of `datacenter`. Replicas in this rack are tried before other replicas.
    Nodes of this rack that are no replicas are tried before other nodes that are no replicas."""
    datacenter_failover: bool = False
    """Whether nodes of other datacenters are tried when no node of `datacenter` answers."""
    token_aware: bool = True
    """Whether replicas of the row are tried first."""
    shuffle_replicas: bool = True
    """Whether replicas are tried in a random order, and not always in the same order."""
    avoid_silent: bool = True
    """Whether a silent node is tried last, until it answers again. A node is silent if it answers
    neither the session's requests nor the probe that the session then sends to it. At most half of
    the nodes of a datacenter count as silent."""
    latency_awareness: LatencyAwareness | None = None
    """The limits beyond which a node is slow and is tried last; `None` for no limits."""
    allowed: Sequence[str] = ()
    """IP addresses, with or without a port, of the nodes that may be tried; empty for all nodes. As
    a setting of the session, `allowed` also keeps the session from connecting to other nodes."""

    def __post_init__(self) -> None:
        for name in ("datacenter", "rack"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ConfigError(f"{name} must be a non-empty str, got {shown(value)}")
        if self.rack is not None and self.datacenter is None:
            raise ConfigError("a rack needs its datacenter: set datacenter too")
        if self.datacenter_failover and self.datacenter is None:
            raise ConfigError("datacenter_failover needs a datacenter to fail over from")
        for name in ("datacenter_failover", "token_aware", "shuffle_replicas", "avoid_silent"):
            check_flag(name, getattr(self, name))
        if not isinstance(self.latency_awareness, (LatencyAwareness, type(None))):
            raise ConfigError("latency_awareness must be a LatencyAwareness or None")
        if isinstance(self.allowed, str) or not isinstance(self.allowed, Sequence):
            raise ConfigError("allowed must be a sequence of addresses")
        for node_address in self.allowed:
            address("allowed", node_address)
        object.__setattr__(self, "allowed", tuple(self.allowed))

    def _native(self) -> dict[str, Any]:
        latency = self.latency_awareness
        return {
            "datacenter": self.datacenter,
            "rack": self.rack,
            "token_aware": self.token_aware,
            "datacenter_failover": self.datacenter_failover,
            "shuffle_replicas": self.shuffle_replicas,
            "avoid_silent": self.avoid_silent,
            "latency": None if latency is None else latency._native(),
            "allowed": [address("allowed", node_address) for node_address in self.allowed],
        }


@check_settings
@dataclass(frozen=True, kw_only=True)
class ExecutionProfile:
    """Policies under a name: `Config(profiles={"reports": ExecutionProfile(...)})`, and then
    `execute(..., profile="reports")`.

    For a field that is `None`, the session's setting applies. The options of a request win over its
    profile.
    """

    consistency: Consistency | ConsistencyName | None = None
    serial_consistency: Consistency | SerialConsistencyName | None = None
    timeout_s: float | None = None
    """Seconds until a request times out; `math.inf` for no limit."""
    retry: Retry | None = None
    speculation: Speculation | Literal["off"] | None = None
    balancing: Balancing | None = None

    def __post_init__(self) -> None:
        if self.consistency is not None:
            object.__setattr__(self, "consistency", _consistency("consistency", self.consistency))
        if self.serial_consistency is not None:
            serial = _consistency("serial_consistency", self.serial_consistency)
            if serial not in _SERIAL:
                raise ConfigError(
                    f"serial_consistency must be SERIAL or LOCAL_SERIAL, not {serial}"
                )
            object.__setattr__(self, "serial_consistency", serial)
        if self.timeout_s is not None:
            check_seconds("timeout_s", self.timeout_s)
        if self.retry is not None:
            _check_retry(self.retry)
        if self.speculation not in (None, "off"):
            _check_speculation(self.speculation)
        if not isinstance(self.balancing, (Balancing, type(None))):
            raise ConfigError(f"balancing must be a Balancing, got {shown(self.balancing)}")


def _check_retry(value: object) -> None:
    """Raises `ConfigError` unless `value` names a retry policy."""
    if not isinstance(value, str):
        raise ConfigError(f"retry must be a str, got {shown(value)}")
    check_choice("retry", value, ("default", "fallthrough", "downgrading"))


def _check_speculation(value: object) -> None:
    """Raises `ConfigError` unless `value` is a speculation policy."""
    if not isinstance(value, (ConstantSpeculation, PercentileSpeculation)):
        raise ConfigError(
            "speculation must be a ConstantSpeculation or a PercentileSpeculation, got"
            f" {shown(value)}"
        )


def _consistency(name: str, value: object) -> Consistency:
    """Returns the `Consistency` for a `Consistency`, or for its name in any letter case."""
    with suppress(ValueError):
        return Consistency(value.upper() if isinstance(value, str) else value)
    # This error is not raised in an `except` block: its `__context__` would then show the value.
    level_names = [level.value for level in Consistency]
    hint = did_you_mean(value, level_names)
    raise ConfigError(f"{name} must be one of {', '.join(level_names)}, got {shown(value)}{hint}")


def _profile_native(
    base: ExecutionProfile, profile: ExecutionProfile | None = None
) -> dict[str, Any]:
    """Returns a profile in the form that the native core takes: the fields of `base`, replaced by
    those fields of `profile` that are not `None`.
    """

    def effective_value(name: str) -> Any:
        profile_value = getattr(profile, name, None)
        return getattr(base, name) if profile_value is None else profile_value

    speculation, balancing = (
        effective_value("speculation"),
        effective_value("balancing") or Balancing(),
    )
    constant = isinstance(speculation, ConstantSpeculation)
    percentile = isinstance(speculation, PercentileSpeculation)
    return {
        "consistency": effective_value("consistency"),
        "serial_consistency": effective_value("serial_consistency"),
        "timeout_s": effective_value("timeout_s"),
        "retry": effective_value("retry"),
        "constant_speculation": (
            (min(speculation.delay_s, 1e9), speculation.max_attempts) if constant else None
        ),
        "percentile_speculation": (
            (float(speculation.percentile), speculation.max_attempts) if percentile else None
        ),
        **balancing._native(),
    }
