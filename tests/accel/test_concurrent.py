"""The native executors of `execute_concurrent` send the same requests and return the same results
as the driver's executors.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from cassandra import ReadTimeout, concurrent
from cassandra.cluster import EXEC_PROFILE_DEFAULT, ResponseFuture, ResultSet
from cassandra.concurrent import (
    ConcurrentExecutorListResults,
    execute_concurrent,
    execute_concurrent_with_args,
)
from tests.accel.answers import answer
from tests.accel.futures import future
from tests.accel.statements import seams

from turbocql import accel

OWN = [
    "concurrent._ConcurrentExecutor._execute",
    "concurrent._ConcurrentExecutor._on_success",
    "concurrent.ConcurrentExecutorListResults._put_result",
]
OF_GENERATORS = "concurrent.ConcurrentExecutorGenResults._put_result"
REFUSED, FAILS, EMPTY = 13, 17, 19
"""Parameters of three requests: `execute_async` refuses the first, the second fails, and the third
has the result None."""


class Session:
    """Stands in for a session. With `at_once`, a request ends when it is sent.

    Otherwise, a request ends when `end` is called.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.sent: list[Any] = []
        self.waiting: list[tuple[Any, Any]] = []
        self.at_once = at_once

    def execute_async(self, statement: Any, parameters: Any, **options: Any) -> Any:
        self.sent.append((statement, parameters, sorted(options.items(), key=str)))
        if parameters[0] == REFUSED:
            raise ReadTimeout("refused")
        made = future()
        if self.at_once:
            self._end(made, parameters[0])
        else:
            self.waiting.append((made, parameters[0]))
        return made

    def submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        function(*arguments)

    def end(self, position: int = 0) -> None:
        """Ends a request that was sent."""
        self._end(*self.waiting.pop(position))

    def _end(self, made: Any, parameter: int) -> None:
        if parameter == FAILS:
            made._set_final_exception(ReadTimeout("failed"))
        elif parameter == EMPTY:
            made._set_final_result(None)
        else:
            made._col_names = ["a"]
            made._set_final_result([(parameter,)])


class Ending:
    """Ends requests in another thread, in a random order."""

    def __init__(self, session: Session) -> None:
        self._session, self._ended = session, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        chance = random.Random(7)
        while not self._ended.is_set():
            if self._session.waiting:
                self._session.end(chance.randrange(len(self._session.waiting)))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


def described(result: Any) -> Any:
    """Returns the parts of a result in a form that can be compared."""
    success, value = result
    if isinstance(value, Exception):
        return type(result).__name__, success, type(value), value.args
    assert type(value) is ResultSet
    made = value.response_future
    attributes = [(name, item) for name, item in vars(value).items() if item is not made]
    return type(result).__name__, success, attributes


def results(
    parameters: Any, *, at_once: bool, as_generator: bool = False, **options: Any
) -> tuple[Any, Any]:
    """Returns the results of `execute_concurrent_with_args`, and the requests that were sent."""
    session = Session(at_once=at_once)
    arguments = ((parameter,) for parameter in parameters)

    def executed() -> Any:
        returned = execute_concurrent_with_args(
            session, "INSERT", arguments, results_generator=as_generator, **options
        )
        assert as_generator or type(returned) is list
        return [described(result) for result in returned]

    if at_once:
        return answer(executed), session.sent
    with Ending(session):
        ended = answer(executed)
    # If the call raised an error, the number of sent requests varies. So they are left out.
    return ended, session.sent if type(ended) is list else ()


def same(call: Callable[[], Any]) -> Any:
    """Asserts that a call returns the same with and without the accelerator. Returns the result."""
    plain = call()
    with accel.accelerated():
        assert call() == plain
    return plain


