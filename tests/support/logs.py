"""Collects the records of turbocql's loggers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.nodes import eventually

__all__ = ["Records", "recorded"]


class Records(logging.Handler):
    """Keeps log records. Their type is `Any`, because a record has the attributes of its event."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.all.append(record)

    def of(self, event: str) -> list[Any]:
        """Returns the records of an event."""
        return [record for record in self.all if getattr(record, "event", None) == event]

    def first(self, event: str, timeout_s: float = 10.0) -> Any:
        """Waits for the first record of an event."""
        assert eventually(lambda: bool(self.of(event)), timeout_s), [
            (record.levelname, record.getMessage()) for record in self.all
        ]
        return self.of(event)[0]


@contextmanager
def recorded(level: int = logging.DEBUG) -> Iterator[Records]:
    """Collects records of this level and above during the `with` block."""
    logger, records = logging.getLogger("turbocql"), Records()
    before = logger.level
    logger.addHandler(records)
    logger.setLevel(level)
    try:
        yield records
    finally:
        logger.setLevel(before)
        logger.removeHandler(records)
