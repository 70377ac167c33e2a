"""Tests of rows and UDT values as objects of user classes, on a server."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import weakref
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from tests.support.apis import Api

import turbocql
import turbocql.aio
from turbocql import errors


@dataclasses.dataclass
class User:
    k: int
    v: str | None = None
    w: int | None = None


@dataclasses.dataclass
class Street:
    name: str | None
    number: int | None = None


@dataclasses.dataclass(frozen=True)
class Address:
    street: Street | None = None
    city: str | None = None


class City(NamedTuple):
    street: Any
    city: str | None


class Model(pydantic.BaseModel):
    k: int
    v: str


class Struct(msgspec.Struct):
    v: str
    k: int


async def test_rows_by_name(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        await client.execute("INSERT INTO kv (k, v) VALUES (?, ?)", (number, "a"))
        await client.execute("INSERT INTO kv (k, v) VALUES (?, ?)", (-number, None))
        select = "SELECT v, k FROM kv WHERE k = ?"
        for made, expected in [
            (User, User(number, "a")),
            (Model, Model(k=number, v="a")),
            (Struct, Struct("a", number)),
            (dict, {"k": number, "v": "a"}),
        ]:
            result = await client.execute(select, (number,), row=made)
            assert result.one() == expected
            assert await result.all() == [expected]
            text = await client.execute(f"SELECT v, k FROM kv WHERE k = {number}", row=made)
            assert await text.all() == [expected]
        with pytest.raises(TypeError, match="Street has no field 'v'"):
            (await client.execute(select, (number,), row=Street)).one()
        with pytest.raises(pydantic.ValidationError):
            (await client.execute("SELECT k, v FROM kv WHERE k = ?", (-number,), row=Model)).one()


async def test_all_pages(api_and_loop: Api, points: list[str], keyspace: str) -> None:
    @dataclasses.dataclass
    class Row:
        c: int

    async with api_and_loop.connect(points, keyspace=keyspace, page_size=100) as client:
        result = await client.execute("SELECT c FROM wide WHERE p = 0", row=Row)
        assert [row.c async for row in result] == list(range(997))
        inserted = await client.execute(
            "INSERT INTO kv (k, v) VALUES (5, 'x') IF NOT EXISTS", row=User
        )
        assert inserted.one() is None or isinstance(inserted.one(), User)


async def test_a_stop_iteration_of_a_class_does_not_end_the_iteration(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    def ends(c: int) -> int:
        if c == 150:
            raise StopIteration
        return c

    async with api_and_loop.connect(points, keyspace=keyspace, page_size=100) as client:
        result = await client.execute("SELECT c FROM wide WHERE p = 0", row=ends)
        seen = []

        async def collect() -> None:
            async for row in result:
                seen.append(row)

        with pytest.raises(RuntimeError, match="raised StopIteration"):
            await collect()
        assert seen == list(range(100))

        def again(c: int) -> Any:
            return nested.rows.page()

        nested = await client.execute("SELECT c FROM wide WHERE p = 0 LIMIT 2", row=again)
        with pytest.raises(RecursionError):
            nested.one()


def failing(c: int, failures: list[BaseException]) -> int:
    if c == 150 and failures:
        raise failures.pop()
    return c


def test_a_page_that_fails_is_decoded_again(points: list[str], keyspace: str) -> None:
    select, failures = "SELECT c FROM wide WHERE p = 0", list[BaseException]()
    with turbocql.connect(points, keyspace=keyspace, page_size=100) as session:
        result = session.execute(select, row=lambda c: failing(c, failures))
        failures[:] = [KeyboardInterrupt(), ValueError()]
        rows = iter(result)
        seen = list(itertools.islice(rows, 100))
        for kind in (ValueError, KeyboardInterrupt):
            with pytest.raises(kind):
                next(rows)
        assert seen + list(rows) == list(range(997))
        failures[:] = [ValueError()]
        pages = session.execute(select, row=lambda c: failing(c, failures)).pages()
        seen = next(pages)
        with pytest.raises(ValueError):  # noqa: PT011
            next(pages)
        assert seen + [row for page in pages for row in page] == list(range(997))
        failures[:] = [ValueError()]
        result = session.execute(select, row=lambda c: failing(c, failures))
        first, second = iter(result), iter(result)
        seen = list(itertools.islice(first, 100))
        with pytest.raises(ValueError):  # noqa: PT011
            next(first)
        with pytest.raises(errors.Error, match="the first page of these rows is no longer kept"):
            list(second)
        assert seen + list(first) == list(range(997))


async def test_a_page_that_fails_is_decoded_again_asynchronously(
    points: list[str], keyspace: str
) -> None:
    select, failures = "SELECT c FROM wide WHERE p = 0", list[BaseException]()
    async with await turbocql.aio.connect(points, keyspace=keyspace, page_size=100) as session:
        rows = aiter(await session.execute(select, row=lambda c: failing(c, failures)))
        seen = [await anext(rows) for _ in range(100)]
        failures[:] = [ValueError()]
        with pytest.raises(ValueError):  # noqa: PT011
            await anext(rows)
        assert seen + [row async for row in rows] == list(range(997))
        pages = (await session.execute(select, row=lambda c: failing(c, failures))).pages()
        seen = await anext(pages)
        failures[:] = [ValueError()]
        with pytest.raises(ValueError):  # noqa: PT011
            await anext(pages)
        assert seen + [row async for page in pages for row in page] == list(range(997))


async def test_an_applied_conditional_statement_returns_no_object(
    api: Api, points: list[str], keyspace: str, number: int
) -> None:
    insert = "INSERT INTO kv (k, v) VALUES (?, ?) IF NOT EXISTS"
    async with api.connect(points, keyspace=keyspace) as client:
        done = await client.execute(insert, (-number, "first"), row=User)
        assert (done.one(), await done.all()) == (None, [])
        assert done.rows.applied is True
        done = await client.execute(insert, (-number, "second"), row=User)
        assert await done.all() == [User(-number, "first")]


class Holder:
    """An object of a reference cycle. `held` refers to another object, which refers to `make`."""

    held: Any = None

    def make(self, **columns: Any) -> Any:
        return columns


def test_rows_that_refer_to_themselves_are_collected(points: list[str], keyspace: str) -> None:
    with turbocql.connect(points, keyspace=keyspace) as session:
        holder = Holder()
        holder.held = session.execute("SELECT k FROM kv", row=holder.make)
        holder.held.page()
        gone = weakref.ref(holder)
        del holder
        gc.collect()
        assert gone() is None


def test_a_closed_session_keeps_no_reference_to_a_class(points: list[str], keyspace: str) -> None:
    holder = Holder()
    holder.held = turbocql.connect(points, keyspace=keyspace)
    holder.held.register_type("nothing", holder.make)
    holder.held.close()
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


async def test_user_defined_types(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        tag = f"t{number}"
        for statement in (
            f"CREATE TYPE street_{tag} (name text, number int)",
            f"CREATE TYPE address_{tag} (street frozen<street_{tag}>, city text)",
            f"CREATE TABLE homes_{tag} (k int PRIMARY KEY, home address_{tag},"
            f" others list<frozen<address_{tag}>>, named map<text, frozen<address_{tag}>>,"
            f" visited set<frozen<street_{tag}>>)",
        ):
            await client.execute(statement)
        home = Address(Street("High", 1), "Ely")
        values = (1, home, [home, Address(None, "Hull")], {"a": home}, {("Low", 2)})
        insert = f"INSERT INTO homes_{tag} (k, home, others, named, visited) VALUES (?, ?, ?, ?, ?)"
        await client.execute(insert, values)
        select = f"SELECT home, others, named, visited FROM homes_{tag} WHERE k = ?"
        plain = (await client.execute(select, (1,))).one()
        assert plain.home.street.name == "High"
        client.session.register_type(f"street_{tag}", Street)
        client.session.register_type(f"address_{tag}", Address, keyspace=keyspace)
        row = (await client.execute(select, (1,))).one()
        assert row.home == home
        assert row.others == [home, Address(None, "Hull")]
        assert row.named == {"a": home}
        # `Street` is a mutable dataclass, so it is not hashable. The elements of a set are
        # therefore tuples and not of class `Street`.
        assert {tuple(street) for street in row.visited} == {("Low", 2)}
        # A changed copy of an object that was read can be written.
        await client.execute(
            f"UPDATE homes_{tag} SET home = ? WHERE k = 1",
            (dataclasses.replace(row.home, city="Bath"),),
        )
        assert (await client.execute(select, (1,))).one().home.city == "Bath"
        # A class must have each field of its UDT, even a field that was added to the UDT later.
        await client.execute(f"ALTER TYPE street_{tag} ADD postcode text")
        with pytest.raises(TypeError, match="Street has no field 'postcode'"):
            (await client.execute(select, (1,))).one()
        client.session.register_type(f"street_{tag}", None)
        client.session.register_type(f"address_{tag}", City)
        row = (await client.execute(select, (1,))).one()
        assert type(row.home) is City
        assert tuple(row.home.street) == ("High", 1, None)
