"""Tests `python -m turbocql`."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import turbocql
from turbocql import _core
from turbocql.__main__ import main


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in an interpreter that has no packages but turbocql."""
    return subprocess.run(
        [sys.executable, "-S", "-W", "error", "-m", "turbocql", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            **{name: value for name, value in os.environ.items() if "TURBOCQL" not in name},
            "PYTHONPATH": os.path.dirname(os.path.dirname(turbocql.__file__)),
            **variables,
        },
    )


def test_the_command_runs_without_other_packages() -> None:
    ran = run()
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0].startswith(f"turbocql {turbocql.__version__}, a CQL driver")
    about = dict(re.findall(r"^(\w[\w ]*?) {3,}(.*)", ran.stdout, re.MULTILINE))
    python = f"cpython {sys.version.split()[0]}"
    edits = len(_core.ENGINE_EDITS.split(","))
    assert about["native core"] == f"{_core.BUILD_PROFILE} build, for {python}"
    assert about["engine"] == f"scylla {_core.ENGINE_VERSION}, {edits} edits"
    assert about["quick paths"]
    assert max(map(len, lines)) <= 100
    assert run("--help").stdout == ran.stdout


def test_a_closed_output_ends_with_one() -> None:
    for arguments in ("", "--version"):
        command = f'"{sys.executable}" -m turbocql {arguments} >&-'
        ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (1, "")


def test_the_three_modules_in_the_output_run() -> None:
    text = run().stdout
    modules = re.findall(r"^  python -m (turbocql\.\w+) ", text, re.MULTILINE)
    assert modules == ["turbocql.testing", "turbocql.cli", "turbocql.accel"]
    for module in modules:
        ran = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True)
        assert ran.returncode == 0, ran.stderr


def test_quick_paths_that_are_off_are_named_with_their_reason() -> None:
    ran = run(_TURBOCQL_TEST_INTERPRETER="3.99")
    assert "\nquick paths   all off (tested with CPython 3.10 to 3.15" in ran.stdout


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"turbocql {turbocql.__version__}\n"
    assert main(["query", "SELECT 1"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "takes no 'query SELECT 1'" in said.err
    assert "`python -m turbocql.cli`" in said.err


@pytest.mark.parametrize(("output", "message"), [("/dev/full", "No space left"), ("pipe", "")])
def test_an_output_that_cannot_be_written(output: str, message: str) -> None:
    if output == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(output, os.O_WRONLY)
    ran = subprocess.run(
        [sys.executable, "-m", "turbocql"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(turbocql.__file__))},
    )
    os.close(writer)
    assert ran.returncode == 1
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
    assert bool(ran.stderr) is bool(message)
