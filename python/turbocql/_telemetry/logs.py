"""Delivers the events of a session to `logging`, and makes spans, on a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from .events import KINDS, LOGGERS, describe
from .threads import EventThread

if TYPE_CHECKING:
    from .._core import Events, SessionEvent
    from .spans import Spans

__all__ = ["Datacenters", "Logs"]

logging.getLogger("turbocql").addHandler(logging.NullHandler())


class Logs(EventThread):
    """Logs the events of a session. Its reference to the session is weak."""

    def __init__(self, events: Events, session: Any) -> None:
        self._spans: Spans | None = None
        self._datacenters = Datacenters(ref(session))
        self._dropped = 0
        super().__init__(events, "turbocql-log")

    @property
    def makes_spans(self) -> bool:
        """Whether requests get spans."""
        return self._spans is not None

    def make_spans(self, spans: Spans | None) -> None:
        """Sets the object that makes spans of the requests from now on; `None` for no spans."""
        self._spans = spans
        self.look()

    def look(self) -> None:
        """Tells the native core which events of requests to report. The choice depends on the level
        of the logger `turbocql.request`, and on whether spans are made.
        """
        logs_unusual = logging.getLogger("turbocql.request").isEnabledFor(logging.DEBUG)
        self._events.want(logs_unusual, self._spans is not None)

    def handle(self, event: SessionEvent) -> None:
        """Logs an event, and makes its span."""
        try:
            if event.name in KINDS:
                _log(event, self._datacenters)
        finally:
            if self._spans is not None:
                _make_span(self._spans, event, self._datacenters)

    def handled(self) -> None:
        """Logs how many events were dropped since the last such message."""
        count = self._events.dropped - self._dropped
        self._dropped += count
        if count:
            logging.getLogger("turbocql").warning(
                "%d events of the session were not logged: the handlers are too slow",
                count,
                extra={"event": "events dropped", "dropped": count},
            )


def _make_span(spans: Spans, event: SessionEvent, datacenters: Datacenters) -> None:
    fields, origin = event.fields, event.origin
    if event.name == "bulk":
        spans.record_bulk(event.time_s, fields, origin)
    elif event.name in ("request", "slow request"):
        if origin is None and fields.get("error") == "canceled":
            # The native core has no `CallOrigin` for this canceled request. Without a `CallOrigin`,
            # the span would have no parent, and the core does not report the statement. So no span
            # is made.
            return
        if fields.get("bulk"):
            spans.record_failed_row(event.time_s, fields, origin)
        else:
            datacenter = None if event.node is None else datacenters.of(event.node)
            spans.record(event.time_s, event.node, datacenter, fields, origin)


class Datacenters:
    """Looks up the datacenters of nodes by address."""

    def __init__(self, session: ReferenceType[Any]) -> None:
        self._session = session
        self._names: dict[str, str | None] = {}

    def of(self, node: str) -> str | None:
        if node not in self._names:
            session = self._session()
            if session is not None:
                with contextlib.suppress(Exception):  # The session may be closed.
                    self._names = {each.at: each.datacenter for each in session.nodes}
            self._names.setdefault(node, None)
        return self._names[node]


def _log(event: SessionEvent, datacenters: Datacenters) -> None:
    name, node, fields, origin = event.name, event.node, event.fields, event.origin
    kind = KINDS[name]
    describe(fields)
    if name == "request" and len(fields["attempts"]) == 1 and "error" not in fields:
        # The native core has reported this request only for its span, so it is not logged.
        return
    level = kind.level if isinstance(kind.level, int) else kind.level(fields)
    logger = logging.getLogger(kind.logger)
    if not logger.isEnabledFor(level):
        return
    extra = {"event": name, **fields}
    if origin is not None and origin.resend_count:
        extra["resend_count"] = origin.resend_count
    if node is not None:
        extra |= {"node": node, "datacenter": datacenters.of(node)}
    message = kind.message(node or "", fields)
    record = logger.makeRecord(logger.name, level, __file__, 0, message, (), None, name, extra)
    record.created = event.time_s
    record.msecs = event.time_s % 1 * 1000
    record.relativeCreated += (event.time_s - time.time()) * 1000
    record.threadName, record.thread = event.thread_name, 0
    if origin is None:
        logger.handle(record)
    else:
        record.threadName, record.thread = origin.thread_name, origin.thread_id
        origin.context.run(logger.handle, record)


assert {kind.logger for kind in KINDS.values()} == set(LOGGERS)
