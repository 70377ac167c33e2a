"""Who may name whom: DESIGN.md, "Layers"."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.meta.sources import (
    PACKAGE,
    ROOT,
    imports,
    python_modules,
    rust_files,
    without_comments,
)

# Bottom first: a module imports only modules of earlier lines, and those of its own line.
LAYERS = [
    ["errors", "types"],
    ["_checks"],
    ["_core", "_native_imports"],
    ["policies", "security", "tables"],
    ["_config_values", "_options"],
    [
        "_cassandra",
        "_config_sources",
        "_notify",
        "_records",
        "_row_classes",
        "bulk",
        "cluster",
        "config",
    ],
    ["_schema_cql"],
    ["schema"],
    ["_schema_read"],
    ["_disk", "_pages", "columns"],
    ["_columns"],
    ["_apart"],
    ["_async_rows", "_given", "codec", "protocol", "rows", "statements"],
    ["_checkpoint", "_scan"],
    [
        "_files",
        "_files_binary",
        "_files_cells",
        "_files_int96",
        "_files_json",
        "_files_lines",
        "_files_literals",
        "_files_numbers",
        "_files_quotes",
        "_files_read",
        "_files_text",
        "_files_write",
    ],
    ["_watch"],
    ["_load_files"],
    ["_care"],
    ["_load", "_unload"],
    ["_verify"],
    ["_face"],
    ["_async_tables", "_tables"],
    ["_diagnosis", "_diagnosis_text"],
    ["aio", "session"],
    ["workers"],
    ["_distributed"],
    ["dbapi", "diagnose"],
    ["diagnose.__main__"],
    [""],  # turbocql itself
]
LEVEL = {
    f"turbocql.{name}" if name else "turbocql": level
    for level, names in enumerate(LAYERS)
    for name in names
}
LEAVES = tuple(f"turbocql.{name}" for name in ("accel", "cli", "duckdb", "ray", "spark", "testing"))
FACES = {
    "turbocql",
    "turbocql._care",
    "turbocql._cassandra",
    "turbocql._columns",
    "turbocql._diagnosis",
    "turbocql._face",
    "turbocql._files",
    "turbocql._files_cells",
    "turbocql._files_json",
    "turbocql._files_lines",
    "turbocql._files_literals",
    "turbocql._files_numbers",
    "turbocql._files_read",
    "turbocql._files_text",
    "turbocql._files_write",
    "turbocql._given",
    "turbocql._load",
    "turbocql._load_files",
    "turbocql._notify",
    "turbocql._verify",
    "turbocql._watch",
    "turbocql.accel._bodies",
    "turbocql.accel._connections",
    "turbocql.accel._install",
    "turbocql.accel._mapper",
    "turbocql.accel._patch",
    "turbocql.accel._plans",
    "turbocql.accel._readers",
    "turbocql.accel._results",
    "turbocql.accel._seams",
    "turbocql.accel._statements",
    "turbocql.aio",
    "turbocql.codec",
    "turbocql.columns",
    "turbocql.protocol",
    "turbocql.rows",
    "turbocql.security",
    "turbocql.session",
    "turbocql.statements",
}
MODULES = python_modules()


def is_leaf(name: str) -> bool:
    return any(name == leaf or name.startswith(f"{leaf}.") for leaf in LEAVES)


@pytest.mark.parametrize("name", [name for name in MODULES if not is_leaf(name)])
def test_modules_import_downwards(name: str) -> None:
    assert name in LEVEL, "a new module: say here on which layer it is"
    for imported in imports(name, MODULES[name]):
        assert not is_leaf(imported), f"{imported} is a leaf: nothing imports it"
        assert LEVEL[imported] <= LEVEL[name], f"{imported} is above {name}"


@pytest.mark.parametrize("name", [name for name in MODULES if is_leaf(name)])
def test_a_leaf_is_imported_by_nobody_else(name: str) -> None:
    leaf = ".".join(name.split(".")[:2])
    for imported in imports(name, MODULES[name]):
        inside = imported == leaf or imported.startswith(f"{leaf}.")
        assert inside or not is_leaf(imported), f"{name} imports {imported}"
        assert leaf != "turbocql.testing" or inside, "testing works with any driver"


def test_the_core_is_named_by_the_faces_only() -> None:
    naming = {name for name, path in MODULES.items() if "turbocql._core" in imports(name, path)}
    assert naming == FACES


def dependencies(crate: str) -> set[str]:
    """What a crate names in its Cargo.toml, of all kinds."""
    done = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"],
        cwd=ROOT / crate,
        capture_output=True,
        text=True,
        check=True,
    )
    manifest = str(ROOT / crate / "Cargo.toml")
    (package,) = (p for p in json.loads(done.stdout)["packages"] if p["manifest_path"] == manifest)
    return {dependency["name"] for dependency in package["dependencies"]}


CRATES: dict[str, set[str]] = {
    "crates/codec": set(),
    "crates/columns": {"turbocql-codec"},
    "crates/engine": {"turbocql-codec"},
    "crates/values": {"turbocql-codec"},
    "crates/accel": {"turbocql-codec", "turbocql-values"},
    ".": {
        "turbocql-accel",
        "turbocql-codec",
        "turbocql-columns",
        "turbocql-engine",
        "turbocql-values",
    },
}
"""Each crate, and those of ours that it names. The compiler holds what stands here."""
OUTSIDE: dict[str, set[str]] = {
    "crates/codec": set(),
    "crates/columns": set(),
    "crates/engine": {"scylla", "tokio"},
    "crates/values": {"pyo3"},
    "crates/accel": {"pyo3"},
    ".": {"pyo3"},
}
"""Of the crates that make the layers what they are, those that each crate names."""


@pytest.mark.parametrize("crate", CRATES)
def test_crates_depend_downwards(crate: str) -> None:
    named = dependencies(crate)
    assert {name for name in named if name.startswith("turbocql-")} == CRATES[crate]
    assert named & {"pyo3", "tokio", "scylla", "scylla-cql"} == OUTSIDE[crate]


def test_every_crate_has_its_layer() -> None:
    assert {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("crates/*/Cargo.toml")} | {
        "."
    } == set(CRATES)


SOURCES = {crate: "src" if crate == "." else f"{crate}/src" for crate in CRATES}


@pytest.mark.parametrize(
    ("outside", "crates"),
    [
        ("pyo3", ["crates/codec", "crates/columns", "crates/engine"]),
        ("scylla", ["crates/codec", "crates/columns", "crates/values", "crates/accel", "."]),
        ("tokio", ["crates/codec", "crates/columns", "crates/values", "crates/accel", "."]),
        ("scylla_cql", list(CRATES)),
    ],
)
def test_crates_are_named_in_their_layer_only(outside: str, crates: list[str]) -> None:
    for path in rust_files(*[SOURCES[crate] for crate in crates]):
        assert not re.search(rf"\b{outside}::", without_comments(path)), path


ROOMS = {
    "crates/values/src": [
        ["python"],
        ["failure"],
        ["binary32", "calendar", "memory", "plan"],
        ["ending", "error", "traits"],
        ["ffi"],
        ["value"],
        ["row"],
        ["bind"],
        ["classes"],
    ],
    "crates/accel/src": [
        ["switch", "types"],
        ["ffi"],
        ["scalars"],
        ["reader"],
        ["reading"],
        ["arrays"],
        ["stand_ins"],
    ],
    "src": [["error", "ffi"], ["options"], ["op"], ["classes"]],
}
"""The modules of a crate, bottom first: each names only those of earlier lines, and itself."""


@pytest.mark.parametrize("source", ROOMS)
def test_rooms_of_a_crate_are_in_layers(source: str) -> None:
    level = {name: number for number, names in enumerate(ROOMS[source]) for name in names}
    for path in rust_files(source):
        room = path.relative_to(ROOT / source).parts[0].removesuffix(".rs")
        if room == "lib":
            continue
        assert room in level, f"{path}: a new room: say here on which layer it is"
        for named in re.findall(r"\bcrate::(\w+)", without_comments(path)):
            assert named == room or level[named] < level[room], f"{path} names crate::{named}"


FFI = ("crates/values/src/ffi", "crates/accel/src/ffi", "src/ffi")


def test_unsafe_stays_in_the_ffi_modules() -> None:
    for path in rust_files("src", "crates"):
        if any(path.is_relative_to(ROOT / folder) for folder in FFI):
            continue
        assert not re.search(r"\bunsafe\b", without_comments(path)), path
    for crate, folder in SOURCES.items():
        inner = "deny" if "pyo3" in OUTSIDE[crate] else "forbid"
        text = (ROOT / folder / "lib.rs").read_text(encoding="utf-8")
        assert f"#![{inner}(unsafe_code)]" in text, crate


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_files_can_be_held_in_the_head() -> None:
    files = [*rust_files("src", "crates"), *PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]
    long = {str(path.relative_to(ROOT)) for path in files if lines(path) > 450}
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    reasons = design.partition("## Files above 450 lines")[2].partition("\n## ")[0]
    assert set(re.findall(r"^- `(\S+)`", reasons, re.MULTILINE)) == long
    assert {path for path in (ROOT / "tests").rglob("*.py") if lines(path) > 700} == set()
