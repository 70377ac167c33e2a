"""The section on losses: the figures in which a rival is better than turbocql."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.markdown import folded, table
from bench.report.model import OURS, Loss

__all__ = ["losses_section"]


def losses_section(losses: Sequence[Loss], failures: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns two sections: the losses outside the spread, and those within it.

    The first section has a table, and the cases in which turbocql failed. The second one is empty,
    or a block that opens on a click.
    """
    outside = _table([loss for loss in losses if not loss.within])
    if failures:
        outside += [*(f"- {failure}" for failure in failures), ""]
    inside = [loss for loss in losses if loss.within]
    within: list[str] = []
    if inside:
        within = folded(
            f"Within the spread: {len(inside)}",
            ["The rival's median is better, but the ranges overlap.", "", *_table(inside)],
        )
    return outside or ["Nothing outside the spread.", ""], within


def _table(losses: Sequence[Loss]) -> list[str]:
    rows = [
        [loss.case, loss.figure, str(loss.ours), loss.rival, str(loss.theirs)] for loss in losses
    ]
    head = ["case", "figure", OURS, "rival", "its figure"]
    if any(loss.note for loss in losses):
        head.append("note")
        rows = [[*row, loss.note or "-"] for row, loss in zip(rows, losses, strict=True)]
    return table(head, rows) if rows else []
