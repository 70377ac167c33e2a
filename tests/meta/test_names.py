"""Checks that names say what they hold.

Only a small share of the package's names may be vague words, which are in `VAGUE`. No name of the
project may be in `RIDDLES`. The checks look at the places that bind a name: variables, parameters,
functions, classes, import aliases and assigned attributes.
A name with leading or trailing underscores also counts as vague if the rest of it is a vague word.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.meta.sources import PACKAGE, ROOT, rust_files, without_comments

VAGUE = frozenset(
    {
        *("found", "made", "known", "given", "told", "said", "taken", "it", "one", "whole"),
        *("place", "left", "other", "others", "thing", "things", "what", "way", "ways", "own"),
        *("rest", "there", "done", "asked", "wanted", "kept", "here", "each", "every", "some"),
        *("more", "most", "again"),
    }
)
"""Words that do not say what a name holds. Words such as `field`, `column` or `count` do."""
LIMIT = 0.01
"""The share of vague names at which the test fails. Some vague names must stay: public parameters,
and the `other` of `__eq__`. Their share is below this limit. Similar packages have shares of 0.001
to 0.004."""
RIDDLES = frozenset(
    {
        *("Doors", "knock", "lie_down", "get_up", "News", "bell", "LATECOMERS", "OTHERWISE"),
        *("Attentive", "Said", "Face", "tell", "_apart", "apart", "_given", "_watch"),
        *("FACES", "face", "Liar", "liar"),
    }
)
"""Names that only their author understood. Each was replaced by the usual term."""
RIDDLE_FILES = VAGUE | {
    *("give", "mended", "early", "faces", "liar", "kinds", "starting", "limited", "refused"),
    *("test_standing_still", "test_both_ways", "test_seen", "test_tasks_again"),
}
"""File names that do not say what the file tests or does."""
_DEFINITION = re.compile(
    r"\b(?:fn|struct|enum|union|trait|type|const|static|mod|let|macro_rules!)\s+(?:mut\s+)?"
    r"(?!fn\b|unsafe\b|extern\b|mut\b)(?:r#)?(\w+)"
)
"""Matches a definition in Rust. It does not find names inside patterns, as in `let (a, b)`."""


class Name(NamedTuple):
    """A name, and the line that binds it."""

    text: str
    path: Path
    line: int

    @property
    def is_vague(self) -> bool:
        """Whether the name is a vague word."""
        return self.text.strip("_") in VAGUE


def bound_names(path: Path) -> Iterator[Name]:
    """Yields the names that a Python file binds."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text):
                yield Name(text, path, node.lineno)
            case ast.ClassDef(name=text):
                yield Name(text, path, node.lineno)
            case ast.arg(arg=text) | ast.alias(asname=str(text)):
                yield Name(text, path, node.lineno)
            case ast.Name(id=text, ctx=ast.Store()) | ast.Attribute(attr=text, ctx=ast.Store()):
                yield Name(text, path, node.lineno)


