"""Tests on a real Cassandra. Tables are empty when a test begins."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import stock

import turbocql
import turbocql.aio


def test_pieces_are_taken(cassandra_session: turbocql.Session) -> None:
    stock.put(cassandra_session, "chair", 3)
    assert stock.take(cassandra_session, "chair", 2) == 1
    with pytest.raises(stock.OutOfStock):
        stock.take(cassandra_session, "chair", 2)


def test_the_table_is_empty_again(cassandra_session: turbocql.Session) -> None:
    with pytest.raises(stock.OutOfStock):
        stock.take(cassandra_session, "chair", 1)


def test_no_piece_is_taken_twice(cassandra_session: turbocql.Session) -> None:
    stock.put(cassandra_session, "lamp", 8)
    with ThreadPoolExecutor(4) as threads:
        left = threads.map(lambda _: stock.take(cassandra_session, "lamp", 1), range(8))
        assert sorted(left) == list(range(8))


def test_items_are_listed(
    cassandra_session: turbocql.Session, cassandra_async_session: turbocql.aio.AsyncSession
) -> None:
    for item in ("lamp", "chair"):
        stock.put(cassandra_session, item, 1)
    assert asyncio.run(stock.items(cassandra_async_session)) == ["chair", "lamp"]
