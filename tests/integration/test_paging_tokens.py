"""Tests of signed paging tokens on a server, with its paging states and prepared statements."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.apis import Api

from turbocql import PagingTokens, Session, errors

TOKENS = PagingTokens(b"16 random bytes or more")
SELECT = "SELECT ck FROM paged WHERE pk = ?"


@pytest.fixture(autouse=True)
def paged(cassandra_session: Session) -> None:
    """Creates the table `paged` if the shared keyspace does not have it yet."""
    table = "paged (pk int, ck int, PRIMARY KEY (pk, ck))"
    cassandra_session.execute(f"CREATE TABLE IF NOT EXISTS {table}")


@pytest.mark.parametrize("kind", ["text", "prepared", "bound"])
async def test_pages_of_a_web_site(
    api: Api, points: list[str], cassandra_keyspace: str, kind: str
) -> None:
    async with api.connect(points, keyspace=cassandra_keyspace, page_size=10) as client:
        prepared = await client.prepare(SELECT)
        await client.execute_many(
            "INSERT INTO paged (pk, ck) VALUES (1, ?)", [(ck,) for ck in range(35)]
        )
        statements: dict[str, Any] = {"text": SELECT, "prepared": prepared}
        statement = statements.get(kind, prepared.bind((1,)))
        values = None if kind == "bound" else (1,)
        token, seen, tokens = None, [], []
        while True:
            state = TOKENS.verify(token, statement, values)
            rows = (await client.execute(statement, values, paging_state=state)).rows
            seen += [row.ck for row in rows.page()]
            token = TOKENS.sign(rows.paging_state, statement, values)
            if token is None:
                break
            tokens.append(token)
        assert seen == [*range(35)]
        assert len(set(tokens)) == len(tokens) >= 3
        other = prepared.bind((2,)) if kind == "bound" else statement
        other_values = None if kind == "bound" else (2,)
        with pytest.raises(errors.PagingTokenError, match="another statement, other values"):
            TOKENS.verify(tokens[0], other, other_values)
        if kind == "bound":
            with pytest.raises(TypeError, match="has its values already"):
                TOKENS.verify(tokens[0], statement, (1,))
        if kind == "prepared":
            with pytest.raises(errors.EncodeError):
                TOKENS.verify(tokens[0], statement, ("one",))


async def test_equal_sets_and_maps_verify_in_any_order(
    api: Api, points: list[str], cassandra_keyspace: str
) -> None:
    async with api.connect(points, keyspace=cassandra_keyspace) as client:
        await client.execute(
            "CREATE TABLE IF NOT EXISTS paged_by_sets"
            " (s frozen<set<text>>, m frozen<map<text, int>>, PRIMARY KEY (s, m))"
        )
        text = "SELECT * FROM paged_by_sets WHERE s = ? AND m = ?"
        for statement in (text, await client.prepare(text)):
            words = [str(number) for number in range(50)]
            token = TOKENS.sign(b"state", statement, (set(words), {"a": 1, "b": 2}))
            values: Any = (set(words), {"b": 2, "a": 1})
            assert TOKENS.verify(token, statement, values) == b"state"
            with pytest.raises(errors.PagingTokenError):
                TOKENS.verify(token, statement, (set(words), {"b": 1, "a": 2}))
            if statement is not text:
                # A prepared statement accepts a list as the value of a set. The order of the list's
                # elements must not matter.
                values = (words[::-1], {"b": 2, "a": 1})
                assert TOKENS.verify(token, statement, values) == b"state"


async def test_unset_and_null_are_different(
    api: Api, points: list[str], cassandra_keyspace: str
) -> None:
    async with api.connect(points, keyspace=cassandra_keyspace) as client:
        prepared = await client.prepare("SELECT ck FROM paged WHERE pk = ? AND ck = ?")
        token = TOKENS.sign(b"state", prepared, (1, 0))
        for values in ((1, None), (10, 0), (0, 1)):
            with pytest.raises(errors.PagingTokenError):
                TOKENS.verify(token, prepared, values)
        assert TOKENS.verify(token, prepared, {"pk": 1, "ck": 0}) == b"state"
