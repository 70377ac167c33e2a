"""Finds the settings of a connection in options, the environment, a URL, or a TOML file."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from .._config.sources import settings_file
from ..config import Config
from ..errors import ConfigError, ConnectError
from ..policies import Consistency
from ..session import Session, connect
from ._arguments import options_of
from ._ends import escaped

__all__ = [
    "config_of",
    "connected_by",
    "connection_options",
    "opened",
    "prompt_for_password",
    "settings_file",
]

Command = TypeVar("Command", bound=Callable[..., Any])
_SERVER_VARIABLES = ("TURBOCQL_URL", "TURBOCQL_CONTACT_POINTS")
_NOT_NAMED = (
    "no server was named: pass --url HOST:PORT, or set TURBOCQL_URL; the command turbocql testing"
    " starts a Cassandra to try with"
)
_CONSISTENCIES = [str(level.name) for level in Consistency]


def _profiles(file: Path | None, begun: str) -> list[str]:
    """Returns the profiles whose names begin with `begun`, for completion in a shell."""
    try:
        text = (file or settings_file()).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    names = re.findall(r"(?m)^\[([\w-]+)\]", text)
    return [name for name in names if name.startswith(begun)]


_OPTIONS = [
    click.option(
        "--url",
        metavar="URL",
        help="HOST[:PORT], or cql://user@host:port,host/keyspace?setting=value.",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        help="Settings of this table of the TOML file.",
        shell_complete=lambda ctx, _, begun: _profiles(ctx.params.get("config"), begun),
    ),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The TOML file; by default turbocql/config.toml among the user's configuration.",
    ),
    click.option("--user", metavar="NAME", help="Log in as NAME; the password is asked for."),
    click.option("-k", "--keyspace", metavar="NAME", help="The keyspace of unqualified tables."),
    click.option(
        "--consistency",
        metavar="LEVEL",
        type=click.Choice(_CONSISTENCIES, case_sensitive=False),
        help="Such as ONE, LOCAL_QUORUM (the default) or ALL.",
    ),
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=float,
        help="The limit of a request, and of connecting; by default 30.",
    ),
    click.option(
        "--wait",
        metavar="SECONDS",
        type=click.FloatRange(0),
        help="How long to wait for a database that starts; by default not at all.",
    ),
]


def connection_options(command: Command) -> Command:
    """Adds connection options to a command. The command receives these options as keyword
    arguments, and passes them to `opened`.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = click.get_current_context()
        # `_app.run` prints an error after the command's context has ended. It then needs the
        # options, so they are stored here.
        ctx.obj["options"] = options_of(ctx)
        return command(*args, **kwargs)

    command_with_options: Any = run
    for option in reversed(_OPTIONS):
        command_with_options = option(command_with_options)
    return cast(Command, command_with_options)


def config_of(
    url: str | None = None,
    profile: str | None = None,
    config: Path | None = None,
    user: str | None = None,
    keyspace: str | None = None,
    consistency: str | None = None,
    timeout: float | None = None,
    wait: float | None = None,
) -> Config:
    """Returns the settings of one source. The source is the first of these that is present: `url`;
    `profile` or `config`; the environment; the default profile. The other options, such as `user`
    and `keyspace`, replace settings of the source.

    Raises: `ConfigError` or `click.UsageError` for invalid settings.
    """
    overrides: dict[str, Any] = {}
    if keyspace is not None:
        overrides["keyspace"] = keyspace
    if consistency is not None:
        overrides["consistency"] = consistency.upper()
    if timeout is not None:
        overrides["timeout_s"] = overrides["connect_timeout_s"] = timeout
    if wait is not None:
        overrides["wait_s"] = wait
    if url is not None and (profile is not None or config is not None):
        raise click.UsageError("pass --url, or --profile and --config, not both")
    if url is not None:
        url = url if "://" in url else f"cql://{url}"
        url_user, has_password = _user_of(url)
        if has_password or _has_secret(url):
            raise click.UsageError(
                "a password on a command line can be read by other users of the machine: leave it"
                " out of the URL, and it is asked for; or put it into TURBOCQL_PASSWORD or a"
                " profile"
            )
        user = user or url_user
        if user is not None:
            overrides |= {"user": user, "password": _password(user)}
            url = url.replace(f"://{_raw_user(url)}@", "://", 1) if url_user is not None else url
        return Config.from_url(url, **overrides)
    path = config or settings_file()
    if profile is not None or config is not None:
        return Config.from_toml(path, profile or "default", **_with_user(overrides, user))
    if any(name in os.environ for name in _SERVER_VARIABLES):
        return Config.from_env(**_with_user(overrides, user))
    if path.exists():
        return Config.from_toml(path, **_with_user(overrides, user))
    return Config(**_with_user(overrides, user))


