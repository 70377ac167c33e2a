"""Runs tests that are coroutines, and defines fixtures for the APIs and event loops of tests."""

from __future__ import annotations

import inspect
import itertools
from uuid import uuid4

import pytest
from tests.support.apis import APIS, Api
from tests.support.loops import LOOPS, Loop
from tests.support.tables import make_tables

from turbocql.testing import Cassandra

_NUMBERS = itertools.count(1)


@pytest.fixture(params=APIS, ids=lambda api: api.name)
def api_and_loop(request: pytest.FixtureRequest) -> Api:
    """The synchronous API, and the asynchronous API on each kind of event loop."""
    chosen: Api = request.param
    return chosen


@pytest.fixture(params=APIS[:2], ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> Api:
    """The synchronous API, and the asynchronous API on one kind of event loop, for long tests."""
    chosen: Api = request.param
    return chosen


@pytest.fixture(params=LOOPS, ids=lambda loop: loop.name)
def loop(request: pytest.FixtureRequest) -> Loop:
    """Each kind of event loop, for tests of the asynchronous API alone."""
    chosen: Loop = request.param
    return chosen


@pytest.fixture
def number() -> int:
    """A number that no other test of this run gets. Tests use it as a key or as part of a name."""
    return next(_NUMBERS)


@pytest.fixture
def points(cassandra: Cassandra) -> list[str]:
    """The contact points of the node that all tests share."""
    return cassandra.contact_points


@pytest.fixture(scope="session")
def keyspace(cassandra: Cassandra) -> str:
    """A keyspace with the tables of tests/support/tables.py."""
    name = f"shared_{uuid4().hex[:12]}"
    make_tables(cassandra.contact_points, name)
    return name


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine.

    If the test has a fixture `api_and_loop`, `api` or `loop`, it runs on the event loop of this
    fixture. Otherwise, it runs on an event loop of asyncio.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    chosen = LOOPS[0]
    for argument in arguments.values():
        if isinstance(argument, Api):
            chosen = argument.loop
        elif isinstance(argument, Loop):
            chosen = argument
    chosen.run(pyfuncitem.obj(**arguments))
    return True
