"""Tests the counts of calls in `accel.status()`. The calls are made by simple statements and in
forked processes.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from cassandra import cluster, encoder, metadata, query
from cassandra.cqltypes import Int32Type, ListType
from cassandra.query import BatchStatement, SimpleStatement
from tests.accel.answers import answer
from tests.accel.statements import seams, statement

from turbocql import accel

COUNTED = "query.bind_params"


def counted() -> tuple[int, int]:
    """Returns how many calls of `bind_params` were native, and how many fell back to the driver."""
    seam = seams()[COUNTED]
    return seam.native, seam.fallback


def test_parameters_of_simple_statements_are_counted() -> None:
    own = query.bind_params
    assert cluster.bind_params is own
    insert, params = "INSERT INTO t (a, b) VALUES (%s, %s)", (1, "it's")
    named, mapping = "UPDATE t SET b = %(b)s WHERE a = %(a)s", {"a": 1, "b": None}
    cases: list[tuple[Any, ...]] = [
        (insert, params, encoder.Encoder()),
        (named, mapping, encoder.Encoder()),
        (insert, (1,), encoder.Encoder()),
        (insert, 5, encoder.Encoder()),
        (insert,),
        (None, params, encoder.Encoder()),
    ]

    def asked(function: Callable[..., Any]) -> list[Any]:
        found = [answer(function, *case) for case in cases]
        found.append(function(query=insert, params=params, encoder=encoder.Encoder()))
        found.append(function(insert, params, encoder=encoder.Encoder()))
        found += [function.__name__, inspect.signature(function), inspect.getdoc(function)]
        return found

    def batch() -> list[Any]:
        made = BatchStatement()
        made.add(insert, params)
        made.add(SimpleStatement(named), mapping)
        made.add(SimpleStatement("no parameters"))
        made.add(statement(Int32Type), (1,))
        return list(made._statements_and_parameters)

    class Failing:
        @property
        def cql_encode_all_types(self) -> Any:
            raise KeyError("no")

    def failure() -> list[str]:
        try:
            cluster.bind_params(insert, params, Failing())
        except KeyError as error:
            return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        raise AssertionError

    plain = asked(own), batch(), failure()
    accel.accelerate()
    try:
        assert not seams()[COUNTED].fallback
        assert COUNTED in str(accel.status()).split("not called so far")[1]
        assert asked(query.bind_params) == plain[0]
        assert asked(cluster.bind_params) == plain[0]
        # Calls with keyword arguments fall back to the driver. Most calls with wrong arguments also
        # do.
        assert counted() == (2 * 3, 2 * 5)
        assert batch() == plain[1]
        # The traceback has no frame of the accelerator.
        assert failure() == plain[2]
        # The driver's schema queries use `bind_params` of the module `metadata`, which is not
        # replaced.
        assert metadata.bind_params is own
        assert counted() == (2 * 3 + 2, 2 * 5 + 1)
        assert seams()[COUNTED].patched
        lines = [line for line in str(accel.status()).splitlines() if COUNTED in line]
        assert ["native 8, by the driver 11" in line for line in lines] == [True]
        assert accel.status().fallback == sum(each.fallback for each in seams().values())
        kept = query.bind_params
    finally:
        accel.uninstall()
    assert query.bind_params is own
    assert cluster.bind_params is own
    assert asked(kept)[:-3] == plain[0][:-3]
    assert not seams()[COUNTED].patched
    assert counted() == (8, 11)
    assert "by the driver 11" in str(accel.status())
    with accel.accelerated():
        assert counted() == (0, 0)


@pytest.mark.parametrize("owner", [query, cluster], ids=["query", "cluster"])
def test_a_programs_bind_params_wins(owner: Any) -> None:
    own = query.bind_params

    def mine(text: str, params: Any, encoder: Any) -> str:
        return "mine"

    with mock.patch.object(owner, "bind_params", mine):
        with accel.accelerated():
            assert owner.bind_params is mine
            assert ("replaced" in seams()[COUNTED].why) == (owner is query)
        assert owner.bind_params is mine
    assert query.bind_params is cluster.bind_params is own
    accel.accelerate()
    try:
        with mock.patch.object(owner, "bind_params", mine):
            assert owner.bind_params("", (), None) == "mine"
            accel.uninstall()
            assert owner.bind_params is mine
            assert "replaced by somebody" in str(accel.status())
        # mock has restored the accelerator's function. This function calls the driver's function,
        # because the accelerator is off.
        assert owner.bind_params("%s", (1,), encoder.Encoder()) == "1"
    finally:
        owner.bind_params = own


def in_a_child(work: Callable[[], Any]) -> Any:
    """Runs `work` in a forked process. Returns its result, which the child sends as JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            os.write(writing, json.dumps(work()).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as source:
        given = source.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(given)


def counts() -> dict[str, list[int]]:
    """Returns the counts of calls in this process. Leaves out functions that were not called."""
    called = {name: [s.native, s.fallback, s.learned] for name, s in seams().items()}
    return {name: numbers for name, numbers in called.items() if any(numbers)}


# CPython 3.12 and later warn that forking a process with threads may deadlock the child.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_children_count_for_themselves() -> None:
    binding = "query.BoundStatement.bind"
    prepared = statement(ListType.apply_parameters([Int32Type]))
    rows = ["a", "b"]

    def work(times: int) -> None:
        for _ in range(times):
            prepared.bind([[1]])
            query.named_tuple_factory(rows, [(1, 2)])
            query.bind_params("%s", (1,), encoder.Encoder())

    accel.accelerate()
    try:
        work(5)
        assert answer(prepared.bind, ["x"]).cls is TypeError
        before = counts()
        # The failed call is counted as a fallback, because the driver's function was called to
        # raise its own error.
        assert before[binding] == [5, 1, 0]
        assert before["query.namedtuple"] == [4, 0, 1]
        assert before[COUNTED] == [5, 0, 0]

        def worked() -> Any:
            at_first = counts()
            work(1)
            return at_first, counts()

        def child() -> Any:
            at_first = counts()
            work(2)
            then = counts()
            grandchild = in_a_child(worked)
            again = counts()
            pids = accel.status().pid == os.getpid(), f"{os.getpid()}" in str(accel.status())
            accel.uninstall()
            return at_first, then, grandchild, again == then, pids, counts() == then

        at_first, then, grandchild, *rest = in_a_child(child)
        assert at_first == {}
        assert then == {binding: [2, 0, 0], "query.namedtuple": [2, 0, 0], COUNTED: [2, 0, 0]}
        assert grandchild[0] == {}
        assert grandchild[1] == {
            binding: [1, 0, 0],
            "query.namedtuple": [1, 0, 0],
            COUNTED: [1, 0, 0],
        }
        assert rest == [True, [True, True], True]
        # The parent does not count the children's calls.
        assert counts() == before
        assert accel.status().pid == os.getpid()
        assert f"(process {os.getpid()})" in str(accel.status()).splitlines()[0]
    finally:
        accel.uninstall()
    # After `uninstall`, the parent keeps its counts. A new child begins without counts.
    assert counts() == before
    assert in_a_child(counts) == {}
    assert counts() == before


# CPython 3.12 and later warn that forking a process with threads may deadlock the child.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_chain_of_children_count_for_themselves() -> None:
    """Each process forks the next process, as some servers do when they restart themselves."""

    def chain(length: int) -> Any:
        query.bind_params("%s", (1,), encoder.Encoder())
        rest = in_a_child(lambda: chain(length - 1)) if length else ()
        return [counts()[COUNTED][0], *rest]

    with accel.accelerated():
        assert chain(30) == [1] * 31
