"""Tests of `scalar` and `one_or_raise`: one value or one row of a result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from tests.support.apis import Api, Client

from turbocql import errors
from turbocql.testing import Cassandra

ROWS = 7


@dataclass
class Item:
    n: int
    v: str | None = None


@pytest.fixture(scope="module")
def table(cassandra: Cassandra) -> str:
    import turbocql

    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            "CREATE KEYSPACE row_counts WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE row_counts.t (k int, n int, v text, PRIMARY KEY (k, n))")
        session.execute_many(
            "INSERT INTO row_counts.t (k, n, v) VALUES (1, ?, ?)",
            [(n, None if n == 3 else f"v{n}") for n in range(ROWS)],
        )
    return "row_counts.t"


@asynccontextmanager
async def connected(api_and_loop: Api, points: list[str], table: str) -> AsyncIterator[Client]:
    async with api_and_loop.connect(points, keyspace=table.partition(".")[0]) as client:
        yield client


async def test_scalar(api: Api, points: list[str], table: str) -> None:
    async with connected(api, points, table) as client:
        for rows in ("named", "tuple", "dict"):
            counted = await client.execute(f"SELECT count(*) FROM {table}", rows=rows)
            assert counted.scalar() == counted.scalar() == ROWS
        select = f"SELECT v, n FROM {table} WHERE k = ? AND n = ?"
        assert (await client.execute(select, (1, 2))).scalar() == "v2"
        assert (await client.execute(select, (1, 2), row=Item)).scalar() == "v2"
        assert (await client.execute(select, (1, 3))).scalar() is None  # a null
        assert (await client.execute(select, (2, 2))).scalar() is None  # no row
        # `scalar` needs only the first page.
        paged = await client.execute(f"SELECT n FROM {table} WHERE k = 1", page_size=2)
        assert paged.scalar() == 0
        assert [row.n for row in await paged.all()] == list(range(ROWS))
        with pytest.raises(errors.Error, match="no longer kept"):
            paged.scalar()


async def test_scalar_of_statements_that_return_no_rows(
    api: Api, points: list[str], table: str
) -> None:
    async with connected(api, points, table) as client:
        written = await client.execute(f"INSERT INTO {table} (k, n) VALUES (9, 9)")
        with pytest.raises(errors.Error, match=r"scalar\(\) is for statements that return rows"):
            written.scalar()
        with pytest.raises(errors.Error, match=r"one_or_raise\(\) is for statements that return"):
            await written.one_or_raise()
        conditional = f"INSERT INTO {table} (k, n) VALUES (9, 9) IF NOT EXISTS"
        assert (await client.execute(conditional)).scalar() is False
        await client.execute(f"DELETE FROM {table} WHERE k = 9")
        applied = await client.execute(conditional, row=Item)
        assert (applied.scalar(), applied.one()) == (True, None)
        with pytest.raises(errors.NoRow):
            await applied.one_or_raise()
        await client.execute(f"DELETE FROM {table} WHERE k = 9")


@pytest.mark.parametrize("page_size", [1, 2, 5000])
async def test_one_or_raise(api: Api, points: list[str], table: str, page_size: int) -> None:
    async with connected(api, points, table) as client:
        select = f"SELECT n, v FROM {table} WHERE k = 1 AND n <= ?"
        row = await (await client.execute(select, (0,), page_size=page_size)).one_or_raise()
        assert row == (0, "v0")
        item = await client.execute(select, (0,), page_size=page_size, row=Item)
        assert await item.one_or_raise() == Item(0, "v0")
        with pytest.raises(errors.NoRow, match=r"exactly one row, got none: .* use one\(\)"):
            await (await client.execute(select, (-1,), page_size=page_size)).one_or_raise()
        several = await client.execute(select, (4,), page_size=page_size)
        count = {1: "at least 2", 2: "at least 2", 5000: "5"}[page_size]
        with pytest.raises(errors.MultipleRows, match=f"expected exactly one row, got {count}:"):
            await several.one_or_raise()
        if page_size > 1:
            # `one_or_raise` found a second row on the first page and raised the error, so it did
            # not fetch another page. `all` can therefore still return every row.
            assert len(await several.all()) == 5


async def test_one_or_raise_of_one_page_can_be_called_again(
    api: Api, points: list[str], table: str
) -> None:
    async with connected(api, points, table) as client:
        result = await client.execute(f"SELECT n FROM {table} WHERE k = 1 AND n = 5")
        assert await result.one_or_raise() == await result.one_or_raise() == (5,)
        paged = await client.execute(f"SELECT n FROM {table} WHERE k = 1", page_size=2)
        await paged.all()
        with pytest.raises(errors.Error, match="no longer kept"):
            await paged.one_or_raise()


def test_the_errors_have_a_common_base_class() -> None:
    for error in (errors.NoRow, errors.MultipleRows):
        assert issubclass(error, errors.RowCountError)
        assert issubclass(error, errors.Error)