def _with_user(overrides: dict[str, Any], user: str | None) -> dict[str, Any]:
    if user is None:
        return overrides
    return {**overrides, "user": user, "password": _password(user)}


def _raw_user(url: str) -> str:
    hosts = url.partition("://")[2].split("/", 1)[0].split("?", 1)[0]
    return hosts.rpartition("@")[0]


def _user_of(url: str) -> tuple[str | None, bool]:
    """Returns the user of a URL, and whether the URL has a password."""
    from urllib.parse import unquote

    raw = _raw_user(url)
    name, colon, _ = raw.partition(":")
    return (unquote(name) or None), bool(colon)


def _has_secret(url: str) -> bool:
    """Whether a setting of the URL is a password."""
    from urllib.parse import parse_qsl

    settings = parse_qsl(url.partition("?")[2], keep_blank_values=True)
    return any("password" in name.lower() for name, _ in settings)


def _password(user: str) -> str:
    return os.environ.get("TURBOCQL_PASSWORD") or prompt_for_password(user)


def prompt_for_password(user: str) -> str:
    """The password of a user, asked for on the terminal.

    Raises: `ConfigError` if standard input is no terminal.
    """
    if not sys.stdin.isatty():
        raise ConfigError(
            f"user {user!r} needs a password: set TURBOCQL_PASSWORD, or use a profile; without a"
            " terminal it cannot be asked for"
        )
    password: str = click.prompt(f"password of {user}", hide_input=True, err=True)
    return password


def connected(config: Config) -> Session:
    """Opens a session. While it waits for the database, it prints the reasons on standard error."""
    if config.wait_s == 0:
        return connect(config=config)
    # Imported here, because most commands do not wait.
    import logging

    from .._session.waiting import LOGGER

    class Printer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print(escaped(record.getMessage()), file=sys.stderr, flush=True)

    logger, printer = logging.getLogger(LOGGER), Printer()
    level = logger.level
    logger.addHandler(printer)
    logger.setLevel(logging.INFO)
    try:
        return connect(config=config)
    finally:
        logger.removeHandler(printer)
        logger.setLevel(level)


def connected_by(**options: Any) -> Session:
    """Opens a session by the options of `connection_options`.

    If no session can be opened, and no server was named, the error says how to name a server.
    """
    is_named = (
        any(options.get(name) is not None for name in ("url", "profile", "config"))
        or any(name in os.environ for name in _SERVER_VARIABLES)
        or settings_file().exists()
    )
    try:
        return connected(config_of(**options))
    except ConnectError as error:
        if not is_named:
            error.args = (f"{error}; {_NOT_NAMED}",)
        raise


@contextmanager
def opened(**options: Any) -> Iterator[Session]:
    """Opens a session by the options of `connection_options`, and closes it after the block."""
    session = connected_by(**options)
    try:
        yield session
    except (KeyboardInterrupt, SystemExit):
        # An interrupted command does not wait for its requests in flight.
        session.close(timeout_s=0)
        raise
    finally:
        session.close()
