"""Sessions in the workers of Ray, Spark, Dask and others: their settings, and one session for each
process.

A task that an engine sends to a worker says which settings to use. A `Config` travels in the task,
so a `Config` with a secret is refused unless its `pickle_secrets` is true. A
[`Profile`][turbocql.workers.Profile] and an [`Environment`][turbocql.workers.Environment] travel as
names, and each worker reads the settings on its own machine.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import TIMEOUT_MAX, Lock, Timer
from typing import Any

from ._checks import check_seconds, shown
from ._config.sources import settings_file
from .config import Config
from .errors import ConfigError
from .session import Session, connect

__all__ = ["Environment", "Profile", "session"]


@dataclass(frozen=True)
class Profile:
    """Settings in a table of a TOML file, which each worker reads by itself.

    Source: see [`Config.from_toml`][turbocql.config.Config.from_toml].
    """

    name: str = "default"
    path: str | None = None
    """The file. With `None`, it is `turbocql/config.toml` in the configuration directory of the
    user that runs the worker."""

    def read(self) -> Config:
        """The settings on this machine.

        Raises: `ConfigError` when the file cannot be read or has no such profile.
        """
        path = settings_file() if self.path is None else self.path
        return Config.from_toml(path, self.name)


@dataclass(frozen=True)
class Environment:
    """Settings in environment variables, which each worker reads by itself.

    Source: see [`Config.from_env`][turbocql.config.Config.from_env].
    """

    prefix: str = "TURBOCQL_"

    def read(self) -> Config:
        """The settings of this process.

        Raises: `ConfigError` when no variable names a host, or one has an invalid value.
        """
        hosts = (f"{self.prefix}URL", f"{self.prefix}CONTACT_POINTS")
        if not any(name in os.environ for name in hosts):
            raise ConfigError(
                f"the environment of this process (on {platform.node()}) has neither"
                f" {hosts[0]} nor {hosts[1]}: set one for the workers of the engine"
            )
        return Config.from_env(self.prefix)


@dataclass
class _SharedSession:
    """The session of a process for some settings, and the number of its users."""

    opening: Lock = field(default_factory=Lock)
    session: Session | None = None
    users: int = 0
    timer: Timer | None = None


class _SessionTable:
    """The sessions of this process, by their settings."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.by_settings: dict[Config | Environment | Profile, _SharedSession] = {}
        self.inherited: list[Any] = []
        """The sessions of the parent of a forked process. They are kept for ever, because the child
        must not close or free them."""

    def forked(self) -> None:
        """Removes all sessions in the child of a fork, because the parent's sessions do not work
        there.
        """
        self.inherited.append(self.by_settings)
        self.lock, self.by_settings = Lock(), {}


_table = _SessionTable()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_table.forked)


@contextmanager
def session(
    config: Config | Environment | Profile | str | None = None, *, idle_s: float = 60.0
) -> Iterator[Session]:
    """The session of this process for these settings, opened if it is not open.

    All callers with equal settings share the session, even at the same time. The session is closed
    when it was not used for `idle_s` seconds. With `idle_s=math.inf`, it is never closed. A forked
    process opens its own session. `config` may also be a URL. `None` means `Environment()` if its
    variables name a host, else `Profile()` if the file exists, else the default settings.

    Raises: `ConfigError` for invalid settings; `ConnectError` when no node answers.

    Example:
        >>> with turbocql.workers.session("cql://127.0.0.1") as session:
        ...     row = session.execute("SELECT cluster_name FROM system.local").one()
    """
    if idle_s not in (0, math.inf):
        check_seconds("idle_s", idle_s)
    table, settings = _table, _settings_of(config)
    with table.lock:
        shared = table.by_settings.setdefault(settings, _SharedSession())
        shared.users += 1
        if shared.timer is not None:
            shared.timer.cancel()
            shared.timer = None
    try:
        with shared.opening:
            if shared.session is None or shared.session.closed:
                resolved_config = settings if isinstance(settings, Config) else settings.read()
                shared.session = connect(config=resolved_config)
            opened = shared.session
        yield opened
    finally:
        _release(table, settings, shared, idle_s)


def _release(
    table: _SessionTable,
    settings: Config | Environment | Profile,
    shared: _SharedSession,
    idle_s: float,
) -> None:
    with table.lock:
        shared.users -= 1
        if shared.users or table.by_settings.get(settings) is not shared:
            return
        if idle_s > TIMEOUT_MAX and shared.session is not None:
            return  # the session stays open as long as the process lives
        if idle_s != 0 and shared.session is not None:
            shared.timer = Timer(idle_s, _close, (table, settings, shared))
            shared.timer.daemon = True
            shared.timer.start()
            return
    _close(table, settings, shared)


def _close(
    table: _SessionTable, settings: Config | Environment | Profile, shared: _SharedSession
) -> None:
    """Closes a session, unless it has users."""
    with table.lock:
        # Another user may have begun between the timer's end and this line.
        if shared.users or table.by_settings.get(settings) is not shared:
            return
        del table.by_settings[settings]
    if shared.session is not None:
        shared.session.close()


def _settings_of(
    config: Config | Environment | Profile | str | None,
) -> Config | Environment | Profile:
    """The settings that `config` stands for."""
    if isinstance(config, str):
        return Config.from_url(config if "://" in config else f"cql://{config}")
    if isinstance(config, (Config, Environment, Profile)):
        return config
    if config is not None:
        raise TypeError(
            "config must be a Config, a URL, or a Profile or Environment of turbocql.workers, got"
            f" {shown(config)}"
        )
    if any(f"TURBOCQL_{name}" in os.environ for name in ("URL", "CONTACT_POINTS")):
        return Environment()
    return Profile() if settings_file().exists() else Config()


def _sendable(
    config: Config | Environment | Profile | str | None,
) -> Config | Environment | Profile:
    """Returns the settings that `config` stands for, in a form that a task can contain.

    Raises: `ConfigError` for a secret, unless `pickle_secrets` is true.
    """
    settings = _settings_of(config)
    if isinstance(settings, Config):
        try:
            settings.__getstate__()
        except ConfigError as error:
            raise ConfigError(
                f"{error}. For tasks, pass turbocql.workers.Profile('name') or"
                " turbocql.workers.Environment(), which each worker reads by itself"
            ) from None
    return settings
