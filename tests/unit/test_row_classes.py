"""Tests decoding rows to user classes: which fields get which values, and the errors."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import attrs
import msgspec
import pydantic
import pytest

from turbocql._native.row_classes import row_maker


@dataclasses.dataclass
class Plain:
    id: int
    name: str = "nobody"
    kept: list[int] = dataclasses.field(default_factory=list, init=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeywordOnly:
    id: int
    name: str = "nobody"


class Named(NamedTuple):
    id: int
    name: str = "nobody"


@attrs.define
class Attrs:
    id: int
    name: str = "nobody"
    _hidden: int = attrs.field(default=0, init=False)


@attrs.define(kw_only=True)
class AttrsByKeyword:
    id: int
    name: str = "nobody"


class Struct(msgspec.Struct):
    id: int
    name: str = "nobody"


class StructByKeyword(msgspec.Struct, kw_only=True):
    id: int
    name: str = "nobody"


class Model(pydantic.BaseModel):
    id: int
    name: str = "nobody"


class Aliased(pydantic.BaseModel):
    id: int = pydantic.Field(alias="ID")
    name: str = "nobody"


@pydantic.dataclasses.dataclass
class PydanticData:
    id: int
    name: str = "nobody"


KNOWN = [
    Plain,
    KeywordOnly,
    Named,
    Attrs,
    AttrsByKeyword,
    Struct,
    StructByKeyword,
    Model,
    Aliased,
    PydanticData,
]


@pytest.mark.parametrize("made", KNOWN)
def test_values_go_to_fields_by_name(made: Any) -> None:
    for names, row, name in [
        (("id", "name"), (1, "a"), "a"),
        (("name", "id"), ("a", 1), "a"),
        (("id",), (1,), "nobody"),
    ]:
        one = row_maker(made, names)(row)
        assert type(one) is made
        assert (one.id, one.name) == (1, name)


@pytest.mark.parametrize("made", KNOWN)
def test_columns_and_fields_that_do_not_fit(made: Any) -> None:
    with pytest.raises(
        TypeError, match=f"{made.__qualname__} has no field 'age' for the column or field"
    ):
        row_maker(made, ("id", "age"))
    with pytest.raises(TypeError, match="needs 'id', and no column is called so"):
        row_maker(made, ("name",))
    with pytest.raises(TypeError, match="two columns are called 'id'"):
        row_maker(made, ("id", "id"))


def test_fields_without_a_column_have_their_defaults() -> None:
    @dataclasses.dataclass
    class Defaults:
        a: int = 1
        b: int = 2
        c: int = 3

    assert row_maker(Defaults, ("c",))((9,)) == Defaults(1, 2, 9)
    assert row_maker(Defaults, ("c", "a"))((9, 8)) == Defaults(8, 2, 9)


def test_other_callables_get_keyword_arguments() -> None:
    assert row_maker(dict, ("id", "name"))((1, "a")) == {"id": 1, "name": "a"}
    assert row_maker(lambda **row: sorted(row), ("b", "a"))((1, 2)) == ["a", "b"]

    class Own:
        def __init__(self, name: str, id: int) -> None:
            self.pair = (id, name)

    assert row_maker(Own, ("id", "name"))((1, "a")).pair == (1, "a")


def test_a_callable_that_takes_other_arguments() -> None:
    message = (
        r"row= is called with the values by name, as in .*<lambda>\(id=..., name=...\): missing"
        r" a required argument: 'row'; take them as \*\*values, or pass a dataclass"
    )
    with pytest.raises(TypeError, match=message) as caught:
        row_maker(lambda row: row[0], ("id", "name"))((1, "a"))
    assert isinstance(caught.value.__cause__, TypeError)

    def fails(**row: Any) -> None:
        raise TypeError("its own")

    with pytest.raises(TypeError, match=r"^its own$"):
        row_maker(fails, ("id",))((1,))
    with pytest.raises(TypeError, match=r"int\(\)"):
        row_maker(int, ("id",))((1,))


def test_constructors_in_another_order_get_keyword_arguments() -> None:
    @dataclasses.dataclass(init=False)
    class Turned:
        a: int
        b: int

        def __init__(self, b: int, a: int) -> None:
            self.a, self.b = a, b

    @dataclasses.dataclass
    class Initialized:
        a: int
        x: dataclasses.InitVar[int] = 0
        b: int = 0

    class Swapped(NamedTuple("Swapped", [("a", int), ("b", int)])):
        __slots__ = ()

        def __new__(cls, b: int, a: int) -> Any:
            return super().__new__(cls, a, b)

    for made in (Turned, Initialized, Swapped):
        one: Any = row_maker(made, ("a", "b"))((10, 20))
        assert (one.a, one.b) == (10, 20), made


def test_arguments_that_a_dataclass_does_not_keep() -> None:
    @dataclasses.dataclass
    class Scaled:
        a: int
        factor: dataclasses.InitVar[int]
        b: int = 0
        more: dataclasses.InitVar[int] = 1
        kind: ClassVar[int] = 5

        def __post_init__(self, factor: int, more: int) -> None:
            self.a *= factor * more

    @dataclasses.dataclass(kw_only=True, slots=True)
    class ByKeyword(Scaled):
        c: int = 0

    for made in (Scaled, ByKeyword):
        one: Any = row_maker(made, ("a", "factor", "b"))((2, 10, 3))
        assert (one.a, one.b) == (20, 3)
        one = row_maker(made, ("more", "b", "a", "factor"))((5, 3, 2, 10))
        assert (one.a, one.b) == (100, 3)
        with pytest.raises(TypeError, match="needs 'factor', and no column is called so"):
            row_maker(made, ("a", "b"))
        with pytest.raises(TypeError, match="has no field 'kind'"):
            row_maker(made, ("a", "factor", "kind"))


def test_equal_callables_are_called_separately() -> None:
    @dataclasses.dataclass(frozen=True)
    class Sink:
        name: str
        out: list[Any] = dataclasses.field(compare=False)

        def __call__(self, **row: Any) -> None:
            self.out.append(row)

    first, second = Sink("x", []), Sink("x", [])
    row_maker(first, ("a",))((1,))
    row_maker(second, ("a",))((2,))
    assert (first.out, second.out) == ([{"a": 1}], [{"a": 2}])


def test_models_with_extra_fields_or_several_aliases() -> None:
    class Open(pydantic.BaseModel, extra="allow"):
        id: int

    class Chosen(pydantic.BaseModel):
        id: int = pydantic.Field(validation_alias=pydantic.AliasChoices("key", "k"))

    assert row_maker(Open, ("id", "other"))((1, 2)) == Open(id=1, other=2)  # type: ignore[call-arg]
    assert row_maker(Chosen, ("id",))((1,)).id == 1


def test_exceptions_of_the_class_are_passed_on() -> None:
    with pytest.raises(pydantic.ValidationError):
        row_maker(Model, ("id", "name"))(("x", "a"))


def test_unhashable_callables_are_called() -> None:
    class Factory:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, **row: Any) -> list[Any]:
            return list(row.values())

    assert row_maker(Factory(), ("a", "b"))((1, 2)) == [1, 2]


def test_the_answers_of_lightweight_transactions() -> None:
    assert row_maker(Plain, ("[applied]",))((True,)) is None
    made = row_maker(Plain, ("[applied]", "id", "name"))((False, 1, "a"))
    assert made == Plain(1, "a")


@pytest.mark.parametrize("names", [("[applied]", "id", "name"), ("id", "name", "[applied]")])
def test_rows_of_a_transaction(names: tuple[str, ...]) -> None:
    """A row with `[applied]` true becomes `None`, even if it has other columns.

    ScyllaDB sends the other columns also if the transaction was applied.
    """
    values: dict[str, Any] = {"id": 1, "name": "a"}
    make = row_maker(Named, names)
    assert make(tuple({**values, "[applied]": False}[name] for name in names)) == Named(1, "a")
    assert make(tuple({**values, "[applied]": True}[name] for name in names)) is None
    assert row_maker(Named, ("[applied]",))((True,)) is None
