"""What the sync and the async session have in common: how calls become native operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _core
from ._options import check_int, pack
from .config import Config
from .errors import ConfigError
from .policies import Consistency
from .statements import Values


class Face:
    """Starts operations; the faces say how to end them."""

    __slots__ = ("_config", "_core")

    def __init__(self, core: _core.Session, config: Config) -> None:
        self._core = core
        self._config = config

    @property
    def config(self) -> Config:
        """The session's settings."""
        return self._config

    @property
    def keyspace(self) -> str | None:
        """The keyspace of unqualified table names."""
        return self._core.keyspace

    @property
    def closed(self) -> bool:
        """Whether the session has been closed."""
        return self._core.closed

    @property
    def in_flight(self) -> int:
        """What is on its way: requests, and each `execute_many` as one."""
        return self._core.in_flight

    def __repr__(self) -> str:
        points = ", ".join(self._config.contact_points)
        state = "closed" if self.closed else "open"
        return f"<{type(self).__module__}.{type(self).__name__} {points} {state}>"

    def _execute_many(
        self,
        statement: str | _core.Prepared,
        rows: Iterable[Values],
        concurrency: int,
        max_failures: int,
        consistency: Consistency | str | None,
        timeout_s: float | None,
        timestamp: int | None,
        idempotent: bool | None,
    ) -> _core.Op:
        check_int("concurrency", concurrency, 1, 32_768)
        check_int("max_failures", max_failures, 0, 2**31 - 1)
        options = pack(consistency, None, timeout_s, None, timestamp, idempotent)
        return self._core.execute_many(statement, rows, concurrency, max_failures, options)


def configure(contact_points: Any, config: Config | None, settings: dict[str, Any]) -> Config:
    """The configuration that `connect` was given, in either form."""
    if config is not None:
        if contact_points is not None or settings:
            raise ConfigError("give a Config or single settings, not both")
        return config
    if contact_points is not None:
        settings["contact_points"] = contact_points
    unknown = settings.keys() - Config.__dataclass_fields__.keys()
    if unknown:
        known = ", ".join(Config.__dataclass_fields__)
        raise TypeError(f"unknown setting {sorted(unknown)[0]!r}; the settings are {known}")
    return Config(**settings)
