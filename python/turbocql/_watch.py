"""What goes on beside a load: its checkpoint, its progress, and when there are too many errors."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import _core
from ._checkpoint import Checkpoint, Ranges, joined
from .bulk import BulkReport, Progress
from .errors import BulkError

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
        total: Callable[[], tuple[int, int] | None],
        most: int,
        most_share: float | None,
        unread: Callable[[], int],
        read: Callable[[], int],
        ended: Callable[[BulkReport], BulkReport],
    ) -> None:
        """`done` are the rows of earlier runs. `total` gives how much of the input was read, and
        how much there is. `most` rows may fail, or their share; `unread` is the number of those
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

    def _progress(self, *, last: bool, whole: bool) -> Progress:
        succeeded, failed, bytes_, window, in_flight, *others = self.native.snapshot()
        elapsed = time.monotonic() - self._began
        total = self._total()
        share = None if total is None or not total[1] else min(1.0, total[0] / total[1])
        left = None if not share else elapsed * (1 - share) / share
        before = sum(end - first for first, end in self._done)
        return Progress(
            rows=succeeded,
            failed=failed + self._unread(),
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
        )


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
    form = "{desc} {percentage:3.0f}%|{bar}| {postfix}"
    bar = tqdm(total=100, desc="rows", bar_format=form)

    def show(progress: Progress) -> None:
        bar.n = round(100 * (progress.share or 0.0), 1)
        bar.set_postfix_str(str(progress), refresh=False)
        bar.refresh()
        if progress.ended:
            bar.close()

    return show


def _rich(module: Any) -> Callable[[Progress], None]:
    text = module.TextColumn("{task.description}")
    bar = module.Progress(module.BarColumn(), module.TaskProgressColumn(), text)
    task = bar.add_task("", total=1.0)
    bar.start()

    def show(progress: Progress) -> None:
        bar.update(task, completed=progress.share or 0.0, description=str(progress))
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
