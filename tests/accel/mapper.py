"""Uses the driver's object mapper without a server, once with and once without the accelerator."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable
from typing import Any

from cassandra.cqlengine import columns, connection, models
from cassandra.cqlengine.usertype import UserType

from turbocql import accel


class Session:
    """Records the statements that it executes, and returns `rows`."""

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
    """A stand-in for the results of `get_connection` and `get_cluster`."""

    protocol_version = 4
    name = "default"

    def __init__(self) -> None:
        self.session = Session()
        self.cluster = self

    def register_user_type(self, *_: Any) -> None:
        """Does nothing."""


CONNECTION = Connection()


def shown(value: Any) -> Any:
    """Returns the class name and the repr of a value, or of each part of a collection."""
    name = type(value).__name__
    if type(value) in (list, tuple):
        return name, [shown(part) for part in value]
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
    """Returns the complete visible state of an instance."""
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
    """Returns the result or error of `work`, and the statements that the session executed."""
    seen = CONNECTION.session.seen = []
    try:
        found = work()
    except Exception as error:
        found = type(error).__name__, str(error)
    return found, seen


def both(work: Callable[[], Any], *, times: int = 4) -> None:
    """Asserts that `work` has the same effect with and without the accelerator.

    `work` is called once without the accelerator, then `times` times with it, and then once without
    it.
    """
    accel.uninstall()
    expected = told(work)
    accel.accelerate()
    for _ in range(times):
        found = told(work)
        assert found == expected, f"\n{found}\n{expected}"
    accel.uninstall()
    assert told(work) == expected


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
