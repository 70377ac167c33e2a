"""Makes `tests.support` importable regardless of how pytest was started, and restores Python's
handler of SIGINT.

It also adds the options `--proof` and `--all`.
"""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Some tests need other environments. Tests of columns, of whole tables and of engines need an
# environment with pyarrow. Tests of the accelerator and the differential tests need an environment
# with a Cassandra driver: see `make python-test`. Each engine has its own environment: see `make
# check-engines`. The cookbook also has its own environment: see `make cookbook`. A test of charts
# needs matplotlib, which `make demo` and `make test` install.
ENGINES = {"ray": "ray", "spark": "pyspark", "duckdb": "duckdb", "dask": "dask"}
collect_ignore = [
    *([] if find_spec("pyarrow") else ["columns", "tables", "engines"]),
    *([] if find_spec("cassandra") else ["accel", "differential"]),
    *([] if find_spec("fastapi") else ["cookbook"]),
    *([] if find_spec("matplotlib") else ["meta/test_report.py"]),
]
collect_ignore_glob = [
    f"engines/test_{name}*.py" for name, package in ENGINES.items() if not find_spec(package)
]

_ROOT = str(Path(__file__).resolve().parents[1])
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)

# A shell starts background jobs with SIGINT ignored, and child processes inherit this setting. So
# the programs that tests interrupt would ignore the signal. Therefore the handler is restored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--proof",
        action="store_true",
        help="run with the many values and repetitions of `make proof`, which takes long, and let"
        " hypothesis try new examples",
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="run also the tests marked exhaustive, as `make check-all` does",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests whose mark `needs` has a false argument. Without `--all`, also deselects
    tests with the mark `exhaustive`.

    The first argument of the mark `needs` says whether this driver or interpreter has what the test
    requires.
    """

    def runs(item: pytest.Item) -> bool:
        is_met = all(mark.args[0] for mark in item.iter_markers("needs"))
        return is_met and (runs_all or item.get_closest_marker("exhaustive") is None)

    runs_all = config.getoption("--all")
    left = [item for item in items if not runs(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if runs(item)]


def pytest_configure(config: pytest.Config) -> None:
    # The environments with a Cassandra driver lack hypothesis, because no test that runs in them
    # needs it.
    if not find_spec("hypothesis"):
        return
    from hypothesis import settings

    # hypothesis tries the same examples in each run, so that the same sources give the same result.
    # With `--proof`, it tries new examples.
    settings.register_profile(
        "turbocql", deadline=None, database=None, derandomize=not config.getoption("--proof")
    )
    settings.load_profile("turbocql")


@pytest.fixture(scope="session")
def proof(request: pytest.FixtureRequest) -> bool:
    """Returns whether `--proof` is set. With this option, tests run with more values and
    repetitions.
    """
    return bool(request.config.getoption("--proof"))
