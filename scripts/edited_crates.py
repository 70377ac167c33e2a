#!/usr/bin/env python3
"""Makes edited copies of crates, and configures cargo to build with them.

Each file `edits/*.patch` changes one crate; edits/README.md describes its format. The script copies
a crate's sources from cargo's registry to `build/crates`. It names the copies in `paths` of
`.cargo/config.toml`, which git ignores. Cargo then uses the copies in place of the registry's
sources, and Cargo.lock stays as it is. An edit that does not fit the sources is an error.

    scripts/edited_crates.py                      make the copies and the configuration
    CRATE_EDITS=off scripts/edited_crates.py      build without edits from here on

Each copy also gets a constant with the names of the edits. crates/engine refers to this constant,
so it compiles only with the copies, or if `CRATE_EDITS=off` was set.
If there is a folder `vendor` (see scripts/sdist.py), the crates' sources come from there, and cargo
needs no registry.
The script also writes `build/edits` for make. The time of this file changes only if the edits do.
The script needs cargo. It uses only the standard library, because a build of the sdist runs it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EDITS = ROOT / "edits"
COPIES = ROOT / "build" / "crates"
CONFIG = ROOT / ".cargo" / "config.toml"
STAMP = ROOT / "build" / "edits"
VENDOR = ROOT / "vendor"
"""The folder with the sources of all crates. Only the vendored sdist has it."""
OWN = "# Written by scripts/edited_crates.py.\n"
"""The first line of the configuration. A file without it was not written by this script."""
CONFIGURATION = f"""{OWN}paths = {{paths}}

