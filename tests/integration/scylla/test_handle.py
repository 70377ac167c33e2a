"""Tests of `Scylla`, the handle of a simulation: interrupted calls, arguments, no-op statements."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import Any
from uuid import UUID

import pytest

import turbocql
from turbocql.testing import Scylla, Shards

from .conftest import REPLICATION


class _Interrupted(Exception):
    pass


def test_an_interrupted_call_does_not_shift_later_answers(scylla: Scylla) -> None:
    def interrupt(*_: Any) -> None:
        raise _Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for after_s in (0.0005, 0.002, 0.01, 0.05):
            signal.setitimer(signal.ITIMER_REAL, after_s)
            try:
                while True:
                    scylla.requests()
            except _Interrupted:
                pass
            assert scylla.failures() == []
            assert len(scylla.tablets("tablets", "t")) >= 4
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_statement_without_effect_changes_no_tablets(
    scylla: Scylla, session: turbocql.Session
) -> None:
    tablets = scylla.tablets("tablets", "t")
    session.execute(f"CREATE KEYSPACE IF NOT EXISTS tablets WITH replication = {REPLICATION % 1}")
    assert scylla.tablets("tablets", "t") == tablets


@pytest.mark.parametrize(
    "limit",
    [{"per_second": "x"}, {"per_second": -1}, {"per_second": True}, {"marked": 5}, {"marked": ""}],
)
def test_a_wrong_limit_is_refused_and_changes_nothing(
    scylla: Scylla, session: turbocql.Session, limit: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(limit))):
        scylla.limit(**limit)
    assert session.execute("SELECT * FROM vnodes.t WHERE id = 1").one() == (1, "1")


@pytest.mark.parametrize("odd", ["x", 1.5, -1])
def test_a_wrong_number_of_pages_is_refused(scylla: Scylla, odd: Any) -> None:
    with pytest.raises(ValueError, match="empty_pages"):
        scylla.empty_pages(odd)


@pytest.mark.parametrize("node", [3, -1, True, "0"])
def test_an_unknown_node_is_refused(scylla: Scylla, node: Any) -> None:
    for change in (scylla.close_shard_aware_port, scylla.open_shard_aware_port):
        with pytest.raises(ValueError, match="node: expected an index below 3"):
            change(node)
    with pytest.raises(ValueError, match="node: expected an index below 3"):
        scylla.set_shards(node, Shards(2))


def test_set_shards_accepts_only_shards_or_none(scylla: Scylla) -> None:
    wrong: Any = 2
    with pytest.raises(ValueError, match=r"expected Shards\(count\) or None, got 2"):
        scylla.set_shards(0, wrong)


def test_a_child_with_the_pipe_open_does_not_keep_the_process_alive() -> None:
    node = {"address": "127.99.7.5", "upstream_address": "127.99.7.6", "host_id": str(UUID(int=1))}
    alone = Scylla([{**node, "shards": Shards(2)}])
    stdin = alone._process.stdin
    assert stdin is not None
    child = subprocess.Popen(["sleep", "60"], pass_fds=[stdin.fileno()])
    try:
        began = time.monotonic()
        alone.close()
        assert time.monotonic() - began < 30
        assert alone._process.poll() is not None
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
