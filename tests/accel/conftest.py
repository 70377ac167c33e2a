"""Fixtures of the accelerator's tests. Each test begins and ends with the unpatched driver."""

from __future__ import annotations

import functools
import gc
import importlib.util
import warnings
from collections.abc import Iterator

import pytest
from tests.accel.environments import SAFE, installed_driver

from turbocql import accel
from turbocql.accel import _mapper_functions

with warnings.catch_warnings():
    # Some modules of the drivers import modules that are deprecated in newer versions of CPython.
    warnings.simplefilter("ignore", DeprecationWarning)
    from cassandra import cluster, concurrent, cqltypes
    from cassandra.cqlengine import connection, models
    from tests.accel.mapper import CONNECTION

# The accelerator replaces functions in these modules only after the modules are imported.
assert cluster
assert concurrent

# These files check how many calls are native. Without quick paths (`SAFE`), fewer calls are native.
collect_ignore = ["test_bodies.py", "test_extensions.py", "test_status_counts.py"] if SAFE else []
# The sources of the drivers have libev's module only if they are compiled.
if importlib.util.find_spec("cassandra.io.libevwrapper") is None:
    collect_ignore += ["test_sending.py", "test_sending_peers.py"]
if importlib.util.find_spec("cassandra.tablets") is None:
    collect_ignore.append("test_tablet_plans.py")


def pytest_configure(config: pytest.Config) -> None:
    # Drivers call functions that are deprecated in newer versions of CPython, such as
    # utcfromtimestamp.
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:cassandra")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


@pytest.fixture(scope="session")
def driver() -> str:
    """Returns the name that this environment's driver has in the file names in requirements/."""
    return installed_driver()


@pytest.fixture(autouse=True, scope="session")
def digests() -> Iterator[None]:
    """Caches the digests of the driver's functions, so that each test installs the accelerator
    fast.
    """
    with pytest.MonkeyPatch.context() as patch:
        cached = functools.cache(_mapper_functions.source_digest)
        patch.setattr(_mapper_functions, "source_digest", cached)
        yield


@pytest.fixture(autouse=True, scope="session")
def frozen() -> Iterator[None]:
    """Hides the objects of pytest and the driver from the GC, so that `gc.collect` is fast."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Uninstalls the accelerator after a test, and removes the types that the test defined."""
    assert not accel.status().on
    by_class, by_name = dict(cqltypes._casstypes), dict(cqltypes._cqltypes)
    yield
    accel.uninstall()
    for table, before in ((cqltypes._casstypes, by_class), (cqltypes._cqltypes, by_name)):
        if table != before:
            table.clear()
            table.update(before)


@pytest.fixture
def accelerated(plain: None) -> Iterator[None]:
    """Installs the accelerator for a test."""
    accel.accelerate()
    yield
    accel.uninstall()


@pytest.fixture
def mapper_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the object mapper's session by a stand-in that records the executed statements."""
    monkeypatch.setattr(connection, "get_connection", lambda name=None: CONNECTION)
    monkeypatch.setattr(connection, "get_cluster", lambda name=None: CONNECTION)
    monkeypatch.setattr(models, "DEFAULT_KEYSPACE", "shop")
    monkeypatch.setattr(CONNECTION.session, "rows", [])
