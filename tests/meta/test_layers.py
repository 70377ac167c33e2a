"""Checks that the parts of the package and of the crates use each other only as DESIGN.md says.

These parts are called rooms. A room of the package is a folder, or a module beside the folders. A
room of a crate is a folder or a file in its `src`.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.meta.rust_paths import exports, module_of, rooms_in
from tests.meta.sources import (
    PACKAGE,
    ROOT,
    imports,
    python_modules,
    rust_files,
    without_comments,
)

from turbocql._native.imports import IMPORTS

FLOORS = [
    "_native",
    "_cql",
    "_schema",
    "_config",
    "_rows",
    "_columns",
    "_files",
    "_transfer",
    "_telemetry",
    "_session",
    "_diagnosis",
    "_engines",
]
"""The private folders of the package, from the bottom to the top. A folder must not use a later
folder, directly or through other modules. The modules beside the folders have no place in this
order. A room is a folder, or a module beside the folders. No two rooms may use each other."""
LEAVES = {"accel", "cli", "duckdb", "ray", "spark", "testing"}
"""Folders that no other room imports, except as in `LEAVES_IMPORTED`."""
LEAVES_IMPORTED = {("", "accel")}
"""Pairs of a room and a leaf that it imports. `turbocql.accelerate()` imports `turbocql.accel`."""
TYPES_UPWARD = {
    ("_config", "config"),
    ("_cql", "schema"),
    ("_options", "bulk"),
    ("_options", "config"),
    ("_telemetry", "telemetry"),
    ("errors", "bulk"),
    ("telemetry", "aio"),
    ("telemetry", "session"),
}
"""Pairs of a room and a room above it of which it names types, under `if TYPE_CHECKING`.

Such an import exists only for the type checker, so at run time the lower room still works without
the upper one. It lets a function below a public class state that it takes or returns the class. A
new pair needs the same reason: without it, the class belongs in a lower room.
"""
NAMING_THE_CORE = {
    "_native",
    "_columns",
    "_files",
    "_transfer",
    "_session",
    "_diagnosis",
    "accel",
}
"""The private folders and leaves that import `turbocql._core`. Public modules may import it too."""
PRIVATE_FILES = {"_advice", "_checks", "_elsewhere", "_hints", "_options"}
"""The private modules beside the folders. They check arguments, add advice to errors, and define
the types of options."""
MODULES = python_modules()


def room(module: str) -> str:
    """Returns the folder of a module, or the module itself if it is beside the folders."""
    return module.partition(".")[2].partition(".")[0]


def imported_by_the_core() -> set[str]:
    """Returns the rooms of the objects that the core imports by the table in `_native`."""
    modules = {value.partition(":")[0] for value in IMPORTS.values()}
    return {room(name) for name in modules if name in MODULES}


def uses(*, types: bool = False) -> dict[str, set[str]]:
    """Returns the rooms that each room of the package imports at run time.

    With `types`, returns those that it imports under `if TYPE_CHECKING` too.
    """
    rooms: dict[str, set[str]] = {room(name): set() for name in MODULES}
    for name in MODULES:
        rooms[room(name)] |= {room(imported) for imported in imports(name, types=types)}
    rooms["_native"] |= imported_by_the_core()
    return {name: used - {name, "_core"} for name, used in rooms.items()}


def reach(rooms: dict[str, set[str]], start: str) -> set[str]:
    """Returns the rooms that a room uses, directly or through others."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = rooms[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def circles(rooms: dict[str, set[str]]) -> set[str]:
    """Returns the rooms that use another room which uses them, directly or through others."""
    return {name for name in rooms if name in reach(rooms, name)}


def arrows_upward(rooms: dict[str, set[str]], floors: list[str]) -> set[tuple[str, str]]:
    """Returns pairs of a room and a higher room that it uses, directly or through others."""
    return {
        (name, above)
        for level, name in enumerate(floors)
        for above in reach(rooms, name) & set(floors[level + 1 :])
    }


