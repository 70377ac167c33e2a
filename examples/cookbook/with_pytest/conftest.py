"""Fixtures of the project: the tables of the test run, and the settings of its sessions."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def cassandra_schema() -> list[str]:
    return ["CREATE TABLE stock (item text PRIMARY KEY, pieces int)"]


@pytest.fixture(scope="session")
def cassandra_settings() -> dict[str, Any]:
    return {"timeout_s": 10}
