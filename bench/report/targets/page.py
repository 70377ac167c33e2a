"""Makes the text that `python -m bench report --targets` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.report.model import Samples, codec_cases, end_to_end, growth, interpreters
from bench.report.tables.growth import sizes_section
from bench.report.tables.requests import in_flight_section
from bench.report.targets.verdicts import (
    accelerator_targets,
    codec_targets,
    request_targets,
    table_targets,
)

__all__ = ["is_missed", "targets_page"]


def is_missed(line: str) -> bool:
    """Returns whether this line of `targets_page` says that a target is missed."""
    return line.startswith(("### Missed: ", "Below the target")) or "**missed**" in line


def targets_page(folder: Path) -> list[str]:
    """Returns lines of Markdown: targets, profiles of missed targets, and long tables.

    The long tables are those of growth and of requests in flight.
    """
    samples = Samples(folder)
    path = folder / "profiles.json"
    profiles: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    lines = []
    for name in interpreters(samples.compared):
        if cases := codec_cases(samples.codec, name):
            lines += [f"## The codec, {name}", "", *codec_targets(cases, profiles)]
        if points := end_to_end(samples.end_to_end, name):
            lines += [f"## Requests to a server, {name}", "", *request_targets(points, profiles)]
            lines += in_flight_section(points)
        if series := growth(samples.growth, name):
            lines += [f"## Growth, {name}", "", *sizes_section(series)]
    if samples.accelerator:
        lines += ["## The accelerator", "", *accelerator_targets(samples.accelerator)]
    if samples.tables:
        lines += ["## Whole tables", "", *table_targets(samples.tables)]
    return lines
