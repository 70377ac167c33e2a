"""The object mapper: what instances, statements and errors are, accelerated and not.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.mapper [--count N] [--seed N]

Run in the environment of either driver, without a server: a session in the place of the driver's
notes what it is given. Prints the names of what passed; the first that fails is an AssertionError.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import decimal
import itertools
import logging
import os
import random
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from cassandra.cqlengine import columns, connection, models, query
from cassandra.cqlengine.usertype import UserType
from cassandra.util import Date, SortedSet, Time
from tests.accel.answers import run

from turbocql import accel

SAFE = bool(os.environ.get("_TURBOCQL_TEST_INTERPRETER"))
"""Without class versions the mapper's functions stay the driver's."""
warnings.simplefilter("ignore")


class Session:
    """Notes what it is given, and answers with rows."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.rows: list[dict[str, Any]] = []

    def execute(self, statement: Any, parameters: Any, timeout: Any) -> list[dict[str, Any]]:
        key = statement.routing_key
        self.seen.append(
            (
                statement.query_string,
                [(name, shown(value)) for name, value in (parameters or {}).items()],
                key if key is None else bytes(key),
                statement.keyspace,
                statement.consistency_level,
                statement.fetch_size,
                timeout is connection.NOT_SET,
            )
        )
        return [dict(row) for row in self.rows]


class Connection:
    """What `get_connection` gives, and `get_cluster`."""

    protocol_version = 4
    name = "default"

    def __init__(self) -> None:
        self.session = Session()
        self.cluster = self

    def register_user_type(self, *_: Any) -> None:
        """Does nothing."""


CONNECTION = Connection()
connection.get_connection = lambda name=None: CONNECTION
connection.get_cluster = lambda name=None: CONNECTION
models.DEFAULT_KEYSPACE = "shop"


