"""Shows progress on standard error: a bar on a terminal, a line every 10 seconds in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from ..bulk import Progress
from ._ends import counted

try:
    import termios
except ImportError:  # not a Unix
    termios = None  # type: ignore[assignment]

__all__ = ["Bar", "duration", "size"]

_LOG_INTERVAL_S = 10.0
_DRAW_INTERVAL_S = 0.1
_NARROW_WIDTH = 90


def duration(seconds: float) -> str:
    """A time as `1 h 2 min`, `3 min 4 s` or `5.6 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remaining_seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def size(count: float) -> str:
    """A number of bytes, such as `2.0 MB`."""
    for unit, unit_size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= unit_size:
            return f"{count / unit_size:.1f} {unit}"
    return f"{count:.0f} B"


@contextmanager
def _without_echo() -> Iterator[None]:
    """Keeps the terminal from showing `^C`, which would break a line that fills the screen."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    try:
        before = termios.tcgetattr(sys.stdin)
        mode = [*before[:3], before[3] & ~termios.ECHOCTL, *before[4:]]
        termios.tcsetattr(sys.stdin, termios.TCSANOW, mode)
    except (OSError, ValueError, termios.error):
        yield
        return
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


class Bar:
    """Shows the progress of a command. A load calls a `Bar` with its `Progress`."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._bar: Any = None
        self._echo = ExitStack()
        self._task: Any = None
        self._began_at = self._logged_at = time.monotonic()
        self._drawn_at = 0.0
        self._rows: int | None = None
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._draw()
            self._bar.stop()
            self._echo.close()

    def __call__(self, progress: Progress) -> None:
        """Shows the progress of a load."""
        parts = [
            counted(progress.rows, "row"),
            f"{progress.rows_per_s:,.0f}/s",
            size(progress.bytes),
        ]
        if progress.left_s is not None and not progress.ended:
            parts.append(f"{duration(progress.left_s)} left")
        if progress.failed:
            parts.append(f"{progress.failed:,} failed")
        if progress.retrying:
            parts.append(f"{progress.retrying:,} tried again: {progress.reason}")
        if progress.window:
            parts.append(f"window {progress.window}")
        self._show(parts, progress.share, ended=progress.ended)

    def show_rows(self, rows: int) -> None:
        """Shows the number of rows that are done."""
        self._rows = rows
        now = time.monotonic()
        if now - self._drawn_at >= _DRAW_INTERVAL_S:
            self._drawn_at = now
            self._draw()

    def _draw(self) -> None:
        """Shows the last number of rows that `show_rows` received."""
        if self._rows is None:
            return
        elapsed = max(1e-9, time.monotonic() - self._began_at)
        parts = [counted(self._rows, "row"), f"{self._rows / elapsed:,.0f}/s"]
        self._show(parts, None, ended=False)

    def _show(self, parts: list[str], share: float | None, *, ended: bool) -> None:
        if not self._is_terminal:
            now = time.monotonic()
            if ended or now - self._logged_at >= _LOG_INTERVAL_S:
                self._logged_at = now
                percentage = "" if share is None else f"{share:.0%}, "
                print(
                    f"{self._command}: {percentage}{', '.join(parts)}", file=sys.stderr, flush=True
                )
            return
        if self._bar is None:
            self._open(has_share=share is not None)
        console = self._bar.console
        if console.width < _NARROW_WIDTH:
            # On a narrow screen, the window and `0 B` are not shown, and at most four parts are.
            parts = [part for part in parts if not part.startswith(("window", "0 B"))][:4]
        text = "  ".join(parts)
        self._bar.update(self._task, completed=share or 0.0, text=text, refresh=True)

    def _open(self, *, has_share: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

        console = Console(stderr=True, highlight=False)
        columns: list[Any] = [TextColumn("{task.description}")]
        width = 30 if console.width >= _NARROW_WIDTH else 10
        if has_share:
            columns += [BarColumn(width), TaskProgressColumn()]
        else:
            columns.append(SpinnerColumn("line"))
        columns.append(TextColumn("{task.fields[text]}"))
        self._bar = Progress(*columns, console=console, auto_refresh=False)
        self._task = self._bar.add_task(self._command, total=1.0, text="")
        self._echo.enter_context(_without_echo())
        self._bar.start()
