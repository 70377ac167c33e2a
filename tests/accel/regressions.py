"""What once went wrong: helpers replaced before, odd classes, forks, interrupts, deep types, leaks.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.regressions

Run in the environment of either driver. Prints the names of what passed; the first that fails is
an AssertionError.
"""

from __future__ import annotations

import datetime
import decimal
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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
from tests.accel.answers import answer, run
from tests.accel.overrides import statement

import turbocql
from turbocql import accel

WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5)
DECODES = any(path.on for path in turbocql.diagnosis().quick_paths if path.name == "decode")
"""Whether values are made natively here."""


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Something else in the place of an attribute, for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def helpers_replaced_before_win() -> None:
    class Money(decimal.Decimal):
        pass

    aware = datetime.timezone.utc
    dates = ListType.apply_parameters([DateType])
    decimals = ListType.apply_parameters([cqltypes.DecimalType])
    written, sums = dates.serialize([WHEN], 4), decimals.serialize([decimal.Decimal("1.5")], 4)
    times = [
        name
        for name in ("datetime_from_timestamp", "datetime_from_ms_timestamp")
        if hasattr(util, name)
    ]
    assert times
    for name in times:
        own = getattr(util, name)

        def with_zone(*given: Any, own: Any = own) -> Any:
            return own(*given).replace(tzinfo=aware)

        with replaced(util, name, with_zone):
            plain = answer(dates.deserialize, written, 4)
            with accel.accelerated():
                assert answer(dates.deserialize, written, 4) == plain
                assert "replaced" in str(accel.status())
    with replaced(cqltypes, "Decimal", Money):
        with accel.accelerated():
            assert type(decimals.deserialize(sums, 4)[0]) is Money
        assert not any(seam.native for seam in accel.status().seams)
    name = "int32_unpack"
    with (
        replaced(cqltypes, name, lambda data: (marshal.int32_unpack(data)[0] + 1,)),
        accel.accelerated(),
    ):
        assert "cqltypes.int32_unpack" in str(accel.status())
    with accel.accelerated():
        assert dates.deserialize(written, 4) == [WHEN]
        assert any(seam.native for seam in accel.status().seams) == DECODES


def mixins_and_bases_win() -> None:
    class Mixin:
        pass

    mixed: Any = type(Int32Type)("Mixed", (Mixin, Int32Type), {})
    lists = ListType.apply_parameters([mixed])
    stock = ListType.apply_parameters([Int32Type])
    with accel.accelerated():
        assert stock.serialize([1], 4) == lists.serialize([1], 4)
        data = stock.serialize([1], 4)
        Mixin.serialize = staticmethod(lambda value, version: b"MINE")  # type: ignore[attr-defined]
        Mixin.deserialize = staticmethod(lambda data, version: "MINE")  # type: ignore[attr-defined]
        assert lists.serialize([1], 4)[8:] == b"MINE"
        assert lists.deserialize(data, 4) == ["MINE"]
        assert stock.deserialize(data, 4) == [1]

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

    def both() -> list[Any]:
        return [answer(Mine.serialize, [1], 4), answer(Mine.deserialize, data, 4)]

    plain = both()
    with accel.accelerated():
        stock.serialize([1], 4)
        assert both() == plain

    class Other(Int32Type):  # type: ignore[misc]
        @staticmethod
        def deserialize(data: bytes, version: int) -> str:
            return "OTHER"

    class Changing(Int32Type):  # type: ignore[misc]
        pass

    changing = ListType.apply_parameters([Changing])
    with accel.accelerated():
        assert changing.deserialize(data, 4) == [1]
        Changing.__bases__ = (Other,)
        assert changing.deserialize(data, 4) == ["OTHER"]


