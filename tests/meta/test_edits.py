"""Tests the edits (patches of the ScyllaDB Rust driver's crates): their form and their size.

It also tests the errors for edits that do not apply to these crates.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.meta.sources import ROOT

FILES = sorted((ROOT / "edits").glob("*.patch"))
SOURCE = "a\nb\nb\nc\n"


def load() -> Any:
    path = ROOT / "scripts" / "edited_crates.py"
    spec = importlib.util.spec_from_file_location("edited_crates", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


edited_crates = load()


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lib.rs").write_text(SOURCE)
    return tmp_path


def edit(old: str, new: str = "new\n", file: str = "src/lib.rs") -> Any:
    return edited_crates.Edit("sample", "crate", "1.0.0", ((file, old, new),))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_edit_has_a_reason_a_report_and_tests(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head, _, _ = text.partition("\n--- a/")
    assert re.match(r"[A-Z].*\n\nCrate: \S+ \S+\n\nWhy: ", head)
    assert len(head.partition("\nReport: ")[2].split()) > 5
    tests = re.search(r"^Test: (.*)$", text, re.MULTILINE)
    assert tests is not None
    for named in re.findall(r"`([^`]+)`", tests[1]):
        assert (ROOT / named).exists(), named


def test_the_edits_are_small() -> None:
    """Counts the lines that the edits add or change, without the context lines of hunks."""
    lines = 0
    for one in edited_crates.edits():
        for _, old, new in one.changes:
            compared = difflib.ndiff(old.splitlines(), new.splitlines())
            lines += sum(line.startswith("+ ") for line in compared)
    assert 0 < lines < 900


def test_a_text_that_occurs_once_is_replaced(crate: Path) -> None:
    changed = edited_crates.edited(crate, [edit("a\n"), edit("c\n", "d\n")])
    assert changed == {"src/lib.rs": "new\nb\nb\nd\n"}


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (edit("x\n"), r"expected this text once in .*/src/lib\.rs, found it 0 times: x"),
        (edit("b\n"), "found it 2 times: b"),
        (edit("a\n", file="src/main.rs"), r"has no file src/main\.rs"),
    ],
)
def test_an_edit_that_does_not_fit_is_an_error(crate: Path, one: Any, said: str) -> None:
    with pytest.raises(edited_crates.Unfit, match=said):
        edited_crates.edited(crate, [one])


def test_an_edit_for_another_version_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edited_crates, "edits", lambda: [edit("a\n")])
    monkeypatch.setattr(edited_crates, "CONFIG", tmp_path / "config.toml")
    monkeypatch.setattr(edited_crates, "sources", lambda: {"crate": ("2.0.0", tmp_path)})
    with pytest.raises(edited_crates.Unfit, match=r"is for crate 1\.0\.0, and Cargo\.lock has 2"):
        edited_crates.apply()


@pytest.mark.parametrize("name", ["config.toml", "config"])
def test_a_configuration_by_the_user_is_not_overwritten(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / name
    own.write_text("[build]\njobs = 1\n")
    monkeypatch.setattr(edited_crates, "CONFIG", tmp_path / "config.toml")
    for call in (edited_crates.apply, edited_crates.remove):
        with pytest.raises(edited_crates.Unfit, match="is not from this script"):
            call()
    assert own.read_text() == "[build]\njobs = 1\n"


HEAD = "Title\n\nCrate: c 1\n\n"
HUNK = "@@ -1,3 +1,3 @@\n a\n-b\n+x\n\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--- a/f\n+++ b/f\n" + HUNK, "does not have the form"),
        (HEAD, "does not have the form"),
        (HEAD + HUNK, "does not have the form"),
        (HEAD + "--- a/f\n+++ b/g\n" + HUNK, "does not have the form"),
        (HEAD + "--- a/f\n+++ b/f\n" + HUNK + "@@ -9 +9 @@\n", "the lines of a hunk do not fit"),
        (HEAD + "--- a/f\n+++ b/f\n" + HUNK[:-1], "the lines of a hunk do not fit"),
        (HEAD + "--- a/f\n+++ b/f\n" + HUNK + "\n", "the lines of a hunk do not fit"),
    ],
)
def test_a_patch_of_another_form_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "odd.patch").write_text(text)
    monkeypatch.setattr(edited_crates, "EDITS", tmp_path)
    with pytest.raises(edited_crates.Unfit, match=rf"edits/odd\.patch.* {said}"):
        edited_crates.edits()


def test_hunks_are_their_lines_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.patch").write_text(HEAD + "--- a/f\n+++ b/f\n" + HUNK)
    monkeypatch.setattr(edited_crates, "EDITS", tmp_path)
    (found,) = edited_crates.edits()
    assert found.changes == (("f", "a\nb\n\n", "a\nx\n\n"),)


def test_git_applies_the_edits_with_the_same_result(tmp_path: Path) -> None:
    sources = edited_crates.sources()
    for crate in sorted({edit.crate for edit in edited_crates.edits()}):
        wanted = [edit for edit in edited_crates.edits() if edit.crate == crate]
        texts = edited_crates.edited(sources[crate][1], wanted)
        for name in texts:
            (tmp_path / crate / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / crate / name).write_bytes((sources[crate][1] / name).read_bytes())
        for edit in wanted:
            patch = str(ROOT / "edits" / f"{edit.name}.patch")
            subprocess.run(["git", "apply", patch], cwd=tmp_path / crate, check=True)
        for name, text in texts.items():
            assert (tmp_path / crate / name).read_text(encoding="utf-8") == text


def test_unchanged_files_are_not_written_again(crate: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    edited_crates.copy(crate, target, {"src/lib.rs": "new\n"})
    (target / "src" / "left.rs").write_text("")
    before = (target / "src" / "lib.rs").stat().st_mtime_ns
    edited_crates.copy(crate, target, {"src/lib.rs": "new\n"})
    assert (target / "src" / "lib.rs").read_text() == "new\n"
    assert (target / "src" / "lib.rs").stat().st_mtime_ns == before
    assert not (target / "src" / "left.rs").exists()


def test_an_edit_applies_to_vendored_crates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cargo finds the crates without a registry, both with the edits and after their removal."""
    digest = "0" * 64
    registry = "registry+https://github.com/rust-lang/crates.io-index"
    package = '[package]\nname = "{}"\nversion = "1.0.0"\nedition = "2021"\n'
    lock = f'name = "{{}}"\nversion = "1.0.0"\nsource = "{registry}"\nchecksum = "{digest}"\n'
    files = {
        "Cargo.toml": package.format("top") + '[dependencies]\nlower = "1.0.0"\nother = "1.0.0"\n',
        "src/lib.rs": "",
        "Cargo.lock": "version = 4\n"
        + "".join(f"[[package]]\n{lock.format(name)}\n" for name in ("lower", "other"))
        + '[[package]]\nname = "top"\nversion = "1.0.0"\ndependencies = ["lower", "other"]\n',
    }
    for name in ("lower", "other"):
        files |= {
            f"vendor/{name}/Cargo.toml": package.format(name),
            f"vendor/{name}/src/lib.rs": "pub const NUMBER: u8 = 1;\n",
            f"vendor/{name}/.cargo-checksum.json": json.dumps({"files": {}, "package": digest}),
        }
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(edited_crates, "ROOT", tmp_path)
    monkeypatch.setattr(edited_crates, "VENDOR", tmp_path / "vendor")
    monkeypatch.setattr(edited_crates, "COPIES", tmp_path / "build" / "crates")
    monkeypatch.setattr(edited_crates, "STAMP", tmp_path / "build" / "edits")
    monkeypatch.setattr(edited_crates, "CONFIG", tmp_path / ".cargo" / "config.toml")
    change = ("src/lib.rs", "NUMBER: u8 = 1", "NUMBER: u8 = 2")
    monkeypatch.setattr(
        edited_crates, "edits", lambda: [edited_crates.Edit("two", "lower", "1.0.0", (change,))]
    )
    monkeypatch.setattr(edited_crates, "MARKS", {"lower": '"{names}"'})
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "no-registry"))
    monkeypatch.setenv("CARGO_NET_OFFLINE", "true")

    assert edited_crates.apply() == "1 edits of lower"
    copied = (tmp_path / "build" / "crates" / "lower" / "src" / "lib.rs").read_text()
    assert "NUMBER: u8 = 2" in copied
    assert 'EDITS: &str = "two"' in copied
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE).stdout
    sources = {each["name"]: each["manifest_path"] for each in json.loads(printed)["packages"]}
    assert sources == {
        "top": str(tmp_path / "Cargo.toml"),
        "lower": str(tmp_path / "build" / "crates" / "lower" / "Cargo.toml"),
        "other": str(tmp_path / "vendor" / "other" / "Cargo.toml"),
    }
    assert edited_crates.remove() == "crates without edits"
    printed = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE).stdout
    assert str(tmp_path / "vendor" / "lower" / "Cargo.toml") in printed.decode()