def test_no_room_of_the_package_is_in_a_circle() -> None:
    assert circles(uses()) == set()
    planted = uses()
    planted["errors"] |= {"_checks"}
    assert circles(planted) == {"_checks", "errors"}


def test_the_folders_of_the_package_are_in_layers() -> None:
    assert arrows_upward(uses(), FLOORS) == set()
    planted = uses()
    planted["columns"] |= {"_files"}
    assert arrows_upward(planted, FLOORS) == {("_columns", "_files")}


def types_upward(
    run_time: dict[str, set[str]], with_types: dict[str, set[str]]
) -> set[tuple[str, str]]:
    """Returns the arrows of `with_types` that would close a circle if they were in `run_time`.

    They lead to a room which uses their room at run time, directly or through others.
    """
    return {
        (name, above)
        for name in with_types
        for above in with_types[name] - run_time[name]
        if name in reach(run_time, above)
    }


def test_types_of_a_higher_room_are_imported_as_listed_only() -> None:
    run_time, with_types = uses(), uses(types=True)
    assert types_upward(run_time, with_types) == TYPES_UPWARD
    rest = {
        name: {used for used in with_types[name] if (name, used) not in TYPES_UPWARD}
        for name in with_types
    }
    assert circles(rest) == set()
    assert arrows_upward(rest, FLOORS) == set()
    with_types["_cql"] |= {"session"}
    assert types_upward(run_time, with_types) - TYPES_UPWARD == {("_cql", "session")}


def test_every_private_module_has_its_folder() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {name for name in folders if name[0] == "_"} == set(FLOORS)
    assert {name for name in folders if name[0] != "_"} == {*LEAVES, "diagnose"}
    assert {path.stem for path in PACKAGE.glob("_[a-z]*.py")} == PRIVATE_FILES


def hidden_imports(text: str) -> list[str]:
    """Returns the expressions by which a module could import others unseen by `imports`.

    These are a function that imports, if it is not called at once, and `sys.modules` with the name
    of a module of turbocql.
    """
    tree = ast.parse(text)
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    hidden = []
    for node in ast.walk(tree):
        name = getattr(node, "attr", getattr(node, "id", ""))
        if name in ("import_module", "__import__") and node not in called:
            hidden.append(ast.unparse(node))
        elif isinstance(node, ast.Subscript) and ast.unparse(node).startswith("sys.modules["):
            hidden += [ast.unparse(node)] if "turbocql" in ast.unparse(node.slice) else []
    return hidden


def test_no_module_hides_an_import() -> None:
    for path in MODULES.values():
        assert hidden_imports(path.read_text(encoding="utf-8")) == [], path
    for planted in ("load = importlib.import_module", "sys.modules['turbocql._session']"):
        assert len(hidden_imports(planted)) == 1
    assert hidden_imports("importlib.import_module('json'), sys.modules[name]") == []


def test_no_two_modules_import_each_other() -> None:
    modules = {name: {*imports(name)} & set(MODULES) for name in MODULES}
    assert circles(modules) == set()


def test_a_leaf_is_imported_by_nobody_else() -> None:
    rooms = uses()
    assert {(name, used) for name in rooms for used in rooms[name] & LEAVES} == LEAVES_IMPORTED
    with_turbocql = {
        name
        for name in MODULES
        if room(name) == "testing" and {room(used) for used in imports(name)} - {"testing"}
    }
    assert with_turbocql == {"turbocql.testing.existing"}, "the others work with any driver"


def test_the_core_is_named_by_what_calls_it_only() -> None:
    naming = {room(name) for name in MODULES if "turbocql._core" in imports(name)}
    private = {name for name in naming if name.startswith("_") or name in LEAVES}
    assert private == NAMING_THE_CORE


