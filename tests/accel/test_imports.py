"""Switches the accelerator on before, during and after the import of the driver's modules."""

from __future__ import annotations

import sys

import pytest
from tests.accel.environments import LEFT, PROGRAMS, run


@pytest.mark.parametrize(
    "stage",
    ["while_it_is_imported", "interrupted", "imported_again", "over_between", "loaders"],
)
def test_connections_come_later(stage: str) -> None:
    ended = run(sys.executable, str(PROGRAMS / "stages.py"), stage)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("first", ["query", "cluster", "cqltypes", "protocol"])
def test_before_the_driver_is_imported(driver: str, first: str) -> None:
    program = str(PROGRAMS / "before_the_driver.py")
    ended = run(sys.executable, program, first, *sorted(LEFT[driver]))
    assert ended.returncode == 0, ended.stderr
