"""Cases of scylla-driver on a connection with all protocol extensions of ScyllaDB."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

from cassandra.protocol import BatchMessage, ExecuteMessage, ProtocolHandler, QueryMessage
from cassandra.query import BatchType

from bench.clients.cassandra.codec import FACTORIES, FEATURES
from bench.harness.timing import Case, Maker
from bench.suites.codec.cases import BATCHES, EXECUTE, EXTENSIONS, PAGES, plain_rows

__all__ = ["cases"]

_ONE_ROW = "1x10 with metadata, named"


def cases() -> dict[str, Maker]:
    """Maps each name in `EXTENSIONS` to a function that makes the case.

    The mapping is empty if the driver lacks these extensions.
    """
    if not FEATURES or not hasattr(FEATURES[0], "use_metadata_id"):
        return {}
    makers: dict[str, Maker] = {}
    for name in EXTENSIONS:
        kind, _, what = name.partition(", extensions: ")
        if kind == "page":
            page = what.removesuffix(", columns left out")
            makers[name] = partial(page_case, _ONE_ROW if page.startswith("1x10") else page)
        else:
            makers[name] = partial({"batch": batch, "execute": execute, "query": query}[kind], what)
    return makers


def connection() -> Any:
    """Returns the features of a connection to a ScyllaDB that offers all extensions."""
    features = type(FEATURES[0])()
    features.use_metadata_id = features.tablets_routing_v1 = features.tablets_routing_v2 = True
    features.rate_limit_error, features.shard_id = 0xF000, 3
    return features


def body_case(message: Any) -> Case:
    features = connection()

    def run() -> bytes:
        out = io.BytesIO()
        message().send_body(out, 4, features)
        return out.getvalue()

    return Case("run()", {"run": run}, lambda: run().hex())


def batch(name: str) -> Case:
    statement, rows = BATCHES[name]
    queries = [(isinstance(statement, bytes), statement, row) for row in rows]
    return body_case(lambda: BatchMessage(BatchType.LOGGED, queries, 1))


def execute(_: str) -> Case:
    def message() -> Any:
        execute_message = ExecuteMessage(
            b"0123456789abcdef", EXECUTE, 1, skip_meta=True, result_metadata_id=b"fedcba9876543210"
        )
        execute_message.tablet_version_block = 0xA7
        return execute_message

    return body_case(message)


def query(_: str) -> Case:
    return body_case(lambda: QueryMessage("SELECT * FROM app.items", 1, fetch_size=5000))


def page_case(name: str) -> Case:
    """Makes a case that decodes a page without metadata: the driver already knows the columns."""
    page, shape = PAGES[name]
    decode, features, make_rows = ProtocolHandler.decode_message, connection(), FACTORIES[shape]
    columns = decode(4, features, {}, 0, 0, 8, page.body, None, None).column_metadata
    body = page.without_metadata

    def run() -> Any:
        message = decode(4, features, {}, 0, 0, 8, body, None, columns)
        return make_rows(message.column_names, message.parsed_rows)

    return Case("run()", {"run": run}, lambda: plain_rows(run(), page.columns, shape))
