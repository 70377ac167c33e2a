"""Tests the recipe for logs, metrics and traces."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from .support import Server, answers


def test_a_service_with_logs_metrics_and_traces(server: Server, port: int, tmp_path: Path) -> None:
    spans_file = tmp_path / "spans.jsonl"
    running = server(
        "with_telemetry", "uvicorn", "app:app", "--port", str(port), SPANS_FILE=str(spans_file)
    )
    base = f"http://127.0.0.1:{port}"
    running.wait_for(lambda: answers(f"{base}/metrics"))
    with httpx.Client(base_url=base, trust_env=False) as client:
        for _ in range(5):
            assert client.get("/version").json()["version"].count(".") >= 1
        assert client.get("/missing", headers={"x-request-id": "r-17"}).json() == {"failed": True}
        metrics = client.get("/metrics")
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'turbocql_requests_total{kind="read"} 6' in metrics.text.splitlines()
    assert 'turbocql_errors_total{error="InvalidQuery"} 1' in metrics.text.splitlines()
    assert running.terminate() in (0, -15), running.log()

    lines = [json.loads(line) for line in running.log().splitlines() if line.startswith("{")]
    (failed,) = [line for line in lines if line.get("event") == "request"]
    assert (failed["level"], failed["error"], failed["request_id"]) == (
        "DEBUG",
        "InvalidQuery",
        "r-17",
    )
    spans = [json.loads(line) for line in spans_file.read_text().splitlines()]
    parents = {span["context"]["span_id"]: span["name"] for span in spans}
    statements = [span for span in spans if span["attributes"].get("db.system.name")]
    assert len(statements) == 6
    assert {parents[span["parent_id"]] for span in statements} == {"GET /version", "GET /missing"}
    attempts = [span for span in spans if span["name"] == "attempt"]
    assert {parents[span["parent_id"]] for span in attempts} == {"SELECT"}
