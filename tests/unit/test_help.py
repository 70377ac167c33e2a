"""Tests that `help()` names the options of functions that take `**options`."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
from collections.abc import Callable
from typing import Any

import pytest

import turbocql
from turbocql import _options, aio, dbapi
from turbocql._config.meanings import SETTINGS
from turbocql.config import Settings

OPTIONS = {
    "execute": _options.ExecuteOptions,
    "load": _options.LoadOptions,
    "scan": _options.ScanOptions,
    "unload": _options.UnloadOptions,
    "verify": _options.VerifyOptions,
}
METHODS = [
    pytest.param(getattr(session, name), options, name, id=f"{session.__name__}.{name}")
    for session in (turbocql.Session, aio.AsyncSession)
    for name, options in OPTIONS.items()
]
CONNECTS = [turbocql.connect, aio.connect, dbapi.connect]


def keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """Maps each keyword-only parameter of a function to its default.

    Raises: AssertionError if the signature has `**options` and not the names of the options.
    """
    parameters = inspect.signature(function).parameters.values()
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in parameters)
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def listed(documented: object) -> dict[str, str]:
    """Maps each option in a help text to its meaning. The keys have the form `name=default`."""
    text = inspect.getdoc(documented) or ""
    lines = text.partition("\nOptions, with their defaults:\n\n")[2].splitlines()
    return dict(line.removeprefix("- `").split("`: ", 1) for line in lines)


@pytest.mark.parametrize(("method", "options", "name"), METHODS)
def test_methods_name_their_options(method: Callable[..., Any], options: Any, name: str) -> None:
    defaults = keywords(method)
    assert list(defaults) == list(options.__annotations__)
    meanings = _options.MEANINGS[name]
    assert set(meanings) == set(defaults)
    assert listed(method) == {
        f"{option}={default!r}": meanings[option] for option, default in defaults.items()
    }
    assert "**options" not in pydoc.plain(pydoc.render_doc(method))


@pytest.mark.parametrize("connect", CONNECTS, ids=lambda connect: connect.__module__)
def test_connecting_names_the_settings(connect: Callable[..., Any]) -> None:
    defaults = keywords(connect)
    assert defaults.pop("config") is None
    assert list(defaults) == list(Settings.__annotations__)
    settings = turbocql.Config()
    for name, default in defaults.items():
        assert default == getattr(settings, name), name
    shown = listed(connect)
    assert [option.partition("=")[0] for option in shown] == list(defaults)
    assert shown["port=9042"] == SETTINGS["port"]
    assert "consistency='LOCAL_QUORUM'" in shown
    assert "balancing=Balancing()" in shown


def test_a_config_says_what_each_setting_means() -> None:
    fields = [field.name for field in dataclasses.fields(turbocql.Config)]
    assert list(SETTINGS) == fields
    assert [option.partition("=")[0] for option in listed(turbocql.Config)] == fields


def test_a_batch_names_its_options() -> None:
    assert list(keywords(turbocql.Batch)) == list(_options.BatchOptions.__annotations__)
    assert len(turbocql.Batch("unlogged", consistency="ONE")) == 0
    with pytest.raises(TypeError, match="consistencies"):
        turbocql.Batch("unlogged", consistencies="ONE")  # type: ignore[call-arg]


def test_meanings_fit_into_a_line() -> None:
    for meanings in (SETTINGS, *_options.MEANINGS.values()):
        for name, meaning in meanings.items():
            assert len(f"- `{name}=None`: {meaning}") <= 110
            assert not meaning.endswith(".")


def test_functions_keep_their_identity_and_behavior() -> None:
    def function(first: int, **options: object) -> tuple[int, dict[str, object]]:
        """Returns its arguments."""
        return first, options

    code = function.__code__
    spell_out = _options.spelled_out(["a", "b"], {"a": "one", "b": "two"}, {"b": 3})
    assert spell_out(function) is function
    assert function.__code__ is code
    assert function(1, c=2) == (1, {"c": 2})
    assert str(inspect.signature(function)).startswith("(first: 'int', *, a=None, b=3) ->")
    assert function.__doc__ is not None
    assert function.__doc__.endswith("defaults:\n\n- `a=None`: one\n- `b=3`: two")


def test_help_names_the_parts_of_the_accelerator() -> None:
    for function in (turbocql.accelerate, turbocql.accel.accelerate):
        text = inspect.getdoc(function) or ""
        with pytest.raises(ValueError, match="part") as caught:
            function(without=["nothing"])
        parts = str(caught.value).partition("the parts are ")[2].split(", ")
        assert len(parts) > 5
        assert all(f"`{part}`" in text for part in parts)
