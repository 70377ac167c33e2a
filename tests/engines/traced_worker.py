"""Writes the spans and log records of a Ray worker into files. Workers import this module."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

__all__ = ["FOLDER", "set_up"]

FOLDER = "TEST_SPANS_FOLDER"
"""The environment variable that names the folder of the files."""


def set_up() -> None:
    """Sets up the tracer provider and the log handler. Ray calls this function in each worker."""
    folder = Path(os.environ[FOLDER])
    spans = (folder / f"{os.getpid()}.spans").open("w", buffering=1)
    exporter = ConsoleSpanExporter(out=spans, formatter=lambda span: span.to_json(None) + "\n")
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    class Traces(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            current = trace.get_current_span().get_span_context()
            fact = {"event": getattr(record, "event", ""), "trace_id": f"0x{current.trace_id:032x}"}
            with (folder / f"{os.getpid()}.records").open("a") as records:
                print(json.dumps(fact), file=records)

    logging.getLogger("turbocql").addHandler(Traces())
