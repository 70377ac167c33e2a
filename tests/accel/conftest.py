"""What tests of the accelerator share: each begins and ends with the driver as it was installed."""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Iterator

import pytest
from tests.accel.environments import SAFE, installed_driver

from turbocql import accel
from turbocql.accel import _mapper

with warnings.catch_warnings():
    # On later CPythons some of the drivers' modules are deprecated ones, or import them.
    warnings.simplefilter("ignore", DeprecationWarning)
    from cassandra import cluster, cqltypes
    from cassandra.cqlengine import connection, models
    from tests.accel.mapper import CONNECTION

# The accelerator waits for this module: imported, each seam is there in every test.
assert cluster

# They count native calls, of which there are fewer where all quick paths are off.
collect_ignore = ["test_bodies.py", "test_extensions.py", "test_status_counts.py"] if SAFE else []


def pytest_configure(config: pytest.Config) -> None:
    # Drivers call functions that later CPythons deprecate, such as utcfromtimestamp.
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:cassandra")


@pytest.fixture(scope="session")
def driver() -> str:
    """The driver of this environment, by the name that its file in requirements/ has."""
    return installed_driver()


@pytest.fixture(autouse=True, scope="session")
def digests() -> Iterator[None]:
    """Digests of the driver's functions are computed once, not for each of 1,000 installations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_mapper, "source_digest", functools.cache(_mapper.source_digest))
        yield


@pytest.fixture(autouse=True, scope="session")
def frozen() -> Iterator[None]:
    """Tests collect garbage in loops: pytest's own objects and the drivers' are passed over."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Uninstalls the accelerator after a test, and forgets the types that the test defined."""
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
    """A session for the object mapper that notes what it executes."""
    monkeypatch.setattr(connection, "get_connection", lambda name=None: CONNECTION)
    monkeypatch.setattr(connection, "get_cluster", lambda name=None: CONNECTION)
    monkeypatch.setattr(models, "DEFAULT_KEYSPACE", "shop")
    monkeypatch.setattr(CONNECTION.session, "rows", [])
