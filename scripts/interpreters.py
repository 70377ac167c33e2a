"""Where the interpreters are that wheels are built for and tests run on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
ABOUT = "import platform as p; print(p.python_implementation(), *p.python_version_tuple()[:2])"
# Python's own variables would reach into other environments, PYO3_PYTHON over maturin's choice.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYO3_PYTHON", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
}


def interpreters(variable: str) -> dict[str, str]:
    """Executables by version: those that the environment variable names, or one of each version,
    of pyenv's or on PATH.

    Raises: SystemExit for one that is not there.
    """
    named = os.environ.get(variable, "").split()
    found: dict[str, str] = {}
    for name in named:
        version = version_of(name)
        if version is None:
            fail(f"{variable}: {name} is no CPython that runs")
        found[version] = name
    if named:
        return found
    for version in VERSIONS:
        fitting = (name for name in candidates(version) if version_of(name) == version)
        python = next(fitting, None)
        if python is None:
            fail(
                f"CPython {version} was found neither with pyenv nor on PATH: install it, or say"
                f' which ones to take: {variable}="python3.12 python3.13"'
            )
        found[version] = python
    return found


def candidates(version: str) -> Iterator[str]:
    """Where an interpreter of this version may be, the latest release first."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    releases = [path for path in root.glob(f"{version}.*") if path.name.split(".")[2].isdigit()]
    for path in sorted(releases, key=lambda path: int(path.name.split(".")[2]), reverse=True):
        yield str(path / "bin" / f"python{version}")
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path


def version_of(python: str) -> str | None:
    """Such as 3.12; none where it is no CPython, or does not run."""
    try:
        ran = subprocess.run(
            [python, "-I", "-c", ABOUT], capture_output=True, text=True, env=CLEAN, timeout=60
        )
    except OSError:
        return None
    said = ran.stdout.split()
    return ".".join(said[1:]) if ran.returncode == 0 and said[0] == "CPython" else None


def fail(reason: str) -> NoReturn:
    """Ends the program with this on standard error."""
    raise SystemExit(reason)
