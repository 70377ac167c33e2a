"""Native methods of `ResponseFuture` leave futures in the same state as the driver's methods."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from cassandra import OperationTimedOut, cluster
from cassandra.cluster import ResponseFuture
from cassandra.connection import Timer
from cassandra.policies import ConstantSpeculativeExecutionPolicy, RetryPolicy
from cassandra.pool import HostConnection
from cassandra.protocol import ServerError
from tests.accel.answers import answer
from tests.accel.environments import LEFT
from tests.accel.futures import (
    IS_SCYLLA,
    SET_KEYSPACE,
    VOID,
    Connection,
    Session,
    a_pool,
    described,
    future,
    response,
)
from tests.accel.statements import seams

from turbocql import accel

MAKE = "cluster.ResponseFuture.__init__"


@pytest.fixture
def is_native(driver: str) -> bool:
    """Returns whether the accelerator replaces methods of futures in this release of the driver."""
    return MAKE not in LEFT[driver]


def same(call: Callable[[], Any]) -> Any:
    """Asserts that a call returns the same with and without the accelerator. Returns the result."""
    plain = call()
    with accel.accelerated():
        assert call() == plain
    return plain


MAKINGS: dict[str, Callable[[], Any]] = {
    "usual": future,
    "no timeout": lambda: future(timeout=None),
    "all": lambda: future(
        metrics="metrics",
        prepared_statement="prepared",
        row_factory=dict,
        load_balancer=Session().cluster,
        start_time=5.0,
        host="host 9",
        continuous_paging_state="state",
    ),
    "default retry policy": lambda: ResponseFuture(Session(), "message", None, 5.0),
    "by position": lambda: ResponseFuture(
        Session(), "message", None, 5.0, None, "prepared", RetryPolicy(), dict
    ),
    "false values": lambda: future(row_factory=0, load_balancer=(), start_time=0),
    "speculative": lambda: future(
        speculative_execution_plan=ConstantSpeculativeExecutionPolicy(1, 2).new_plan("ks", None)
    ),
    "speculative, too late": lambda: future(
        timeout=0.5,
        speculative_execution_plan=ConstantSpeculativeExecutionPolicy(1, 2).new_plan("ks", None),
    ),
    "unknown parameter": lambda: future(colour="red"),
    "too many": lambda: ResponseFuture(*range(30)),
    "too few": lambda: ResponseFuture(Session()),
    "twice": lambda: ResponseFuture(Session(), "message", None, 5.0, query=None),
    "no session": lambda: ResponseFuture(None, "message", None, 5.0, retry_policy=RetryPolicy()),
}
if IS_SCYLLA:
    MAKINGS["of scylla"] = lambda: future(bound_result_metadata=None, routing_token="token")


@pytest.mark.parametrize("name", MAKINGS)
def test_futures_have_the_drivers_attributes(name: str) -> None:
    def making() -> Any:
        Connection.timers.clear()
        made = answer(MAKINGS[name])
        timers = [
            (timer.callback.__name__, timer.callback.__self__ is made)
            for timer in Connection.timers
        ]
        return described(made), timers

    same(making)


def test_futures_are_native(is_native: bool) -> None:
    with accel.accelerated():
        made = future()
        assert seams()[MAKE].native == is_native
        assert type(made) is ResponseFuture
        assert type(made._event) is threading.Event
        assert abs(made._timer.end - time.time() - 10) < 5
        assert not made._event.wait(0.01)
        made._set_final_result("rows")
        assert made._event.wait(0.01)
        assert list(made.result()) == list("rows")


def ended(outcome: Callable[[Any], Any], *, late: bool, **options: Any) -> Any:
    """Adds callbacks to a future, then ends the future's request. If `late` is true, adds the
    callbacks before and after the end.
    """
    calls: list[Any] = []

    def callback(*arguments: Any, **named: Any) -> None:
        calls.append((arguments, named))

    waiting = future(**options)
    for once in range(1 + late):
        if once:
            outcome(waiting)
        added = [
            waiting.add_callback(callback) is waiting,
            waiting.add_callback(callback, 1, 2, three=3) is waiting,
            waiting.add_callback(callback, **{"\ud800": 1}) is waiting,
            waiting.add_errback(callback, "errback", fn_=4) is waiting,
            waiting.add_callbacks(callback, callback),
            waiting.add_callbacks(callback, callback, (1,), {"x": 2}, (3,), {"y": 4}),
            waiting.add_callbacks(callback, errback=callback, callback_args=[5, 6]),
            waiting.add_callbacks(callback=callback, errback=callback, errback_kwargs={"z": 1}),
            answer(waiting.add_callbacks, callback),
            answer(waiting.add_callback),
            answer(waiting.add_callbacks, callback, callback, 5),
            answer(waiting.add_callbacks, callback, callback, (), 5),
        ]
        added.append(answer(lambda: waiting.add_callback(callback, fn=1)))
        added.append(answer(lambda: waiting.add_callbacks(callback, callback, (), {"fn": 1})))
    if not late:
        outcome(waiting)
    return described(calls), added, described(waiting), waiting._event.is_set()


OUTCOMES: dict[str, Callable[[Any], Any]] = {
    "result": lambda waiting: waiting._set_final_result("rows"),
    "no result": lambda waiting: waiting._set_final_result(None),
    "exception": lambda waiting: waiting._set_final_exception(ValueError("no")),
    "nothing": lambda waiting: None,
    "twice": lambda waiting: (waiting._set_final_result(1), waiting._set_final_result(2)),
    "wrong": lambda waiting: answer(waiting._set_final_result),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_callbacks_are_called_as_by_the_driver(outcome: str, late: bool) -> None:
    same(lambda: ended(OUTCOMES[outcome], late=late))


class Metrics:
    """The metrics of a session."""

    def __init__(self) -> None:
        self.request_timer = self
        self.values: list[float] = []

    def addValue(self, value: float) -> None:
        self.values.append(value)


def test_metrics_equal_those_of_the_driver() -> None:
    def counted() -> int:
        metrics = Metrics()
        future(metrics=metrics)._set_final_result(1)
        return len(metrics.values)

    assert same(counted) == 1


RESPONSES: dict[str, Callable[[], Any]] = {
    "rows": response,
    "void": lambda: response(VOID),
    "warnings": lambda: response(warnings=["too big"]),
    "payload": lambda: response(custom_payload={"a": b"b"}),
    "trace": lambda: response(trace_id="trace"),
    "without attributes": lambda: type(response())(VOID),
    "metadata id": lambda: response(result_metadata_id=b"id"),
    "unknown kind": lambda: response(99),
    "kind of another class": lambda: response("rows"),
    "error": lambda: ServerError(0, "broken", None),
    "exception": lambda: ValueError("no"),
    "other": lambda: 5,
}
if IS_SCYLLA:
    RESPONSES["keyspace"] = lambda: response(SET_KEYSPACE)


@pytest.mark.parametrize("name", RESPONSES)
@pytest.mark.parametrize("has_pool", [False, True])
def test_responses_end_requests(name: str, has_pool: bool, caplog: Any) -> None:
    def outcome() -> Any:
        caplog.clear()
        pool, connection = (a_pool() if has_pool else None), Connection()
        connection.features = None  # type: ignore[attr-defined]
        waiting = future()
        waiting._connection = connection
        connection.defunct = lambda error: None  # type: ignore[attr-defined]
        calls: list[Any] = []
        waiting.add_callbacks(calls.append, calls.append)
        waiting._set_result("host 1", connection, pool, RESPONSES[name]())
        messages = [record.getMessage() for record in caplog.records]
        return described(waiting), described(calls), connection.in_flight, messages

    with caplog.at_level(logging.WARNING):
        same(outcome)


@pytest.mark.parametrize("shutdown", [False, True])
def test_a_row_factory_may_fail(shutdown: bool, caplog: pytest.LogCaptureFixture) -> None:
    def fail(names: Any, rows: Any) -> Any:
        raise LookupError("no factory")

    def outcome() -> Any:
        caplog.clear()
        pool, connection = a_pool(), Connection()
        pool.is_shutdown = shutdown
        waiting = future(row_factory=fail)
        waiting._set_result("host 1", connection, pool, response())
        (record,) = caplog.records
        logged = record.getMessage(), record.name, record.exc_info[0]  # type: ignore[index]
        return described(waiting), connection.in_flight, logged

    with caplog.at_level(logging.WARNING):
        assert "LookupError" in str(same(outcome))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_callback_may_raise(error: type[BaseException]) -> None:
    def outcome() -> Any:
        def fail(rows: Any) -> None:
            raise error("stop")

        waiting = future()
        later: list[Any] = []
        waiting.add_callback(fail)
        waiting.add_callback(later.append)
        try:
            waiting._set_final_result(5)
        except BaseException as raised:
            return type(raised), later, described(waiting)
        raise AssertionError

    same(outcome)


def test_lists_of_callbacks_may_be_changed() -> None:
    calls: list[Any] = []
    lists: list[Any] = [
        [(calls.append, (), {})],
        ((calls.append, (), {}),),
        [(calls.append, [], {})],
        [(5, (), {})],
        [(calls.append,)],
        None,
    ]

    def outcome() -> list[Any]:
        outcomes = []
        for callbacks in lists:
            waiting = future()
            waiting._callbacks = callbacks
            outcomes.append((answer(waiting._set_final_result, 5), described(waiting)))
        return outcomes

    same(outcome)
    assert calls == [5] * 6


class Loud(ResponseFuture):  # type: ignore[misc]
    """A program's own class of futures."""

    def _set_final_result(self, result: Any) -> None:
        super()._set_final_result([result])

    def _cancel_timer(self) -> None:
        self.cancelled = True


