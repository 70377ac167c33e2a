"""The report's section on where rivals are better: beyond the spread, and folded away within it."""

from __future__ import annotations

from collections.abc import Sequence

from report_data import OURS, Loss, Shortfall, table

__all__ = ["losses_section"]


def losses_section(losses: Sequence[Loss], shortfalls: Sequence[Shortfall]) -> list[str]:
    """A table of what lies outside the spread; the rest as a block that opens on a click."""
    outside = _listed(losses, shortfalls, within=False)
    lines = outside or ["Nothing outside the spread.", ""]
    inside = _listed(losses, shortfalls, within=True)
    if inside:
        count = sum(loss.within for loss in losses) + sum(one.within for one in shortfalls)
        lines += [
            # Python's Markdown reads what is inside only when told so; code hosts always do.
            '<details markdown="1">',
            f'<summary markdown="span">Within the spread: {count}</summary>',
            "",
            "The rival's median is better, but the ranges overlap.",
            "",
            *inside,
            "</details>",
            "",
        ]
    return lines


def _listed(losses: Sequence[Loss], shortfalls: Sequence[Shortfall], *, within: bool) -> list[str]:
    chosen = [loss for loss in losses if loss.within == within]
    rows = [
        [loss.case, loss.figure, str(loss.ours), loss.rival, str(loss.theirs)] for loss in chosen
    ]
    head = ["case", "figure", OURS, "rival", "its figure"]
    if any(loss.note for loss in chosen):
        head.append("note")
        rows = [[*row, loss.note or "-"] for row, loss in zip(rows, chosen, strict=True)]
    lines = table(head, rows) if rows else []
    points = [f"- {one.text}" for one in shortfalls if one.within == within]
    return [*lines, *points, *([""] if points else [])]
