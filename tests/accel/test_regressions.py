"""Tests of fixed bugs. The bugs concerned replaced helpers, odd classes, forks, interrupts, deep
types and leaks.
"""

from __future__ import annotations

import _imp
import datetime
import decimal
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cassandra import cqltypes, marshal, util
from cassandra.cqltypes import (
    CassandraType,
    DateType,
    Int32Type,
    ListType,
    MapType,
    UTF8Type,
    VectorType,
)
from tests.accel.answers import answer
from tests.accel.environments import PROGRAMS, run
from tests.accel.statements import statement

import turbocql
from turbocql import accel

COMPILED = pytest.mark.needs(
    not str(cqltypes.__file__).endswith(".py"), "a compiled driver, which can make very deep types"
)

WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5)
DECODES = any(path.on for path in turbocql.diagnosis().quick_paths if path.name == "decode")
"""Whether values are decoded natively on this interpreter."""


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replaces an attribute, and restores it at the end."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class Money(decimal.Decimal):
    """A program's own subclass of `Decimal`."""


DATES = ListType.apply_parameters([DateType])
DECIMALS = ListType.apply_parameters([cqltypes.DecimalType])
TIMES = [
    name
    for name in ("datetime_from_timestamp", "datetime_from_ms_timestamp")
    if hasattr(util, name)
]


def test_the_driver_has_functions_of_times() -> None:
    assert TIMES


@pytest.mark.parametrize("name", TIMES)
def test_a_function_of_times_replaced_before_wins(name: str) -> None:
    written = DATES.serialize([WHEN], 4)
    own = getattr(util, name)

    def with_zone(*arguments: Any) -> Any:
        return own(*arguments).replace(tzinfo=datetime.timezone.utc)

    with replaced(util, name, with_zone):
        plain = answer(DATES.deserialize, written, 4)
        with accel.accelerated():
            assert answer(DATES.deserialize, written, 4) == plain
            assert "replaced" in str(accel.status())


def test_a_class_of_decimals_replaced_before_wins() -> None:
    written = DECIMALS.serialize([decimal.Decimal("1.5")], 4)
    with replaced(cqltypes, "Decimal", Money):
        with accel.accelerated():
            assert type(DECIMALS.deserialize(written, 4)[0]) is Money
        # The driver itself decodes here, but it calls native functions of `cassandra.marshal`.
        assert {seam.part for seam in accel.status().seams if seam.native} <= {"marshal"}


def test_a_replaced_unpack_function_is_named_in_the_status() -> None:
    with (
        replaced(cqltypes, "int32_unpack", lambda data: (marshal.int32_unpack(data)[0] + 1,)),
        accel.accelerated(),
    ):
        assert "cqltypes.int32_unpack" in str(accel.status())


def test_without_replacements_values_are_decoded_natively() -> None:
    written = DATES.serialize([WHEN], 4)
    with accel.accelerated():
        assert DATES.deserialize(written, 4) == [WHEN]
        parts = {seam.part for seam in accel.status().seams if seam.native} - {"marshal"}
        assert bool(parts) == DECODES


STOCK = ListType.apply_parameters([Int32Type])


def test_mixins_win() -> None:
    class Mixin:
        pass

    mixed: Any = type(Int32Type)("Mixed", (Mixin, Int32Type), {})
    lists = ListType.apply_parameters([mixed])
    with accel.accelerated():
        assert STOCK.serialize([1], 4) == lists.serialize([1], 4)
        data = STOCK.serialize([1], 4)
        Mixin.serialize = staticmethod(lambda value, version: b"MINE")  # type: ignore[attr-defined]
        Mixin.deserialize = staticmethod(lambda data, version: "MINE")  # type: ignore[attr-defined]
        assert lists.serialize([1], 4)[8:] == b"MINE"
        assert lists.deserialize(data, 4) == ["MINE"]
        assert STOCK.deserialize(data, 4) == [1]


def test_bases_win() -> None:
    class Cooperative(cqltypes._SimpleParameterizedType):  # type: ignore[misc]
        typename = "cooperative"

        @classmethod
        def serialize_safe(cls, value: Any, version: int) -> bytes:
            return b"MINE"

        @classmethod
        def deserialize_safe(cls, data: bytes, version: int) -> str:
            return "MINE"

    class Mine(ListType, Cooperative):  # type: ignore[misc]
        subtypes = (Int32Type,)

    data = STOCK.serialize([1], 4)

    def both() -> list[Any]:
        return [answer(Mine.serialize, [1], 4), answer(Mine.deserialize, data, 4)]

    plain = both()
    with accel.accelerated():
        STOCK.serialize([1], 4)
        assert both() == plain


def test_bases_that_change_win() -> None:
    class Other(Int32Type):  # type: ignore[misc]
        @staticmethod
        def deserialize(data: bytes, version: int) -> str:
            return "OTHER"

    class Changing(Int32Type):  # type: ignore[misc]
        pass

    changing = ListType.apply_parameters([Changing])
    data = STOCK.serialize([1], 4)
    with accel.accelerated():
        assert changing.deserialize(data, 4) == [1]
        Changing.__bases__ = (Other,)
        assert changing.deserialize(data, 4) == ["OTHER"]


