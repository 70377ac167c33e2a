"""Stores chats and documents as llama-index and langchain do: time UUIDs, rows as dicts, JSON."""

from __future__ import annotations

import json
import uuid

from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import SimpleStatement, dict_factory, tuple_factory
from cassandra.util import max_uuid_from_time, min_uuid_from_time, uuid_from_time
from tests.accel.programs.running import attempt, connected, print_native

CHATS = (
    "TABLE chats (partition_id text, row_id timeuuid, body_blob text, attributes map<text, text>,"
    " PRIMARY KEY (partition_id, row_id)) WITH CLUSTERING ORDER BY (row_id DESC)"
)
NODES = "TABLE nodes (node_id text PRIMARY KEY, doc_ids set<text>, vector list<float>, meta text)"


def main() -> None:
    with connected(CHATS, NODES) as session:
        insert = session.prepare(
            "INSERT INTO chats (partition_id, row_id, body_blob, attributes) VALUES (?, ?, ?, ?)"
        )
        for number in range(20):
            body = json.dumps({"type": "human", "data": {"content": f"it's {number}"}})
            row_id = uuid_from_time(1_700_000_000 + number, node=1, clock_seq=2)
            attributes = {"run": str(number)} if number % 2 else None
            session.execute(insert, [f"session{number % 2}", row_id, body, attributes])
        # The stores of langchain also write simple statements with a dict of values.
        session.execute(
            "INSERT INTO chats (partition_id, row_id, body_blob) VALUES (%(id)s, %(at)s, %(body)s)",
            {"id": "it's", "at": uuid_from_time(1_700_000_000, 1, 2), "body": "a 'quoted' %s"},
        )
        session.row_factory = dict_factory
        newest = session.prepare("SELECT * FROM chats WHERE partition_id = ? LIMIT ?")
        for row in session.execute(newest, ("session1", 4)):
            print(row)
        window = "SELECT row_id, body_blob FROM chats WHERE partition_id = %s AND row_id > %s"
        first, last = min_uuid_from_time(1_700_000_010), max_uuid_from_time(1_700_000_014)
        print(list(session.execute(window + " AND row_id < %s", ("session0", first, last))))
        print(session.execute("SELECT * FROM chats WHERE partition_id = 'it''s'").one())
        nodes = [
            (str(uuid.uuid5(uuid.NAMESPACE_DNS, str(n))), {f"d{n}", "d"}, [n / 3, 0.5], "{}")
            for n in range(60)
        ]
        put = session.prepare("INSERT INTO nodes (node_id, doc_ids, vector, meta) VALUES (?,?,?,?)")
        written = execute_concurrent_with_args(session, put, nodes, concurrency=16)
        print([(ok, list(rows)) for ok, rows in written][:3])
        keys = tuple(key for key, *_ in nodes[:12])
        session.row_factory = tuple_factory
        get = session.prepare("SELECT * FROM nodes WHERE node_id IN ?")
        print(sorted(session.execute(get, (list(keys),))))
        futures = [session.execute_async(get, (keys[n : n + 2],)) for n in range(0, 12, 2)]
        print(sorted(row for future in futures for row in future.result()))
        attempt(lambda: session.execute(put, (keys[0], ["a", 5], [], "")).one())
        attempt(lambda: session.execute(put, {"node_id": keys[0], "wrong": 1}).one())
        attempt(session.execute, insert, ("a", "not a uuid", "", {}))
        print(len(list(session.execute(SimpleStatement("SELECT * FROM nodes", fetch_size=7)))))
        session.execute("DELETE FROM chats WHERE partition_id = %s", ("session0",))
        print(session.execute("SELECT count(*) FROM chats").one())
    print_native()


if __name__ == "__main__":
    main()
