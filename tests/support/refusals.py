"""Settings that are refused, and errors that show no secret."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator

import pytest

from turbocql.errors import ConfigError

SECRET = "hunter2"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and all that it has with it."""
    while error is not None:
        yield error
        if error.__cause__ is not None and error.__cause__ is not error.__context__:
            yield from chain(error.__cause__)
        error = error.__context__


def in_clear(error: BaseException, secret: str = SECRET) -> list[str]:
    """The library's frames that an error tracker would show the secret of, with its variable."""
    found = []
    for one in chain(error):
        told = traceback.TracebackException.from_exception(one, capture_locals=True)
        frames = [frame for frame, _ in traceback.walk_tb(one.__traceback__)]
        for frame, summary in zip(frames, told.stack, strict=True):
            # Dataclasses and named tuples are made of text, in no file.
            made = frame.f_code.co_filename.startswith("<")
            if not (made or str(frame.f_globals["__name__"]).startswith("turbocql")):
                continue
            shown = {**(summary.locals or {}), **{k: str(v) for k, v in frame.f_locals.items()}}
            place = f"{summary.filename}:{summary.lineno} {summary.name}"
            found += [f"{place}: {name}" for name, text in shown.items() if secret in text]
    return found


def refused(make: Callable[[], object], secret: str = SECRET, *, frames: bool = True) -> str:
    """The message of the `ConfigError`, in which, and behind which, nothing is secret.

    `frames` says whether the frames of its traceback count: those of a private function, called
    by a test, may have everything.
    """
    with pytest.raises(ConfigError) as caught:
        make()
    said = str(caught.value)
    for one in chain(caught.value):
        shown = "".join(traceback.format_exception_only(type(one), one))
        assert secret not in f"{shown}{one!r}{one.args}{vars(one)}"
    assert not frames or in_clear(caught.value, secret) == []
    return said
