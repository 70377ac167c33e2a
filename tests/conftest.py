"""Makes `tests.support` importable, however pytest was started, and Ctrl-C a signal again."""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Columns and whole tables are tested in the environment that has pyarrow, the accelerator and the
# codec's bytes in those of the drivers: see `make python-test`. Engines are tested each in its own
# environment: see `make check-engines`.
ENGINES = {"ray": "ray", "spark": "pyspark", "duckdb": "duckdb", "dask": "dask"}
collect_ignore = [
    *([] if find_spec("pyarrow") else ["columns", "tables", "engines"]),
    *([] if find_spec("cassandra") else ["accel", "differential"]),
    *(f"engines/test_{name}.py" for name, package in ENGINES.items() if not find_spec(package)),
]

_ROOT = str(Path(__file__).resolve().parents[1])
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)

# Shells start what runs in the background with SIGINT ignored, and children inherit that: the
# programs that tests interrupt would not notice.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--proof",
        action="store_true",
        help="as many values and repetitions as `make proof` wants, which takes its time, and"
        " hypothesis looks where it has not looked before",
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="also the tests marked exhaustive, as `make check-all` runs them",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects exhaustive tests, unless all are asked for."""
    if config.getoption("--all"):
        return
    left = [item for item in items if item.get_closest_marker("exhaustive")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]


def pytest_configure(config: pytest.Config) -> None:
    # Environments of drivers have no hypothesis: no test that runs there needs it.
    if not find_spec("hypothesis"):
        return
    from hypothesis import settings

    # A check of one state says the same twice; looking further is for those who can look into it.
    settings.register_profile(
        "turbocql", deadline=None, database=None, derandomize=not config.getoption("--proof")
    )
    settings.load_profile("turbocql")


@pytest.fixture(scope="session")
def proof(request: pytest.FixtureRequest) -> bool:
    """Whether the tests run in their full form."""
    return bool(request.config.getoption("--proof"))
