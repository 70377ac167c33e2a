"""Tests processes that are accelerated by an environment variable or by a command, and their
children.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import cassandra
import pytest
from tests.accel.environments import PROGRAMS, PURELIB, ROOT, run_installed
from tests.accel.environments import run as run_beside

run = partial(run_installed, sys.executable)
CHILDREN = str(PROGRAMS / "children.py")


@pytest.mark.parametrize("way", ["module", "variable", "without"])
def test_every_process_is_accelerated(tmp_path: Path, way: str) -> None:
    path, left = CHILDREN, []
    if way == "module":
        done = run(tmp_path, "-m", "turbocql.accel", path)
    elif way == "variable":
        done = run(tmp_path, path, variable="1")
    else:
        left = ["segments", "timers"]
        done = run(tmp_path, path, variable="without=segments,timers")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 7
    # Each process makes one native call, and counts only this call.
    assert all(told == [True, 1, True, left] for told in found.values()), found


def test_parts_are_left_out_on_the_command_line(tmp_path: Path) -> None:
    path = CHILDREN
    arguments = ("-m", "turbocql.accel", "--without=timers", "--status", path)
    done = run(tmp_path, *arguments)
    found = json.loads(done.stdout)
    assert all(told == [True, 1, True, ["timers"]] for told in found.values()), found
    assert "left out: without='timers'" in done.stderr
    both = ("-m", "turbocql.accel", "--without=timers", "--without=bodies", "--status", path)
    done = run(tmp_path, *both)
    assert "left out: without='timers'" in done.stderr
    assert "left out: without='bodies'" in done.stderr
    done = run(tmp_path, "-m", "turbocql.accel", "--without=nosuch", path)
    assert done.returncode == 2
    assert "there is no part 'nosuch'" in done.stderr


@pytest.mark.parametrize("variable", [None, "", "0"], ids=repr)
def test_nothing_happens_without_the_variable(tmp_path: Path, variable: str | None) -> None:
    ended = run(tmp_path, CHILDREN, variable=variable)
    assert set(map(str, json.loads(ended.stdout).values())) <= {"None"}, ended.stdout


def test_turbocql_is_imported_with_the_driver(tmp_path: Path) -> None:
    look = "import sys; print([name for name in sys.modules if 'turbocql' in name])"
    assert run(tmp_path, "-c", look).stdout == "[]\n"
    # turbocql itself is imported only with the driver.
    done = run(tmp_path, "-c", look, variable="1")
    assert done.stdout == "['_turbocql_accelerate']\n"
    done = run(tmp_path, "-c", f"import cassandra.query; {look}", variable="off")
    assert done.stdout == "['_turbocql_accelerate']\n"


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("perhaps", "expected 1, 0 or without=PART,..., got 'perhaps'"),
        ("without=nosuch", "there is no part 'nosuch'"),
    ],
)
def test_a_wrong_variable_prints_an_error_and_the_program_runs(
    tmp_path: Path, variable: str, said: str
) -> None:
    look = "import cassandra.cluster, turbocql; print(turbocql.accel.status().on)"
    done = run(tmp_path, "-c", look, variable=variable)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert said in done.stderr
    assert "the driver is not accelerated" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_runs_if_turbocql_cannot_be_imported(tmp_path: Path) -> None:
    site = tmp_path / "site" / "turbocql"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("raise ImportError('a broken build')\n", encoding="utf-8")
    look = "import cassandra.cluster; print('it runs')"
    done = run(tmp_path, "-c", look, variable="1")
    assert (done.returncode, done.stdout) == (0, "it runs\n")
    assert done.stderr == "turbocql: a broken build; the driver is not accelerated\n"


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Makes a module, and a package with a module that cannot be imported. Returns their folder."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "broken.py").write_text("import nosuch_either\n", encoding="utf-8")
    (tmp_path / "sound.py").write_text("print(__name__)\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["nosuch", "package", "package.nosuch", "nosuch.package", "sound.nosuch", ".", ""]
)
def test_a_module_that_does_not_exist(modules: Path, name: str) -> None:
    ended = run(modules, "-m", "turbocql.accel", "-m", name)
    assert (ended.returncode, ended.stderr) == (1, f"turbocql.accel: no module named {name}\n")


def test_a_module_is_run(modules: Path) -> None:
    done = run(modules, "-m", "turbocql.accel", "-m", "sound")
    assert (done.returncode, done.stdout) == (0, "__main__\n")
    done = run(modules, "-m", "turbocql.accel", "-m", "package.broken")
    assert "No module named 'nosuch_either'" in done.stderr
    assert "Traceback" in done.stderr


def test_python_executes_the_line_of_the_pth_file() -> None:
    """Python executes a line of a .pth file only if the line begins with `import `."""
    lines = (PURELIB / "turbocql_accelerate.pth").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("import ")
    compile(lines[0], "turbocql_accelerate.pth", "exec")
    assert sys.version_info >= (3, 10)


def test_a_program_is_run_accelerated(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, cassandra.query\n"
        "import beside\n"
        "from turbocql import accel\n"
        "print(__name__, sys.argv[1:], accel.status().on, len(accel.status().seams) > 5)\n"
        "sys.exit(3)\n",
        encoding="utf-8",
    )
    (tmp_path / "beside.py").touch()
    ended = run_beside(sys.executable, "-m", "turbocql.accel", str(program), "a", "-b")
    assert (ended.returncode, ended.stdout) == (3, "__main__ ['a', '-b'] True True\n"), ended.stderr
    ended = run_beside(sys.executable, "-m", "turbocql.accel", "--status", str(program))
    assert f"turbocql.accel is on: cassandra {cassandra.__version__}" in ended.stderr


def test_a_program_may_change_its_folder(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    look = "import os; os.chdir('/'); print(os.path.exists(__file__), __import__('sys').argv[0])"
    program.write_text(look, encoding="utf-8")
    name = os.path.relpath(program, ROOT)
    ended = run_beside(sys.executable, "-m", "turbocql.accel", name)
    assert ended.stdout == f"True {name}\n"


def test_a_command_without_a_program_is_refused() -> None:
    assert run_beside(sys.executable, "-m", "turbocql.accel").returncode == 2
