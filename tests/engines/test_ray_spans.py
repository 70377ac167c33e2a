"""Tests the traces and logs of reads and writes that run in Ray's tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.data
from opentelemetry.sdk.trace import TracerProvider
from tests.engines.support import Tables
from tests.engines.traced_worker import FOLDER, set_up
from tests.support.nodes import eventually

import turbocql
import turbocql.ray

pytestmark = pytest.mark.cassandra


@pytest.fixture(scope="module")
def folder(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Starts Ray, and returns the folder into which its workers write."""
    folder = tmp_path_factory.mktemp("spans")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        runtime_env={
            "env_vars": {FOLDER: str(folder)},
            "worker_process_setup_hook": set_up,
        },
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield folder
    ray.shutdown()


def lines(folder: Path, suffix: str) -> list[dict[str, Any]]:
    """Returns all complete lines that the workers have written so far."""
    texts = (path.read_text() for path in folder.glob(f"*.{suffix}"))
    written = (line for text in texts for line in text.splitlines(keepends=True))
    return [json.loads(line) for line in written if line.endswith("\n")]


def spans_of(folder: Path, trace_id: int) -> list[dict[str, Any]]:
    """Returns the workers' spans that belong to a trace, except the spans of attempts."""
    spans = lines(folder, "spans")
    of_trace = [span for span in spans if span["context"]["trace_id"] == f"0x{trace_id:032x}"]
    return [span for span in of_trace if span["name"] != "attempt"]


def test_requests_of_tasks_belong_to_the_trace_of_the_job(
    folder: Path, tables: Tables, points: list[str]
) -> None:
    table = tables.new("ray_spans")
    config = turbocql.Config(contact_points=points, slow_request_s=0.000_001)
    rows = ray.data.range(200, override_num_blocks=2).map_batches(
        lambda batch: {"part": batch["id"].astype("int32"), "id": batch["id"]},
        batch_format="numpy",
    )
    tracer = TracerProvider().get_tracer("job")
    with tracer.start_as_current_span("job") as job:
        sink = turbocql.ray.sink(table, config=config)
        data = turbocql.ray.read(table, config=config, columns=["id"], parallelism=3)
    parent = job.get_span_context()
    # The data sets are lazy. Ray computes them only now, in threads and workers, after the span
    # `job` has ended.
    rows.write_datasink(sink)
    assert sorted(row["id"] for row in data.take_all()) == list(range(200))

    def named(word: str) -> list[dict[str, Any]]:
        spans = spans_of(folder, parent.trace_id)
        return [span for span in spans if span["name"] == f"{word} {table}"]

    assert eventually(lambda: len(named("SELECT")) >= 3 and bool(named("INSERT")), 20)
    for span in (*named("SELECT"), *named("INSERT")):
        assert span["parent_id"] == f"0x{parent.span_id:016x}"
        assert span["attributes"]["db.system.name"] == "cassandra"
    written = sum(span["attributes"]["db.operation.batch.size"] for span in named("INSERT"))
    assert written == 200
    # In a task, spans of later pages and token ranges are children of the task's first span.
    firsts = {span["context"]["span_id"] for span in named("SELECT")}
    pages = [each for each in spans_of(folder, parent.trace_id) if each["name"].endswith(" page")]
    assert {page["parent_id"] for page in pages} == firsts
    # In a worker, a log handler runs in the OpenTelemetry context of the call that caused the
    # record. So the handler can read the id of the trace.
    traced = {
        line["trace_id"] for line in lines(folder, "records") if line["event"] == "slow request"
    }
    assert f"0x{parent.trace_id:032x}" in traced


def test_a_job_without_a_span_makes_none(folder: Path, tables: Tables, points: list[str]) -> None:
    table = tables.new("ray_untraced")
    # Workers reuse a session if the settings are equal. These settings differ from the settings of
    # the test above, so a worker opens another session.
    config = turbocql.Config(contact_points=points, page_size=77)
    data = turbocql.ray.read(table, config=config)
    assert data.take_all() == []
    assert [span for span in lines(folder, "spans") if span["name"] == f"SELECT {table}"] == []
