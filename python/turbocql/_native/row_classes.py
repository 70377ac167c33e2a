"""Makes objects of the user's classes from rows and from values of user-defined types."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, cast

from .records import DATACLASS_FIELD

__all__ = ["field_names", "row_maker"]

APPLIED = "[applied]"
"""The result column that shows whether a lightweight transaction was applied."""


def row_maker(made: Callable[..., Any], names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """Returns a function that makes an object from a tuple of values with these names.

    Dataclasses, named tuples, and classes of attrs, msgspec and pydantic get the values by the
    names of their fields. Every name must be a field, unless a pydantic model allows extra fields.
    Every field without a default must be among the names. Any other callable is called with the
    values as keyword arguments.

    Raises: `TypeError` when the names do not match the fields.
    """
    if not isinstance(made, type):
        # Not cached: a callable may keep other objects alive, and may be equal to another callable.
        return _make_maker(made, names)
    key = (id(made), names)
    kept = _kept.get(key)
    if kept is not None and kept[0] is made:
        return kept[1]
    make = _make_maker(made, names)
    if len(_kept) >= _MOST:
        _kept.clear()
    _kept[key] = (made, make)
    return make


_MOST = 128
_kept: dict[tuple[int, tuple[str, ...]], tuple[type, Callable[[tuple[Any, ...]], Any]]] = {}
"""Makers by the class's `id` and the columns. The cache keeps the class alive, so that no other
class can get the same `id`."""


def _make_maker(
    made: Callable[..., Any], names: tuple[str, ...]
) -> Callable[[tuple[Any, ...]], Any]:
    if APPLIED in names:
        return _conditional(made, names)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TypeError(f"{_called(made)}: two columns are called {twice!r}; rename one with AS")
    fields = _fields(made)
    if fields is None:
        return _by_keyword(made, names)
    known = {field.name: field for field in fields}
    unknown = [name for name in names if name not in known]
    if unknown and _takes_more(made):
        return _by_keyword(made, tuple(known[n].argument if n in known else n for n in names))
    if unknown:
        raise TypeError(
            f"{_called(made)} has no field {unknown[0]!r} for the column or field of that name; its"
            f" fields are {', '.join(known) or 'none'}"
        )
    missing = [field.name for field in fields if field.required and field.name not in names]
    if missing:
        raise TypeError(
            f"{_called(made)} needs {missing[0]!r}, and no column is called so; the columns are"
            f" {', '.join(names)}"
        )
    positional = _order(fields, names) if _is_in_order(made, fields) else None
    if positional is not None:
        return _by_position(made, positional)
    return _by_keyword(made, tuple(known[name].argument for name in names))


def _conditional(
    made: Callable[..., Any], names: tuple[str, ...]
) -> Callable[[tuple[Any, ...]], Any]:
    """A maker for rows of a lightweight transaction, without the column `[applied]`.

    The row of a transaction that was not applied becomes an object. The row of a transaction that
    was applied becomes `None`: Cassandra sends only `[applied]`, ScyllaDB also the other columns.
    """
    applied = names.index(APPLIED)
    others = tuple(i for i, name in enumerate(names) if name != APPLIED)
    if not others:
        return lambda row: None
    make = _make_maker(made, tuple(names[i] for i in others))
    return lambda row: None if row[applied] else make(tuple(row[i] for i in others))


_ARGUMENT: Any = vars(dataclasses)["_FIELD_INITVAR"]


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    argument: str
    """The name of the constructor's argument."""
    required: bool


