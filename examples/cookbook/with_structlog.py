"""Writes the log records of turbocql and of the program as JSON with structlog."""

import logging
import sys
from datetime import datetime, timezone
from typing import Any

import structlog

import turbocql


def sentence_and_time(logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Adds the message of a `logging` record, and the time of the event that it reports.

    In turbocql's records, the entry `event` is the name of the event, not the message.
    """
    record = event["_record"]
    at = datetime.fromtimestamp(record.created, timezone.utc)
    return {**event, "message": record.getMessage(), "timestamp": at.isoformat()}


shared = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
]
formatter = structlog.stdlib.ProcessorFormatter(
    # Processes the records of turbocql and other libraries, which do not log with structlog.
    foreign_pre_chain=[*shared, sentence_and_time, structlog.stdlib.ExtraAdder()],
    processors=[
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.JSONRenderer(),
    ],
)
handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(formatter)
logging.basicConfig(level=logging.INFO, handlers=[handler])
structlog.configure(
    processors=[
        *shared,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
)

with turbocql.connect(config=turbocql.Config.from_env(slow_request_s=0.000_001)) as session:
    structlog.contextvars.bind_contextvars(request_id="r-17")
    structlog.get_logger("app").info("reading", key="local")
    session.execute("SELECT key FROM system.local WHERE key = ?", ("local",), consistency="ONE")
