"""Tests the script that names the tools which a build needs and which are not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.meta.sources import ROOT


def missing(folder: Path, system: str) -> tuple[int, str]:
    """Runs the script as if the machine had only Python and Rust.

    Returns the script's exit status and its message.
    """
    tools = {name: shutil.which(name) for name in ("bash", "sed", "cargo")}
    for name, path in {**tools, "python": sys.executable}.items():
        assert path is not None
        # The program in the folder is a script that executes the tool, and not a link to the tool.
        # Through a link, Python would not find its environment.
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{path}" "$@"\n')
        program.chmod(0o755)
    environment = {**os.environ, "PATH": str(folder), "OS": system}
    ran = subprocess.run(
        [str(folder / "bash"), str(ROOT / "scripts" / "prerequisites"), "python"],
        env=environment,
        capture_output=True,
        text=True,
    )
    return ran.returncode, ran.stderr


@pytest.mark.parametrize(
    ("system", "status", "message"),
    [("", 1, "turbocql needs a C compiler and linker: install gcc\n"), ("Windows_NT", 0, "")],
)
def test_only_windows_needs_no_compiler_on_the_path(
    system: str, status: int, message: str, tmp_path: Path
) -> None:
    assert missing(tmp_path, system) == (status, message)
