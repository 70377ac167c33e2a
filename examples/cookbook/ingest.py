"""Ingests a file of events, each once, even if this program is interrupted and run again."""

import argparse
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

import turbocql

TABLE = """
    CREATE TABLE IF NOT EXISTS events (
        id uuid PRIMARY KEY,
        source text,
        number bigint,
        kind text,
        amount bigint)"""
NAMESPACE = uuid.UUID("5b6f9f4e-52a7-4f0c-9a43-7d4e6a0b8f31")


def with_ids(raw: Path, keyed: Path) -> None:
    """Copies the events of `raw` to the Parquet file `keyed`, and gives each event an id.

    An id depends only on the event's source and number.
    """
    events = pyarrow.json.read_json(raw)
    pairs = zip(events["source"].to_pylist(), events["number"].to_pylist(), strict=True)
    ids = [uuid.uuid5(NAMESPACE, f"{source}/{number}").bytes for source, number in pairs]
    events = events.append_column("id", pa.array(ids, pa.binary(16)))
    unfinished = keyed.with_suffix(".unfinished")
    pa.parquet.write_table(events, unfinished, row_group_size=1000)
    unfinished.replace(keyed)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help="events as JSON lines")
    parser.add_argument("--rows-per-second", type=float)
    arguments = parser.parse_args()
    keyed = arguments.file.with_suffix(".parquet")
    if not keyed.exists():
        with_ids(arguments.file, keyed)

    with turbocql.connect(config=turbocql.Config.from_env()) as session:
        session.execute(TABLE)
        report = session.load(
            f"{session.keyspace}.events",
            keyed,
            # The file's time is the write time. So a late load does not overwrite newer writes.
            timestamp=arguments.file.stat().st_mtime_ns // 1000,
            checkpoint=keyed.with_suffix(".checkpoint"),
            resume="auto",
            rejects=keyed.with_suffix(".rejects.jsonl"),
            max_errors=0.01,
            raise_failures=False,
            rate_limit=arguments.rows_per_second,
        )
        print(f"{report.earlier_rows} rows before, {report.succeeded} now")
        if report.failures:
            print(f"{len(report.failures)} rows failed, the first: {report.failures[0].error}")
            return 1
        compared = session.verify(f"{session.keyspace}.events", keyed)
        print(f"{compared.checked} rows compared, {'equal' if compared.equal else 'different'}")
        return 0 if compared.equal else 1


if __name__ == "__main__":
    sys.exit(main())
