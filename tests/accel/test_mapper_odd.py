"""Tests the object mapper with odd names, threads and deep types. Also tests that objects are
freed.
"""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import threading
import uuid
import weakref
from typing import Any

import pytest
from cassandra.cqlengine import columns, connection, models
from tests.accel.mapper import GIVEN, Thing, both

from turbocql import accel

pytestmark = pytest.mark.usefixtures("mapper_session")


def test_sets_may_change_in_another_thread() -> None:
    class Marked(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        ids = columns.Set(columns.UUID)

    accel.accelerate()
    marked = Marked(key=1, ids={uuid.UUID(int=number) for number in range(500)})
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            marker = uuid.uuid4()
            marked.ids.add(marker)
            marked.ids.discard(marker)

    before, thread = sys.getswitchinterval(), threading.Thread(target=change)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(300):
            marked._set_persisted(force=True)
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(before)


def test_odd_names_are_handled_as_by_the_driver() -> None:
    class Selfish(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        self = columns.Text()
        cls = columns.Text()

    class Broken(models.Model):  # type: ignore[misc]
        __table_name__ = "a\ud800"
        key = columns.Integer(primary_key=True)
        name = columns.Text(db_field="\udc00")

    for given in ({"key": 1, "self": "x"}, {"key": 1, "cls": "x"}):
        both(functools.partial(Selfish.create, **given))
        both(functools.partial(Selfish.objects.create, **given))
        both(functools.partial(Selfish, **given))
        both(functools.partial(Thing, **given))
    both(lambda: Broken.create(key=1, name="n"))
    both(Broken.column_family_name)


def test_classes_that_redefine_values() -> None:
    class Kept(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        name = columns.Text()

        @property
        def _values(self) -> Any:
            return self.__dict__["kept"]

        @_values.setter
        def _values(self, values: Any) -> None:
            self.__dict__["kept"] = type("Values", (dict,), {})(values)

    def partly() -> Any:
        thing = Thing(**GIVEN)
        thing._columns = {name: Thing._columns[name] for name in ("key", "place")}
        thing.validate()
        thing.save()
        return [name for name, manager in thing._values.items() if manager.explicit]

    both(lambda: Kept.create(key=1, name="a").name)
    both(partly)


def test_deep_types_work_near_the_recursion_limit() -> None:
    column: Any = columns.Integer()
    for _ in range(200):
        column = columns.List(column)
    deep = type("Deep", (models.Model,), {"key": columns.Integer(primary_key=True), "d": column})
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(350)
    try:
        for _ in range(5):
            assert deep(key=1).key == 1
    finally:
        sys.setrecursionlimit(limit)


def test_messages_for_debugging_may_be_watched() -> None:
    seen: list[str] = []
    log = connection.log
    accel.accelerate()
    log.debug = seen.append
    try:
        Thing.create(**GIVEN)
    finally:
        del log.debug
    assert len(seen) == 1
    assert inspect.signature(connection.execute).parameters["timeout"].default is connection.NOT_SET


def test_classes_are_not_kept() -> None:
    accel.accelerate()
    kept = []
    for number in range(300):
        model = type(f"Brief{number}", (models.Model,), {"key": columns.Integer(primary_key=True)})
        kept += [weakref.ref(model), weakref.ref(model(key=1))]
        for _ in range(4):
            model(key=1)
    del model
    gc.collect()
    assert sum(reference() is not None for reference in kept) < 3
    accel.uninstall()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        with accel.accelerated():
            Thing.create(**GIVEN)
    gc.collect()
    assert len(gc.get_objects()) - before < 200
