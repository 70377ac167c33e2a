"""Tests the errors of conversions for packages that are not installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from turbocql._columns import arrays, consumers
from turbocql._columns.packages import needed


@pytest.mark.parametrize(
    ("package", "convert", "message"),
    [
        (
            "pandas",
            lambda: frame().to_pandas(),
            "to_pandas() needs the package pandas: pip install",
        ),
        ("pyarrow", lambda: frame().to_pandas(), "to_pandas() needs the package pyarrow: pip inst"),
        (
            "pyarrow",
            lambda: consumers.pyarrow_table(None),
            "to_arrow() needs the package pyarrow: ",
        ),
        (
            "polars",
            lambda: consumers.polars_frame(None),
            "to_polars() needs the package polars: pi",
        ),
        ("numpy", consumers._numpy, "to_numpy() needs the package numpy: pip install numpy"),
        ("numpy", arrays.numpy, "an array needs the package numpy: pip install numpy"),
    ],
)
def test_a_missing_package(
    package: str, convert: Callable[[], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package != "pandas":
        # The conversion imports pandas first. pandas may not be installed, so another module takes
        # its place.
        monkeypatch.setitem(sys.modules, "pandas", sys)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(message)) as caught:
        convert()
    assert caught.value.name == package


def test_a_package_that_lacks_another(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import nothing_of_this_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nothing_of_this_name'"):
        needed("broken_package", "it")


def frame() -> Any:
    return object.__new__(consumers.Frame)
