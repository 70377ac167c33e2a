"""Choices that requests are sent under, as plain data: nothing here has code that runs.

An [`ExecutionProfile`][turbocql.policies.ExecutionProfile] puts some of them under a name, which a
request then gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

from ._checks import address, check_choice, check_flag, check_int, check_seconds, shown
from .errors import ConfigError

__all__ = [
    "Balancing",
    "Consistency",
    "ConstantSpeculation",
    "ExecutionProfile",
    "LatencyAwareness",
    "PercentileSpeculation",
    "Retry",
    "Speculation",
]


class Consistency(str, Enum):
    """How many replicas must answer before a request succeeds.

    Wherever one is taken, its name as a `str` is taken too. `SERIAL` and `LOCAL_SERIAL` are for
    the Paxos phase of lightweight transactions, and for reads that must see their outcome.
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


_SERIAL = (Consistency.SERIAL, Consistency.LOCAL_SERIAL)

Retry: TypeAlias = Literal["default", "fallthrough", "downgrading"]
"""When a request that failed is sent again.

- `default`: on another node, or the same, where that may help
- `fallthrough`: never
- `downgrading`: as `default`, and with a lower consistency where too few replicas answered

None of them sends again what may have been applied, unless it was declared idempotent; statements
that only read are so without being declared.
"""


@dataclass(frozen=True, kw_only=True)
class ConstantSpeculation:
    """Sends an idempotent request to one more node each time this long has passed.

    The first answer wins. Requests that are not idempotent are never sent twice.
    """

    delay_s: float
    """Seconds."""
    max_attempts: int = 1
    """Further requests, at most."""

    def __post_init__(self) -> None:
        check_seconds("delay_s", self.delay_s)
        check_int("max_attempts", self.max_attempts, 1, 100)


@dataclass(frozen=True, kw_only=True)
class PercentileSpeculation:
    """Sends an idempotent request to one more node when it is slower than most.

    How long others took is measured by the session, in whole milliseconds; before there are any
    measurements, 100 ms are taken.
    """

    percentile: float = 99.0
    """Above 0 and below 100."""
    max_attempts: int = 1
    """Further requests, at most."""

    def __post_init__(self) -> None:
        value = self.percentile
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 100:
            raise ConfigError(
                f"percentile must be a number above 0 and below 100, got {shown(value)}"
            )
        check_int("max_attempts", self.max_attempts, 1, 100)


Speculation: TypeAlias = ConstantSpeculation | PercentileSpeculation


@dataclass(frozen=True, kw_only=True)
class LatencyAwareness:
    """When a node is so slow that others are asked before it."""

    exclusion_threshold: float = 2.0
    """So many times slower than the fastest node."""
    retry_period_s: float = 10.0
    """Seconds until such a node is tried again."""
    update_rate_s: float = 0.1
    """Seconds between two looks at the fastest node's latency."""
    minimum_measurements: int = 50
    """Fewer than these say nothing about a node."""
    scale_s: float = 0.1
    """Seconds after which a measurement counts for much less."""

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


@dataclass(frozen=True, kw_only=True)
class Balancing:
    """Which node a request goes to first, and which after it.

    Nodes of the preferred rack come first, then those of its datacenter, and within each the
    replicas of the row before the others.
    """

    datacenter: str | None = None
    """Whose nodes are asked. Without one, nodes of any."""
    rack: str | None = None
    """Of that datacenter: asked first."""
    datacenter_failover: bool = False
    """Whether nodes of other datacenters are asked when none of the preferred one answers."""
    token_aware: bool = True
    """Whether replicas of the row are asked first."""
    shuffle_replicas: bool = True
    """Whether replicas are asked in a random order, and not always in the same."""
    latency_awareness: LatencyAwareness | None = None
    """Whether slow nodes are asked last."""
    allowed: Sequence[str] = ()
    """IP addresses, with or without a port, of the nodes that may be asked; empty for all. Given
    for a whole session, others are not even connected to."""

    def __post_init__(self) -> None:
        for name in ("datacenter", "rack"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ConfigError(f"{name} must be a non-empty str, got {shown(value)}")
        if self.rack is not None and self.datacenter is None:
            raise ConfigError("a rack is one of a datacenter: give the datacenter too")
        if self.datacenter_failover and self.datacenter is None:
            raise ConfigError("datacenter_failover needs a datacenter to fail over from")
        for name in ("datacenter_failover", "token_aware", "shuffle_replicas"):
            check_flag(name, getattr(self, name))
        if not isinstance(self.latency_awareness, (LatencyAwareness, type(None))):
            raise ConfigError("latency_awareness must be a LatencyAwareness or None")
        if isinstance(self.allowed, str) or not isinstance(self.allowed, Sequence):
            raise ConfigError("allowed must be a sequence of addresses")
        for place in self.allowed:
            address("allowed", place)
        object.__setattr__(self, "allowed", tuple(self.allowed))

    def _native(self) -> dict[str, Any]:
        latency = self.latency_awareness
        return {
            "datacenter": self.datacenter,
            "rack": self.rack,
            "token_aware": self.token_aware,
            "datacenter_failover": self.datacenter_failover,
            "shuffle_replicas": self.shuffle_replicas,
            "latency": None if latency is None else latency._native(),
            "allowed": [address("allowed", place) for place in self.allowed],
        }


@dataclass(frozen=True, kw_only=True)
class ExecutionProfile:
    """Choices under a name: `Config(profiles={"reports": ExecutionProfile(...)})`, and then
    `execute(..., profile="reports")`.

    What is `None` is as the session has it. What a request says itself goes before its profile.
    """

    consistency: Consistency | str | None = None
    serial_consistency: Consistency | str | None = None
    timeout_s: float | None = None
    """Seconds; `math.inf` for no limit."""
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
    """Raises `ConfigError` unless `value` says when to send again."""
    if not isinstance(value, (ConstantSpeculation, PercentileSpeculation)):
        raise ConfigError(
            "speculation must be a ConstantSpeculation or a PercentileSpeculation, got"
            f" {shown(value)}"
        )


def _consistency(name: str, value: object) -> Consistency:
    """A consistency, or its name in any case."""
    with suppress(ValueError):
        return Consistency(value.upper() if isinstance(value, str) else value)
    # Raised here: the context would show what came.
    known = ", ".join(level.value for level in Consistency)
    raise ConfigError(f"{name} must be one of {known}, got {shown(value)}")


def _profile_native(
    base: ExecutionProfile, profile: ExecutionProfile | None = None
) -> dict[str, Any]:
    """A profile over the session's own, as the native core takes it."""

    def of(name: str) -> Any:
        own = getattr(profile, name, None)
        return getattr(base, name) if own is None else own

    speculation, balancing = of("speculation"), of("balancing") or Balancing()
    constant = isinstance(speculation, ConstantSpeculation)
    percentile = isinstance(speculation, PercentileSpeculation)
    return {
        "consistency": of("consistency"),
        "serial_consistency": of("serial_consistency"),
        "timeout_s": of("timeout_s"),
        "retry": of("retry"),
        "constant_speculation": (
            (min(speculation.delay_s, 1e9), speculation.max_attempts) if constant else None
        ),
        "percentile_speculation": (
            (float(speculation.percentile), speculation.max_attempts) if percentile else None
        ),
        **balancing._native(),
    }
