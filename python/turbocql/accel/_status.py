"""What is accelerated, and how often it was of use."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Seam", "Status"]


@dataclass(frozen=True)
class Seam:
    """One function of the driver's."""

    name: str
    """Its dotted name."""
    patched: bool
    why: str
    """Why it was left alone; empty for what is patched."""
    native: int
    """Calls that the native function did by itself."""
    fallback: int
    """Calls that it handed to the driver's own."""
    learned: int = 0
    """Calls that the driver's own did once, from which the native function learned the columns."""


@dataclass(frozen=True)
class Status:
    """What `turbocql.accel.status()` gives. `str()` of it is a table."""

    on: bool
    """Whether `accelerate()` is in force."""
    driver: str
    """The driver that was found, or why there is none."""
    seams: tuple[Seam, ...]

    @property
    def native(self) -> int:
        """Calls that were native, in all."""
        return sum(seam.native for seam in self.seams)

    @property
    def fallback(self) -> int:
        """Calls that went to the driver's own functions, in all."""
        return sum(seam.fallback for seam in self.seams)

    def __str__(self) -> str:
        lines = [f"turbocql.accel is {'on' if self.on else 'off'}: {self.driver}"]
        width = max((len(seam.name) for seam in self.seams), default=0)
        for seam in self.seams:
            said = f"native {seam.native:,}, by the driver {seam.fallback:,}"
            said += f", learned from {seam.learned:,}" if seam.learned else ""
            lines.append(f"  {seam.name:{width}}  {said if seam.patched else seam.why}")
        return "\n".join(lines)
