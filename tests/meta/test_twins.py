"""The synchronous and the asynchronous face say the same, but for `await`."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import turbocql
import turbocql.aio
from turbocql import AsyncRows, Rows, Session
from turbocql.aio import AsyncSession

PAIRS = [(Session, AsyncSession), (Rows, AsyncRows)]
ONLY_SYNCHRONOUS = {"__arrow_c_schema__", "__arrow_c_stream__"}
"""A consumer of a stream waits, which would block an event loop."""
DUNDERS = {"__enter__": "__aenter__", "__exit__": "__aexit__", "__iter__": "__aiter__"}


def own(cls: type[Any]) -> dict[str, Any]:
    """What a class defines itself, but for what every class has."""
    return {
        name: member
        for name, member in vars(cls).items()
        if name not in ONLY_SYNCHRONOUS and (callable(member) or isinstance(member, property))
    }


def public(cls: type[Any]) -> set[str]:
    """What users see of a class."""
    return {name for name in dir(cls) if not name.startswith("_")}


def as_sync(text: str) -> str:
    """A text of the asynchronous face in the words of the synchronous one."""
    text = re.sub(r"^Coroutine\[Any, Any, (\w+(?:\[Any\])?)\]$", r"\1", text)
    text = text.replace("Iterable[Values] | AsyncIterable[Values]", "Iterable[Values]")
    text = re.sub(r"\(await ([^\n]*\))\)\.", r"\1.", text)
    for there, here in (
        ("await ", ""),
        ("async with ", "with "),
        ("turbocql.aio.connect", "turbocql.connect"),
        ("AsyncSession", "Session"),
        ("AsyncRows", "Rows"),
        ("AsyncBatches", "Batches"),
        ("AsyncIterator", "Iterator"),
    ):
        text = text.replace(there, here)
    return text


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS)
def test_twins_have_the_same_members(sync: type[Any], asynchronous: type[Any]) -> None:
    assert public(sync) == public(asynchronous)
    assert {DUNDERS.get(name, name) for name in own(sync)} == set(own(asynchronous))


@pytest.mark.parametrize(
    ("here", "there"),
    [
        pytest.param(
            member, own(asynchronous)[DUNDERS.get(name, name)], id=f"{sync.__name__}.{name}"
        )
        for sync, asynchronous in PAIRS
        for name, member in own(sync).items()
    ],
)
def test_twins_take_and_say_the_same(here: Any, there: Any) -> None:
    ours, theirs = inspect.signature(here), inspect.signature(there)
    assert list(ours.parameters.values()) == [
        # What is waited for anyway may come asynchronously.
        parameter.replace(annotation=as_sync(parameter.annotation))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in theirs.parameters.values()
    ]
    assert ours.return_annotation == as_sync(theirs.return_annotation)
    assert (inspect.getdoc(here) or "") == as_sync(inspect.getdoc(there) or "")
    awaited = (
        inspect.iscoroutinefunction(there)
        or inspect.isasyncgenfunction(there)
        or theirs.return_annotation.startswith(("Coroutine[", "AsyncIterator[", "AsyncBatches"))
    )
    assert awaited, "what is the same on both faces belongs to what they have in common"
    assert not inspect.iscoroutinefunction(here)


def test_connect_is_a_twin() -> None:
    ours, theirs = inspect.signature(turbocql.connect), inspect.signature(turbocql.aio.connect)
    assert list(ours.parameters.values()) == list(theirs.parameters.values())
    assert ours.return_annotation == "Session"
    here, there = inspect.getdoc(turbocql.connect), inspect.getdoc(turbocql.aio.connect)
    assert here
    assert there
    # Everything but the first line and the errors, which come at another time.
    for part in (1, -1):
        assert here.split("\n\n")[part] == as_sync(there).split("\n\n")[part]


@pytest.mark.parametrize("name", ["diagnose", "diagnosis"])
def test_the_diagnosis_is_a_twin(name: str) -> None:
    here, there = getattr(turbocql, name), getattr(turbocql.aio, name)
    ours, theirs = inspect.signature(here), inspect.signature(there)
    assert str(ours) == as_sync(str(theirs))
    assert inspect.getdoc(here) == as_sync(inspect.getdoc(there) or "").replace(".aio.", ".")
    assert inspect.iscoroutinefunction(there)


def test_the_docstrings_of_classes_say_the_same() -> None:
    for sync, asynchronous in PAIRS:
        here, there = inspect.getdoc(sync), inspect.getdoc(asynchronous)
        assert here
        assert there
        assert len(here.split("\n\n")) == len(there.split("\n\n"))
    assert (inspect.getdoc(Rows) or "").split("\n\n")[1:] == (
        inspect.getdoc(AsyncRows) or ""
    ).split("\n\n")[1:]
