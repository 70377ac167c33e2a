"""Checks that settings are refused with a `ConfigError`, and that errors show no secret."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator

import pytest

from turbocql.errors import ConfigError

SECRET = "hunter2"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an exception and all of its causes and contexts."""
    while error is not None:
        yield error
        if error.__cause__ is not None and error.__cause__ is not error.__context__:
            yield from chain(error.__cause__)
        error = error.__context__


def in_clear(error: BaseException, secret: str = SECRET) -> list[str]:
    """Returns the local variables in turbocql's stack frames whose text contains the secret.

    An error tracker that records local variables would show the secret through these variables.
    Each result has the form `file:line function: variable`.
    """
    found = []
    for one in chain(error):
        told = traceback.TracebackException.from_exception(one, capture_locals=True)
        frames = [frame for frame, _ in traceback.walk_tb(one.__traceback__)]
        for frame, summary in zip(frames, told.stack, strict=True):
            # Frames of generated code are checked too. Dataclasses and named tuples generate code
            # whose file name begins with "<".
            made = frame.f_code.co_filename.startswith("<")
            if not (made or str(frame.f_globals["__name__"]).startswith("turbocql")):
                continue
            shown = {**(summary.locals or {}), **{k: str(v) for k, v in frame.f_locals.items()}}
            place = f"{summary.filename}:{summary.lineno} {summary.name}"
            found += [f"{place}: {name}" for name, text in shown.items() if secret in text]
    return found


def refused(make: Callable[[], object], secret: str = SECRET, *, frames: bool = True) -> str:
    """Checks that `make` raises a `ConfigError`, and returns the message of the error.

    Neither the error nor its causes may contain the secret. If `frames` is true, the local
    variables in the error's traceback must not contain it either. A test that calls a private
    function sets `frames` to false, because the frame of such a function may hold the secret.
    """
    with pytest.raises(ConfigError) as caught:
        make()
    said = str(caught.value)
    for one in chain(caught.value):
        shown = "".join(traceback.format_exception_only(type(one), one))
        assert secret not in f"{shown}{one!r}{one.args}{vars(one)}"
    assert not frames or in_clear(caught.value, secret) == []
    return said
