"""Carries the trace context to the workers of Ray and Spark, which then make spans of requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..telemetry import instrument

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["current_trace", "within_trace"]

_lock = Lock()
"""Held while a session is instrumented, so that simultaneous tasks instrument it only once."""


def current_trace() -> dict[str, str]:
    """Returns the headers of the current trace context, such as `traceparent`.

    Without a current span, the dict is empty.

    A program that has not imported OpenTelemetry has no current span.
    """
    carrier: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import propagate, trace

        if trace.get_current_span().get_span_context().is_valid:
            propagate.inject(carrier)
    return carrier


@contextmanager
def within_trace(session: Session[Any], carrier: Mapping[str, str]) -> Iterator[None]:
    """Makes spans for the calls in the `with` block, as children of the span that `carrier` names.

    `carrier` is what `current_trace` returned in the program that began the job.

    The spans are made with the global OpenTelemetry providers of this process. After the first
    block, the session continues to make spans until it is closed, even for calls outside of a
    block. A worker without OpenTelemetry makes no spans.
    """
    if not carrier or not _instrument(session):
        yield
        return
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


def _instrument(session: Session[Any]) -> bool:
    """Instruments a session that makes no spans yet.

    Returns False if OpenTelemetry is not installed.
    """
    with _lock:
        if not session._logs.makes_spans:
            try:
                instrument(session)
            except ImportError:
                return False
    return True
