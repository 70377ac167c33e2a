"""Tests the reader of Python's imports on which the checks of the layers rely."""

from __future__ import annotations

import pytest
from tests.meta.sources import imports_in


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import turbocql._session.tables, os", {"turbocql._session.tables"}),
        ("def f():\n    from .._session import tables", {"turbocql._session.tables"}),
        ("from .._session.tables import Table", {"turbocql._session.tables"}),
        ("import importlib\nimportlib.import_module('turbocql.aio')", {"turbocql.aio"}),
        (
            "import importlib as _i\ndef f():\n    _i.import_module('turbocql.aio')",
            {"turbocql.aio"},
        ),
        ("from importlib import import_module\nimport_module('turbocql.aio')", {"turbocql.aio"}),
        ("from importlib import import_module as m\nm('turbocql.aio')", {"turbocql.aio"}),
        ("import_module(name='turbocql' '.aio')", {"turbocql.aio"}),
        ("import_module('.names', __package__)", {"turbocql._cql.names"}),
        ("import_module('..aio', package=__package__)", {"turbocql.aio"}),
        ("import_module('.aio', 'turbocql')", {"turbocql.aio"}),
        ("import_module('..names', __name__)", {"turbocql._cql.names"}),
        ("__import__('turbocql.aio')", {"turbocql.aio"}),
        ("import_module('os'), import_module(f'turbocql.{name}'), import_module(name)", set()),
        ("if TYPE_CHECKING:\n    from ..aio import connect", set()),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from .. import aio", {"turbocql.aio"}),
        ("if not TYPE_CHECKING:\n    from .. import aio", {"turbocql.aio"}),
        ("if TYPE_CHECKING or True:\n    from .. import aio", {"turbocql.aio"}),
    ],
)
def test_imports_of_a_module_are_read(text: str, modules: set[str]) -> None:
    assert set(imports_in(text, "turbocql._cql.create", "turbocql._cql")) == modules


def test_imports_of_types_are_read_on_request() -> None:
    text = "if TYPE_CHECKING:\n    from ..aio import connect"
    found = imports_in(text, "turbocql._cql.create", "turbocql._cql", types=True)
    assert set(found) == {"turbocql.aio"}