def test_an_overridden_serial_size_wins() -> None:
    class Long(Int32Type):  # type: ignore[misc]
        @classmethod
        def serial_size(cls) -> None:
            return None

    vector = VectorType.apply_parameters([Long, 2], None)
    plain = vector.serialize([1, 2], 4)
    with accel.accelerated():
        VectorType.apply_parameters([Int32Type, 2], None).serialize([1, 2], 4)
        assert vector.serialize([1, 2], 4) == plain


@pytest.mark.parametrize("depth", [20, 40, 100, pytest.param(400, marks=COMPILED)])
def test_deep_types_have_the_drivers_results(depth: int) -> None:
    deep: Any = Int32Type
    for _ in range(depth):
        deep = ListType.apply_parameters([deep])
    plain = [answer(deep.serialize, [], 4), answer(deep.deserialize, b"\0\0\0\0", 4)]
    begun = time.process_time()
    with accel.accelerated():
        assert [
            answer(deep.serialize, [], 4),
            answer(deep.deserialize, b"\0\0\0\0", 4),
        ] == plain
        assert answer(lambda: statement(deep).bind([[]]).values) == [plain[0]]
    assert time.process_time() - begun < 20


def test_deep_maps_take_no_exponential_time() -> None:
    maps: Any = Int32Type
    for _ in range(60):
        maps = MapType.apply_parameters([maps, Int32Type])
    begun = time.process_time()
    with accel.accelerated():
        maps.serialize({}, 4)
    assert time.process_time() - begun < 20


@pytest.mark.parametrize("version", [4.0, 2**63], ids=repr)
def test_invalid_protocol_versions(version: Any) -> None:
    prepared = statement(Int32Type, UTF8Type, protocol_version=version)
    plain = answer(lambda: prepared.bind([1, "a"]).values)
    with accel.accelerated():
        assert answer(lambda: prepared.bind([1, "a"]).values) == plain


def test_statements_that_fail_in_odd_ways() -> None:
    cls: Any = type(statement(Int32Type))

    class Odd(cls):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            if name.startswith("_turbocql"):
                raise ValueError(name)
            super().__setattr__(name, value)

        def __hash__(self) -> int:
            raise KeyError("no hash")

    odd = statement(Int32Type)
    odd.__class__ = Odd
    with accel.accelerated():
        assert odd.bind([1]).values == [b"\0\0\0\1"]


# At each fork, CPython 3.12 and later warn of the deadlocks that this test looks for.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_forked_children_do_not_deadlock() -> None:
    """The parent forks while its other threads bind statements and switch the accelerator on and
    off.
    """
    ended = threading.Event()

    def bind() -> None:
        while not ended.is_set():
            statement(ListType.apply_parameters([Int32Type])).bind([[1]])
            with accel.accelerated():
                accel.status()

    accel.accelerate()
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=bind) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(40):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                statement(ListType.apply_parameters([Int32Type])).bind([[1]])
                accel.status()
                accel.uninstall()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, "the child hangs"
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(switching)
        accel.uninstall()


# If an interrupt comes in a callback of importlib's locks, Python only reports it and does not
# raise it.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in.*_get_module_lock:pytest.PytestUnraisableExceptionWarning"
)
# If an interrupt comes between the opening of a file and its `with` block, only the GC closes the
# file.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_interrupts_leave_nothing_half_done() -> None:
    before = vars(CassandraType.__class__).keys() | set()

    def interrupt(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    kept = signal.signal(signal.SIGALRM, interrupt)
    try:
        for i in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.0002 * (i % 60))
                with accel.accelerated():
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            # If an interrupt comes just after importlib has acquired the import lock, the lock
            # stays locked, and no other thread can import a module. So the lock is released here.
            while _imp.lock_held():
                _imp.release_lock()
            accel.uninstall()
            assert not accel.status().on
            assert vars(CassandraType.__class__).keys() == before
        with accel.accelerated():
            prepared = statement(ListType.apply_parameters([Int32Type]))
            prepared.bind([[1]])
            assert any(s.native for s in accel.status().seams if s.name.endswith(".bind"))
    finally:
        signal.signal(signal.SIGALRM, kept)


@pytest.mark.parametrize(
    ("module", "attribute", "value"),
    [
        ("util", "SortedSet", "deleted"),
        ("util", "SortedSet", "5"),
        ("util", "OrderedMapSerializedKey", "object"),
        ("cqltypes", "util", "deleted"),
        ("cqltypes", "util", "None"),
        ("cqltypes", "VectorType", "deleted"),
    ],
)
def test_attributes_of_the_driver_may_be_missing(module: str, attribute: str, value: str) -> None:
    program = str(PROGRAMS / "pieces.py")
    ended = run(sys.executable, program, module, attribute, value, timeout_s=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("True"), ended.stdout


def test_switching_leaks_nothing() -> None:
    """Measures the memory of a new process, so that other tests do not affect the result."""
    ended = run(sys.executable, str(PROGRAMS / "switching.py"))
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 2 << 20
