"""The report of `status()`: which functions are accelerated, and how many calls were native."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from dataclasses import dataclass, field, replace

__all__ = ["Seam", "Status"]


@dataclass(frozen=True)
class Seam:
    """One function of the driver."""

    name: str
    """The dotted name of the function."""
    patched: bool
    """Whether a native function replaces the driver's function and handles calls. It is false if
    the native function now passes all calls to the driver's function."""
    why: str
    """Why the function is not patched, or why the native function now passes all calls to the
    driver's own. Empty if the native function handles calls."""
    native: int
    """The number of calls that were handled natively."""
    fallback: int
    """The number of calls that fell back to the driver's own function."""
    learned: int = 0
    """The number of calls that went to the driver's own function because the columns of the result
    were new. Results with the same columns are then read natively."""
    part: str = ""
    """The part of the accelerator, as `accelerate(without=...)` names it. Empty for a function that
    cannot be left out."""
    reasons: tuple[tuple[str, int], ...] = ()
    """Why calls fell back, and how many calls for each reason, the most frequent first. Only
    functions that write bodies of requests have reasons."""

    @property
    def is_counted(self) -> bool:
        """Whether calls of the function are or were counted, because it is or was replaced."""
        calls = self.native or self.fallback or self.learned
        return self.patched or self.why == "over" or bool(calls)

    @property
    def is_idle(self) -> bool:
        """Whether the function is or was replaced, and has not been called."""
        return self.is_counted and not (self.native or self.fallback or self.learned)

    def ended(self, why: str) -> Seam:
        """Returns a copy for a function that is not patched any more."""
        return replace(self, patched=False, why=why)

    def at_zero(self) -> Seam:
        """Returns a copy with all counts at zero."""
        return replace(self, native=0, fallback=0, learned=0, reasons=())


@dataclass(frozen=True)
class Status:
    """The result of `turbocql.accel.status()`. `str()` of it is a table."""

    on: bool
    """Whether acceleration is on. If it is off, the counts are from the time when it was last
    switched off."""
    driver: str
    """The driver that was found, or the reason why there is none."""
    seams: tuple[Seam, ...]
    pid: int = field(default_factory=os.getpid)
    """The id of the process whose calls were counted."""
    values_left: tuple[tuple[str, str, int], ...] = ()
    """The values that were left to the driver's own `serialize`: CQL type, Python class and count,
    the most frequent first. At most 64 pairs of type and class are counted."""
    notes: tuple[str, ...] = ()
    """Sentences about other work that is left to the driver, or about changes of the driver's types
    that the accelerator can no longer notice."""

    @property
    def native(self) -> int:
        """The total of native calls."""
        return sum(seam.native for seam in self.seams)

    @property
    def fallback(self) -> int:
        """The total of calls that fell back to the driver's own functions."""
        return sum(seam.fallback for seam in self.seams)

    def __str__(self) -> str:
        state = "on" if self.on else "off"
        lines = [f"turbocql.accel is {state}: {self.driver} (process {self.pid})"]
        width = max((len(seam.name) for seam in self.seams), default=0)
        part_width = max((len(seam.part) for seam in self.seams), default=0)
        idle = [seam for seam in self.seams if seam.is_idle]
        # If more than `_MOST_ALIKE` uncounted functions have the same part and reason, they share a
        # line.
        uncounted = Counter((seam.part, seam.why) for seam in self.seams if not seam.is_counted)
        for seam in self.seams:
            if seam.is_idle:
                continue
            alike = uncounted[seam.part, seam.why] if not seam.is_counted else 1
            if alike > _MOST_ALIKE:
                del uncounted[seam.part, seam.why]
                together = f"{alike} functions"
                lines.append(f"  {together:{width}}  {seam.part:{part_width}}  {seam.why}")
            elif alike:
                lines.append(f"  {seam.name:{width}}  {seam.part:{part_width}}  {_summary(seam)}")
                lines += [f"    by the driver {count:,}: {why}" for why, count in seam.reasons]
        lines += [
            f"  left to the driver: {count:,} values of {name} for {cql_type}"
            for cql_type, name, count in self.values_left
        ]
        for note in self.notes:
            lines += _wrapped(f"  {note}")
        if idle:
            summary = f"  not called so far: {', '.join(seam.name for seam in idle)}"
            lines += _wrapped(summary)
        part_names = sorted({seam.part for seam in self.seams if seam.part})
        if part_names:
            lines += _wrapped(f"  parts, for accelerate(without=[...]): {', '.join(part_names)}")
        return "\n".join(lines)


_MOST_ALIKE = 3
"""Uncounted functions with the same part and reason have a line each if there are at most this many
of them. Otherwise they share a line."""


def _summary(seam: Seam) -> str:
    if not seam.is_counted:
        return seam.why
    summary = f"native {seam.native:,}, by the driver {seam.fallback:,}"
    summary += f", learned from {seam.learned:,}" if seam.learned else ""
    is_over = seam.why in ("", "over")
    return summary if is_over else f"{summary}; by the driver from now on: {seam.why}"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, 96, subsequent_indent="    ", break_on_hyphens=False)
