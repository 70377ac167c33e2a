"""Tests the recipe for structlog, and how structlog formats turbocql's log records."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from structlog.typing import EventDict

import turbocql
from turbocql import errors
from turbocql.testing import Cassandra

from .support import Program

SELECT = "SELECT key FROM system.local WHERE key = ?"


def test_the_recipe(program: Program) -> None:
    lines = [json.loads(line) for line in program("with_structlog.py").splitlines()]
    # One more record is about the `USE` that a session executes when it opens. This record has no
    # `request_id`.
    (own,) = (line for line in lines if line["logger"] == "app")
    (slow,) = (line for line in lines if line.get("request_id") and line is not own)
    assert (own["event"], own["key"], own["request_id"]) == ("reading", "local", "r-17")
    # The slow request is logged on another thread, in the context of the call.
    assert (slow["event"], slow["request_id"]) == ("slow request", "r-17")
    assert (slow["logger"], slow["level"]) == ("turbocql.request", "warning")
    assert (slow["statement"], slow["table"], slow["consistency"]) == (SELECT, "local", "ONE")
    assert slow["message"].startswith("slow read request took ")
    assert own["timestamp"][:10] == slow["timestamp"][:10]


@pytest.fixture
def written() -> Iterator[list[tuple[logging.LogRecord, str]]]:
    """Yields a list of pairs: a log record of turbocql, and the line that structlog makes of it."""
    pairs: list[tuple[logging.LogRecord, str]] = []
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            # `strict` replaces structlog's fallback, which writes the `repr` of any object.
            structlog.processors.JSONRenderer(serializer=strict),
        ],
    )

    class Lines(logging.StreamHandler[io.StringIO]):
        def emit(self, record: logging.LogRecord) -> None:
            pairs.append((record, self.format(record)))

    handler, logger = Lines(io.StringIO()), logging.getLogger("turbocql")
    handler.setFormatter(formatter)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield pairs
    logger.setLevel(before)
    logger.removeHandler(handler)


def strict(event: EventDict, **_: object) -> str:
    return json.dumps(event)


def test_each_attribute_of_a_record_is_a_field(
    cassandra: Cassandra, written: list[tuple[logging.LogRecord, str]], unique_keyspace: str
) -> None:
    with turbocql.connect(cassandra.contact_points, slow_request_s=0.000_001) as session:
        session.execute(
            f"CREATE KEYSPACE {unique_keyspace} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(SELECT, ("local",))
        with pytest.raises(errors.InvalidQuery):
            session.execute("SELECT nothing FROM system.local")
        session.execute(f"DROP KEYSPACE {unique_keyspace}")
    standard = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime", "taskName"}
    for record, line in written:
        facts = {name: fact for name, fact in record.__dict__.items() if name not in standard}
        assert json.loads(line) == json.loads(json.dumps(facts))
    events = {json.loads(line)["event"] for _, line in written}
    assert {"connection opened", "node added", "node up", "slow request"} <= events
    assert "schema changed" in events
