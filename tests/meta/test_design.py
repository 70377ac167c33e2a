"""Checks that the paths and names in DESIGN.md and docs/design exist in the sources."""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from pathlib import Path

import pytest
from tests.meta.sources import ROOT
from tests.meta.test_layers import FLOORS, LEAVES, ROOMS

DESIGN = ROOT / "DESIGN.md"
PAGES = [DESIGN, *sorted((ROOT / "docs" / "design").glob("*.md"))]
FOLDERS = (
    *(
        "python",
        "src",
        "crates",
        "tests",
        "scripts",
        "models",
        "simulation",
        "fuzz",
        "edits",
        "docs",
        "bench",
    ),
    *("packaging", "examples", "requirements"),
)
GENERATED = {"build/crates", "build/measured", ".cargo/config.toml"}
"""Paths that a build creates."""
COMMANDS = {"make", "python", "pytest", "turbocql", "except", "async"}
"""Inline code that begins with one of these words is a command or a piece of code, not a name."""


@cache
def paths() -> list[Path]:
    """Returns the files and folders of the repository."""
    below = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return [*ROOT.iterdir(), *(path for path in below if "corpus" not in path.parts)]


@cache
def endings() -> set[str]:
    """Returns each path of the repository and all its endings. An ending of `a/b.rs` is `b.rs`."""
    parts = [path.relative_to(ROOT).parts for path in paths()]
    return {"/".join(names[start:]) for names in parts for start in range(len(names))}


@cache
def words() -> set[str]:
    """Returns the words of all sources except those of this file."""
    suffixes = {".py", ".pyi", ".rs", ".toml", ".yml", ".patch"}
    sources = [path for path in paths() if path.suffix in suffixes or path.name == "Makefile"]
    texts = (path.read_text(encoding="utf-8") for path in sources if path != Path(__file__))
    return {word for text in texts for word in re.findall(r"\w+", text)}


def spans(text: str) -> list[str]:
    """Returns all texts between backticks on a page, without the code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def is_path(span: str) -> bool:
    """Returns whether a span of inline code names a file or a folder."""
    is_plain = re.fullmatch(r"[\w./*-]+", span) and not re.fullmatch(r"\W+", span)
    has_suffix = re.search(r"\.(py|pyi|rs|md|toml|patch)$", span)
    return bool(is_plain and ("/" in span or has_suffix))


def missing_paths(text: str) -> set[str]:
    """Returns the paths on a page that are not in the repository."""
    named = set(filter(is_path, spans(text))) - GENERATED
    return {path for path in named if not fnmatch.filter(endings(), path)}


def missing_names(text: str) -> set[str]:
    """Returns the names in a page's inline code that do not occur in any source."""
    code = [span for span in spans(text) if not is_path(span) and span.split()[0] not in COMMANDS]
    names = [span for span in code if re.fullmatch(r"[A-Za-z_][\w:.!]*(\(\))?", span)]
    return {name for name in names if set(re.findall(r"\w+", name)) - words()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_and_names_on_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert missing_paths(text) == set()
    assert missing_names(text) == set()


def test_a_name_that_no_longer_exists_is_noticed() -> None:
    text = "`crates/codec/src/nowhere.rs` `nowhere.rs` `src/op` `Plan` `Plan::no_such_arm`"
    assert missing_paths(text) == {"crates/codec/src/nowhere.rs", "nowhere.rs"}
    assert missing_names(text) == {"Plan::no_such_arm"}


def test_the_functions_on_the_page_about_a_call_exist() -> None:
    """docs/design/call.md lists functions below the name of a file. The file must define them."""
    text = (ROOT / "docs" / "design" / "call.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
    source, count = "", 0
    for line in block.splitlines():
        if file := re.fullmatch(r"  (\S+\.(?:rs|py))", line):
            source = (ROOT / file[1]).read_text(encoding="utf-8")
        elif function := re.match(r"    (?:\w+(?:::|\.))?(\w+)(?:$| {2,})", line):
            assert re.search(rf"\b(?:fn|def) {function[1]}\b", source), line
            count += 1
    assert count == 21


def test_the_rooms_of_design_are_those_of_the_layers() -> None:
    text = DESIGN.read_text(encoding="utf-8")
    for source in ROOMS.keys() - {"simulation/src"}:  # which has a page of its own
        floors = ROOMS[source]
        name = {"src": "_core", "src/classes": "classes"}.get(source) or source.split("/")[1]
        (line,) = re.findall(rf"^{name} +(\S.*\|.*)$", text, re.MULTILINE)
        listed = [floor.split() for floor in line.split("|")]
        # `arbitrary` only makes values for tests, so DESIGN.md does not list it.
        assert listed == [[room for room in floor if room != "arbitrary"] for floor in floors]
    folders = re.findall(r"^(_[a-z]\w+) {2,}\S", text, re.MULTILINE)
    assert [name for name in folders if name != "_core"] == FLOORS
    (leaves,) = re.findall(r"^(.*?) {2,}leaves: ", text, re.MULTILINE)
    assert set(leaves.split()) == LEAVES


def test_design_has_at_most_120_lines() -> None:
    assert len(DESIGN.read_text(encoding="utf-8").splitlines()) <= 120
