"""Tests the native iterators behind `for` and `async for` over rows, with pages from memory."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from turbocql import _core
from turbocql._rows.pages import SyncPages

ROWS = [(n, str(n)) for n in range(7)]


class Pages:
    """Pages in memory. If a page is an exception, `next_page` raises it."""

    def __init__(self, *pages: Any) -> None:
        self.pages = list(pages)

    def next_page(self) -> Any:
        page = self.pages.pop(0) if self.pages else None
        if isinstance(page, BaseException):
            raise page
        return page


class AsyncPages(Pages):
    """Returns each page after one iteration of the event loop."""

    ended = False

    async def next_page(self) -> Any:
        try:
            await asyncio.sleep(0)
            return super().next_page()
        finally:
            self.ended = True


def steps(*pages: Any) -> _core.AsyncRowIterator:
    return _core.AsyncRowIterator(AsyncPages(*pages))


def run(program: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(program())


def test_rows_come_in_order_and_empty_pages_are_passed() -> None:
    rows = _core.RowIterator(Pages([], ROWS[:3], [], [], ROWS[3:], []))
    assert iter(rows) is rows
    assert list(rows) == ROWS
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(rows)


def test_a_page_that_fails_is_requested_again() -> None:
    rows = _core.RowIterator(Pages(ROWS[:2], OSError("down"), ROWS[2:]))
    assert [next(rows), next(rows)] == ROWS[:2]
    with pytest.raises(OSError, match="down"):
        next(rows)
    assert list(rows) == ROWS[2:]


@pytest.mark.parametrize("page", [(), 1, iter([])])
def test_a_page_is_a_list(page: Any) -> None:
    with pytest.raises(TypeError):
        next(_core.RowIterator(Pages(page)))


def test_threads_share_an_iterator() -> None:
    numbers = [[n] for n in range(20_000)]
    rows = _core.RowIterator(Pages(*[numbers[at : at + 500] for at in range(0, 20_000, 500)]))
    seen: list[list[int]] = []
    threads = [threading.Thread(target=lambda: seen.extend(rows)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == numbers


class Nested(Pages):
    """Pages whose iterator is used again while it fetches the second page.

    The second call of `next_page` requests a row from the iterator, which then fetches the third
    page.
    """

    iterator: Any
    seen: list[Any]

    def next_page(self) -> Any:
        page = super().next_page()
        if page == ROWS[2:4]:
            self.seen.append(next(self.iterator))
        return page


def test_no_row_is_lost_if_a_page_begins_before_another_has_ended() -> None:
    pages = Nested(ROWS[:2], ROWS[2:4], ROWS[4:6], ROWS[6:])
    pages.seen, pages.iterator = [], _core.RowIterator(pages)
    rows = list(pages.iterator)
    assert sorted(rows + pages.seen) == sorted(ROWS)


class Result:
    """A stand-in for a result of three pages. Each page has one row, the number of the page."""

    number = 0

    def _check_page(self, number: int) -> None:
        assert number == self.number

    def _prefetch(self) -> None:
        pass

    def _decode(self) -> list[int]:
        return [self.number]

    def _leave(self, number: int) -> bool:
        self._check_page(number)
        return number < 2

    def _advance(self) -> Result:
        self.number += 1
        return self

    def wait(self) -> bool:
        return True


def test_no_page_is_lost_if_another_thread_comes_before_its_rows_are_taken() -> None:
    class Overtaken(SyncPages):
        overtakes = False

        def _take(self) -> list[Any]:
            if self.overtakes:
                self.overtakes = False
                seen.extend(self.next_page() or [])
            return super()._take()

    seen: list[int] = []
    pages = Overtaken(Result())
    seen += next(pages)
    pages.overtakes = True
    for page in pages:
        seen += page
    assert sorted(seen) == [0, 1, 2]


def test_no_row_is_lost_if_two_tasks_share_an_iterator() -> None:
    class SlowPages(AsyncPages):
        async def next_page(self) -> Any:
            page = await super().next_page()
            await asyncio.sleep(0)
            return page

    async def program() -> None:
        rows = _core.AsyncRowIterator(SlowPages(ROWS[:2], ROWS[2:4], ROWS[4:6], ROWS[6:]))
        seen: list[Any] = []

        async def read() -> None:
            async for row in rows:
                seen.append(row)

        await asyncio.gather(read(), read(), read())
        assert sorted(seen) == sorted(ROWS)

    run(program)


def test_a_cycle_is_collected() -> None:
    for made in (_core.RowIterator, _core.AsyncRowIterator):
        pages = Pages(ROWS)
        pages.own = made(pages)  # type: ignore[attr-defined]
        gone = weakref.ref(pages)
        del pages
        gc.collect()
        assert gone() is None


def test_async_rows_come_in_order() -> None:
    async def program() -> None:
        rows = steps([], ROWS[:3], [], ROWS[3:])
        assert [row async for row in rows] == ROWS
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await rows.__anext__()

    run(program)


def test_an_async_page_that_fails_is_requested_again() -> None:
    async def program() -> None:
        rows = steps(ROWS[:2], OSError("down"), ROWS[2:])
        assert [await rows.__anext__(), await rows.__anext__()] == ROWS[:2]
        with pytest.raises(OSError, match="down"):
            await rows.__anext__()
        assert [row async for row in rows] == ROWS[2:]

    run(program)


def test_a_step_that_is_never_awaited_takes_no_row() -> None:
    async def program() -> None:
        rows = steps(ROWS)
        rows.__anext__()  # This step is never awaited, so it must not take a row.
        first, second = rows.__anext__(), rows.__anext__()
        assert await second == ROWS[0]
        assert await first == ROWS[1]
        assert [row async for row in rows] == ROWS[2:]

    run(program)


def test_steps_are_coroutines() -> None:
    async def program() -> None:
        rows = steps(ROWS[:1], ROWS[1:2], ROWS[2:3], ROWS[3:])
        assert asyncio.iscoroutine(rows.__anext__())
        assert await asyncio.wait_for(rows.__anext__(), 10) == ROWS[0]
        assert await asyncio.create_task(rows.__anext__()) == ROWS[1]
        assert await anext(rows) == ROWS[2]
        assert list(await asyncio.gather(rows.__anext__())) == [ROWS[3]]

    run(program)


def test_a_step_is_awaited_once() -> None:
    async def program() -> None:
        rows = steps(ROWS)
        for pages_asked in (True, False):
            step = rows.__anext__()
            assert await step == ROWS[0 if pages_asked else 1]
            with pytest.raises(RuntimeError, match="already awaited"):
                await step
        closed = rows.__anext__()
        closed.close()
        closed.close()
        with pytest.raises(RuntimeError, match="already awaited"):
            await closed
        assert await rows.__anext__() == ROWS[2]

    run(program)


def test_exceptions_are_thrown_into_a_step() -> None:
    rows = steps(ROWS)
    fresh = rows.__anext__()
    with pytest.raises(KeyError, match="thrown"):
        fresh.throw(KeyError("thrown"))
    with pytest.raises(RuntimeError, match="already awaited"):
        fresh.send(None)
    with pytest.raises(TypeError, match="just-started"):
        rows.__anext__().send(1)
    pages = AsyncPages(ROWS)
    waiting = _core.AsyncRowIterator(pages).__anext__()
    assert waiting.send(None) is None
    assert not pages.ended
    with pytest.raises(KeyError, match="thrown"):
        waiting.throw(KeyError, KeyError("thrown"))
    assert pages.ended


@pytest.mark.parametrize(
    "thrown",
    [
        (KeyError,),
        (KeyError, "thrown"),
        (KeyError, KeyError("thrown"), None),
        (KeyError("thrown"),),
    ],
)
def test_an_awaited_page_receives_only_the_thrown_exception(thrown: tuple[Any, ...]) -> None:
    """A caller may pass up to three arguments to `throw`. The awaited page gets only one.

    The reason is that CPython has deprecated more than one argument.
    """
    received: list[tuple[Any, ...]] = []

    class Waiting:
        def __await__(self) -> Waiting:
            return self

        def send(self, _: None) -> str:
            return "yielded"

        def throw(self, *arguments: Any) -> None:
            received.append(arguments)
            raise arguments[0]

    class Source:
        def next_page(self) -> Waiting:
            return Waiting()

    step: Any = _core.AsyncRowIterator(Source()).__anext__()
    assert step.send(None) == "yielded"
    with pytest.raises(KeyError) as caught:
        step.throw(*thrown)
    assert received == [(caught.value,)]
    with pytest.raises(KeyError):
        _core.AsyncRowIterator(Source()).__anext__().throw(*thrown)


def test_closing_a_step_closes_the_awaited_page() -> None:
    pages = AsyncPages(ROWS)
    rows = _core.AsyncRowIterator(pages)
    step = rows.__anext__()
    step.send(None)
    step.close()
    assert pages.ended
    assert run(lambda: all_of(rows)) == ROWS


async def all_of(rows: _core.AsyncRowIterator) -> list[Any]:
    return [row async for row in rows]


def test_a_cancelled_step_loses_no_row() -> None:
    class Slow(AsyncPages):
        async def next_page(self) -> Any:
            await asyncio.sleep(0.05)
            return await super().next_page()

    async def program() -> None:
        rows = _core.AsyncRowIterator(Slow(ROWS))
        task: asyncio.Task[Any] = asyncio.create_task(rows.__anext__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [row async for row in rows] == ROWS

    run(program)


def test_a_step_cannot_be_resumed_while_it_runs() -> None:
    class Nested(AsyncPages):
        step: Any = None

        async def next_page(self) -> Any:
            with pytest.raises(ValueError, match="already executing"):
                self.step.send(None)
            with pytest.raises(ValueError, match="already executing"):
                self.step.close()
            return await super().next_page()

    async def program() -> None:
        pages = Nested(ROWS)
        pages.step = _core.AsyncRowIterator(pages).__anext__()
        assert await pages.step == ROWS[0]

    run(program)


def test_a_stop_iteration_of_a_page_does_not_end_the_rows() -> None:
    async def program() -> None:
        rows = steps(StopIteration("odd"), ROWS)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await rows.__anext__()
        assert [row async for row in rows] == ROWS

    run(program)