[env]
CRATE_EDITS_MADE = "{{names}}"
"""

WITHOUT = f"""{OWN}[env]
CRATE_EDITS_MADE = "off"
"""
"""The configuration of builds with `CRATE_EDITS=off`."""
VENDORED = {
    "source.crates-io.replace-with": "vendored-sources",
    "source.vendored-sources.directory": "vendor",
}
"""The settings that make cargo take crates from `VENDOR` instead of the registry."""
MARK = """
/// The names of turbocql's edits of this crate and of those that it is built with.
#[doc(hidden)]
pub const EDITS: &str = {value};
"""
MARKS = {
    "scylla-cql": '"{names}"',
    # This value makes scylla's copy compile only with the edited copy of scylla-cql.
    "scylla": "scylla_cql::EDITS",
}
"""The value of the constant `EDITS` in each crate."""

CRATE = re.compile(r"^Crate: (\S+) (\S+)$", re.MULTILINE)
FILE = re.compile(r"^--- a/(\S+)\n\+\+\+ b/\1\n(.*?)(?=^--- a/|\Z)", re.MULTILINE | re.DOTALL)
HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*\n((?:[ +-].*\n|\n)*)", re.MULTILINE)


class Unfit(Exception):
    """The copies or the configuration cannot be made."""


@dataclass(frozen=True)
class Edit:
    """One patch of `edits`."""

    name: str
    crate: str
    version: str
    changes: tuple[tuple[str, str, str], ...]
    """For each hunk: the path of the file, the old lines, and the new lines. The file must have the
    old lines exactly once."""


def edits() -> list[Edit]:
    """Returns all edits, sorted by name.

    Raises: Unfit, for a patch that does not have the format of edits/README.md.
    """
    patches = []
    for path in sorted(EDITS.glob("*.patch")):
        text = path.read_text(encoding="utf-8")
        crate = CRATE.search(text)
        changes = tuple(
            (file, *sides(path.name, hunk))
            for file, body in FILE.findall(text)
            for hunk in HUNK.finditer(body)
        )
        count = len(re.findall("^@@ ", text, re.MULTILINE))
        if crate is None or not changes or len(changes) != count:
            raise Unfit(f"edits/{path.name} does not have the form of edits/README.md")
        patches.append(Edit(path.stem, crate[1], crate[2], changes))
    return patches


def sides(name: str, hunk: re.Match[str]) -> tuple[str, str]:
    """Returns the lines of a hunk before and after the edit.

    Raises: Unfit, if the numbers of lines differ from the numbers in the head of the hunk.
    """
    # In a patch, an empty context line is a single space. An editor may have removed this space.
    lines = [line if line.strip("\n") else " \n" for line in hunk[3].splitlines(keepends=True)]
    old = [line[1:] for line in lines if line[0] != "+"]
    new = [line[1:] for line in lines if line[0] != "-"]
    if (len(old), len(new)) != (int(hunk[1] or 1), int(hunk[2] or 1)):
        head = hunk[0].splitlines()[0]
        raise Unfit(f"edits/{name}: the lines of a hunk do not fit its line @@: {head}")
    return "".join(old), "".join(new)


def sources() -> dict[str, tuple[str, Path]]:
    """Maps each crate on which the workspace depends to its version and its folder.

    Raises: Unfit, if cargo fails.
    """
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    if VENDOR.is_dir():
        # Cargo would look for a relative path in its current folder, so this path is absolute.
        settings = {**VENDORED, "source.vendored-sources.directory": str(VENDOR)}
        command += [
            "--offline",
            *(f"--config={key}={json.dumps(settings[key])}" for key in settings),
        ]
    # Cargo reads its configuration from the current folder and its parents. It runs in an empty
    # temporary folder, where it does not find this checkout's configuration. So it returns the
    # folders of the registry's sources, and not the folders of the copies.
    with tempfile.TemporaryDirectory() as elsewhere:
        try:
            completed = subprocess.run(
                [*command, "--manifest-path", str(ROOT / "Cargo.toml")],
                cwd=elsewhere,
                capture_output=True,
                text=True,
            )
        except FileNotFoundError:
            raise Unfit("cargo was not found: install Rust, from https://rustup.rs") from None
    if completed.returncode:
        raise Unfit(f"cargo cannot tell where the crates' sources are:\n{completed.stderr.strip()}")
    packages = json.loads(completed.stdout)["packages"]
    return {
        package["name"]: (package["version"], Path(package["manifest_path"]).parent)
        for package in packages
    }


def edited(source: Path, crate_edits: list[Edit]) -> dict[str, str]:
    """Returns the new text of each file that changes.

    Raises: Unfit, if a file is missing, or does not have the text of an edit exactly once.
    """
    texts: dict[str, str] = {}
    for edit in crate_edits:
        for file, old, new in edit.changes:
            if file not in texts:
                path = source / file
                if not path.is_file():
                    raise Unfit(f"edits/{edit.name}.patch: {source.name} has no file {file}")
                texts[file] = path.read_text(encoding="utf-8")
            count = texts[file].count(old)
            if count != 1:
                first = old.strip().splitlines()[0]
                raise Unfit(
                    f"edits/{edit.name}.patch: expected this text once in {source.name}/{file},"
                    f" found it {count} times: {first}"
                )
            texts[file] = texts[file].replace(old, new)
    return texts


def write(path: Path, content: bytes) -> None:
    """Writes a file if its content changes. An unchanged file keeps its time, and so cargo does not
    build it again.
    """
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def copy(source: Path, target: Path, changed: dict[str, str]) -> None:
    """Copies a crate, with the new texts in `changed`. Removes files that only the copy has."""
    names = set()
    for path in sorted(source.rglob("*")):
        if path.is_dir() or path.name.startswith(".cargo"):
            continue
        name = path.relative_to(source).as_posix()
        names.add(name)
        new = changed[name].encode() if name in changed else path.read_bytes()
        write(target / name, new)
    for path in target.rglob("*"):
        if path.is_file() and path.relative_to(target).as_posix() not in names:
            path.unlink()


def apply() -> str:
    """Makes the copies and the configuration. Returns a text that says what was done.

    Raises: Unfit, if an edit cannot be applied, if cargo fails, or if the configuration is not from
    this script.
    """
    expect_own()
    by_crate: dict[str, list[Edit]] = {}
    for edit in edits():
        by_crate.setdefault(edit.crate, []).append(edit)
    names = sorted(edit.name for crate_edits in by_crate.values() for edit in crate_edits)
    crate_sources = sources()
    for crate, crate_edits in by_crate.items():
        version, source = crate_sources.get(crate, ("none", Path()))
        for edit in crate_edits:
            if edit.version != version:
                raise Unfit(
                    f"edits/{edit.name}.patch is for {crate} {edit.version}, and Cargo.lock has"
                    f" {version}: see whether the edit is still needed, and whether it fits"
                )
        texts = edited(source, crate_edits)
        root = texts.get("src/lib.rs") or (source / "src/lib.rs").read_text(encoding="utf-8")
        value = MARKS[crate].format(names=",".join(names))
        texts["src/lib.rs"] = root + MARK.format(value=value)
        copy(source, COPIES / crate, texts)
    if COPIES.is_dir():
        for folder in COPIES.iterdir():
            if folder.name not in by_crate:
                shutil.rmtree(folder)
    paths = [(COPIES / crate).relative_to(ROOT).as_posix() for crate in sorted(by_crate)]
    configure(CONFIGURATION.format(paths=json.dumps(paths), names=",".join(names)))
    write(STAMP, hashlib.sha256(repr((MARK, MARKS, edits())).encode()).hexdigest().encode())
    return f"{len(names)} edits of {' and '.join(sorted(by_crate))}"


def remove() -> str:
    """Configures cargo to build without edits. Returns a text that says what was done."""
    expect_own()
    configure(WITHOUT)
    write(STAMP, b"none")
    return "crates without edits"


def configure(text: str) -> None:
    """Writes cargo's configuration, with the settings for vendored crates if there are any."""
    if VENDOR.is_dir():
        text += "\n[source]\n"
        for key, value in VENDORED.items():
            text += f"{key.removeprefix('source.')} = {json.dumps(value)}\n"
    write(CONFIG, text.encode())


def expect_own() -> None:
    """Raises `Unfit` for a configuration that this script has not written."""
    # If both `.cargo/config.toml` and `.cargo/config` exist, cargo reads the second. So both files
    # are checked.
    for config in (CONFIG, CONFIG.with_suffix("")):
        if config.is_file() and not config.read_text(encoding="utf-8").startswith(OWN):
            raise Unfit(
                f"{config} is not from this script: move it elsewhere, for example to ~/.cargo"
            )


def main() -> int:
    """Makes the copies, or configures a build without them. Returns the exit status."""
    off = os.environ.get("CRATE_EDITS") == "off"
    try:
        print(remove() if off else apply())
    except Unfit as error:
        print(f"edited_crates.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
