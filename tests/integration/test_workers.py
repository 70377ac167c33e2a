"""Tests of `turbocql.workers`: tasks (of Ray, Spark or Dask) share sessions.

The tasks of one process that have equal settings share one session.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.children import run_python

import turbocql
from turbocql import workers
from turbocql.errors import ConfigError, ConnectError
from turbocql.testing import Cassandra
from turbocql.workers import Environment, Profile


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Waits after a test until all idle sessions are closed, so that the next test has none."""
    yield
    until = time.time() + 10
    while workers._table.by_settings and time.time() < until:
        time.sleep(0.01)
    assert not workers._table.by_settings
    gc.collect()


def config(cassandra: Cassandra, **settings: Any) -> turbocql.Config:
    return turbocql.Config(contact_points=cassandra.contact_points, **settings)


def test_equal_settings_share_a_session(cassandra: Cassandra) -> None:
    with workers.session(config(cassandra), idle_s=0) as first:
        with workers.session(config(cassandra), idle_s=0) as again:
            assert again is first
        assert not first.closed
        with workers.session(config(cassandra, page_size=7), idle_s=0) as other:
            assert other is not first
        assert other.closed
    assert first.closed


def test_a_session_is_kept_while_it_is_idle_and_then_closed(cassandra: Cassandra) -> None:
    with workers.session(config(cassandra), idle_s=0.5) as first:
        pass
    with workers.session(config(cassandra), idle_s=0.5) as again:
        assert again is first
        # The idle timer of the first use must not close the session during the second use.
        time.sleep(0.7)
        assert not first.closed
    until = time.time() + 10
    while not first.closed and time.time() < until:
        time.sleep(0.01)
    assert first.closed


def test_a_session_may_be_kept_until_the_process_ends(cassandra: Cassandra) -> None:
    for idle_s in (math.inf, 1e12):
        with workers.session(config(cassandra), idle_s=idle_s) as first:
            pass
        assert not first.closed
    with workers.session(config(cassandra), idle_s=0) as again:
        assert again is first


def test_a_session_that_was_closed_is_opened_again(cassandra: Cassandra) -> None:
    with workers.session(config(cassandra), idle_s=0.1) as first:
        first.close()
    with workers.session(config(cassandra), idle_s=0) as other:
        assert other.execute("SELECT release_version FROM system.local").one() is not None


def test_many_threads_open_one_session(cassandra: Cassandra) -> None:
    found: set[int] = set()
    start = threading.Barrier(16)

    def work() -> None:
        start.wait()
        for _ in range(20):
            with workers.session(config(cassandra), idle_s=0.2) as session:
                session.execute("SELECT release_version FROM system.local")
                found.add(id(session))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1


def in_child(point: str, pipe: Any) -> None:
    with workers.session(turbocql.Config(contact_points=point), idle_s=0) as session:
        row = session.execute("SELECT release_version FROM system.local", rows="tuple").one()
        pipe.send(row)


@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_opens_its_own(cassandra: Cassandra) -> None:
    point = cassandra.contact_points[0]
    forked = multiprocessing.get_context("fork")
    with workers.session(turbocql.Config(contact_points=point), idle_s=0) as session:
        ours, theirs = forked.Pipe()
        child = forked.Process(target=in_child, args=(point, theirs))
        child.start()
        assert ours.poll(60)
        row = session.execute("SELECT release_version FROM system.local", rows="tuple").one()
        assert ours.recv() == row
        child.join(60)
        assert child.exitcode == 0
        assert not session.closed


def test_unreachable_settings_leave_no_session() -> None:
    nowhere = turbocql.Config(contact_points="127.0.0.1:1", connect_timeout_s=2)
    for _ in range(2):
        with pytest.raises(ConnectError), workers.session(nowhere, idle_s=0):
            pass


def test_a_process_ends_with_an_idle_session(cassandra: Cassandra) -> None:
    program = """
        import sys
        from turbocql import workers
        with workers.session(sys.argv[1]) as session:
            session.execute("SELECT release_version FROM system.local")
        print("ended")
    """
    assert run_python(program, cassandra.contact_points[0]) == "ended\n"


def test_where_settings_come_from(
    cassandra: Cassandra, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = cassandra.contact_points[0]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "turbocql" / "config.toml"
    file.parent.mkdir()
    file.write_text(f'[production]\ncontact_points = ["{point}"]\npage_size = 11\n')
    with workers.session(Profile("production"), idle_s=0) as session:
        assert session.config.page_size == 11
    with pytest.raises(ConfigError, match="no profile 'default'"), workers.session():
        pass
    monkeypatch.setenv("MINE_CONTACT_POINTS", point)
    monkeypatch.setenv("MINE_PAGE_SIZE", "12")
    with workers.session(Environment("MINE_"), idle_s=0) as session:
        assert session.config.page_size == 12
    monkeypatch.setenv("TURBOCQL_URL", f"cql://{point}?page_size=13")
    with workers.session(idle_s=0) as session:
        assert session.config.page_size == 13
    with workers.session(f"{point}?page_size=14", idle_s=0) as session:
        assert session.config.page_size == 14
    with (
        pytest.raises(ConfigError, match="neither OTHER_URL nor OTHER_CONTACT_POINTS"),
        workers.session(Environment("OTHER_"), idle_s=0),
    ):
        pass
    with pytest.raises(TypeError, match="config must be"), workers.session(5):  # type: ignore[arg-type]
        pass
    with pytest.raises(ConfigError, match="idle_s"), workers.session(idle_s=-1):
        pass


def test_a_password_is_not_sent_to_workers() -> None:
    secret = turbocql.Config(user="u", password="hidden")
    with pytest.raises(ConfigError, match="pickle_secrets") as caught:
        workers._sendable(secret)
    assert "hidden" not in str(caught.value)
    with pytest.raises(ConfigError, match="pickle_secrets"):
        workers._sendable("cql://u:hidden@h")
    allowed = turbocql.Config(user="u", password="hidden", pickle_secrets=True)
    assert workers._sendable(allowed) == allowed
    for source in (Profile("p", "/f"), Environment("X_")):
        assert pickle.loads(pickle.dumps(source)) == source