def dependencies(crate: str) -> set[str]:
    """Returns a crate's dependencies of all kinds, from its Cargo.toml."""
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
"""Maps each crate to the project's crates that its Cargo.toml lists. The compiler refuses uses of
crates that the Cargo.toml does not list."""
TEST_CRATES: dict[str, set[str]] = {
    "fuzz": {"turbocql-codec"},
    "models": set(),
    "simulation": {"turbocql-codec", "turbocql-engine"},
}
"""The same for crates that only test the others, so no crate depends on them. `models` copies the
sources that it tests."""
OUTSIDE: dict[str, set[str]] = {
    "crates/codec": set(),
    "crates/columns": set(),
    "crates/engine": {"scylla", "tokio"},
    "crates/values": {"pyo3"},
    "crates/accel": {"pyo3"},
    ".": {"pyo3"},
    "fuzz": {"scylla-cql"},
    "models": set(),
    "simulation": {"tokio"},
}
"""Maps each crate to those of the crates pyo3, tokio, scylla and scylla-cql that its Cargo.toml
lists."""


@pytest.mark.parametrize("crate", OUTSIDE)
def test_crates_depend_downwards(crate: str) -> None:
    named = dependencies(crate)
    listed = (CRATES | TEST_CRATES)[crate]
    assert {name for name in named if name.startswith("turbocql-")} == listed
    assert named & {"pyo3", "tokio", "scylla", "scylla-cql"} == OUTSIDE[crate]


def test_every_crate_has_its_layer() -> None:
    crates = {
        path.parent
        for pattern in ("", "*/", "crates/*/")
        for path in ROOT.glob(f"{pattern}Cargo.toml")
    }
    assert {str(path.relative_to(ROOT)) for path in crates} == {*CRATES, *TEST_CRATES}
    assert OUTSIDE.keys() == {*CRATES, *TEST_CRATES}


SOURCES = {crate: "src" if crate == "." else f"{crate}/src" for crate in OUTSIDE}


@pytest.mark.parametrize(
    ("outside", "crates"),
    [
        ("pyo3", ["crates/codec", "crates/columns", "crates/engine", *TEST_CRATES]),
        ("scylla", [crate for crate in OUTSIDE if crate != "crates/engine"]),
        ("tokio", [crate for crate in OUTSIDE if crate not in ("crates/engine", "simulation")]),
        ("scylla_cql", [crate for crate in OUTSIDE if crate != "fuzz"]),
    ],
)
def test_crates_are_named_in_their_layer_only(outside: str, crates: list[str]) -> None:
    for path in rust_files(*[SOURCES[crate] for crate in crates]):
        # `self::scylla::` names a module.
        assert not re.search(rf"(?<!\w::)\b{outside}::", without_comments(path)), path


ROOMS = {
    "crates/codec/src": [
        ["path"],
        ["error"],
        ["wire"],
        ["cql_type"],
        ["page", "parse", "row", "segment", "token", "types"],
        ["message", "nulls", "plan"],
    ],
    "crates/columns/src": [
        ["bytes_in", "parse", "raw", "schema", "text"],
        ["column", "numbers_in", "unfit"],
        ["batch", "source"],
        ["arbitrary", "fit", "flat"],
        ["load"],
    ],
    "crates/engine/src": [
        ["terms"],
        ["telemetry"],
        ["error"],
        ["policies"],
        ["statement"],
        ["request"],
        ["cluster"],
        ["session"],
        ["io"],
        ["results"],
        ["bulk"],
    ],
    "crates/values/src": [
        ["python", "system"],
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
        ["python", "switch", "types"],
        ["ffi"],
        ["convert"],
        ["scalars"],
        ["reader"],
        ["reading"],
        ["arrays"],
        ["stand_ins"],
    ],
    "src": [["python"], ["error", "ffi"], ["options"], ["op"], ["classes"]],
    "src/classes": [
        ["statement"],
        ["session"],
        ["result"],
        ["request"],
        ["bulk"],
        ["scan"],
        ["methods"],
    ],
    "simulation/src": [
        ["random", "trace", "panics"],
        ["ffi", "network", "observed"],
        ["cluster"],
        ["faults"],
        ["history", "routing", "visible"],
        ["needless"],
        ["workload"],
        ["relocation"],
        ["run"],
        ["returning"],
        ["main"],
    ],
}
"""Maps a folder of sources to its rooms (modules and folders), in lines from the bottom to the top.
A room may name only itself and the rooms of earlier lines."""


