"""The resident memory over time during a load or a scan, and whether it stays flat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["KEYSPACE", "TABLE", "Course"]

KEYSPACE, TABLE = "bench_memory", "bench_memory.rows"
MAX_GROWTH = 16 << 20
LEFT_OUT = 0.05


@dataclass(frozen=True)
class Course:
    """The resident size during a load or a scan, in bytes."""

    direction: str
    rows: int
    wall_s: float
    cpu_s: float
    before: int
    """The resident size after connecting, before the first row."""
    points: list[tuple[int, int]]
    """Pairs: how many rows were done, and the resident size at that time."""

    def _peak(self, begin: float, end: float) -> int:
        sizes = [size for rows, size in self.points if begin <= rows / self.rows <= end]
        return max(sizes, default=0)

    @property
    def peak(self) -> int:
        return self._peak(0, 1)

    @property
    def growth(self) -> int:
        """The peak in the second half of the rows, minus the peak from 5 % to half of the rows."""
        return self._peak(0.5, 1) - self._peak(LEFT_OUT, 0.5)

    @property
    def is_flat(self) -> bool:
        return self.growth <= MAX_GROWTH

    def lines(self) -> Iterator[str]:
        """Yields lines with the times, the peak in each twelfth of the rows, and the verdict."""
        yield (
            f"{self.direction}: {self.rows:,} rows in {self.wall_s:.1f} s,"
            f" {self.cpu_s / self.rows * 1e6:.2f} us of CPU a row"
        )
        for part in range(12):
            size = self._peak(part / 12, (part + 1) / 12)
            yield f"  to {(part + 1) / 12:4.0%} of the rows: {size / 2**20:8.1f} MiB at most"
        verdict = "flat" if self.is_flat else "NOT FLAT"
        yield (
            f"  before: {self.before / 2**20:.1f} MiB, peak {self.peak / 2**20:.1f} MiB, second"
            f" half against first: {self.growth / 2**20:+.1f} MiB: {verdict}"
        )
