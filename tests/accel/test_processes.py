"""Processes that are accelerated by their environment, and those that an accelerated one starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.accel.test_accel import DRIVERS, ROOT

PURELIB = ROOT / "packaging" / "turbocql.data" / "purelib"
"""What a wheel puts beside the package."""


def run(
    tmp_path: Path,
    driver: str,
    *arguments: str,
    variable: str | None = None,
    installed: bool = True,
) -> subprocess.CompletedProcess[str]:
    """A program in the driver's environment, which has turbocql as if from a wheel."""
    site = tmp_path / "site"
    site.mkdir(exist_ok=True)
    if installed:
        # Python imports it at its start, also in the processes that are started.
        text = f"import site; site.addsitedir({str(PURELIB)!r})\n"
        (site / "sitecustomize.py").write_text(text, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT / "python")))}
    env.pop("TURBOCQL_ACCELERATE", None)
    if variable is not None:
        env["TURBOCQL_ACCELERATE"] = variable
    python = ROOT / f".venv-{driver}" / "bin" / "python"
    command = [str(python), *arguments]
    return subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120
    )


CHILDREN = """
import concurrent.futures, json, multiprocessing, os, subprocess, sys

def look(_=None):
    import cassandra.cluster
    from cassandra.cqltypes import Int32Type, ListType
    ListType.apply_parameters([Int32Type]).serialize([1], 4)
    accel = sys.modules.get("turbocql.accel")
    if accel is None:
        return None
    told = accel.status()
    seams = {seam.name: seam for seam in told.seams}
    left = sorted({seam.part for seam in told.seams if "left out" in seam.why})
    counted = seams["cqltypes._ParameterizedType.serialize"].native
    return [told.on, counted, told.pid == os.getpid(), left]

if __name__ == "__main__":
    found = {"itself": look()}
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            found[method] = pool.apply(look)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            found["futures, " + method] = pool.submit(look).result()
    print(json.dumps(found))
"""


def program(tmp_path: Path) -> str:
    """A program that starts processes in every way, and looks at each."""
    path = tmp_path / "children.py"
    path.write_text(CHILDREN, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("way", ["module", "variable", "without"])
def test_every_process_is_accelerated(tmp_path: Path, driver: str, way: str) -> None:
    path, left = program(tmp_path), []
    if way == "module":
        done = run(tmp_path, driver, "-m", "turbocql.accel", path)
    elif way == "variable":
        done = run(tmp_path, driver, path, variable="1")
    else:
        left = ["segments", "timers"]
        done = run(tmp_path, driver, path, variable="without=segments,timers")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 7
    # Each counts its own call alone.
    assert all(told == [True, 1, True, left] for told in found.values()), found


def test_parts_are_left_out_on_the_command_line(tmp_path: Path) -> None:
    path = program(tmp_path)
    arguments = ("-m", "turbocql.accel", "--without=timers", "--status", path)
    done = run(tmp_path, "scylla-driver", *arguments)
    found = json.loads(done.stdout)
    assert all(told == [True, 1, True, ["timers"]] for told in found.values()), found
    assert "left out: without='timers'" in done.stderr
    both = ("-m", "turbocql.accel", "--without=timers", "--without=bodies", "--status", path)
    done = run(tmp_path, "scylla-driver", *both)
    assert "left out: without='timers'" in done.stderr
    assert "left out: without='bodies'" in done.stderr
    done = run(tmp_path, "scylla-driver", "-m", "turbocql.accel", "--without=nosuch", path)
    assert done.returncode == 2
    assert "there is no part 'nosuch'" in done.stderr


def test_nothing_happens_without_the_variable(tmp_path: Path) -> None:
    path = program(tmp_path)
    for variable in (None, "", "0"):
        done = run(tmp_path, "scylla-driver", path, variable=variable)
        assert set(map(str, json.loads(done.stdout).values())) <= {"None"}, done.stdout
    look = "import sys; print([name for name in sys.modules if 'turbocql' in name])"
    assert run(tmp_path, "scylla-driver", "-c", look).stdout == "[]\n"
    # turbocql itself comes with the driver.
    done = run(tmp_path, "scylla-driver", "-c", look, variable="1")
    assert done.stdout == "['_turbocql_accelerate']\n"
    done = run(tmp_path, "scylla-driver", "-c", f"import cassandra.query; {look}", variable="off")
    assert done.stdout == "['_turbocql_accelerate']\n"


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("perhaps", "expected 1, 0 or without=PART,..., got 'perhaps'"),
        ("without=nosuch", "there is no part 'nosuch'"),
    ],
)
def test_a_wrong_variable_is_told_and_harms_nothing(
    tmp_path: Path, variable: str, said: str
) -> None:
    look = "import cassandra.cluster, turbocql; print(turbocql.accel.status().on)"
    done = run(tmp_path, "scylla-driver", "-c", look, variable=variable)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert said in done.stderr
    assert "the driver is not accelerated" in done.stderr
    assert "Traceback" not in done.stderr


def test_turbocql_that_cannot_be_imported_harms_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site" / "turbocql"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("raise ImportError('a broken build')\n", encoding="utf-8")
    look = "import cassandra.cluster; print('it runs')"
    done = run(tmp_path, "scylla-driver", "-c", look, variable="1")
    assert (done.returncode, done.stdout) == (0, "it runs\n")
    assert done.stderr == "turbocql: a broken build; the driver is not accelerated\n"


def test_what_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "broken.py").write_text("import nosuch_either\n", encoding="utf-8")
    (tmp_path / "sound.py").write_text("print(__name__)\n", encoding="utf-8")
    for name in ("nosuch", "package", "package.nosuch", "nosuch.package", "sound.nosuch", ".", ""):
        done = run(tmp_path, "scylla-driver", "-m", "turbocql.accel", "-m", name)
        expected = f"turbocql.accel: no module named {name}\n"
        assert (done.returncode, done.stderr) == (1, expected), name
    done = run(tmp_path, "scylla-driver", "-m", "turbocql.accel", "-m", "sound")
    assert (done.returncode, done.stdout) == (0, "__main__\n")
    done = run(tmp_path, "scylla-driver", "-m", "turbocql.accel", "-m", "package.broken")
    assert "No module named 'nosuch_either'" in done.stderr
    assert "Traceback" in done.stderr


def test_the_line_is_one_that_python_runs() -> None:
    """Python skips a line of a .pth file that does not begin with `import `."""
    lines = (PURELIB / "turbocql_accelerate.pth").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("import ")
    compile(lines[0], "turbocql_accelerate.pth", "exec")
    assert sys.version_info >= (3, 10)
