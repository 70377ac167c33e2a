"""Checks that the pages of the cookbook show the programs that these tests run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .support import EXAMPLES, ROOT

PAGES = sorted((ROOT / "docs" / "cookbook").glob("*.md"))
_FENCE = re.compile(r"^```(\S+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".cql": "sql", ".yaml": "yaml", ".toml": "toml", ".csv": "text"}


def included(page: Path) -> list[str]:
    """Returns the files that a page includes."""
    return re.findall(r'^--8<-- "(.*)"$', page.read_text(encoding="utf-8"), re.MULTILINE)


def test_each_file_of_the_examples_is_on_one_page() -> None:
    files = [file for file in EXAMPLES.rglob("*") if file.suffix in LANGUAGES]
    shown = [name for page in PAGES for name in included(page)]
    assert sorted(shown) == sorted(file.relative_to(ROOT).as_posix() for file in files)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_are_included_and_not_copied(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    programs = 0
    for language, title, block in _FENCE.findall(text):
        if language in ("console", "text") and not title:
            continue
        include = re.fullmatch(r'--8<-- "(.*)"\n', block)
        assert include is not None, block
        assert title == f' title="{include[1]}"'
        # In the source of a page, the block has only the name of the included file. So a link to
        # the file follows the block, for readers of the source.
        assert f"{block}```\n\n[{include[1]}](../../{include[1]})\n" in text
        assert language == LANGUAGES[Path(include[1]).suffix]
        programs += 1
    assert programs == len(included(page))
    assert programs > 0 or page.stem == "index"


def test_the_index_links_each_page() -> None:
    index = (ROOT / "docs" / "cookbook" / "index.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((\w[\w-]*\.md)\)", index)
    assert sorted(linked) == sorted(page.name for page in PAGES if page.stem != "index")
