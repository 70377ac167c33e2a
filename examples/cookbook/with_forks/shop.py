"""A WSGI application. A hook in gunicorn.conf.py opens a session in each worker."""

import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import turbocql

_session: turbocql.Session | None = None


def open_session() -> None:
    """Opens the session of this process. Call it after the fork."""
    global _session
    _session = turbocql.connect(config=turbocql.Config.from_env(wait_s=20))


def close_session() -> None:
    """Closes the session of this process, if it has one. Waits for the requests in flight."""
    global _session
    if _session is not None:
        _session.close()
        _session = None


def session() -> turbocql.Session:
    assert _session is not None, "open_session() has not been called in this process"
    return _session


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], Any]
) -> Iterable[bytes]:
    """Stores the order in a query string such as `?id=a17&amount=19.90`."""
    order = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"]).items()}
    session().execute(
        "INSERT INTO orders (id, amount, accepted_by) VALUES (?, ?, ?)",
        (order["id"], Decimal(order["amount"]), os.getpid()),
        idempotent=True,
    )
    start_response("201 Created", [("Content-Type", "text/plain")])
    return [f"accepted by {os.getpid()}\n".encode()]
