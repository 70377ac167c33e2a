"""Tests the `bench` package: its layers, command line, order of clients and files of samples."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest
from bench import suites
from bench.__main__ import main
from bench.harness import samples
from bench.harness.environments import KEPT
from bench.harness.processes import environment
from bench.harness.spread import turns
from bench.report.model import Samples
from bench.suites.registry import SUITES
from tests.meta.sources import ROOT

LAYERS = {
    "harness": {"harness"},
    "suites": {"harness", "suites"},
    "clients": {"harness", "suites", "clients"},
    "report": {"harness", "suites", "report"},
}
"""Maps each folder to the folders that it may import. Clients may run in environments of their own,
so suites and reports refer to clients by strings."""


def _imported(path: Path) -> set[str]:
    """Returns the folders of the package that a module imports."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in modules if name.startswith("bench.")}


@pytest.mark.parametrize("folder", sorted(LAYERS))
def test_a_folder_imports_only_those_below_it(folder: str) -> None:
    uses = {path: _imported(path) for path in (ROOT / "bench" / folder).rglob("*.py")}
    # worker.py is an exception: it may import a client, because it runs in the environment in which
    # scylla-driver is installed.
    uses[ROOT / "bench" / "suites" / "engines" / "worker.py"] = set()
    assert {path: used for path, used in uses.items() if used - LAYERS[folder]} == {}


def test_the_programs_of_clients_exist() -> None:
    """Suites name the programs of clients in strings. No import checks that these modules exist."""
    programs = {
        node.value
        for path in (ROOT / "bench" / "suites").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("bench.")
        and " " not in node.value
    }
    assert len(programs) > 10
    for name in programs:
        assert (ROOT / name.replace(".", "/")).with_suffix(".py").is_file(), name


def test_every_folder_of_suites_is_in_the_registry() -> None:
    folders = {entry.name for entry in pkgutil.iter_modules(suites.__path__) if entry.ispkg}
    assert {name.partition("-")[0] for name in SUITES} == folders
    for name in folders - {"columns"}:
        module = importlib.import_module(f"bench.suites.{name}.suite")
        assert module.SUITE in SUITES.values()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["value: uuid", "--suite", "codec"], ["value: uuid"]),
        (["stopped turbocql"], ["stopped turbocql"]),
        # The list has the chosen case, and also the cases with which it is compared.
        (["page arrow"], ["page arrow turbocql 1", "page tuples scylla-driver 1"]),
        (["mapper model_get", "--suite", "mapper"], ["model_get sync scylla-driver 1"]),
    ],
)
def test_cases_are_chosen_by_words(
    arguments: list[str], names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", *arguments]) == 0
    listed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in listed if line in names][: len(names)] == names


def test_a_pattern_that_chooses_nothing_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(SystemExit, match="the nearest:\n  insert_text"):
        main(["run", "--list", "insert_txet"])


def test_clients_alternate_in_changing_order() -> None:
    assert list(turns(["a", "b"], 3)) == [
        *((1, "a"), (1, "b")),
        *((2, "b"), (2, "a")),
        *((3, "a"), (3, "b")),
    ]


def test_new_samples_replace_those_of_the_same_case(tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    old = [{"case": case, "client": client} for case in "ab" for client in "xy"]
    samples.keep(file, old)
    samples.keep(file, [{"case": "a", "client": "x", "ns": 1}])
    assert samples.read(file) == [*old[2:], {"case": "a", "client": "x", "ns": 1}]
    samples.keep(file, [{"case": "c", "client": "y"}], ["client"])
    assert [sample["client"] for sample in samples.read(file)] == ["x", "x", "y"]


def test_every_kept_sample_is_read() -> None:
    kept = Samples(KEPT)
    files = {path.name for path in KEPT.glob("*.jsonl")}
    assert files == {suite.file for suite in SUITES.values() if suite.is_kept}
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in KEPT.glob("*.jsonl"))
    assert lines == sum(map(len, vars(kept).values()))


def test_processes_have_the_repository_on_their_path() -> None:
    assert environment(MORE="1")["PYTHONPATH"] == f"{ROOT}:{ROOT / 'python'}"
    assert environment(MORE="1")["MORE"] == "1"
