"""Checks that the synchronous and asynchronous classes have the same public members."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from turbocql import AsyncRows, Rows, Session
from turbocql._checks import _Absent
from turbocql.aio import AsyncSession

PAIRS = [(Session, AsyncSession), (Rows, AsyncRows)]


def public(cls: type[Any]) -> set[str]:
    """Returns the public members of a class, including inherited ones.

    Some names exist only for users of other drivers: looking them up raises an error with advice.
    These names are left out.
    """
    return {
        name
        for name in dir(cls)
        if not name.startswith("_") and not isinstance(inspect.getattr_static(cls, name), _Absent)
    }


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS)
def test_both_classes_have_the_same_members(sync: type[Any], asynchronous: type[Any]) -> None:
    assert public(sync) == public(asynchronous)


@pytest.mark.parametrize(
    ("sync", "asynchronous"),
    [
        pytest.param(
            inspect.getattr_static(sync, name),
            inspect.getattr_static(asynchronous, name),
            id=f"{sync.__name__}.{name}",
        )
        for sync, asynchronous in PAIRS
        for name in sorted(public(sync) & public(asynchronous))
    ],
)
def test_members_are_shared_or_awaited(sync: Any, asynchronous: Any) -> None:
    if sync is asynchronous:
        return
    awaited = (
        inspect.iscoroutinefunction(asynchronous)
        or inspect.isasyncgenfunction(asynchronous)
        or inspect.signature(asynchronous).return_annotation.startswith(
            ("Coroutine[", "AwaitableRows[", "AsyncIterator[", "AsyncBatches", "AsyncEventStream[")
        )
    )
    assert awaited, "what is the same for both belongs to their base class"
    assert not inspect.iscoroutinefunction(sync)


@pytest.mark.parametrize("cls", [AsyncSession, AsyncRows])
def test_only_synchronous_rows_are_an_arrow_stream(cls: type[Any]) -> None:
    assert not hasattr(cls, "__arrow_c_stream__")
    assert hasattr(Rows, "__arrow_c_stream__")
