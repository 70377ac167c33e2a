"""Processor time and memory of processes, as Linux counts them."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from types import TracebackType

__all__ = ["Measured", "machine_ticks", "processor_s", "resident_bytes", "tree_s"]

_TICK = os.sysconf("SC_CLK_TCK")


class Measured:
    """Wall-clock and processor time (user + system) of a block, in seconds."""

    def __enter__(self) -> Measured:
        self._wall = time.perf_counter()
        self._cpu = _own_s()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cpu_s = _own_s() - self._cpu
        self.wall_s = time.perf_counter() - self._wall


def _own_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def machine_ticks() -> tuple[int, int]:
    """Returns the busy ticks and all ticks of the machine's processors since boot."""
    ticks = [int(n) for n in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def resident_bytes(field: str = "VmRSS") -> int:
    """Returns the resident size of this process, or with the field `VmHWM`, the peak of this size.

    Raises: OSError if the kernel does not report the field.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def processor_s(pid: int, *, with_children: bool = False) -> float:
    """Returns a process's processor time; `with_children` adds children that it has waited for."""
    return sum(map(int, _stat(pid)[11 : 15 if with_children else 13])) / _TICK


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _processes(root: int) -> dict[int, str]:
    """Maps the process id of a process and of each descendant to the command line."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(_stat(int(folder.name))[1])
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        commands[int(folder.name)] = line.decode("utf-8", "replace")
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: commands[pid] for pid in below if pid in commands}


def tree_s(root: int, worker: str) -> tuple[float, float]:
    """Returns the processor time of a process with its descendants, and of the workers among them.

    Workers are descendants with `worker` in their command lines. Ended processes count if their
    parents have waited for them.
    """
    total = workers = 0.0
    for pid, line in _processes(root).items():
        try:
            cpu_s = processor_s(pid, with_children=True)
        except OSError:
            continue
        total += cpu_s
        if worker and worker in line and pid != root:
            workers += cpu_s
    return total, workers
