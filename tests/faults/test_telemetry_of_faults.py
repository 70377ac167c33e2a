"""Tests that each fault is logged, counted and traced as docs/reliability.md says.

Each row of the page's table is a test case. The tests make the faults on one cluster of three
nodes. The only exception is the fault of refused credentials, which needs a node that requires
credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.faults.documented import Row, rows_of_the_page
from tests.faults.observed import Observation
from tests.faults.run import JVM
from tests.faults.scenes import CONFIG, SCENES, Place, Scene

from turbocql.testing import Cassandra

ROWS = rows_of_the_page()
SCENE_OF = {row: scene for scene, rows in SCENES.items() for row in rows}

Observe = Callable[[str], Observation]


@pytest.fixture(scope="module")
def place(cassandra_secure: Cassandra, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Cassandra(nodes=3, heap_mb=512, config=CONFIG, jvm_options=JVM) as cluster:
        yield Place(cluster, cassandra_secure, tmp_path_factory.mktemp("proxies"))


@pytest.fixture(scope="module")
def observe(place: Place) -> Observe:
    """Returns a function that makes the fault of a row and returns the observation.

    A scene may make the faults of several rows. It runs only once, for the first of these rows.
    """
    done: dict[Scene, dict[str, Observation]] = {}

    def observe(row: str) -> Observation:
        scene = SCENE_OF[row]
        if scene not in done:
            done[scene] = {}
            done[scene] |= dict(scene(place))
        assert done[scene], f"the scene of {row!r} has failed at another row"
        return done[scene][row]

    return observe


RING = ("a node has another address", "a node leaves the cluster", "a node is added")
"""The rows of a scene that takes a minute, because a node restarts and the other nodes notice it
late."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.exhaustive] * (row in RING)) for row in SCENE_OF],
)
def test_a_fault_is_seen_as_the_page_says(row: str, observe: Observe) -> None:
    observation = observe(row)
    assert list(observation.differences(ROWS[row])) == []


def test_a_wrong_row_is_noticed(observe: Observe) -> None:
    """`differences` finds facts that only the row states, and facts that were only observed."""
    name = "a node dies"
    observation, row = observe(name), ROWS[name]
    planted = replace(
        row,
        logged=row.logged | {("node silent", "WARNING")},
        counted=row.counted | {"speculative"},
        state="silent",
        errors=row.errors | {"Overloaded"},
        attempts=row.attempts | {"no text"},
        attributes=frozenset({"turbocql.attempt.abandoned"}),
        within_s={"node silent": 1.0, "lost": 0.0, "retries": 1.0},
    )
    messages = list(observation.differences(planted))
    assert [next(word for word in PLANTED if word in message) for message in messages] == PLANTED
    nothing: frozenset[str] = frozenset()
    emptied = Row(frozenset(), nothing, None, nothing, nothing, nothing, {})
    messages = list(observation.differences(emptied))
    # Two messages are about events at WARNING. Five are about `lost`, `failed`, `refused`,
    # `retries` and the error. Two are about spans.
    assert len(messages) == 2 + 5 + 2, messages


PLANTED = [
    "'node silent'",
    "speculative",
    "'silent'",
    "Overloaded",
    "no text",
    "abandoned",
    "node silent is seen never",
    "lost is seen",
]


def test_the_rows_of_the_page_are_the_cases() -> None:
    assert list(ROWS) == list(SCENE_OF)