def sizes_of_their_own_win() -> None:
    class Long(Int32Type):  # type: ignore[misc]
        @classmethod
        def serial_size(cls) -> None:
            return None

    vector = VectorType.apply_parameters([Long, 2], None)
    plain = vector.serialize([1, 2], 4)
    with accel.accelerated():
        VectorType.apply_parameters([Int32Type, 2], None).serialize([1, 2], 4)
        assert vector.serialize([1, 2], 4) == plain


def deep_types_are_the_drivers() -> None:
    for depth in (20, 40, 100, 400):
        deep: Any = Int32Type
        try:
            for _ in range(depth):
                deep = ListType.apply_parameters([deep])
        except RecursionError:  # the driver that is not compiled cannot make them
            continue
        plain = [answer(deep.serialize, [], 4), answer(deep.deserialize, b"\0\0\0\0", 4)]
        begun = time.monotonic()
        with accel.accelerated():
            assert [
                answer(deep.serialize, [], 4),
                answer(deep.deserialize, b"\0\0\0\0", 4),
            ] == plain
            assert answer(lambda cls=deep: statement(cls).bind([[]]).values) == [plain[0]]
        assert time.monotonic() - begun < 20
    maps: Any = Int32Type
    for _ in range(60):
        maps = MapType.apply_parameters([maps, Int32Type])
    begun = time.monotonic()
    with accel.accelerated():
        maps.serialize({}, 4)
    assert time.monotonic() - begun < 20


def statements_that_fail_in_odd_ways() -> None:
    for version in (4.0, 2**63):
        prepared = statement(Int32Type, UTF8Type)
        prepared.protocol_version = version
        plain = answer(lambda one=prepared: one.bind([1, "a"]).values)
        with accel.accelerated():
            assert answer(lambda one=prepared: one.bind([1, "a"]).values) == plain
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


def children_of_a_fork_go_on() -> None:
    """While other threads make plans, and switch."""
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


def interrupts_leave_nothing_half_done() -> None:
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
            accel.uninstall()
            assert not accel.status().on
            assert vars(CassandraType.__class__).keys() == before
        with accel.accelerated():
            prepared = statement(ListType.apply_parameters([Int32Type]))
            prepared.bind([[1]])
            assert any(s.native for s in accel.status().seams if s.name.endswith(".bind"))
    finally:
        signal.signal(signal.SIGALRM, kept)


PIECES = """
import cassandra.{module} as module
{change}
from turbocql import accel
accel.accelerate()
import cassandra.cqltypes, cassandra.protocol, cassandra.query
with accel.accelerated():
    pass
print(accel.status().on, sum(seam.patched for seam in accel.status().seams))
accel.uninstall()
"""


def pieces_may_be_missing() -> None:
    for module, change in [
        ("util", "del module.SortedSet"),
        ("util", "module.SortedSet = 5"),
        ("util", "module.OrderedMapSerializedKey = object"),
        ("cqltypes", "del module.util"),
        ("cqltypes", "module.util = None"),
        ("cqltypes", "del module.VectorType"),
    ]:
        done = subprocess.run(
            [sys.executable, "-c", PIECES.format(module=module, change=change)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (change, done.stderr)
        assert done.stdout.startswith("True"), (change, done.stdout)


def switching_leaks_nothing() -> None:
    def toggle(count: int) -> int:
        for _ in range(count):
            with accel.accelerated():
                pass
        gc.collect()
        return resident()

    toggle(200)
    assert toggle(1500) - resident() < 1 << 20
    before = resident()
    toggle(1500)
    assert resident() - before < 2 << 20


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def main() -> None:
    checks: list[Callable[[], None]] = [
        helpers_replaced_before_win,
        mixins_and_bases_win,
        sizes_of_their_own_win,
        deep_types_are_the_drivers,
        statements_that_fail_in_odd_ways,
        children_of_a_fork_go_on,
        interrupts_leave_nothing_half_done,
        pieces_may_be_missing,
        switching_leaks_nothing,
    ]
    run(checks)


if __name__ == "__main__":
    main()
