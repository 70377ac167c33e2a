"""Tests the recipe for ingestion that can be repeated."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.nodes import eventually

import turbocql

from .support import EXAMPLES, Program


def test_ingestion_is_resumed_after_a_kill(
    environment: dict[str, str], program: Program, session: turbocql.Session, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    with events.open("w") as file:
        for number in range(2400):
            event = {"source": "shop", "number": number, "kind": "sold", "amount": number * 3}
            file.write(json.dumps(event) + "\n")
    checkpoint = tmp_path / "events.checkpoint"
    killed = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "ingest.py"), str(events), "--rows-per-second", "800"],
        env=environment,
        cwd=tmp_path,
    )
    try:
        assert eventually(lambda: acknowledged(checkpoint) > 0, timeout_s=120)
        assert killed.poll() is None
    finally:
        killed.kill()
        killed.wait()
    before = written(session)
    assert 0 < before < 2400
    printed = program("ingest.py", events)
    first, second = printed.splitlines()
    assert second == "2400 rows compared, equal"
    earlier, now = (int(word) for word in first.split() if word.isdigit())
    assert earlier + now == 2400
    assert earlier > 0
    assert written(session) == 2400

    # Ingesting the file again from the start must not overwrite an update that came after the first
    # ingestion.
    key = session.execute("SELECT id FROM events LIMIT 1").scalar()
    session.execute("UPDATE events SET kind = 'returned' WHERE id = ?", (key,))
    checkpoint.unlink()
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "ingest.py"), str(events)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stdout == "0 rows before, 2400 now\n2400 rows compared, different\n"
    kind = session.execute("SELECT kind FROM events WHERE id = ?", (key,)).scalar()
    assert kind == "returned"
    assert written(session) == 2400


def acknowledged(checkpoint: Path) -> int:
    """Returns the number of acknowledged rows in a checkpoint."""
    if not checkpoint.exists():
        return 0
    ranges = json.loads(checkpoint.read_bytes())["acknowledged"]
    return sum(end - start for start, end in ranges)


def written(session: turbocql.Session) -> int:
    return int(session.execute("SELECT count(*) FROM events").scalar() or 0)
