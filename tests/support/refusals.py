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


def refused(make: Callable[[], object], secret: str = SECRET) -> str:
    """The message of the `ConfigError`, in which, and behind which, nothing is secret."""
    with pytest.raises(ConfigError) as caught:
        make()
    said = str(caught.value)
    for one in chain(caught.value):
        shown = "".join(traceback.format_exception_only(type(one), one))
        assert secret not in f"{shown}{one!r}{one.args}{vars(one)}"
    return said
