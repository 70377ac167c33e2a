"""Makes objects of the user's classes from rows and from values of user-defined types."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias, cast

__all__ = ["field_names", "row_maker"]

_MakeRow: TypeAlias = "Callable[[tuple[Any, ...]], Any]"
"""A function that makes an object from the values of a row."""

APPLIED = "[applied]"
"""The result column that shows whether a lightweight transaction was applied."""


def row_maker(row_class: Callable[..., Any], names: tuple[str, ...]) -> _MakeRow:
    """Returns a function that makes an object from a tuple of values with these names.

    Dataclasses, named tuples, and classes of attrs, msgspec and pydantic get the values by the
    names of their fields. Every name must be a field, unless a pydantic model allows extra fields.
    Every field without a default must be among the names. Any other callable is called with the
    values as keyword arguments.

    Raises: `TypeError` when the names do not match the fields.
    """
    if not isinstance(row_class, type):
        # Only makers for classes are cached. The cache would keep any other callable alive, with
        # all objects to which it refers. Besides, caching would be useless for bound methods,
        # because each access makes a new object.
        return _make_maker(row_class, names)
    key = (id(row_class), names)
    cached = _cached_makers.get(key)
    if cached is not None and cached[0] is row_class:
        return cached[1]
    make_row = _make_maker(row_class, names)
    if len(_cached_makers) >= _MAX_CACHED:
        _cached_makers.clear()
    _cached_makers[key] = (row_class, make_row)
    return make_row


_MAX_CACHED = 128
_cached_makers: dict[tuple[int, tuple[str, ...]], tuple[type, _MakeRow]] = {}
"""Makers by the class's `id` and the column names. The cache keeps the class alive, so that no
other class can get the same `id`."""


def _make_maker(row_class: Callable[..., Any], names: tuple[str, ...]) -> _MakeRow:
    if APPLIED in names:
        return _conditional(row_class, names)
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise TypeError(
            f"{_display_name(row_class)}: two columns are called {duplicate!r}; rename one with AS"
        )
    fields = _fields(row_class)
    if fields is None:
        return _by_keyword(row_class, names)
    fields_by_name = {field.name: field for field in fields}
    unknown_names = [name for name in names if name not in fields_by_name]
    if unknown_names and _allows_extra_fields(row_class):
        arguments = {name: field.argument for name, field in fields_by_name.items()}
        return _by_keyword(row_class, tuple(arguments.get(name, name) for name in names))
    if unknown_names:
        raise TypeError(
            f"{_display_name(row_class)} has no field {unknown_names[0]!r} for the column or field"
            f" of that name; its fields are {', '.join(fields_by_name) or 'none'}: add the field,"
            " or select without it"
        )
    missing_names = [field.name for field in fields if field.required and field.name not in names]
    if missing_names:
        raise TypeError(
            f"{_display_name(row_class)} needs {missing_names[0]!r}, and no column is called so;"
            f" the columns are {', '.join(names)}"
        )
    positional = _order(fields, names) if _takes_fields_in_order(row_class, fields) else None
    if positional is not None:
        return _by_position(row_class, positional)
    return _by_keyword(row_class, tuple(fields_by_name[name].argument for name in names))


def _conditional(row_class: Callable[..., Any], names: tuple[str, ...]) -> _MakeRow:
    """A function that makes objects from the rows of a lightweight transaction, without the column
    `[applied]`.

    If the transaction was not applied, its row becomes an object. If it was applied, its row
    becomes `None`: in this case, Cassandra sends only the column `[applied]`, and ScyllaDB sends
    all columns.
    """
    applied_position = names.index(APPLIED)
    value_positions = tuple(i for i, name in enumerate(names) if name != APPLIED)
    if not value_positions:
        return lambda row: None
    make_row = _make_maker(row_class, tuple(names[i] for i in value_positions))

    def make_unless_applied(row: tuple[Any, ...]) -> Any:
        return None if row[applied_position] else make_row(tuple(row[i] for i in value_positions))

    return make_unless_applied


_STORED: Any = vars(dataclasses)["_FIELD"]
_ARGUMENT: Any = vars(dataclasses)["_FIELD_INITVAR"]


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    argument: str
    """The name of the constructor's argument."""
    required: bool


def _fields(row_class: Any) -> list[_Field] | None:
    """The fields of a dataclass, a named tuple or a class of attrs, msgspec or pydantic.

    Returns `None` for any other callable.
    """
    if not isinstance(row_class, type):
        return None
    if issubclass(row_class, tuple) and hasattr(row_class, "_fields"):
        defaults = getattr(row_class, "_field_defaults", {})
        return [_Field(name, name, name not in defaults) for name in row_class._fields]
    # This check comes before the check for dataclasses, because some classes of pydantic pass both.
    if isinstance(getattr(row_class, "model_fields", None), dict):
        return _pydantic_fields(row_class)
    if dataclasses.is_dataclass(row_class):
        missing, members = dataclasses.MISSING, cast(Any, row_class).__dataclass_fields__.values()
        return [
            _Field(
                field.name,
                field.name,
                field.default is missing and field.default_factory is missing,
            )
            # `dataclasses.fields` would leave out `InitVar`s, but `__init__` takes them as
            # arguments.
            for field in members
            if field.init and field._field_type in (_STORED, _ARGUMENT)
        ]
    if hasattr(row_class, "__attrs_attrs__"):
        no_default = sys.modules["attr"].NOTHING
        return [
            _Field(
                field.name,
                getattr(field, "alias", None) or field.name.lstrip("_"),
                field.default is no_default,
            )
            for field in row_class.__attrs_attrs__
            if field.init
        ]
    # The metaclass of msgspec's classes also has `__struct_fields__`, but there it is not a tuple.
    if isinstance(getattr(row_class, "__struct_fields__", None), tuple):
        return _msgspec_fields(row_class)
    return None


