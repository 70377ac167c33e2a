"""What is accelerated, and how often it was of use."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass, field

__all__ = ["ONLY_COUNTED", "Seam", "Status"]

ONLY_COUNTED = "left to the driver: parameters of simple statements; prepared ones are native"
"""Why a function of the driver's is counted and not replaced."""


@dataclass(frozen=True)
class Seam:
    """One function of the driver's."""

    name: str
    """Its dotted name."""
    patched: bool
    why: str
    """Why it was left alone, or is not patched any more; empty for what is patched."""
    native: int
    """Calls that the native function did by itself."""
    fallback: int
    """Calls that it handed to the driver's own."""
    learned: int = 0
    """Calls that the driver's own did once, from which the native function learned the columns."""

    @property
    def is_counted(self) -> bool:
        """Whether its calls are or were counted: it is or was patched, or is only counted."""
        return self.patched or self.why in ("over", ONLY_COUNTED)

    @property
    def is_idle(self) -> bool:
        """Whether its calls are or were counted, and there were none."""
        return self.is_counted and not (self.native or self.fallback or self.learned)


@dataclass(frozen=True)
class Status:
    """What `turbocql.accel.status()` gives. `str()` of it is a table."""

    on: bool
    """Whether it is in force. When it is not any more, the counts are those at its end."""
    driver: str
    """The driver that was found, or why there is none."""
    seams: tuple[Seam, ...]
    pid: int = field(default_factory=os.getpid)
    """The process whose calls were counted."""

    @property
    def native(self) -> int:
        """Calls that were native, in all."""
        return sum(seam.native for seam in self.seams)

    @property
    def fallback(self) -> int:
        """Calls that went to the driver's own functions, in all."""
        return sum(seam.fallback for seam in self.seams)

    def __str__(self) -> str:
        state = "on" if self.on else "off"
        lines = [f"turbocql.accel is {state}: {self.driver} (process {self.pid})"]
        width = max((len(seam.name) for seam in self.seams), default=0)
        idle = [seam for seam in self.seams if seam.is_idle]
        for seam in self.seams:
            if seam.is_idle:
                continue
            said = f"native {seam.native:,}, by the driver {seam.fallback:,}"
            said += f", learned from {seam.learned:,}" if seam.learned else ""
            said += f"; {seam.why}" if seam.why == ONLY_COUNTED else ""
            lines.append(f"  {seam.name:{width}}  {said if seam.is_counted else seam.why}")
        if idle:
            said = f"  not called so far: {', '.join(seam.name for seam in idle)}"
            lines += textwrap.wrap(said, 96, subsequent_indent="    ", break_on_hyphens=False)
        return "\n".join(lines)
