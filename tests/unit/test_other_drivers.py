"""Tests that errors for names of other drivers and tools say what to use in their place."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import turbocql
from turbocql import Batch, Bound, Config, ExecutionProfile, Prepared, Query, errors, schema
from turbocql._checks import did_you_mean
from turbocql._elsewhere import _FOR_ERRORS, _FOR_PACKAGE

ASYNC = turbocql.aio.AsyncSession


def call(function: Any, *arguments: Any, **options: Any) -> object:
    """Calls a function with arguments that its types do not allow."""
    return function(*arguments, **options)


@pytest.mark.parametrize(
    ("owner", "name", "advice"),
    [
        (turbocql, "Cluster", "use turbocql.connect(...), which opens a session"),
        (turbocql, "ConsistencyLevel", "use turbocql.Consistency"),
        (turbocql, "query", "use turbocql.Query and turbocql.Batch"),
        (turbocql, "concurrent", "use session.execute_many(statement, rows) for one statement, an"),
        (turbocql, "execute_concurrent_with_args", "use session.execute_many(statement, rows)"),
        (turbocql, "UNSET_VALUE", "use turbocql.UNSET"),
        (turbocql, "PlainTextAuthProvider", "pass user= and password= to connect"),
        (turbocql, "BoundStatement", "use turbocql.Bound, which prepared.bind(values) returns"),
        (turbocql, "dict_factory", 'pass rows="named", "tuple" or "dict" to connect or execute'),
        (turbocql, "RackAwareRoundRobinPolicy", "pass balancing=turbocql.Balancing(datacenter="),
        (turbocql, "ValueSequence", "write IN ? in the statement, and pass a list as its value"),
        (turbocql, "NoHostAvailable", "its counterpart is in turbocql.errors"),
        (errors, "OperationTimedOut", "use RequestTimeout"),
        (errors, "InvalidRequest", "use InvalidQuery"),
        (errors, "AuthenticationFailed", "use AuthenticationError"),
        (errors, "SyntaxException", "use CqlSyntaxError"),
        (errors, "ConfigurationException", "use InvalidSchema"),
        (turbocql.Session, "set_keyspace", "use session.use_keyspace(name)"),
        (turbocql.Session, "cluster", "use session.schema(), session.nodes and session.metrics()"),
        (turbocql.Session, "register_user_type", "use session.register_type(name, cls, keyspace="),
        (turbocql.Session, "metadata", "use session.schema(), and session.nodes"),
        (turbocql.Session, "hosts", "use session.nodes"),
        (turbocql.Session, "count", "use the command turbocql count, or SELECT count(*) for a sma"),
        (turbocql.Session, "execute_async", "turbocql.aio.connect(...) has asynchronous sessions"),
        (turbocql.Session, "execute_concurrent", "for one statement, use session.execute_many(sta"),
        (ASYNC, "execute_async", "use await session.execute(...), or asyncio.create_task"),
        (ASYNC, "execute_concurrent", "for one statement, use session.execute_many(statement, row"),
        (ASYNC, "row_factory", 'pass rows="dict" to connect, or row= to execute'),
        (turbocql.Rows, "was_applied", "use rows.applied"),
        (turbocql.Rows, "get_query_trace", "use rows.trace(), after execute(..., tracing=True)"),
        (turbocql.Rows, "response_future", "use rows.coordinator, rows.warnings and rows.trace()"),
        (turbocql.AsyncRows, "fetchall", "use rows.all()"),
        (Prepared, "fetch_size", "pass page_size= to execute, or to prepared.with_options"),
        (Prepared, "consistency_level", "pass consistency= to execute, or to prepared.with_option"),
        (Prepared, "is_idempotent", "pass idempotent=True to execute, or to prepared.with_options"),
        (Prepared, "query_string", "use prepared.text"),
        (Bound, "bind", "use bound.prepared.bind(values), which returns another Bound"),
        (Query, "fetch_size", "pass page_size= to execute, or to turbocql.Query"),
        (Batch, "execute", "use session.execute(batch)"),
        (Batch, "clear", "make a new turbocql.Batch"),
        (schema.Table, "export_as_string", "use as_cql()"),
        (schema.Keyspace, "as_cql_query", "use as_cql()"),
        (schema.UserType, "as_cql_query", "use as_cql()"),
        (schema.View, "keyspace_name", "use keyspace"),
        (turbocql.dbapi.Connection, "execute", "use connection.cursor().execute(operation, para"),
        (turbocql.dbapi.Cursor, "callproc", "CQL has no stored procedures"),
    ],
)
def test_an_attribute(owner: Any, name: str, advice: str) -> None:
    with pytest.raises(AttributeError, match=f"{name}.: {re.escape(advice)}"):
        getattr(owner, name)
    assert not hasattr(owner, name)


def test_an_attribute_of_an_object() -> None:
    batch: Any = turbocql.Batch()
    with pytest.raises(AttributeError, match=r"use batch.add\(statement, values\)"):
        batch.append("x")
    with pytest.raises(AttributeError, match=r"'Batch' object has no attribute 'append': use"):
        batch.append = 5
    assert {"append", "fetch_size"}.isdisjoint(dir(batch))
    assert {"add", "kind", "__len__"} <= set(dir(batch))


def test_an_attribute_of_a_native_object_is_not_set() -> None:
    query: Any = turbocql.Query("x")
    with pytest.raises(AttributeError, match="'Query' object has no attribute 'fetch_size': pass"):
        query.fetch_size = 100
    assert "fetch_size" not in dir(query)
    assert "text" in dir(query)


def test_names_of_the_package_have_no_advice() -> None:
    assert _FOR_PACKAGE.keys().isdisjoint(dir(turbocql))
    assert _FOR_ERRORS.keys().isdisjoint(dir(errors))
    for advice in _FOR_ERRORS.values():
        for name in re.findall(r"\b[A-Z]\w+", advice):
            assert hasattr(errors, name), name


PROFILE = "ExecutionProfile has no setting "


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: call(turbocql.connect, auth_provider=1), ": pass user= and password= to connect"),
        (lambda: call(turbocql.aio.connect, auth_provider=1), ": pass user= and password= to co"),
        (lambda: call(Config, auth_provider=1), "'auth_provider': pass user= and password="),
        (lambda: call(turbocql.connect, protocol_version=4), ": the version of the protocol is 4"),
        (lambda: call(turbocql.connect, default_timeout=5), "; did you mean timeout_s?"),
        (lambda: call(turbocql.connect, load_balancing_policy=5), "; did you mean balancing?"),
        (lambda: call(turbocql.connect, default_retry_policy=5), "; did you mean retry?"),
        (
            lambda: call(turbocql.connect, default_consistency_level=5),
            "; did you mean consistency?",
        ),
        (lambda: call(turbocql.connect, idle_heartbeat_interval=5), "mean keepalive_interval_s?"),
        (lambda: call(turbocql.connect, address_translator=5), "; did you mean addresses?"),
        (lambda: call(turbocql.connect, reconnection_policy=5), ": there are no settings for it:"),
        (lambda: call(ExecutionProfile, request_timeout=5), f"{PROFILE}'request_timeout'; did yo"),
        (lambda: call(ExecutionProfile, request_timeout=5), "; did you mean timeout_s?"),
        (lambda: call(ExecutionProfile, consistency_level=5), "; did you mean consistency?"),
        (lambda: call(ExecutionProfile, retry_policy=5), "; did you mean retry?"),
        (lambda: call(ExecutionProfile, row_factory=5), "'row_factory': a profile has no rows: pa"),
    ],
)
def test_a_setting(create: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        create()


SESSION: Any = object.__new__(turbocql.Session)
ASYNC_SESSION: Any = object.__new__(ASYNC)


@pytest.mark.parametrize("session", [SESSION, ASYNC_SESSION])
@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda session: session.execute_many("x", [], 5),
            "execute_many takes a statement and rows by position: pass options by name, as in con",
        ),
        (
            lambda session: session.execute_many("x", [], concurency=5),
            "execute_many has no option 'concurency'; did you mean concurrency?",
        ),
        (
            lambda session: session.execute_many("x", [], page_size=5),
            "execute_many has no option 'page_size'; it has columns, concurrency, ",
        ),
        (
            lambda session: session.register_type("app", "address", dict),
            "register_type takes a name and a class by position: register_type(name, cls, keyspace",
        ),
        (
            lambda session: session.register_type("address", dict, keyspaces="app"),
            "register_type has no option 'keyspaces'; did you mean keyspace?",
        ),
    ],
)
def test_arguments_of_a_method(session: Any, run: Callable[[Any], Any], message: str) -> None:
    async def awaited() -> object:
        return await run(session)

    with pytest.raises(TypeError, match=re.escape(message)):
        asyncio.run(awaited())


def test_values_under_another_name() -> None:
    options = ["consistency", "paging_state"]
    for name in ("parameters", "params", "args"):
        assert did_you_mean(name, options) == "; did you mean values?"
    assert did_you_mean("parameters", ["consistency"]) == ""


def test_checked_methods_keep_their_signatures() -> None:
    assert inspect.iscoroutinefunction(ASYNC.execute_many)
    assert not inspect.iscoroutinefunction(turbocql.Session.execute_many)
    for cls in (turbocql.Session, ASYNC):
        assert "concurrency" in inspect.signature(cls.execute_many).parameters
        assert list(inspect.signature(cls.register_type).parameters)[1:] == [
            *("name", "made", "keyspace")
        ]
