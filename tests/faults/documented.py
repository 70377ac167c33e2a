"""Parses the table of docs/reliability.md with the logs, metrics and spans of each fault."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Row", "rows_of_the_page"]

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
_HEADING = "## A fault, and what is seen of it"
_HEAD = "| fault | logged | counted | traced | first seen |"
_LEVELS = "DEBUG|INFO|WARNING|ERROR"


@dataclass(frozen=True)
class Row:
    """The facts that one row of the table states about its fault."""

    logged: frozenset[tuple[str, str]]
    """The events that are logged, each with its level."""
    counted: frozenset[str]
    """The metrics that the fault changes, such as `retries` and `errors["Overloaded"]`.

    `state` is not among them: it is a field of its own.
    """
    state: str | None
    """The state of the node; `None` if the row has none."""
    errors: frozenset[str]
    """The classes of errors that spans of calls have as `error.type`."""
    attempts: frozenset[str]
    """The texts that spans of failed attempts have as their status."""
    attributes: frozenset[str]
    """The attributes that spans have because of the fault."""
    within_s: dict[str, float]
    """Maps an event or a metric to the seconds within which it is seen."""


def rows_of_the_page() -> dict[str, Row]:
    """Maps the name of each fault to its row."""
    section = _PAGE.read_text(encoding="utf-8").partition(f"\n{_HEADING}\n")[2]
    lines = section.partition("\n## ")[0].splitlines()
    table = lines[lines.index(_HEAD) + 2 :]
    rows: dict[str, Row] = {}
    for line in table:
        if not line.startswith("| "):
            break
        fault, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        assert fault not in rows, f"{fault} is twice in the table"
        rows[fault] = _row(*cells)
    return rows


def _row(logged: str, counted: str, traced: str, first_seen: str) -> Row:
    state = re.search(r"`state` is `([^`]+)`", counted)
    figures = re.sub(r"`state` is `[^`]+`", "", counted)
    names = set(re.findall(r"`([^`]+)`", traced))
    errors = {name for name in names if re.fullmatch(r"[A-Z]\w+", name)}
    attributes = {name for name in names if "." in name}
    return Row(
        logged=frozenset(re.findall(rf"`([^`]+)` ({_LEVELS})", logged)),
        counted=frozenset(re.findall(r"`([^`]+)`", figures)),
        state=state[1] if state else None,
        errors=frozenset(errors),
        attempts=frozenset(names - errors - attributes),
        attributes=frozenset(attributes),
        within_s={
            name: float(seconds)
            for name, seconds in re.findall(r"`([^`]+)` ([\d.]+) s", first_seen)
        },
    )