def test_a_programs_future_classes_win() -> None:
    def outcome() -> Any:
        waiting = future(cls=Loud)
        waiting._set_final_result(5)
        return described(waiting), waiting.result()._current_rows, waiting.cancelled

    same(outcome)


def test_attributes_of_a_future_win() -> None:
    def outcome() -> Any:
        waiting = future()
        seen: list[Any] = []
        waiting._cancel_timer = lambda: seen.append("cancel")
        waiting.add_callback = lambda *given, **named: seen.append((len(given), named))
        waiting.add_callbacks(seen.append, seen.append, (1,), {"a": 2})
        waiting._set_final_result(5)
        waiting._set_final_result = lambda rows: seen.append(rows)
        waiting._set_result("host 1", None, None, response())
        return seen

    assert "cancel" in same(outcome)


REPLACEMENTS: dict[str, tuple[Any, Any]] = {
    "_cancel_timer": (ResponseFuture, lambda self: setattr(self, "cancelled", True)),
    "_start_timer": (ResponseFuture, lambda self: setattr(self, "_timer", None)),
    "add_errback": (ResponseFuture, lambda self, fn, *rest, **named: self.errors.append(fn)),
    "_set_final_result": (ResponseFuture, lambda self, result: setattr(self, "own", result)),
    "set": (threading.Event, lambda self: setattr(self, "_flag", 5)),
    "ResultMessage": (cluster, type("Other", (), {})),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_replaced_functions_win(name: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, value = REPLACEMENTS[name]

    def outcome() -> Any:
        waiting = future()
        waiting.errors = []
        waiting.add_callbacks(print, print)
        waiting.clear_callbacks()
        waiting._connection = Connection()
        waiting._connection.defunct = lambda error: None
        waiting._set_result("host 1", Connection(), None, response())
        return described(waiting), waiting._event._flag

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, value)
        plain = outcome()
    if when == "before":
        monkeypatch.setattr(owner, name, value)
    with accel.accelerated():
        if when == "after":
            monkeypatch.setattr(owner, name, value)
        assert outcome() == plain
        monkeypatch.undo()


def test_a_name_of_a_module_replaced_again_and_again(is_native: bool) -> None:
    """The native methods see each change of the module, and ignore changes of unrelated names."""
    own, other = cluster.ResultMessage, REPLACEMENTS["ResultMessage"][1]

    def outcome() -> Any:
        waiting = future()
        waiting._connection = Connection()
        waiting._connection.defunct = lambda error: None
        waiting._set_result("host 1", Connection(), None, response())
        return described(waiting), waiting._event._flag

    plain = outcome()
    cluster.ResultMessage = other
    changed = outcome()
    cluster.ResultMessage = own
    assert plain != changed
    with accel.accelerated():
        for number in range(50):
            cluster.unrelated = number
            assert outcome() == plain
            cluster.ResultMessage = other
            assert outcome() == changed
            cluster.ResultMessage = own
        del cluster.unrelated
        before = seams()["cluster.ResponseFuture._set_result"]
        outcome()
        after = seams()["cluster.ResponseFuture._set_result"]
        assert (after.native > before.native) == is_native


@pytest.mark.parametrize("state", ["open", "defunct", "closed", "in trash", "other in trash"])
@pytest.mark.parametrize("orphaned", [None, False, True])
def test_connections_are_returned(state: str, orphaned: bool | None) -> None:
    def outcome() -> Any:
        pool, connection = a_pool(), Connection()
        pool.shutdown_on_error = False
        if state == "in trash":
            connection.in_flight = 1
            pool._trash.add(connection)
        if state == "other in trash":
            pool._trash.add(Connection())
        connection.is_defunct, connection.is_closed = state == "defunct", state == "closed"
        connection.signaled_error = True
        if orphaned is None:
            pool.return_connection(connection)
        else:
            pool.return_connection(connection, stream_was_orphaned=orphaned)
        return connection.in_flight, connection.is_closed, len(pool._trash)

    if state in ("defunct", "closed") and not IS_SCYLLA:
        # Without this setting, the pool of cassandra-driver would replace the connection, for which
        # it needs a session.
        HostConnection._is_replacing = True
    try:
        same(outcome)
    finally:
        if "_is_replacing" in vars(HostConnection):
            del HostConnection._is_replacing


def test_a_thread_that_waits_for_a_stream_is_woken() -> None:
    pool, connection = a_pool(), Connection()
    condition, woken = pool._stream_available_condition, threading.Event()

    def wait() -> None:
        with condition:
            started.set()
            condition.wait(10)
            woken.set()

    with accel.accelerated():
        started = threading.Event()
        thread = threading.Thread(target=wait)
        thread.start()
        started.wait()
        with condition:
            pass
        pool.return_connection(connection)
        assert woken.wait(5)
        thread.join()
    assert connection.in_flight == 4


def test_many_threads_wait_for_results() -> None:
    with accel.accelerated():
        for _ in range(50):
            waiting = future()
            results: list[Any] = []
            threads = [
                threading.Thread(
                    target=lambda w=waiting, r=results: r.append(w.result()._current_rows)
                )
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            called: list[Any] = []
            adder = threading.Thread(
                target=lambda w=waiting, c=called: [w.add_callback(c.append) for _ in range(50)]
            )
            adder.start()
            waiting._set_final_result(["row"])
            for thread in (*threads, adder):
                thread.join()
            assert results == [["row"]] * 4
            assert called == [["row"]] * 50


def test_a_result_waits_for_the_callback_lock() -> None:
    with accel.accelerated():
        waiting = future()
        called: list[Any] = []
        waiting.add_callback(called.append)
        with waiting._callback_lock:
            thread = threading.Thread(target=waiting._set_final_result, args=(5,))
            thread.start()
            time.sleep(0.05)
            assert not called
        thread.join()
        assert called == [5]


def test_timeouts_fire() -> None:
    def outcome() -> Any:
        waiting = future(timeout=0.01)
        waiting._timer.finish(time.time() + 1)
        # The request was never sent, so the driver starts the timer again. It does this only three
        # times.
        for _ in range(3):
            waiting._timer.finish(time.time() + 1)
        return answer(waiting.result).cls, described(waiting)

    assert same(outcome)[0] is OperationTimedOut


def test_futures_work_in_a_forked_process() -> None:
    with accel.accelerated():
        waiting = future()
        child = os.fork()
        if not child:
            waiting.add_callback(lambda rows: os._exit(0 if rows == 5 else 1))
            waiting._set_final_result(5)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_answered_futures_are_freed(is_native: bool) -> None:
    class Kept:
        pass

    with accel.accelerated():
        kept = Kept()
        waiting = future()
        waiting.add_callback(lambda rows, kept: None, kept)
        reference = weakref.ref(kept)
        waiting._set_result("host 1", Connection(), None, response())
        Connection.timers.clear()
        gc.disable()
        try:
            del waiting, kept
            assert reference() is None
        finally:
            gc.enable()
        assert bool(seams()["cluster.ResponseFuture._set_result"].native) == is_native


def test_futures_work_after_the_accelerator_is_off() -> None:
    with accel.accelerated():
        waiting = future()
        called: list[Any] = []
        waiting.add_callbacks(called.append, called.append)
    assert isinstance(waiting._timer, Timer)
    waiting._set_final_result([5])
    assert called == [[5]]
    assert waiting.result().one() == 5