SAMPLES: dict[str, list[int]] = {
    "none": [],
    "usual": list(range(10)) * 8,
    "empty results": [1, EMPTY, 2, EMPTY],
    "failing": [1, 2, FAILS, 3, 4, FAILS, 5],
    "refused": [1, REFUSED, 2, REFUSED, REFUSED, 3],
    "all refused": [REFUSED] * 150,
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("as_generator", [False, True])
@pytest.mark.parametrize("raises", [False, True])
def test_results_are_the_drivers(
    name: str, at_once: bool, as_generator: bool, raises: bool
) -> None:
    for concurrency in (1, 3, 100):
        call = partial(
            results,
            SAMPLES[name],
            at_once=at_once,
            as_generator=as_generator,
            raise_on_first_error=raises,
            concurrency=concurrency,
        )
        same(call)


@pytest.mark.parametrize("profile", [EXEC_PROFILE_DEFAULT, "slow", None])
def test_options_are_passed(profile: Any) -> None:
    ended, sent = same(lambda: results([1, 2], at_once=False, execution_profile=profile))
    assert len(ended) == 2
    assert ("execution_profile", profile) in sent[0][2]


PAIRS: dict[str, Callable[[], Any]] = {
    "tuples": lambda: [("a", (1,)), ("b", (2,))],
    "lists": lambda: [["a", (1,)], ["b", (2,)]],
    "iterators": lambda: iter([iter(["a", (1,)]), iter(["b", (2,)])]),
    "text": lambda: ["ab"],
    "too short": lambda: [("a",)],
    "too long": lambda: [("a", (1,), 2)],
    "endless": lambda: [iter(int, 1)],
    "no pair": lambda: [5],
    "nothing": lambda: (),
    "false": lambda: None,
    "no iterable": lambda: 5,
    "ends": lambda: (pair for pair in [("a", (1,)), ("b", (2,))]),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("as_generator", [False, True])
def test_statements_are_unpacked_as_by_the_driver(name: str, as_generator: bool) -> None:
    def outcome() -> Any:
        session = Session(at_once=True)
        return answer(
            lambda: [
                described(result)
                for result in execute_concurrent(
                    session, PAIRS[name](), results_generator=as_generator
                )
            ]
        ), session.sent

    same(outcome)


@pytest.mark.parametrize("concurrency", [0, -1, "3", None, 2.5])
def test_concurrency_is_checked(concurrency: Any) -> None:
    pairs = [("a", (1,))]
    same(lambda: repr(answer(execute_concurrent, Session(at_once=True), pairs, concurrency)))


def test_a_failing_iterable_ends_the_call() -> None:
    def rows() -> Iterator[tuple[int]]:
        yield (1,)
        raise LookupError("no more")

    def outcome() -> Any:
        session = Session(at_once=True)
        return answer(execute_concurrent_with_args, session, "a", rows()), session.sent

    assert "LookupError" in str(same(outcome))


@pytest.mark.parametrize("as_generator", [False, True])
def test_generators_stay_lazy(as_generator: bool) -> None:
    def consumption() -> list[int]:
        session, consumed = Session(), []

        def rows() -> Iterator[tuple[int]]:
            for number in range(12):
                consumed.append(number)
                yield (number,)

        counts: list[int] = []
        if as_generator:
            ended = execute_concurrent_with_args(
                session, "a", rows(), concurrency=3, results_generator=True
            )
            counts.append(len(consumed))
            for _ in range(12):
                session.end()
                counts.append(len(consumed))
                assert next(ended).success
            assert next(ended, None) is None
            return counts
        listed: list[Any] = []
        thread = threading.Thread(
            target=lambda: listed.extend(
                execute_concurrent_with_args(session, "a", rows(), concurrency=3)
            )
        )
        thread.start()
        for number in range(12):
            while len(consumed) < min(12, number + 3):
                assert thread.is_alive()
            counts.append(len(consumed))
            session.end()
        thread.join(30)
        return [*counts, len(listed)]

    same(consumption)


def test_executors_are_native() -> None:
    with accel.accelerated():
        results(range(10), at_once=True)
        counts = seams()
        assert [counts[name].native for name in OWN] == [10, 10, 10]
        results(range(10), at_once=False, as_generator=True)
        counts = seams()
        assert counts[OF_GENERATORS].native == 10
        assert not any(counts[name].fallback for name in (*OWN, OF_GENERATORS))


def test_an_executor_of_a_program_is_the_drivers() -> None:
    class Counting(ConcurrentExecutorListResults):  # type: ignore[misc]
        def _put_result(self, result: Any, index: int, success: bool) -> None:
            counted.append(index)
            super()._put_result(result, index, success)

    counted: list[int] = []
    with accel.accelerated():
        pairs = [("a", (number,)) for number in range(4)]
        executor = Counting(Session(at_once=True), pairs, EXEC_PROFILE_DEFAULT)
        assert len(executor.execute(2, True)) == 4
        assert sorted(counted) == [0, 1, 2, 3]
        assert not any(seams()[name].native for name in OWN)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ConcurrentExecutorListResults, "_put_result"),
        (concurrent._ConcurrentExecutor, "_execute_next"),
        (ResultSet, "_set_current_rows"),
    ],
)
def test_a_replaced_function_is_called(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    with accel.accelerated():
        original = getattr(owner, name)

        def replacement(*arguments: Any) -> Any:
            calls.append(name)
            return original(*arguments)

        monkeypatch.setattr(owner, name, replacement)
        assert len(results(range(4), at_once=True)[0]) == 4
        assert len(calls) >= 4
        assert seams()[OWN[0]].native == 0
        assert name in seams()[OWN[0]].why
        monkeypatch.undo()
        results(range(4), at_once=True)
        assert seams()[OWN[0]].native == 4


def test_callbacks_are_passed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have replaced `add_callbacks` by a function that relies on the argument names
    that the driver uses.
    """
    original = ResponseFuture.add_callbacks

    def traced(self: Any, **options: Any) -> Any:
        calls.append(sorted(options))
        return original(self, **options)

    calls: list[list[str]] = []
    monkeypatch.setattr(ResponseFuture, "add_callbacks", traced)
    assert len(results(range(4), at_once=True)[0]) == 4
    assert calls == [["callback", "callback_args", "errback", "errback_args"]] * 4


def test_another_future_is_called_by_name() -> None:
    class Own:
        """A future of a program."""

        def add_callbacks(self, **options: Any) -> None:
            self.options = options
            options["callback"]([(1,)], *options["callback_args"])

        def clear_callbacks(self) -> None:
            cleared.append(self)

        _col_names = _col_types = None

    class Sending:
        def execute_async(self, *arguments: Any, **options: Any) -> Own:
            return Own()

    def outcome() -> Any:
        cleared.clear()
        ended = execute_concurrent(Sending(), [("a", (1,)), ("b", (2,))])
        names = [sorted(result.result_or_exc.response_future.options) for result in ended]
        return len(cleared), names, [result.result_or_exc.current_rows for result in ended]

    cleared: list[Own] = []
    assert same(outcome)[0] == 2