def rooms_named(source: str) -> dict[str, set[str]]:
    """Maps each room of `source` to the other rooms of `source` that its code names.

    `source` is the `src` of a crate or a folder in it. The code of unit tests does not count.
    """
    crate = source[: source.rindex("src") + 3]
    inside = Path(source).relative_to(crate).parts
    exported: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for depth in range(len(inside) + 1):
        root = ROOT.joinpath(crate, *inside[:depth], "mod.rs" if depth else "lib.rs")
        exported |= exports(without_comments(root), inside[:depth])
    known = {name for names in ROOMS[source] for name in names}
    rooms: dict[str, set[str]] = {}
    for path in rust_files(source):
        room = path.relative_to(ROOT / source).parts[0].removesuffix(".rs")
        if room in ("lib", "mod") or path.name == "tests.rs":
            continue
        module = module_of(path.relative_to(ROOT / crate))
        named = rooms_in(without_comments(path), module, inside, known, exported)
        rooms.setdefault(room, set()).update(named - {room})
    return rooms


@pytest.mark.parametrize("source", ROOMS)
def test_rooms_of_a_crate_are_in_layers(source: str) -> None:
    level = {name: number for number, names in enumerate(ROOMS[source]) for name in names}

    def upward(rooms: dict[str, set[str]]) -> set[tuple[str, str]]:
        return {
            (name, other) for name in rooms for other in rooms[name] if level[other] >= level[name]
        }

    rooms = rooms_named(source)
    assert rooms.keys() == level.keys(), "a new room: say here on which layer it is"
    assert upward(rooms) == set()
    bottom, top = ROOMS[source][0][0], ROOMS[source][-1][0]
    assert bottom in set().union(*rooms.values()), "nothing is named: are the sources read?"
    rooms[bottom].add(top)
    assert upward(rooms) == {(bottom, top)}


def test_no_source_brings_in_code_that_the_reader_does_not_see() -> None:
    for path in rust_files(*[SOURCES[crate] for crate in (*CRATES, "simulation")]):
        hidden = r"#\[path\b|\binclude!|\bextern crate\b"
        assert not re.search(hidden, without_comments(path)), path


FFI = ("crates/values/src/ffi", "crates/accel/src/ffi", "src/ffi", "simulation/src/ffi.rs")


def test_unsafe_stays_in_the_ffi_modules() -> None:
    for path in rust_files("src", "crates", *TEST_CRATES):
        if any(path.is_relative_to(ROOT / folder) for folder in FFI):
            continue
        assert not re.search(r"\bunsafe\b", without_comments(path)), path
    # The compiler checks this too, except in fuzz/.
    for folder in {*SOURCES.values()} - {"fuzz/src"}:
        inner = "deny" if any(path.startswith(folder) for path in FFI) else "forbid"
        text = (ROOT / folder / "lib.rs").read_text(encoding="utf-8")
        assert f"#![{inner}(unsafe_code)]" in text, folder


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_files_can_be_held_in_the_head() -> None:
    files = [*rust_files("src", "crates"), *PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]
    long = {str(path.relative_to(ROOT)) for path in files if lines(path) > 500}
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    reasons = design.partition("## Files above 500 lines")[2].partition("\n## ")[0]
    assert set(re.findall(r"^- `(\S+)`", reasons, re.MULTILINE)) == long
    assert {path for path in (ROOT / "tests").rglob("*.py") if lines(path) > 800} == set()
