"""What goes on beside a load: its checkpoint, its progress, and when there are too many errors."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .. import _core
from ..bulk import BulkReport, Progress
from ..errors import BulkError
from .checkpoint import Checkpoint, Ranges, joined

__all__ = ["Stopped", "Watch", "shown_progress"]

_EVERY_S = 0.5
_FEW = 1000
"""A share of errors is looked at after so many rows."""


class Stopped(Exception):
    """Ends the reading of the data: what stands beside the load has failed, or too many rows."""


class Watch:
    """A thread beside a load. What it raises, the load raises."""

    def __init__(
        self,
        *,
        checkpoint: Checkpoint | None,
        done: Ranges,
        tell: Callable[[Progress], object] | None,
        total: Callable[[], float | None],
        most: int,
        most_share: float | None,
        unread: Callable[[], int],
        read: Callable[[], int],
        ended: Callable[[BulkReport], BulkReport],
    ) -> None:
        """`done` are the rows of earlier runs. `total` gives the number of rows of the input, if it
        can be told. `most` rows may fail, or their share; `unread` is the number of those
        that failed before they were handed in, of `read` rows. `ended` is called with the report,
        whether it is returned or raised, and makes it whole.
        """
        self.native = _core.BulkProgress(checkpoint is not None)
        self._checkpoint, self._done, self._tell, self._total = checkpoint, done, tell, total
        self._most, self._most_share, self._on_end = most, most_share, ended
        self._unread, self._read = unread, read
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="turbocql-load", daemon=True)

    def begin(self) -> None:
        """Called before the first row is sent.

        Raises: `OSError` when the checkpoint cannot be written.
        """
        if self._checkpoint is not None:
            self._checkpoint.write(self._done)
        self._thread.start()

    def leave(self, raised: BaseException | None) -> None:
        """Called after the last row, with what the load has raised.

        Raises: what stands beside the load has raised, such as the callback.
        """
        self._ended.set()
        self._thread.join()
        self._look(last=True, whole=raised is None)
        if isinstance(raised, BulkError) and raised.report is not None:
            raised.report = self._on_end(raised.report)
        if isinstance(raised, Stopped) and self._failed is None:
            # Before the first row was handed in.
            error = BulkError(f"nothing was sent: {raised}")
            error.report = self._on_end(BulkReport(0, 0, stopped=True))
            raise error from raised
        if isinstance(raised, KeyboardInterrupt) and self._checkpoint is not None:
            _add_note(raised, f"the load can go on: pass resume={str(self._checkpoint.path)!r}")
        # Ctrl-C and a canceled task are raised as they are.
        if self._failed is not None and (raised is None or isinstance(raised, Exception)):
            raise self._failed from raised

    def __enter__(self) -> Watch:
        self.begin()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave(exc)

    async def __aenter__(self) -> Watch:
        # Imported here, because it imports asyncio, which is slow. By now asyncio is loaded.
        from .._native.threads import in_thread

        await in_thread(self.begin)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from .._native.threads import in_thread

        await in_thread(self.leave, exc)

    def acknowledged(self) -> Ranges:
        """The rows that were acknowledged, in this run or an earlier one."""
        return joined([*self._done, *self.native.acknowledged()])

    def end(self, report: BulkReport) -> BulkReport:
        """Notes that the load has come to its report, and makes it whole."""
        report = self._on_end(report)
        if self._checkpoint is not None and not report.stopped:
            self._checkpoint.write(self.acknowledged(), complete=not report.failures)
        return report

    def check(self) -> None:
        """Called where the data is read.

        Raises: `Stopped` if the load is to end.
        """
        if self._failed is not None:
            raise Stopped(f"{type(self._failed).__name__}: {self._failed}") from self._failed
        succeeded, failed, *_ = self.native.snapshot()
        failed += self._unread()
        most = self._most
        if self._most_share is not None:
            most = int(self._most_share * max(_FEW, self._read(), succeeded + failed))
        if failed > most:
            tried = succeeded + failed
            raise Stopped(f"{failed} of the first {tried} rows failed, more than max_errors allows")

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S) and self._failed is None:
            self._look()

    def _look(self, *, last: bool = False, whole: bool = False) -> None:
        try:
            if self._checkpoint is not None:
                self._checkpoint.write(self.acknowledged())
            if self._tell is not None:
                self._tell(self._progress(last=last, whole=whole))
        except BaseException as error:
            self._failed = self._failed or error
            self.native.stop()

    def _progress(self, *, last: bool, whole: bool) -> Progress:
        succeeded, failed, bytes_, window, in_flight, *others = self.native.snapshot()
        elapsed = time.monotonic() - self._began
        failed += self._unread()
        before = sum(end - first for first, end in self._done)
        total, now = self._total(), succeeded + failed
        share = None if not total else min(1.0, (before + now) / total)
        left = None
        if total and now:
            left = max(0.0, total - before - now) * elapsed / now
        retrying, reason = self.native.trouble() or (0, None)
        return Progress(
            rows=succeeded,
            failed=failed,
            bytes=bytes_,
            rows_per_s=succeeded / elapsed if elapsed else 0.0,
            elapsed_s=elapsed,
            left_s=0.0 if last else left,
            share=1.0 if whole and share is not None else share,
            window=window,
            in_flight=in_flight,
            retried=others[0],
            batched=others[1],
            earlier_rows=before,
            ended=last,
            retrying=retrying,
            reason=reason,
        )


def _add_note(error: BaseException, note: str) -> None:
    """Adds a line to what a traceback shows, since Python 3.11."""
    if hasattr(error, "add_note"):
        error.add_note(note)


def shown_progress() -> Callable[[Progress], None]:
    """A bar of tqdm, in a notebook too, or of rich; lines of text without either."""
    try:
        return _tqdm(importlib.import_module("tqdm.auto").tqdm)
    except ModuleNotFoundError:
        pass
    try:
        return _rich(importlib.import_module("rich.progress"))
    except ModuleNotFoundError:
        return _lines()


def _tqdm(tqdm: Any) -> Callable[[Progress], None]:
    # A postfix would begin with a comma.
    bar = tqdm(total=100, bar_format="rows: {desc}")

    def show(progress: Progress) -> None:
        if progress.share is not None:
            bar.bar_format = "rows {percentage:3.0f}%|{bar}| {desc}"
            bar.n = round(100 * progress.share, 1)
        bar.set_description_str(str(progress), refresh=False)
        bar.refresh()
        if progress.ended:
            bar.close()

    return show


def _rich(module: Any) -> Callable[[Progress], None]:
    text = module.TextColumn("{task.description}")
    bar = module.Progress(module.BarColumn(), module.TaskProgressColumn(), text)
    # Without a total, the bar shows that something goes on.
    task = bar.add_task("", total=None)
    bar.start()

    def show(progress: Progress) -> None:
        known: dict[str, float] = {}
        if progress.share is not None:
            known = {"completed": progress.share, "total": 1.0}
        bar.update(task, description=str(progress), **known)
        if progress.ended:
            bar.stop()

    return show


def _lines() -> Callable[[Progress], None]:
    told = 0.0

    def show(progress: Progress) -> None:
        nonlocal told
        if progress.ended or progress.elapsed_s >= told + 5:
            told = progress.elapsed_s
            print(progress, file=sys.stderr, flush=True)

    return show
