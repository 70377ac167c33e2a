"""Checks builds without the edits (patches of the ScyllaDB Rust driver's crates).

A build without the edits fails unless it is requested. The version of its wheel shows that the
edits are missing, and importing its package issues a warning.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def build_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the compiled build script of the engine's crate."""
    program = tmp_path_factory.mktemp("build") / "script"
    source = ROOT / "crates" / "engine" / "build.rs"
    command = ["rustc", "--edition", "2024", "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize(
    ("made", "asked", "outcome"),
    [
        (None, None, "refused"),
        ("", None, "refused"),
        (None, "on", "refused"),
        (None, "off", "plain"),
        ("off", None, "plain"),
        ("keepalive,pages", None, "edited"),
        # cargo uses the edited copies if they exist, even if CRATE_EDITS is off.
        ("keepalive,pages", "off", "edited"),
    ],
)
def test_a_build_without_edits_must_be_requested(
    build_script: Path, made: str | None, asked: str | None, outcome: str
) -> None:
    names = ("CRATE_EDITS", "CRATE_EDITS_MADE")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    if made is not None:
        environment["CRATE_EDITS_MADE"] = made
    if asked is not None:
        environment["CRATE_EDITS"] = asked
    done = subprocess.run(
        [str(build_script)], env=environment, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    errors = [line for line in lines if line.startswith("cargo::error=")]
    assert len(errors) == (outcome == "refused")
    assert all("run `python3 scripts/edited_crates.py`" in line for line in errors)
    assert ("cargo::rustc-cfg=edited_crates" in lines) == (outcome == "edited")


def test_the_edited_copies_define_edits() -> None:
    """With `--cfg edited_crates`, the engine uses the constant `EDITS` of the edited crates.

    The published crates do not have `EDITS`. So with this option, the engine compiles only with the
    edited copies.
    """
    engine = (ROOT / "crates" / "engine" / "src" / "lib.rs").read_text()
    assert "pub const ENGINE_EDITS: &str = scylla::EDITS;" in engine
    names = sorted(path.stem for path in (ROOT / "edits").glob("*.patch"))
    copies = ROOT / "build" / "crates"
    lower = (copies / "scylla-cql" / "src" / "lib.rs").read_text()
    assert f'pub const EDITS: &str = "{",".join(names)}";' in lower
    upper = (copies / "scylla" / "src" / "lib.rs").read_text()
    assert "pub const EDITS: &str = scylla_cql::EDITS;" in upper


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Returns the module scripts/unedited_wheel.py."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("unedited_wheel")


def test_the_version_of_a_wheel_without_edits(scripts: ModuleType, tmp_path: Path) -> None:
    name = "turbocql-1.2.3-cp311-cp311-linux_x86_64.whl"
    files = {
        "turbocql/__init__.py": b"print('here')\n",
        "turbocql-1.2.3.data/data/lib/a.pth": b"import a\n",
        "turbocql-1.2.3.dist-info/METADATA": b"Metadata-Version: 2.4\nName: turbocql\n"
        b"Version: 1.2.3\nRequires-Dist: click>=8\n\nVersion: 1.2.3\n",
        "turbocql-1.2.3.dist-info/WHEEL": b"Wheel-Version: 1.0\n",
        "turbocql-1.2.3.dist-info/RECORD": b"stale\n",
    }
    with zipfile.ZipFile(tmp_path / name, "w") as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    renamed = scripts.renamed(str(tmp_path), name)
    assert renamed == "turbocql-1.2.3+unedited-cp311-cp311-linux_x86_64.whl"
    assert [path.name for path in tmp_path.iterdir()] == [renamed]
    with zipfile.ZipFile(tmp_path / renamed) as wheel:
        assert wheel.testzip() is None
        inside = {path: wheel.read(path) for path in wheel.namelist()}
    metadata = inside["turbocql-1.2.3+unedited.dist-info/METADATA"].decode()
    assert "\nVersion: 1.2.3+unedited\n" in metadata
    # The description below the header also has a line "Version:", which must not change.
    assert metadata.endswith("\n\nVersion: 1.2.3\n")
    record = inside.pop("turbocql-1.2.3+unedited.dist-info/RECORD").decode().splitlines()
    assert record.pop() == "turbocql-1.2.3+unedited.dist-info/RECORD,,"
    assert len(record) == len(inside) == 4
    for line in record:
        path, digest, size = line.split(",")
        expected = base64.urlsafe_b64encode(hashlib.sha256(inside[path]).digest())
        assert (digest, int(size)) == (
            "sha256=" + expected.rstrip(b"=").decode(),
            len(inside[path]),
        )


def test_the_metadata_of_a_wheel_without_edits(scripts: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "turbocql-1.2.3.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(b"Name: turbocql\nVersion: 1.2.3\n")
    assert scripts.renamed_metadata(str(tmp_path), folder.name) == (
        "turbocql-1.2.3+unedited.dist-info"
    )
    renamed = tmp_path / "turbocql-1.2.3+unedited.dist-info" / "METADATA"
    assert renamed.read_bytes() == b"Name: turbocql\nVersion: 1.2.3+unedited\n"


@pytest.mark.parametrize("edits", ["", "keepalive"])
def test_the_import_of_a_build_without_edits_warns_once(edits: str) -> None:
    # The package imports the core and then reads the string `ENGINE_EDITS` of the core. To simulate
    # another build, the program replaces `__import__` by a function that changes this string as
    # soon as the core is imported.
    program = f"""
import builtins, sys, warnings
usual = builtins.__import__
def changed(name, globals=None, locals=None, fromlist=(), level=0):
    module = usual(name, globals, locals, fromlist, level)
    core = sys.modules.get("turbocql._core")
    if core is not None and core.ENGINE_EDITS != {edits!r}:
        core.ENGINE_EDITS = {edits!r}
    return module
builtins.__import__ = changed
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import turbocql
print([w.category.__name__ for w in caught if "without the edits" in str(w.message)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str([] if edits else ["RuntimeWarning"])
