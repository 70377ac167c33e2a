"""The mapper makes the same instances, statements and errors with and without the accelerator."""

from __future__ import annotations

import copy
import datetime
import logging
import random
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from cassandra.cqlengine import columns, connection, models, query
from cassandra.cqlengine.usertype import UserType
from tests.accel.environments import SAFE
from tests.accel.generated_models import Life, generated_model
from tests.accel.mapper import CONNECTION, GIVEN, KEY, Thing, both, state, told
from tests.accel.statements import seams

from turbocql import accel

pytestmark = pytest.mark.usefixtures("mapper_session")
MODELS = 300


def test_statements_are_recorded() -> None:
    """The other tests compare the statements that the session records. This test checks that it
    records any.
    """
    for _ in range(2):
        _, executed = told(lambda: Thing.create(**GIVEN))
        assert len(executed) == 1
        assert "INSERT INTO shop.thing" in executed[0][0]
        accel.accelerate()


@pytest.mark.parametrize("number", range(MODELS))
def test_a_generated_model(number: int) -> None:
    chance = random.Random(1_000_003 + number)
    both(Life(generated_model(chance, number), chance))


WAYS: dict[str, Callable[[], Any]] = {
    "create": lambda: state(Thing.create(**GIVEN)),
    "create, ttl": lambda: state(Thing.ttl(60).create(**GIVEN)),
    "save, ttl": lambda: state(Thing(**GIVEN).ttl(60).save()),
    "create, consistency": lambda: state(Thing.consistency(1).create(**GIVEN)),
    "create, timestamp": lambda: state(Thing.timestamp(12345).create(**GIVEN)),
    "save, timestamp": lambda: state(Thing(**GIVEN).timestamp(12345).save()),
    "save, all of them": lambda: state(
        Thing(**GIVEN).timestamp(datetime.timedelta(0)).ttl(1).batch(None).save()
    ),
    "objects create, timeout": lambda: state(Thing.objects.timeout(5).create(**GIVEN)),
    "objects create, keyspace": lambda: state(
        Thing.objects.using(keyspace="other").create(**GIVEN)
    ),
    "objects create, connection": lambda: state(
        Thing.objects.using(connection="other").create(**GIVEN)
    ),
    "save, connection": lambda: state(Thing(**GIVEN).using(connection="other").save()),
    "create, by position": lambda: Thing.create("positional"),
    "objects create, no such column": lambda: Thing.objects.create(no_column=1),
    "conditional update": lambda: state(Thing.objects(key=KEY).iff(name="x").update(name="y")),
    "count": lambda: Thing.objects(key=KEY, place__gt=5).order_by("-place").limit(3).count(),
    "first of some columns": lambda: Thing.objects(key__in=[KEY]).only(["name"]).first(),
    "values of one column": lambda: (
        Thing.objects(key=KEY).defer(["name", "tags"]).values_list("price", flat=True)[:]
    ),
    "get": lambda: Thing.objects(key=KEY, place=3).get(),
    "delete": lambda: Thing.objects(key=KEY).delete(),
    "table name": lambda: Thing.column_family_name(),
    "table name alone": lambda: Thing.column_family_name(include_keyspace=False),
    "table name alone, by position": lambda: Thing.column_family_name(False),
}


@pytest.mark.parametrize("rows", [[], [GIVEN]], ids=["no rows", "a row"])
@pytest.mark.parametrize("way", WAYS)
def test_options_of_instances_and_query_sets(way: str, rows: list[dict[str, Any]]) -> None:
    CONNECTION.session.rows = rows
    both(WAYS[way])


def test_a_null_and_a_removed_entry_are_deleted() -> None:
    def work() -> Any:
        thing = Thing.create(**copy.deepcopy(GIVEN))
        thing.name = None
        del thing.marks["b"]
        thing.tags.add("z")
        before = state(thing)
        thing.save()
        thing.marks = {}
        thing.tags = None
        return before, state(thing.save()), state(thing.update(price=None))

    both(work)