def _fields(made: Any) -> list[_Field] | None:
    """The fields of a class of a known kind; `None` for other callables."""
    if not isinstance(made, type):
        return None
    if issubclass(made, tuple) and hasattr(made, "_fields"):
        defaults = getattr(made, "_field_defaults", {})
        return [_Field(name, name, name not in defaults) for name in made._fields]
    # Checked before dataclasses, because some classes of pydantic pass both checks.
    if isinstance(getattr(made, "model_fields", None), dict):
        return _pydantic_fields(made)
    if dataclasses.is_dataclass(made):
        missing, members = dataclasses.MISSING, cast(Any, made).__dataclass_fields__.values()
        return [
            _Field(
                field.name,
                field.name,
                field.default is missing and field.default_factory is missing,
            )
            # `dataclasses.fields` leaves out `InitVar`s, which `__init__` takes as arguments.
            for field in members
            if field.init and field._field_type in (DATACLASS_FIELD, _ARGUMENT)
        ]
    if hasattr(made, "__attrs_attrs__"):
        nothing = sys.modules["attr"].NOTHING
        return [
            _Field(
                field.name,
                getattr(field, "alias", None) or field.name.lstrip("_"),
                field.default is nothing,
            )
            for field in made.__attrs_attrs__
            if field.init
        ]
    # The metaclass of msgspec's classes has this attribute too, but not as a tuple.
    if isinstance(getattr(made, "__struct_fields__", None), tuple):
        return _msgspec_fields(made)
    return None


def _pydantic_fields(made: Any) -> list[_Field]:
    fields = []
    for name, field in made.model_fields.items():
        # A model that does not accept field names beside aliases must be called with its aliases.
        config = made.model_config
        by_name = config.get("populate_by_name") or config.get("validate_by_name")
        choices = getattr(field.validation_alias, "choices", [field.validation_alias])
        alias = next((one for one in choices if isinstance(one, str)), field.alias)
        argument = name if by_name or alias is None else alias
        fields.append(_Field(name, argument, field.is_required()))
    return fields


def _msgspec_fields(made: Any) -> list[_Field]:
    fields = sys.modules["msgspec.structs"].fields(made)
    return [_Field(field.name, field.name, field.required) for field in fields]


def field_names(made: type) -> frozenset[str] | None:
    """The attribute names of the fields that objects of a class have.

    For dataclasses, and classes of attrs, msgspec and pydantic; `None` for other classes. The
    native core calls this.
    """
    kept = _kept_names.get(id(made))
    if kept is not None and kept[0] is made:
        return kept[1]
    names = _field_names(made)
    if len(_kept_names) >= _MOST:
        _kept_names.clear()
    _kept_names[id(made)] = (made, names)
    return names


_kept_names: dict[int, tuple[type, frozenset[str] | None]] = {}
"""Field names by the class's `id`. The cache keeps the class alive, as `_kept` does."""


def _field_names(made: Any) -> frozenset[str] | None:
    if dataclasses.is_dataclass(made):
        # Includes the fields that the constructor does not take.
        return frozenset(field.name for field in dataclasses.fields(made))
    if hasattr(made, "__attrs_attrs__"):
        return frozenset(field.name for field in made.__attrs_attrs__)
    if issubclass(made, tuple):
        return None
    fields = _fields(made)
    return None if fields is None else frozenset(field.name for field in fields)


def _takes_more(made: Any) -> bool:
    """Whether a pydantic model accepts values that are not among its fields."""
    return getattr(made, "model_config", {}).get("extra") == "allow"


def _is_in_order(made: Any, fields: Sequence[_Field]) -> bool:
    """Whether the constructor takes exactly the fields, in their order."""
    try:
        parameters = list(inspect.signature(made).parameters.values())
    except (TypeError, ValueError):
        return False
    return [parameter.name for parameter in parameters] == [
        field.argument for field in fields
    ] and all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)


def _order(fields: Sequence[_Field], names: tuple[str, ...]) -> list[int] | None:
    """The positions in `names` of the first `len(names)` fields; `None` if `names` has others."""
    first = [field.name for field in fields[: len(names)]]
    return [names.index(name) for name in first] if set(first) == set(names) else None


def _by_position(made: Callable[..., Any], order: list[int]) -> Callable[[tuple[Any, ...]], Any]:
    if order == list(range(len(order))):
        return lambda row: made(*row)
    if len(order) == 1:
        return lambda row: made(row[0])
    pick = itemgetter(*order)
    return lambda row: made(*pick(row))


def _by_keyword(
    made: Callable[..., Any], names: tuple[str, ...]
) -> Callable[[tuple[Any, ...]], Any]:
    # An exception raised by the user's converter or constructor passes through unchanged.
    return lambda row: made(**dict(zip(names, row, strict=True)))


def _called(made: Any) -> str:
    return getattr(made, "__qualname__", None) or repr(made)
