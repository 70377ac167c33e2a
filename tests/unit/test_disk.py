"""Tests that a program that ends early leaves no temporary files, and no damaged files."""

import subprocess
import sys
from pathlib import Path

import pytest

from turbocql._files.atomic import drop_temporary, forget_temporary, replace_file, temporary_path


def ended(tmp_path: Path, program: str) -> list[str]:
    """Runs a program, and returns the names of the files that it leaves in `tmp_path`."""
    begin = (
        "from pathlib import Path\n"
        "from turbocql._files.atomic import *\n"
        f"home = Path({str(tmp_path)!r})\n"
    )
    subprocess.run([sys.executable, "-c", begin + program], check=False, stderr=subprocess.DEVNULL)
    return sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize("error", ["SystemExit(143)", "KeyboardInterrupt", "ValueError"])
def test_a_program_that_ends_after_opening_leaves_no_part(tmp_path: Path, error: str) -> None:
    program = f"temporary_path(home / 'a.csv').write_bytes(b'half')\nraise {error}"
    assert ended(tmp_path, program) == []


def test_an_interrupted_replacement_leaves_the_old_file_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"old")
    program = (
        "import os\ndef stop(_): raise SystemExit\nos.fsync = stop\n"
        "replace_file(home / 'a.csv', b'new')"
    )
    assert ended(tmp_path, program) == ["a.csv"]
    assert (tmp_path / "a.csv").read_bytes() == b"old"


def test_a_forked_process_leaves_the_files_of_its_parent_alone(tmp_path: Path) -> None:
    program = (
        "import os, sys\npath = temporary_path(home / 'a.csv')\npath.write_bytes(b'half')\n"
        "child = os.fork()\n"
        "if child == 0:\n    sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "(home / 'seen').write_text(str(path.exists()))\n"
    )
    assert ended(tmp_path, program) == ["seen"]
    assert (tmp_path / "seen").read_text() == "True"


def test_files_that_have_their_names_stay(tmp_path: Path) -> None:
    program = (
        "path = temporary_path(home / 'a.csv')\npath.write_bytes(b'whole')\n"
        "path.rename(home / 'a.csv')\nforget_temporary(path)\n"
    )
    assert ended(tmp_path, program) == ["a.csv"]


def test_a_temporary_file_is_dropped_once(tmp_path: Path) -> None:
    path = temporary_path(tmp_path / "a.csv")
    path.write_bytes(b"half")
    drop_temporary(path)
    assert not path.exists()
    drop_temporary(path)
    forget_temporary(path)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"cannot write .*gone/a\.csv"):
        replace_file(tmp_path / "gone" / "a.csv", b"")
