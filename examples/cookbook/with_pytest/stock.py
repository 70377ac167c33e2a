"""The module under test. Its functions take a session, so that tests can pass theirs."""

import turbocql
import turbocql.aio


class OutOfStock(Exception):
    """There are fewer pieces than were asked for."""


def put(session: turbocql.Session, item: str, pieces: int) -> None:
    """Puts a new item in stock."""
    insert = "INSERT INTO stock (item, pieces) VALUES (?, ?) IF NOT EXISTS"
    if not session.execute(insert, (item, pieces)).applied:
        raise ValueError(f"{item} is in stock already")


def take(session: turbocql.Session, item: str, pieces: int) -> int:
    """Takes pieces of an item, and returns how many remain."""
    while True:
        select = "SELECT pieces FROM stock WHERE item = ?"
        stored = session.execute(select, (item,), consistency="SERIAL").scalar() or 0
        if stored < pieces:
            raise OutOfStock(item)
        update = "UPDATE stock SET pieces = ? WHERE item = ? IF pieces = ?"
        if session.execute(update, (stored - pieces, item, stored)).applied:
            return stored - pieces


async def items(session: turbocql.aio.AsyncSession) -> list[str]:
    return sorted([row.item async for row in session.execute("SELECT item FROM stock")])
