"""Generates models with random columns and options, and operations on their instances."""

from __future__ import annotations

import copy
import datetime
import decimal
import random
import uuid
from collections.abc import Callable
from typing import Any

from cassandra.cqlengine import columns, models
from cassandra.util import Date, SortedSet, Time
from tests.accel.mapper import CONNECTION, shown, state


class Shouting(columns.Text):  # type: ignore[misc]
    """A column class, as a program may define it."""

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
    """Returns a model with columns of random kinds and options."""
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
    """Returns random values for some columns. Most of the values are valid."""
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
    """A callable that makes, saves, changes, deletes and reads instances of a model."""

    def __init__(self, model: Any, chance: random.Random) -> None:
        self.model = model
        self.first = some_values(chance, model)
        self.second = some_values(chance, model, keys=False)
        self.rows = [
            {model._columns[name].db_field_name: value for name, value in row.items()}
            for row in (self.first, some_values(chance, model))
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
            instances = step(lambda: list(model.objects.filter(**self.key).limit(7)))
            self.done.append([state(instance) for instance in instances or []])
            for instance in instances or []:
                step(instance.save)
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
