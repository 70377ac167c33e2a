"""A FastAPI service that can be watched: metrics for Prometheus, logs as JSON, spans in a file."""

import contextvars
import json
import logging
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

import turbocql
import turbocql.aio
from turbocql import telemetry

request_id = contextvars.ContextVar("request_id", default="-")


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON, with the attributes that turbocql adds to it."""

    standard = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        facts = {name: fact for name, fact in record.__dict__.items() if name not in self.standard}
        return json.dumps(
            {
                "time": self.formatTime(record),
                "level": record.levelname,
                "logger": record.name,
                "message": record.getMessage(),
                "request_id": request_id.get(),
                **facts,
            },
            default=str,
        )


handler = logging.StreamHandler()
handler.setFormatter(JsonLines())
logging.basicConfig(level=logging.INFO, handlers=[handler])
# At DEBUG, each retry and each failed request is logged.
logging.getLogger("turbocql.request").setLevel(logging.DEBUG)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Opens the session, and writes its spans to a file until it is closed."""
    with Path(os.environ["SPANS_FILE"]).open("w") as spans:
        exporter = ConsoleSpanExporter(out=spans, formatter=lambda span: span.to_json(None) + "\n")
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(exporter))
        config = turbocql.Config.from_env(wait_s=60, slow_request_s=0.5)
        async with turbocql.aio.connect(config=config) as session:
            telemetry.instrument(session, tracer_provider=provider)
            yield {"session": session, "tracer": provider.get_tracer("app")}
        provider.shutdown()


app = FastAPI(lifespan=lifespan)


@app.middleware("http")
async def watch(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Gives each request an id for its logs, and a span: the parent of its statements' spans."""
    request_id.set(request.headers.get("x-request-id") or uuid.uuid4().hex)
    tracer: trace.Tracer = request.state.tracer
    with tracer.start_as_current_span(f"{request.method} {request.url.path}"):
        return await call_next(request)


@app.get("/version")
async def version(request: Request) -> dict[str, Any]:
    rows = await request.state.session.execute("SELECT release_version FROM system.local")
    return {"version": rows.scalar()}


@app.get("/missing")
async def missing(request: Request) -> dict[str, Any]:
    """Executes a statement that fails, to show what is logged."""
    try:
        await request.state.session.execute("SELECT nothing FROM system.local")
    except turbocql.errors.InvalidQuery:
        return {"failed": True}
    return {"failed": False}


@app.get("/metrics")
async def metrics(request: Request) -> Response:
    text = telemetry.prometheus_text(request.state.session)
    return Response(text, media_type="text/plain; version=0.0.4")
