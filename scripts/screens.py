"""Writes docs/screens.md: the screens of the command line in a wide and a narrow terminal.

    make screens

Each screen comes from a real process with a real Cassandra, in a terminal that pyte emulates.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pexpect
import pyte

import turbocql
from turbocql.testing import Cassandra

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "screens.md"
PYTHON = ROOT / ".venv-columns" / "bin" / "python"
WIDTHS = (100, 60)
ROWS = 60_000

_FILE = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
path, count = sys.argv[1], int(sys.argv[2])
flat = pa.array(np.random.default_rng(1).random(count * 8, dtype=np.float32))
table = pa.table({
    "id": np.arange(count),
    "name": [f"item {n}" for n in range(count)],
    "embedding": pa.FixedSizeListArray.from_arrays(flat, 8),
})
pq.write_table(table, path, row_group_size=5000)
"""


class Pane:
    """A process in an emulated terminal with `columns` columns."""

    def __init__(self, home: Path, columns: int, *arguments: str) -> None:
        self._screen = pyte.Screen(columns, 40)
        self._stream = pyte.Stream(self._screen)
        inherited = {name: value for name, value in os.environ.items() if "TURBOCQL" not in name}
        env = {**inherited, "PYTHONPATH": str(ROOT / "python"), "TERM": "xterm-256color"}
        env |= {"XDG_STATE_HOME": str(home), "XDG_CONFIG_HOME": str(home), "PAGER": "cat"}
        env |= {"PROMPT_TOOLKIT_NO_CPR": "1"}
        self.child = pexpect.spawn(
            str(PYTHON),
            ["-m", "turbocql.cli", *arguments],
            cwd=str(home),
            env=env,
            dimensions=(40, columns),
            encoding="utf-8",
        )

    def wait(self, seconds: float) -> None:
        """Reads the process's output for `seconds`, or until the process ends."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                self._stream.feed(self.child.read_nonblocking(4096, timeout=0.1))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                return

    def text(self) -> str:
        """Returns the text on the screen."""
        lines = [line.rstrip() for line in self._screen.display]
        return "\n".join(lines).strip("\n")


def _blocks(point: str, home: Path, columns: int) -> list[tuple[str, str, str]]:
    """Returns the screens: a title, the command and the text of each."""
    url = ["--url", point]
    screens = []
    load = ["load", "items.parquet", "app.items", "--checkpoint", f"c{columns}"]
    pane = Pane(home, columns, *load, "--rate-limit", "9000", *url)
    pane.wait(4)
    screens.append(("A load", " ".join(load), pane.text()))
    pane.child.kill(signal.SIGINT)
    pane.wait(15)
    screens.append(("Interrupted", "Ctrl-C", pane.text()))
    resume = ["load", "items.parquet", "app.items", "--resume", f"c{columns}"]
    pane = Pane(home, columns, *resume, *url)
    pane.wait(30)
    screens.append(("Resumed", " ".join(resume), pane.text()))
    wrong = ["query", "SELECT nam FROM app.items WHERE id = 7"]
    pane = Pane(home, columns, *wrong, *url)
    pane.wait(15)
    screens.append(("An error", 'query "SELECT nam FROM app.items WHERE id = 7"', pane.text()))
    pane = Pane(home, columns, "shell", "--keyspace", "app", *url)
    pane.wait(3)
    for typed in ("SELECT id, name\r", "FROM items LIMIT 3;\r", "\\x\r", "SELECT * FROM items\r"):
        pane.child.send(typed)
        pane.wait(0.7)
    pane.child.send("WHERE id = 7;\r")
    pane.wait(1.5)
    screens.append(("The shell", "shell --keyspace app", pane.text()))
    pane.child.sendeof()
    pane.wait(5)
    pane = Pane(home, columns, "top", "--every", "0.2", *url)
    pane.wait(5)
    screens.append(("top", "top", pane.text()))
    pane.child.kill(signal.SIGINT)
    pane.wait(5)
    return screens


def main() -> None:
    """Makes the screens in all widths, and writes the page."""
    lines = [
        "# Screens of the command line",
        "",
        "Made by `make screens`, with a real Cassandra and terminals of 100 and of 60 columns. See",
        "[The command line](command-line.md).",
        "",
    ]
    with tempfile.TemporaryDirectory() as folder, Cassandra() as cluster:
        home, point = Path(folder), cluster.contact_points[0]
        subprocess.run(
            [str(PYTHON), "-c", _FILE, str(home / "items.parquet"), str(ROWS)], check=True
        )
        with turbocql.connect(point) as session:
            session.execute(
                "CREATE KEYSPACE app WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            session.execute(
                "CREATE TABLE app.items"
                " (id bigint PRIMARY KEY, name text, embedding vector<float, 8>)"
            )
        screens = {columns: _blocks(point, home, columns) for columns in WIDTHS}
        for number, (title, command, _) in enumerate(screens[WIDTHS[0]]):
            lines += [f"## {title}", "", f"`{command}`" if title == "Interrupted" else ""]
            lines[-1] = lines[-1] or f"`turbocql {command}`"
            for columns in WIDTHS:
                text = screens[columns][number][2].replace(point, "db1:9042")
                text = re.sub(r"(?m) +$", "", text)
                lines += ["", f"{columns} columns:", "", "```text", text, "```"]
            lines.append("")
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
