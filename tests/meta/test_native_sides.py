"""Checks that the native core and the Python package have equal lists of certain names."""

from __future__ import annotations

import re

import pytest
from tests.meta.sources import ROOT

import turbocql.session  # noqa: F401
from turbocql._native.imports import IMPORTS, PROVIDED, load
from turbocql._options import BatchOptions, ExecuteOptions, StatementOptions

LISTS = ["crates/values/src/python.rs", "crates/accel/src/python.rs", "src/python.rs"]
"""The files in which the crates list the Python names that they import."""
OPTIONS_RS = (ROOT / "src/options.rs").read_text(encoding="utf-8")


def test_the_core_imports_the_names_of_the_table() -> None:
    names: list[str] = []
    for path in LISTS:
        text = (ROOT / path).read_text(encoding="utf-8")
        (block,) = re.findall(r"^(?:\w+::)?imports! \{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE)
        names += re.findall(r"\w+", block)
    assert sorted(names) == sorted([*IMPORTS, *PROVIDED])


@pytest.mark.parametrize("name", [*IMPORTS, *PROVIDED])
def test_every_imported_name_exists(name: str) -> None:
    assert load(name) is not None


def test_options_have_the_same_names_and_scopes() -> None:
    table = re.findall(r'option\("(\w+)", OptionScope::(\w+)', OPTIONS_RS)
    scopes = {"Batch": BatchOptions, "Statement": StatementOptions, "Execute": ExecuteOptions}
    typed: dict[str, str] = {}
    for scope, options in scopes.items():
        for name in options.__annotations__:
            typed.setdefault(name, scope)
    assert dict(table) == typed
