"""The driver makes the same bytes, cells, bodies and errors with and without the accelerator."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from cassandra import cqltypes
from tests.accel.answers import differing
from tests.accel.environments import LEFT, LEFT_LATER, SAFE
from tests.accel.keys import key_tasks
from tests.accel.marshal_tasks import marshal_tasks
from tests.accel.pages import (
    READERS,
    array_tasks,
    deserialize_tasks,
    page_tasks,
    special_page_tasks,
)
from tests.accel.segments import segment_tasks, timer_tasks
from tests.accel.tasks import (
    Task,
    bind_tasks,
    body_tasks,
    literal_tasks,
    row_tasks,
    serialize_tasks,
)
from tests.differential.cases import shown
from tests.differential.pools import WRONG
from tests.differential.shapes import Shape, every_type

from turbocql import accel

# NumPy warns about lossy conversions, which some of the wrong values in these tests cause.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
    pytest.mark.filterwarnings("ignore:Warning. converting a masked element to nan:UserWarning"),
]
SHAPES = every_type()
KINDS: dict[str, Callable[[int], Iterable[Task]]] = {
    "rows bound": lambda count: bind_tasks(SHAPES, count),
    "bodies": body_tasks,
    "pages": lambda count: page_tasks(SHAPES, count),
    "special pages": lambda count: special_page_tasks(SHAPES, count),
    "rows made": lambda count: row_tasks(),
    "literals": lambda count: literal_tasks(),
    "segments": segment_tasks,
    "timers": lambda count: timer_tasks(),
    "routing keys": key_tasks,
    "numbers": marshal_tasks,
}
if "arrays" in READERS:
    KINDS["arrays"] = lambda count: array_tasks(SHAPES, count)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Disables the driver's log, which has a line for each value that the driver cannot encode."""
    for value in WRONG:
        # scylla-driver would shift the bits of zero-dimensional arrays in place. This would change
        # the values for later tasks, so these arrays are made read-only.
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value.setflags(write=False)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def count(proof: bool) -> int:
    """Returns the argument `count` of the functions in `KINDS`, which determines the number of
    tasks.
    """
    return 800 if proof else 100


def compare(tasks: Iterable[Task]) -> None:
    """Asserts that tasks have the same results without and with the accelerator.

    Some tasks also run after the accelerator is switched off, and must have the same results.
    """
    tasks = list(tasks)
    assert tasks
    plain = [task() for _, task in tasks]
    with accel.accelerated():
        accelerated = [task() for _, task in tasks]
    failures = []
    for (description, _), *both in zip(tasks, plain, accelerated, strict=True):
        if both[0] != both[1]:
            before, after = map(shown, differing(*both))
            failures.append(f"{description}\n    plain:       {before}\n    accelerated: {after}")
    assert not failures, f"{len(failures)} differ\n" + "\n\n".join(failures[:20])
    some = slice(None, None, max(1, len(tasks) // 200))
    assert [task() for _, task in tasks[some]] == plain[some], "uninstalled, it is not what it was"


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.cql for shape in SHAPES])
def test_values_become_the_same_bytes(shape: Shape, count: int) -> None:
    compare(serialize_tasks([shape], count))


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.cql for shape in SHAPES])
def test_bytes_become_the_same_values(shape: Shape, count: int) -> None:
    compare(deserialize_tasks([shape], count))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_of_many_values_is_the_same(kind: str, count: int) -> None:
    compare(KINDS[kind](count))


@pytest.fixture(scope="module")
def status() -> accel.Status:
    """Returns the accelerator's status after some tasks of each kind."""
    tasks = [*serialize_tasks(SHAPES, 10), *deserialize_tasks(SHAPES, 10)]
    for make in KINDS.values():
        tasks += make(10)
    with accel.accelerated():
        for _, task in tasks:
            task()
        # No task uses `cassandra.serializers`, because this module exists only while the
        # accelerator is on. So it is used here.
        find = importlib.import_module("cassandra.serializers").find_serializer
        assert find(cqltypes.FloatType).serialize(1.5, 4) == cqltypes.FloatType.serialize(1.5, 4)
        return accel.status()


def test_every_seam_but_those_known_is_patched(status: accel.Status, driver: str) -> None:
    not_replaced = {seam.name for seam in status.seams if not seam.patched}
    assert not_replaced == LEFT[driver] | LEFT_LATER[driver], str(status)


def test_every_seam_but_those_known_is_used(status: accel.Status, driver: str) -> None:
    # The tasks do not use the functions of these parts. Other test files test these functions.
    elsewhere = {"cqlengine", "query_plans", "responses", "frames", "concurrent", "sending"}
    native = {seam.name: seam.native for seam in status.seams if seam.part not in elsewhere}
    if SAFE:
        # Without quick paths, the driver itself encodes and decodes values. Only segments are still
        # native.
        assert not native["protocol.ProtocolHandler: recv_results_rows"]
        assert native["segment.SegmentCodec.encode"]
    else:
        unused = {name for name, calls in native.items() if not calls}
        left = {name for name in LEFT[driver] | LEFT_LATER[driver] if name in native}
        assert unused == left, str(status)