def python_files(folder: Path) -> list[Path]:
    """Returns the Python files in a folder, with programs whose names have no `.py`."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [
        path
        for path in files
        if path.suffix == ".py"
        or (not path.suffix and b"python" in path.read_bytes().partition(b"\n")[0])
    ]


def defined_names(path: Path) -> Iterator[Name]:
    """Yields the names that a Rust file defines."""
    text = without_comments(path)
    for match in _DEFINITION.finditer(text):
        yield Name(match[1], path, text.count("\n", 0, match.start(1)) + 1)


def vague_share(names: Sequence[Name]) -> float:
    """Returns the share of vague names."""
    return sum(name.is_vague for name in names) / len(names)


def report(names: Iterable[Name]) -> str:
    """Returns a text that lists the names by file. The file with the most names comes first."""
    by_path: dict[Path, list[Name]] = defaultdict(list)
    for name in names:
        by_path[name.path].append(name)
    lines = []
    for path, in_file in sorted(by_path.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        positions = ", ".join(f"{name.line} {name.text}" for name in sorted(in_file))
        lines.append(f"{shown}: {len(in_file)}: {positions}")
    return "\n".join(lines)


def riddles(names: Iterable[Name]) -> list[Name]:
    """Returns the names that are in `RIDDLES`."""
    return [name for name in names if name.text in RIDDLES]


def riddle_files(paths: Iterable[Path]) -> list[Path]:
    """Returns the files whose names are in `RIDDLE_FILES`."""
    return [path for path in paths if path.stem.strip("_") in RIDDLE_FILES]


@pytest.fixture(scope="module")
def package_names() -> list[Name]:
    """Returns all names that the package binds."""
    return [name for path in sorted(PACKAGE.rglob("*.py")) for name in bound_names(path)]


def test_names_of_the_package_say_what_they_hold(package_names: list[Name]) -> None:
    assert len(package_names) > 10_000, "were the files read?"
    vague = [name for name in package_names if name.is_vague]
    if vague_share(package_names) >= LIMIT:
        counts = f"{len(vague)} of {len(package_names)} names say nothing"
        pytest.fail(f"{counts}:\n{report(vague)}", pytrace=False)


def test_the_package_binds_no_riddle(package_names: list[Name]) -> None:
    if riddles(package_names):
        pytest.fail(report(riddles(package_names)), pytrace=False)


def test_no_other_python_file_binds_a_riddle() -> None:
    folders = ("tests", "scripts", "bench", "examples")
    paths = [path for folder in folders for path in python_files(ROOT / folder)]
    assert {Path(__file__), ROOT / "scripts" / "wheels"} <= {*paths}, "were the files found?"
    bound = riddles(name for path in paths for name in bound_names(path))
    if bound:
        pytest.fail(report(bound), pytrace=False)


def test_no_crate_defines_a_riddle() -> None:
    folders = ("src", "crates", "simulation/src", "models/src", "fuzz")
    names = [name for path in rust_files(*folders) for name in defined_names(path)]
    assert len(names) > 5_000, "were the files read?"
    if riddles(names):
        pytest.fail(report(riddles(names)), pytrace=False)


def test_files_are_named_by_their_contents() -> None:
    paths = [path for folder in (PACKAGE, ROOT / "tests") for path in folder.rglob("*.py")]
    assert riddle_files(paths) == []
    planted = [Path("give.py"), Path("mended.py"), Path("whole.py"), Path("_others.py")]
    assert riddle_files([*planted, Path("give_back.py"), Path("rows.py")]) == planted


def test_every_kind_of_binding_counts(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(
        "import os as found\n"
        "from os import path as made\n"
        "def _known(given, *told, said=1, **taken): pass\n"
        "async def whole(): pass\n"
        "class place:\n"
        "    left: int\n"
        "    def __init__(self): self._other, self.rest_ = 1, 2\n"
        "for what in (): pass\n"
        "with open('x') as way: pass\n"
        "if (own := 1): pass\n"
        "thing, *things = [each for each in ()]\n"
        "lambda wanted: print(wanted, found.more, kept=here)\n"
    )
    names = [name for name in bound_names(path) if name.is_vague]
    expected = "found made _known given told said taken whole place left _other rest_ what way own"
    assert {name.text for name in names} == {*expected.split(), "thing", "things", "each", "wanted"}
    assert {name.text: name.line for name in names}["rest_"] == 7
    assert "planted.py: 19: " in report(names)


def test_a_vague_name_raises_the_share(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text("column = path = row = 1\nit = 2\n")
    names = list(bound_names(path))
    assert vague_share(names) == 0.25
    assert report(name for name in names if name.is_vague) == f"{path}: 1: 2 it"
    path.write_text(
        "column = path = row = 1\nrow.found = row.it.index = 2\nfounder, rows_left = 1, 2"
    )
    assert [name.text for name in bound_names(path) if name.is_vague] == ["found"]


def test_riddles_of_python_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text("class News: pass\ndef tell(self): self._given = self.apart\nteller = 1\n")
    assert [(name.text, name.line) for name in riddles(bound_names(path))] == [
        ("News", 1),
        ("tell", 2),
        ("_given", 2),
    ]


def test_riddles_of_rust_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "planted.rs"
    path.write_text(
        "// fn knock() {}\n"
        'const TEXT: &str = "fn bell() {\n}";\n'
        "/* struct News;\n*/\n"
        "pub enum Said<T> { One(T) }\n"
        "const fn tell() { let mut apart = 1; tell(); }\n"
        "pub(crate) struct Faces; pub struct Face(u8);\n"
        "mod lie_down { pub const LATECOMERS: u8 = 1; trait Attentive {} }\n"
        "pub const unsafe fn get_up() { teller.tell(); let r#knock = 2; }\n"
    )
    assert [(name.text, name.line) for name in riddles(defined_names(path))] == [
        ("Said", 6),
        ("tell", 7),
        ("apart", 7),
        ("Face", 8),
        ("lie_down", 9),
        ("LATECOMERS", 9),
        ("Attentive", 9),
        ("get_up", 10),
        ("knock", 10),
    ]