def _pydantic_fields(model_class: Any) -> list[_Field]:
    fields = []
    for name, field in model_class.model_fields.items():
        # If a model accepts only the aliases of its fields, the arguments must have the aliases as
        # names.
        config = model_class.model_config
        by_name = config.get("populate_by_name") or config.get("validate_by_name")
        choices = getattr(field.validation_alias, "choices", [field.validation_alias])
        alias = next((choice for choice in choices if isinstance(choice, str)), field.alias)
        argument = name if by_name or alias is None else alias
        fields.append(_Field(name, argument, field.is_required()))
    return fields


def _msgspec_fields(struct_class: Any) -> list[_Field]:
    fields = sys.modules["msgspec.structs"].fields(struct_class)
    return [_Field(field.name, field.name, field.required) for field in fields]


def field_names(cls: type) -> frozenset[str] | None:
    """The names of the fields of a dataclass or a class of attrs, msgspec or pydantic.

    Returns `None` for any other class. The native core calls this function.
    """
    cached = _cached_field_names.get(id(cls))
    if cached is not None and cached[0] is cls:
        return cached[1]
    names = _field_names(cls)
    if len(_cached_field_names) >= _MAX_CACHED:
        _cached_field_names.clear()
    _cached_field_names[id(cls)] = (cls, names)
    return names


_cached_field_names: dict[int, tuple[type, frozenset[str] | None]] = {}
"""Field names by the class's `id`. The cache keeps the class alive, as `_cached_makers` does."""


def _field_names(cls: Any) -> frozenset[str] | None:
    if dataclasses.is_dataclass(cls):
        # Unlike `_fields`, this includes fields that the constructor does not take.
        return frozenset(field.name for field in dataclasses.fields(cls))
    if hasattr(cls, "__attrs_attrs__"):
        return frozenset(field.name for field in cls.__attrs_attrs__)
    if issubclass(cls, tuple):
        return None
    fields = _fields(cls)
    return None if fields is None else frozenset(field.name for field in fields)


def _allows_extra_fields(row_class: Any) -> bool:
    """Whether a pydantic model accepts values that are not among its fields."""
    return getattr(row_class, "model_config", {}).get("extra") == "allow"


def _takes_fields_in_order(row_class: Any, fields: Sequence[_Field]) -> bool:
    """Whether the constructor's parameters are exactly the fields, in the order of `fields`."""
    try:
        parameters = list(inspect.signature(row_class).parameters.values())
    except (TypeError, ValueError):
        return False
    return [parameter.name for parameter in parameters] == [
        field.argument for field in fields
    ] and all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)


def _order(fields: Sequence[_Field], names: tuple[str, ...]) -> list[int] | None:
    """The position in `names` of each of the first `len(names)` fields.

    Returns `None` if `names` are not the names of these fields.
    """
    first_names = [field.name for field in fields[: len(names)]]
    return [names.index(name) for name in first_names] if set(first_names) == set(names) else None


def _by_position(row_class: Callable[..., Any], order: list[int]) -> _MakeRow:
    if order == list(range(len(order))):
        return lambda row: row_class(*row)
    if len(order) == 1:
        return lambda row: row_class(row[0])
    pick = itemgetter(*order)
    return lambda row: row_class(*pick(row))


def _by_keyword(row_class: Callable[..., Any], names: tuple[str, ...]) -> _MakeRow:
    def make_row(row: tuple[Any, ...]) -> Any:
        values = dict(zip(names, row, strict=True))
        try:
            return row_class(**values)
        except TypeError as error:
            fault = _argument_fault(row_class, names)
            if fault is None:
                # The arguments fit, so the user's constructor or converter has raised the
                # exception.
                raise
            call = f"{_display_name(row_class)}({', '.join(f'{name}=...' for name in names[:4])})"
            raise TypeError(
                f"row= is called with the values by name, as in {call}: {fault}; take them as"
                " **values, or pass a dataclass"
            ) from error

    return make_row


def _argument_fault(row_class: Callable[..., Any], names: tuple[str, ...]) -> str | None:
    """Says why a callable cannot take keyword arguments of these names; `None` if it can."""
    import inspect

    try:
        signature = inspect.signature(row_class)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        return str(error)
    return None


def _display_name(row_class: Any) -> str:
    return getattr(row_class, "__qualname__", None) or repr(row_class)