def test_statements_in_a_batch_equal_those_of_the_driver() -> None:
    def work() -> Any:
        with query.BatchQuery(timestamp=5) as batch:
            thing = Thing.batch(batch).create(**GIVEN)
            Thing(**GIVEN).batch(batch).ttl(5).save()
            thing.name = "other"
            thing.batch(batch).save()
        return state(thing)

    both(work)


def test_inherited_and_polymorphic_models() -> None:
    class Pet(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        kind = columns.Text(discriminator_column=True)
        name = columns.Text()

    class Cat(Pet):
        __discriminator_value__ = "cat"
        lives = columns.Integer(default=9)

        def save(self) -> Any:
            CONNECTION.session.seen.append("saved")
            return super().save()

        def __init__(self, **values: Any) -> None:
            super().__init__(**{**values, "name": values.get("name", "Tom")})

    class Odd(Thing):
        @property
        def name(self) -> str:
            return "always"

    def work() -> Any:
        CONNECTION.session.rows = [{"key": 1, "kind": "cat", "name": "Tim", "lives": 3}]
        found = list(Pet.objects.filter(key=1))
        odd = Odd(key=KEY, place=1)
        return [state(Cat.create(key=1)), *map(state, found), odd.name, told(odd.save)]

    both(work)
    both(lambda: Pet.create(key=1))


class Point(UserType):  # type: ignore[misc]
    x = columns.Integer()
    y = columns.Text()


def test_counters_and_user_types() -> None:
    class Tally(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        count = columns.Counter()

    class Place(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        at = columns.UserDefinedType(Point)

    def work() -> Any:
        place = Place.create(key=1, at=Point(x=1, y="a"))
        place.at.x = 5
        tally = Tally(key=1)
        tally.count += 5
        return state(tally.save()), place.at.x, [m.changed for m in place.save()._values.values()]

    both(work)


CHANGES: dict[str, Callable[[Any], tuple[Any, str, Any]]] = {
    "a column validates": lambda model: (
        *(model._columns["name"], "validate"),
        lambda value: "validated",
    ),
    "a column reads": lambda model: (model._columns["name"], "to_python", lambda value: "read"),
    "a column's length": lambda model: (model._columns["name"], "max_length", 0),
    "a class of columns": lambda _: (columns.Text, "validate", lambda self, value: "by class"),
    "defaults": lambda _: (columns.Column, "has_default", property(lambda self: True)),
    "managers": lambda _: (columns.BaseValueManager, "getval", lambda self: "managed"),
    "columns are set": lambda _: (
        *(models.BaseModel, "_set_column_value"),
        lambda self, name, value: None,
    ),
    "a property": lambda model: (
        *(model, "name"),
        property(lambda self: "property", lambda self, value: None),
    ),
    "batches": lambda model: (model, "_inst_batch", lambda self, batch: 1 / 0),
    "models validate": lambda _: (models.BaseModel, "validate", lambda self: 1 / 0),
    "ttl": lambda _: (
        *(models.TTLDescriptor, "__get__"),
        lambda self, instance, owner: lambda ttl: 1 / 0,
    ),
    "updates": lambda _: (models.BaseModel, "_can_update", lambda self: 1 / 0),
    "statements": lambda _: (query.DMLQuery, "_execute", lambda self, statement: 1 / 0),
    "a class of statements": lambda _: (query, "InsertStatement", None),
    "copies": lambda _: (columns, "deepcopy", lambda value: 1 / 0),
}


def late_model() -> Any:
    """Returns a model that is defined while the accelerator is on."""

    class Late(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        name = columns.Text()

    return Late


# CPython 3.13 and later assign at most 1,000 version tags to a class. The tests change the mapper's
# classes more than 1,000 times, and calls then fall back to the driver. So the tests with this
# mark, which count native calls, run before the others.
early = pytest.mark.early


@early
def test_a_late_model_is_native(accelerated: None) -> None:
    model = late_model()
    for _ in range(5):
        assert model.create(key=1, name="a").name == "a"
    assert SAFE or seams()["cqlengine.models.BaseModel.__init__"].native >= 3


@pytest.mark.parametrize("change", CHANGES)
def test_later_changes_by_the_program_win(change: str, accelerated: None) -> None:
    model = late_model()

    def name() -> Any:
        return model.create(key=1, name="a").name

    assert [name() for _ in range(5)] == ["a"] * 5
    accel.uninstall()
    owner, attribute, value = CHANGES[change](model)
    absent = object()
    before = vars(owner).get(attribute, absent)
    # If the program changes a class, the accelerator is on during the change. It checks names in
    # the driver's modules only when it is switched on, so it is off while they are changed.
    if not isinstance(owner, ModuleType):
        accel.accelerate()
        assert [name() for _ in range(4)] == ["a"] * 4
    setattr(owner, attribute, value)
    try:
        first, again = told_accelerated(name)
        accel.uninstall()
        assert told(name) == first == again
    finally:
        if before is absent:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, before)


def told_accelerated(work: Callable[[], Any]) -> tuple[Any, Any]:
    accel.accelerate()
    return told(work), told(work)


def test_debug_messages_are_still_logged() -> None:
    messages: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    log, handler = connection.log, Handler()
    log.addHandler(handler)
    accel.accelerate()
    try:
        Thing.create(**GIVEN)
        assert not messages
        log.setLevel(logging.DEBUG)
        Thing.create(**GIVEN)
        assert "INSERT INTO shop.thing" in messages[-1]
        assert "it's" in messages[-1]
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(handler)


def error_of(work: Callable[[], Any]) -> tuple[str, str]:
    try:
        work()
    except Exception as error:
        return type(error).__name__, str(error)
    raise AssertionError("no error")


def test_a_missing_session_raises_the_drivers_error() -> None:
    session, CONNECTION.session = CONNECTION.session, None  # type: ignore[assignment]
    try:
        accel.accelerate()
        for _ in range(4):
            found, _ = error_of(lambda: Thing.create(**GIVEN))
            assert found == "CQLEngineException", found
    finally:
        CONNECTION.session = session


def test_copies_are_copies() -> None:
    accel.accelerate()
    for _ in range(4):
        given = copy.deepcopy(GIVEN)
        thing = Thing.create(**given)
        thing.tags.add("later")
        assert thing._values["tags"].previous_value == {"a"}
        assert thing.get_changed_columns() == ["tags"]
        assert given == GIVEN
        filtered = Thing.objects.filter(key=KEY)
        further = filtered.filter(place=1)
        assert len(filtered._where) == 1
        assert len(further._where) == 2


def test_threads_at_once() -> None:
    accel.accelerate()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(300):
                thing = Thing(**{**GIVEN, "place": number})
                thing.validate()
                assert (thing.place, thing.tags) == (number, {"a"})
                thing._set_persisted()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


@early
def test_all_functions_of_the_mapper_are_replaced_and_counted() -> None:
    accel.uninstall()
    accel.accelerate()
    for _ in range(4):
        Thing.create(**GIVEN)
        list(Thing.objects.filter(key=KEY))
    of_mapper = {name: seam for name, seam in seams().items() if name.startswith("cqlengine.")}
    assert len(of_mapper) == 13, of_mapper
    for name, seam in of_mapper.items():
        assert seam.patched, (name, seam.why)
        assert SAFE or seam.native, name
    accel.accelerate(without=["cqlengine"])
    assert not any(seam.patched for name, seam in seams().items() if name in of_mapper)
    accel.accelerate()


def test_unknown_sources_are_left_alone() -> None:
    accel.uninstall()
    own = models.BaseModel.validate
    source = "def validate(self):\n    pass\n"
    made: dict[str, Any] = vars(models)
    exec(source, made)
    replaced = made.pop("validate")
    replaced.__qualname__ = "BaseModel.validate"
    models.BaseModel.validate = replaced
    try:
        accel.accelerate()
        why = seams()["cqlengine.query.DMLQuery.save"]
        assert not why.patched
        assert "source" in why.why
    finally:
        accel.uninstall()
        models.BaseModel.validate = own