def shown(value: Any) -> Any:
    """A value and its class, within collections too."""
    name = type(value).__name__
    if type(value) in (list, tuple):
        return name, [shown(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return name, sorted(map(repr, map(shown, value)))
    if isinstance(value, dict):
        return name, [(shown(key), shown(one)) for key, one in value.items()]
    if isinstance(value, UserType):
        return name, [(field, shown(value[field])) for field in value]
    if hasattr(value, "__unicode__"):
        return name, value.__unicode__()
    return name, repr(value)


def state(instance: Any) -> Any:
    """All that can be seen of an instance."""
    values = [
        (
            name,
            type(manager).__name__,
            shown(manager.value),
            shown(manager.previous_value),
            manager.explicit,
            manager.changed,
            manager.deleted,
            manager.instance is instance,
            manager.column is instance._columns[name],
        )
        for name, manager in instance._values.items()
    ]
    rest = {
        name: shown(value)
        for name, value in vars(instance).items()
        if name not in ("_values", "_len", "_batch", "_timeout")
    }
    return type(instance).__name__, values, rest, instance._timeout is connection.NOT_SET


def told(work: Callable[[], Any]) -> Any:
    """What some work gave or raised, and what the session saw meanwhile."""
    seen = CONNECTION.session.seen = []
    try:
        found = work()
    except Exception as error:
        found = type(error).__name__, str(error)
    return found, seen


def both(work: Callable[[], Any], *, times: int = 4) -> None:
    """Compares some work, done by the driver and accelerated, also when the model is known."""
    accel.uninstall()
    expected = told(work)
    accel.accelerate()
    for _ in range(times):
        found = told(work)
        assert found == expected, f"\n{found}\n{expected}"
    accel.uninstall()
    assert told(work) == expected


_numbers = itertools.count()


def count() -> int:
    return next(_numbers)


class Shouting(columns.Text):  # type: ignore[misc]
    """A column of the program's own."""

    def to_python(self, value: Any) -> Any:
        return f"{value}!"

    def to_database(self, value: Any) -> Any:
        return value.upper()


class Even(columns.Integer):  # type: ignore[misc]
    def validate(self, value: Any) -> Any:
        value = super().validate(value)
        if value is not None and value % 2:
            raise models.ValidationError(f"{value} is odd")
        return value


class Point(UserType):  # type: ignore[misc]
    x = columns.Integer()
    y = columns.Text()


KINDS: dict[str, Callable[..., Any]] = {
    "text": columns.Text,
    "ascii": columns.Ascii,
    "int": columns.Integer,
    "bigint": columns.BigInt,
    "varint": columns.VarInt,
    "uuid": columns.UUID,
    "timeuuid": columns.TimeUUID,
    "boolean": columns.Boolean,
    "double": columns.Double,
    "decimal": columns.Decimal,
    "timestamp": columns.DateTime,
    "date": columns.Date,
    "time": columns.Time,
    "blob": columns.Blob,
    "inet": columns.Inet,
    "set": lambda **given: columns.Set(columns.Text, **given),
    "list": lambda **given: columns.List(columns.Integer, **given),
    "map": lambda **given: columns.Map(columns.Text, columns.Double, **given),
    "nested": lambda **given: columns.List(columns.Set(columns.Text), **given),
    "lists of own": lambda **given: columns.List(Shouting, **given),
    "tuple": lambda **given: columns.Tuple(columns.Integer, columns.Text, **given),
    "shouting": Shouting,
    "even": Even,
}
MOMENT = datetime.datetime(2026, 11, 23, 1, 2, 3, 456_789)
VALUES: dict[str, list[Any]] = {
    "text": ["a", "", "it's \u20ac", "long" * 9],
    "ascii": ["a", "b \u20ac"],
    "int": [0, 1, -5, True, "7", 2**40, 1.5],
    "uuid": [uuid.UUID(int=5), str(uuid.UUID(int=6)), "no uuid"],
    "boolean": [True, False, 0, "yes"],
    "double": [0.5, 1, "2.5", float("inf")],
    "decimal": [decimal.Decimal("1.50"), 0.1, 3, "4.5", "none"],
    "timestamp": [
        *(MOMENT, datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
        *(MOMENT.replace(tzinfo=datetime.timezone.utc), MOMENT.date(), 1_000_000),
    ],
    "date": [MOMENT.date(), Date(5), MOMENT],
    "time": [MOMENT.time(), Time(5)],
    "blob": [b"a", bytearray(b"b"), "no"],
    "inet": ["127.0.0.1"],
    "set": [{"a"}, {"a", "b"}, set(), SortedSet(["c"]), ["a"], {1}, {None}, frozenset({"f"})],
    "list": [[1], [1, 2, 3], [], (4, 5), ["6"], [None], {7}],
    "map": [{"a": 0.5}, {"a": 1, "b": 2.5}, {}, {"n": None}, {None: 1.0}, [("a", 1)]],
    "nested": [[{"a"}, {"b", "c"}], [set()], []],
    "lists of own": [["a"], []],
    "tuple": [(1, "a"), (None, None), (1, "a", 2)],
    "even": [2, 3, "4"],
}
for other, kind in (("bigint", "int"), ("varint", "int"), ("timeuuid", "uuid")):
    VALUES[other] = VALUES[kind]
VALUES["shouting"] = VALUES["text"]
KEYS = ("text", "int", "bigint", "uuid", "timestamp", "decimal", "boolean")
PREFIX = "Generated"


def generated_model(chance: random.Random, number: int) -> Any:
    """A model with columns of random kinds and options."""
    kinds = [chance.choice(KEYS), *chance.choices(KEYS, k=chance.randrange(2))]
    keys, found = len(kinds), {}
    kinds += chance.choices(list(KINDS), k=chance.randrange(7))
    for place, kind in enumerate(kinds):
        given: dict[str, Any] = {}
        if place < keys:
            given["primary_key" if place else "partition_key"] = True
        else:
            if chance.random() < 0.2:
                given["required"] = True
            if chance.random() < 0.2 and keys > 1:
                given["static"] = True
        if chance.random() < 0.2:
            default = chance.choice(VALUES[kind])
            given["default"] = default if chance.random() < 0.5 else lambda one=default: one
        if chance.random() < 0.15:
            given["db_field"] = f"field_{place}"
        if kind == "text" and chance.random() < 0.3:
            given["max_length"] = 5
        found[f"c{place}"] = KINDS[kind](**given)
        found[f"c{place}"].kind = kind
    return type(f"{PREFIX}{number}", (models.Model,), found)


def some_values(chance: random.Random, model: Any, *, keys: bool = True) -> dict[str, Any]:
    """Values for some columns, most of them valid."""
    found = {}
    for name, column in model._columns.items():
        given = VALUES[column.kind]
        if column.primary_key:
            if keys:
                found[name] = given[0] if chance.random() < 0.9 else chance.choice(given)
        elif chance.random() < 0.8:
            found[name] = None if chance.random() < 0.15 else chance.choice(given[:3])
            if chance.random() < 0.1:
                found[name] = chance.choice(given)
    return found


class Life:
    """What happens to the instances of a model: made, saved, changed, deleted, read."""

    def __init__(self, model: Any, chance: random.Random) -> None:
        self.model = model
        self.first = some_values(chance, model)
        self.second = some_values(chance, model, keys=False)
        self.rows = [
            {model._columns[name].db_field_name: value for name, value in one.items()}
            for one in (self.first, some_values(chance, model))
        ]
        self.key = {
            name: self.first[name]
            for name, column in model._columns.items()
            if column.partition_key
        }
        self.reads = chance.choice((1, 2))
        self.done: list[Any] = []

    def __call__(self) -> list[Any]:
        model, step = self.model, self.step
        self.done = []
        step(lambda: model(**copy.deepcopy(self.first)))
        instance = step(lambda: model.create(**copy.deepcopy(self.first)))
        step(lambda: model.create(**copy.deepcopy(self.first), no_column=1))
        if isinstance(instance, models.Model):
            step(lambda: instance.update(**copy.deepcopy(self.second)))
            for name, value in copy.deepcopy(self.second).items():
                setattr(instance, name, value)
            step(instance.save)
            step(lambda: instance.timeout(5).save())
            step(instance.delete)
        CONNECTION.session.rows = copy.deepcopy(self.rows)
        for _ in range(self.reads):
            found = step(lambda: list(model.objects.filter(**self.key).limit(7)))
            self.done.append([state(one) for one in found or []])
            for one in found or []:
                step(one.save)
        step(lambda: str(model.objects.filter(**self.key).allow_filtering()))
        return self.done

    def step(self, act: Callable[[], Any]) -> Any:
        found = None
        try:
            found = act()
        except Exception as error:
            self.done.append((type(error).__name__, str(error)))
        self.done.append(state(found) if isinstance(found, models.Model) else shown(found))
        return found


def generated_models(count: int, seed: int) -> None:
    for number in range(count):
        chance = random.Random(seed * 1_000_003 + number)
        try:
            both(Life(generated_model(chance, number), chance))
        except AssertionError as error:
            raise AssertionError(f"model {number} of seed {seed}: {error}") from None


class Thing(models.Model):  # type: ignore[misc]
    key = columns.UUID(primary_key=True, default=lambda: uuid.UUID(int=7))
    place = columns.Integer(primary_key=True)
    name = columns.Text(index=True)
    price = columns.Decimal()
    tags = columns.Set(columns.Text)
    marks = columns.Map(columns.Text, columns.Integer)


KEY = uuid.UUID(int=9)
GIVEN: dict[str, Any] = {
    **{"key": KEY, "place": 3, "name": "it's"},
    **{"price": decimal.Decimal("1.5"), "tags": {"a"}, "marks": {"b": 1, "c": 2}},
}


def options_of_instances_and_query_sets() -> None:
    stamp = datetime.timedelta(0)
    ways: list[Callable[[], Any]] = [
        lambda: state(Thing.create(**GIVEN)),
        lambda: state(Thing.ttl(60).create(**GIVEN)),
        lambda: state(Thing(**GIVEN).ttl(60).save()),
        lambda: state(Thing.consistency(1).create(**GIVEN)),
        lambda: state(Thing.timestamp(12345).create(**GIVEN)),
        lambda: state(Thing(**GIVEN).timestamp(12345).save()),
        lambda: state(Thing(**GIVEN).timestamp(stamp).ttl(1).batch(None).save()),
        lambda: state(Thing.objects.timeout(5).create(**GIVEN)),
        lambda: state(Thing.objects.using(keyspace="other").create(**GIVEN)),
        lambda: state(Thing.objects.using(connection="other").create(**GIVEN)),
        lambda: state(Thing(**GIVEN).using(connection="other").save()),
        lambda: Thing.create("positional"),
        lambda: Thing.objects.create(no_column=1),
        lambda: state(Thing.objects(key=KEY).iff(name="x").update(name="y")),
        lambda: Thing.objects(key=KEY, place__gt=5).order_by("-place").limit(3).count(),
        lambda: Thing.objects(key__in=[KEY]).only(["name"]).first(),
        lambda: Thing.objects(key=KEY).defer(["name", "tags"]).values_list("price", flat=True)[:],
        lambda: Thing.objects(key=KEY, place=3).get(),
        lambda: Thing.objects(key=KEY).delete(),
        lambda: Thing.column_family_name(),
        lambda: Thing.column_family_name(include_keyspace=False),
        lambda: Thing.column_family_name(False),
    ]
    for way in ways:
        both(way)


def a_null_and_a_removed_entry_are_deleted() -> None:
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


def statements_in_a_batch_are_the_drivers() -> None:
    def work() -> Any:
        with query.BatchQuery(timestamp=5) as batch:
            thing = Thing.batch(batch).create(**GIVEN)
            Thing(**GIVEN).batch(batch).ttl(5).save()
            thing.name = "other"
            thing.batch(batch).save()
        return state(thing)

    both(work)


def inherited_and_polymorphic_models() -> None:
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


def counters_and_user_types() -> None:
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


def what_the_program_changes_afterwards_wins() -> None:
    accel.accelerate()

    class Late(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        name = columns.Text()

    def name() -> Any:
        return Late.create(key=1, name="a").name

    for _ in range(5):
        assert name() == "a"
    counted = seams()["cqlengine.models.BaseModel.__init__"].native
    assert SAFE or counted >= 3
    changes: list[tuple[Any, str, Any]] = [
        (Late._columns["name"], "validate", lambda value: "validated"),
        (Late._columns["name"], "to_python", lambda value: "read"),
        (Late._columns["name"], "max_length", 0),
        (columns.Text, "validate", lambda self, value: "by class"),
        (columns.Column, "has_default", property(lambda self: True)),
        (columns.BaseValueManager, "getval", lambda self: "managed"),
        (models.BaseModel, "_set_column_value", lambda self, name, value: None),
        (Late, "name", property(lambda self: "property", lambda self, value: None)),
        (Late, "_inst_batch", lambda self, batch: 1 / 0),
        (models.BaseModel, "validate", lambda self: 1 / 0),
        (models.TTLDescriptor, "__get__", lambda self, instance, owner: lambda ttl: 1 / 0),
        (models.BaseModel, "_can_update", lambda self: 1 / 0),
        (query.DMLQuery, "_execute", lambda self, statement: 1 / 0),
        (query, "InsertStatement", None),
        (columns, "deepcopy", lambda value: 1 / 0),
    ]
    for owner, attribute, value in changes:
        accel.uninstall()
        before = vars(owner).get(attribute, changes)
        if not isinstance(owner, type(columns)):
            accel.accelerate()
            assert [name() for _ in range(4)] == ["a"] * 4, attribute
        # Names in the driver's modules are looked at when the accelerator is switched on.
        setattr(owner, attribute, value)
        accelerated, again = told_accelerated(name)
        accel.uninstall()
        assert told(name) == accelerated == again, (owner, attribute, accelerated)
        if before is changes:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, before)


def told_accelerated(work: Callable[[], Any]) -> tuple[Any, Any]:
    accel.accelerate()
    return told(work), told(work)


def debugging_is_still_told() -> None:
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


def no_session_is_the_drivers_error() -> None:
    session, CONNECTION.session = CONNECTION.session, None  # type: ignore[assignment]
    try:
        accel.accelerate()
        for _ in range(4):
            found, _ = error_of(lambda: Thing.create(**GIVEN))
            assert found == "CQLEngineException", found
    finally:
        CONNECTION.session = session


def copies_are_copies() -> None:
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


def threads_at_once() -> None:
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


def seams() -> dict[str, Any]:
    return {seam.name: seam for seam in accel.status().seams}


def all_of_them_are_replaced_and_counted() -> None:
    accel.uninstall()
    accel.accelerate()
    for _ in range(4):
        Thing.create(**GIVEN)
        list(Thing.objects.filter(key=KEY))
    found = {name: seam for name, seam in seams().items() if name.startswith("cqlengine.")}
    assert len(found) == 13, found
    for name, seam in found.items():
        assert seam.patched, (name, seam.why)
        assert SAFE or seam.native, name
    accel.accelerate(without=["cqlengine"])
    assert not any(seam.patched for name, seam in seams().items() if name in found)
    accel.accelerate()


def unknown_sources_are_left_alone() -> None:
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


def checks(count: int, seed: int) -> Iterator[Callable[[], None]]:
    def generated() -> None:
        generated_models(count, seed)

    yield generated
    yield from (
        options_of_instances_and_query_sets,
        a_null_and_a_removed_entry_are_deleted,
        statements_in_a_batch_are_the_drivers,
        inherited_and_polymorphic_models,
        counters_and_user_types,
        what_the_program_changes_afterwards_wins,
        debugging_is_still_told,
        no_session_is_the_drivers_error,
        copies_are_copies,
        threads_at_once,
        all_of_them_are_replaced_and_counted,
        unknown_sources_are_left_alone,
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    run(list(checks(given.count, given.seed)))


if __name__ == "__main__":
    main()
