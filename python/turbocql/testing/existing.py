"""A server that the tests did not start, and the keyspace and sessions of a run of pytest."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from .errors import CassandraError

if TYPE_CHECKING:
    from pathlib import Path

    from ..aio import AsyncSession
    from ..config import Config
    from ..session import Session

__all__ = ["ExistingServer", "RunKeyspace"]


def _driver() -> Any:
    """Imports the package `turbocql`. The other modules of `turbocql.testing` do not need it,
    because they work with any driver.
    """
    return import_module("turbocql")


class ExistingServer:
    """A server that `pytest --cassandra=HOST` names, in place of a `Cassandra` that is started.

    `points` is one or several hosts as `host`, `host:port` or `[ipv6]:port`, separated by commas,
    or a URL as for `Config.from_url`.

    Raises: `ConfigError` for other text.
    """

    ca_certificate: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    def __init__(self, points: str) -> None:
        config_class = _driver().Config
        hosts = [host.strip() for host in points.split(",")]
        is_url = "://" in points
        self.config: Config = (
            config_class.from_url(points) if is_url else config_class(contact_points=hosts)
        )
        self.contact_points = list(self.config.contact_points)
        self.user = self.config.user
        password: Any = self.config.password
        self.password: str | None = None if password is None else password.reveal()

    @property
    def nodes(self) -> NoReturn:
        """Always raises, because a run of tests may not stop nodes that it did not start.

        Raises: `CassandraError`.
        """
        raise CassandraError(
            f"{', '.join(self.contact_points)} is a server of --cassandra: this run did not start"
            " its nodes. A test that stops nodes needs a Cassandra() of its own"
        )

    def __repr__(self) -> str:
        return f"<ExistingServer {', '.join(self.contact_points)}>"


class RunKeyspace:
    """A new keyspace for a run of pytest, and sessions that use it.

    `schema` are the statements that make its tables. `settings` are further settings of the
    sessions, whose keyspace is always the new one.
    """

    def __init__(
        self, cluster: Any, schema: str | Iterable[str], settings: Mapping[str, Any]
    ) -> None:
        driver = _driver()
        self.name = f"test_{uuid4().hex[:16]}"
        self._is_removed_with_cluster = not isinstance(cluster, ExistingServer)
        self._config = replace(_config(cluster), **settings)
        self._control: Session = driver.connect(
            config=replace(self._config, keyspace=None, timeout_s=60.0)
        )
        self._session: Session | None = None
        self._async_session: AsyncSession | None = None
        try:
            self._control.execute(
                f"CREATE KEYSPACE {self.name} WITH replication ="
                " {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
            )
            self._control.use_keyspace(self.name)
            self._config = replace(self._config, keyspace=self.name)
            for statement in [schema] if isinstance(schema, str) else schema:
                self._control.execute(statement)
        except BaseException:
            self.close()
            raise

    def empty_tables(self) -> None:
        """Truncates the tables that have rows."""
        tables = self._control.execute(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
            (self.name,),
            rows="tuple",
        ).all()
        for (table,) in tables:
            quoted = _driver().quote_identifier(self.name, table)
            if self._control.execute(f"SELECT * FROM {quoted} LIMIT 1").one() is not None:
                self._control.execute(f"TRUNCATE {quoted}")

    def session(self) -> Session:
        """The session of the run. If a test closed it or changed its keyspace, opens a new one."""
        session = self._session
        if session is not None and (session.closed or session.keyspace != self.name):
            session.close()
            session = None
        self._session = session or _driver().connect(config=self._config)
        return self._session

    def async_session(self) -> AsyncSession:
        """The asynchronous session of the run, for any event loop."""
        session = self._async_session
        if session is not None and (session.closed or session.keyspace != self.name):
            _run(session.close)
            session = None
        if session is None:
            aio = import_module("turbocql.aio")

            async def opened() -> Any:
                return await aio.connect(config=self._config)

            session = _run(opened)
        self._async_session = session
        return session

    def close(self) -> None:
        """Closes the sessions, and drops the keyspace if the server outlives the run."""
        if self._session is not None:
            self._session.close()
        if self._async_session is not None:
            _run(self._async_session.close)
        try:
            if not self._is_removed_with_cluster:
                self._control.execute(f"DROP KEYSPACE IF EXISTS {self.name}")
        finally:
            self._control.close()


def _config(cluster: Any) -> Config:
    """Returns the settings with which sessions connect to an `ExistingServer` or a `Cassandra`."""
    driver = _driver()
    if isinstance(cluster, ExistingServer):
        return cluster.config
    tls = None
    if cluster.ca_certificate is not None:
        tls = driver.Tls(
            ca=cluster.ca_certificate,
            certificate=cluster.client_certificate,
            key=cluster.client_key,
        )
    config: Config = driver.Config(
        contact_points=cluster.contact_points,
        user=cluster.user,
        password=cluster.password,
        tls=tls,
    )
    return config


def _run(make_coroutine: Any) -> Any:
    """Runs a coroutine to its end on another thread, because this one may have an event loop."""
    import asyncio

    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.extend([asyncio.run(make_coroutine()), None])
        except BaseException as error:
            outcome.extend([None, error])

    thread = threading.Thread(target=work, name="turbocql-pytest", daemon=True)
    thread.start()
    thread.join()
    result, error = outcome
    if error is not None:
        raise error
    return result
