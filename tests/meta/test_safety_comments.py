"""Checks that comments of Rust sources name only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.meta.sources import ROOT

SOURCES = [path for root in ("crates", "src") for path in sorted((ROOT / root).rglob("*.rs"))]
_TEST = re.compile(r"\b([a-z]+/[a-z_0-9/]+\.py)(?: \(([^)]*)\))?")


def missing_tests(source: str) -> list[str]:
    """Returns the tests that comments name and that do not exist.

    A comment names a test as `folder/file.py` or `folder/file.py (case, case)`, where the folder is
    below `tests`. A case is a test function, a helper or a parameter, so the text of the file must
    contain it.
    """
    comments = re.findall(r"(?:^[ \t]*//[^\n]*\n)+", source, re.MULTILINE)
    missing = []
    for comment in comments:
        text = " ".join(line.strip().lstrip("/! ") for line in comment.splitlines())
        for file, cases in _TEST.findall(text):
            path = ROOT / "tests" / file
            if not path.exists():
                # Comments also name Python sources that are not tests. Their paths begin at the
                # root of the repository or in `python`.
                if not (ROOT / file).exists() and not (ROOT / "python" / file).exists():
                    missing.append(file)
                continue
            lines = path.read_text(encoding="utf-8")
            missing += [
                f"{file} ({case})" for case in filter(None, cases.split(", ")) if case not in lines
            ]
    return missing


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_tests_exist(path: Path) -> None:
    assert missing_tests(path.read_text(encoding="utf-8")) == []


def test_a_test_that_no_longer_exists_is_noticed() -> None:
    source = """
    // SAFETY: alive. Tests: unit/test_types.py, unit/test_gone.py,
    // unit/test_quick_paths.py (attributes, no
    // such case).
"""
    assert missing_tests(source) == ["unit/test_gone.py", "unit/test_quick_paths.py (no such case)"]
