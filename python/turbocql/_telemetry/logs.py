"""Delivers the events of a session to `logging` and to streams, on a thread of its own."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import traceback
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import ReferenceType, ref

from ..cluster import _CLUSTER_EVENTS, ClusterEvent
from .events import KINDS, LOGGERS, describe
from .streams import Stream

if TYPE_CHECKING:
    from .. import _core
    from .spans import Spans

__all__ = ["Delivery"]

_FLUSH_S = 1.0
"""How long `close` and the end of the process wait for the handlers of logs."""
_LOOK_S = 0.5
"""How often the thread looks whether the levels of the loggers have changed."""

_RUNNING: set[Delivery] = set()
"""The deliveries whose threads run."""

logging.getLogger("turbocql").addHandler(logging.NullHandler())


class Delivery:
    """The thread that delivers the events of a session. It ends when the session is gone and its
    events are delivered. It does not keep the session open.
    """

    __slots__ = ("_events", "_has_ended", "_opening", "_spans", "_streams", "_thread")

    def __init__(self, events: _core.Events, session: Any) -> None:
        self._events = events
        self._opening = threading.Lock()
        self._has_ended = False
        self._spans: Spans | None = None
        self._streams: tuple[ReferenceType[Stream[ClusterEvent]], ...] = ()
        self._thread = threading.Thread(
            target=self._run, args=(ref(session),), name="turbocql-log", daemon=True
        )
        _RUNNING.add(self)
        self._thread.start()

    def _run(self, session: ReferenceType[Any]) -> None:
        try:
            self._deliver(_Datacenters(session))
        finally:
            _RUNNING.discard(self)
            with self._opening:
                self._has_ended = True
            for stream in self._open_streams():
                stream.close()

    def open(self, stream: Stream[ClusterEvent]) -> None:
        """Delivers events of the cluster to a stream too, as long as something refers to it."""
        with self._opening:
            if not self._has_ended:
                self._streams = (*map(ref, self._open_streams()), ref(stream))
                return
        stream.close()

    def make_spans(self, spans: Spans | None) -> None:
        """Makes spans of the requests that begin from now on, or makes none any more."""
        self._spans = spans
        self._want()

    def _want(self) -> None:
        logs_unusual = logging.getLogger("turbocql.request").isEnabledFor(logging.DEBUG)
        self._events.want(logs_unusual, self._spans is not None)

    def _open_streams(self) -> list[Stream[ClusterEvent]]:
        streams = [stream() for stream in self._streams]
        return [stream for stream in streams if stream is not None and not stream.closed]

    def end(self) -> None:
        """Refuses further events, which ends the thread."""
        self._events.close()

    def wait(self) -> None:
        """Waits until the thread has ended, for a second at most."""
        if self._thread is not threading.current_thread():
            self._thread.join(_FLUSH_S)

    async def ended(self) -> None:
        """Like `wait`, for an event loop: looks again and again, because few calls have to."""
        import asyncio

        until = time.monotonic() + _FLUSH_S
        while self._thread.is_alive() and time.monotonic() < until:
            await asyncio.sleep(0.001)

    def _deliver(self, datacenters: _Datacenters) -> None:
        """Delivers events until there are no more."""
        dropped = 0
        while True:
            self._want()
            batch = self._events.take(_LOOK_S)
            if batch is None:
                return
            for event in batch:
                if event[0] in _CLUSTER_EVENTS:
                    told = _cluster_event(event, datacenters)
                    for stream in self._open_streams():
                        stream.put(told, event[1])
                try:
                    if event[0] in KINDS:
                        _log(*event, datacenters)
                except Exception:
                    # A filter of the program's may raise: `logging` shows the errors of handlers
                    # alone.
                    _show_exception()
                if self._spans is not None:
                    try:
                        _make_span(self._spans, event, datacenters)
                    except Exception:
                        _show_exception()
            if self._events.dropped > dropped:
                count, dropped = self._events.dropped - dropped, self._events.dropped
                logging.getLogger("turbocql").warning(
                    "%d events of the session were not logged: the handlers are too slow", count
                )


@atexit.register
def _flush() -> None:
    """Delivers what waits before the interpreter ends. No thread may wait natively after that."""
    deliveries = list(_RUNNING)
    for delivery in deliveries:
        delivery.end()
    for delivery in deliveries:
        delivery.wait()


if hasattr(os, "register_at_fork"):
    # The threads do not exist in the child.
    os.register_at_fork(after_in_child=_RUNNING.clear)


class _Datacenters:
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


def _show_exception() -> None:
    if logging.raiseExceptions:
        traceback.print_exc()


def _make_span(spans: Spans, event: tuple[Any, ...], datacenters: _Datacenters) -> None:
    name, time_s, _, node, fields, origin = event
    if name == "bulk":
        spans.record_bulk(time_s, fields, origin)
    elif name in ("request", "slow request"):
        if fields.get("bulk"):
            spans.record_failed_row(time_s, fields, origin)
        else:
            datacenter = None if node is None else datacenters.of(node)
            spans.record(time_s, node, datacenter, fields, origin)


def _cluster_event(event: tuple[Any, ...], datacenters: _Datacenters) -> ClusterEvent:
    name, time_s, _, node, fields, _ = event
    at = datetime.fromtimestamp(time_s, timezone.utc)
    host_id = UUID(fields["host_id"]) if "host_id" in fields else None
    datacenter = None if node is None else datacenters.of(node)
    return ClusterEvent(
        name,
        at,
        node,
        datacenter,
        host_id,
        *(fields.get(name) for name in ("change", "target", "keyspace", "object")),
    )


def _log(
    name: str,
    time_s: float,
    thread_name: str,
    node: str | None,
    fields: dict[str, Any],
    origin: Any,
    datacenters: _Datacenters,
) -> None:
    kind = KINDS[name]
    describe(fields)
    if name == "request" and len(fields["attempts"]) == 1 and "error" not in fields:
        # It is reported for its span.
        return
    level = kind.level if isinstance(kind.level, int) else kind.level(fields)
    logger = logging.getLogger(kind.logger)
    if not logger.isEnabledFor(level):
        return
    extra = {"event": name, **fields}
    if node is not None:
        extra |= {"node": node, "datacenter": datacenters.of(node)}
    message = kind.message(node or "", fields).replace("%", "%%")
    record = logger.makeRecord(logger.name, level, __file__, 0, message, (), None, name, extra)
    record.msg = kind.message(node or "", fields)
    record.created = time_s
    record.msecs = time_s % 1 * 1000
    record.relativeCreated += (time_s - time.time()) * 1000
    record.threadName, record.thread = thread_name, 0
    if origin is None:
        logger.handle(record)
    else:
        record.threadName, record.thread = origin.thread_name, origin.thread_id
        origin.context.run(logger.handle, record)


assert {kind.logger for kind in KINDS.values()} == set(LOGGERS)
