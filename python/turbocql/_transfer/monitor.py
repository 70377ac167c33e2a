"""The thread that writes the checkpoint, reports progress and counts failures during a load."""

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
from .checkpoint import Checkpoint, Ranges, merged_ranges

__all__ = ["Monitor", "Stopped", "progress_callback", "shown_progress"]

_UPDATE_INTERVAL_S = 0.5
_MIN_ROWS_OF_SHARE = 1000
"""`max_failure_share` is a share of the rows that have been read. If fewer rows than this have been
read, it is a share of this many rows."""


class Stopped(Exception):
    """Ends the reading of the data, because a callback or the checkpoint has failed, too many rows
    have failed, or each of the first 1,000 rows has failed with the same error.
    """


class Monitor:
    """A thread that runs during a load. If the thread fails, the load raises its exception."""

    def __init__(
        self,
        *,
        checkpoint: Checkpoint | None,
        earlier_acknowledged: Ranges,
        report_progress: Callable[[Progress], object] | None,
        get_total_rows: Callable[[], float | None],
        max_failures: int,
        max_failure_share: float | None,
        count_unreadable: Callable[[], int],
        count_rows_read: Callable[[], int],
        complete_report: Callable[[BulkReport], BulkReport],
    ) -> None:
        """`earlier_acknowledged` are the rows that were acknowledged in earlier runs.
        `get_total_rows` returns the number of rows of the input, or `None` if it is unknown. At
        most `max_failures` rows may fail. If `max_failure_share` is not `None`, this share of the
        rows may fail, and `max_failures` does not apply. `count_unreadable` returns the
        number of rows that could not be read, and `count_rows_read` the number of rows read.
        `complete_report` adds the rows that could not be read to a report. The load then returns
        this report, or raises an error with it.
        """
        self.native = _core.BulkProgress(checkpoint is not None)
        self._checkpoint, self._earlier_acknowledged = checkpoint, earlier_acknowledged
        self._report_progress, self._get_total_rows = report_progress, get_total_rows
        self._max_failures, self._max_failure_share = max_failures, max_failure_share
        self._complete_report = complete_report
        self._count_unreadable, self._count_rows_read = count_unreadable, count_rows_read
        self._began_at = time.monotonic()
        self._end_event = threading.Event()
        self._failure: BaseException | None = None
        self.is_limit_exceeded = False
        """Whether `check` has ended the reading because too many rows had failed."""
        self.stopped_report: BulkReport | None = None
        """The report of a load whose reading ended with `Stopped`; `None` for any other load. The
        rows that could not be read are not in it."""
        self._thread = threading.Thread(target=self._run, name="turbocql-load", daemon=True)

    def begin(self) -> None:
        """Writes the first checkpoint, and starts the thread, before the first row is sent.

        Raises: `OSError` when the checkpoint cannot be written.
        """
        if self._checkpoint is not None:
            self._checkpoint.write(self._earlier_acknowledged)
        self._thread.start()

    def leave(self, raised: BaseException | None) -> bool:
        """Ends the thread after the last row. `raised` is the exception of the load, or `None`.

        Returns: true if the reading was stopped. The load then has a `stopped_report`, and the
            `with` statement drops the exception.

        Raises: the exception of the checkpoint or of a callback, if one has failed.
        """
        self._end_event.set()
        self._thread.join()
        self._update(is_last=True, is_complete=raised is None)
        stopped = raised.__cause__ if isinstance(raised, BulkError) else raised
        if isinstance(stopped, Stopped) and self._failure is None:
            # If no row was passed to the core, the exception is a `Stopped`, which has no report.
            nothing_sent = BulkReport(0, 0, stopped=True)
            self.stopped_report = raised.report if isinstance(raised, BulkError) else nothing_sent
            return True
        if isinstance(raised, BulkError) and raised.report is not None:
            raised.report = self._complete_report(raised.report)
        if isinstance(raised, KeyboardInterrupt) and self._checkpoint is not None:
            _add_note(raised, f"the load can go on: pass resume={str(self._checkpoint.path)!r}")
        # `_failure` does not replace a KeyboardInterrupt or a CancelledError.
        if self._failure is not None and (raised is None or isinstance(raised, Exception)):
            raise self._failure from raised
        return False

    def __enter__(self) -> Monitor:
        self.begin()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return self.leave(exc)

    async def __aenter__(self) -> Monitor:
        # `threads` imports asyncio, which is slow to import. When this method is called, an event
        # loop runs, so asyncio is imported already. Loads without an event loop do not need it.
        from .._native.threads import in_thread

        await in_thread(self.begin)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        from .._native.threads import in_thread

        return await in_thread(self.leave, exc)

    def acknowledged(self) -> Ranges:
        """The rows that were acknowledged, in this run or an earlier one."""
        return merged_ranges([*self._earlier_acknowledged, *self.native.acknowledged()])

    def end(self, report: BulkReport) -> BulkReport:
        """Completes the report of a load that has ended, and writes the last checkpoint."""
        report = self._complete_report(report)
        if self._checkpoint is not None and not report.stopped:
            self._checkpoint.write(self.acknowledged(), complete=not report.failures)
        return report

    def check(self) -> None:
        """Ends the reading of the data after a failure. The reader of the data calls this method.

        Raises: `Stopped` if the checkpoint or a callback has failed, or if too many rows failed.
        """
        if self._failure is not None:
            raise Stopped(f"{type(self._failure).__name__}: {self._failure}") from self._failure
        counts = self.native.snapshot()
        failed = counts.failed + self._count_unreadable()
        max_failures = self._max_failures
        if self._max_failure_share is not None:
            rows = max(_MIN_ROWS_OF_SHARE, self._count_rows_read(), counts.succeeded + failed)
            max_failures = int(self._max_failure_share * rows)
        if failed > max_failures:
            self.is_limit_exceeded = True
            raise Stopped("too many rows failed")

    def _run(self) -> None:
        while not self._end_event.wait(_UPDATE_INTERVAL_S) and self._failure is None:
            self._update()

    def _update(self, *, is_last: bool = False, is_complete: bool = False) -> None:
        try:
            if self._checkpoint is not None:
                self._checkpoint.write(self.acknowledged())
            if self._report_progress is not None:
                self._report_progress(self._progress(is_last=is_last, is_complete=is_complete))
        except BaseException as error:
            self._failure = self._failure or error
            self.native.stop()

    def _progress(self, *, is_last: bool, is_complete: bool) -> Progress:
        counts = self.native.snapshot()
        elapsed_s = time.monotonic() - self._began_at
        failed = counts.failed + self._count_unreadable()
        earlier_rows = sum(end - first for first, end in self._earlier_acknowledged)
        total_rows, finished_rows = self._get_total_rows(), counts.succeeded + failed
        share = None if not total_rows else min(1.0, (earlier_rows + finished_rows) / total_rows)
        left_s = None
        if total_rows and finished_rows:
            left_s = max(0.0, total_rows - earlier_rows - finished_rows) * elapsed_s / finished_rows
        retrying, reason = self.native.trouble() or (0, None)
        return Progress(
            rows=counts.succeeded,
            failed=failed,
            bytes=counts.bytes,
            rows_per_s=counts.succeeded / elapsed_s if elapsed_s else 0.0,
            elapsed_s=elapsed_s,
            left_s=0.0 if is_last else left_s,
            share=1.0 if is_complete and share is not None else share,
            window=counts.window,
            in_flight=counts.in_flight,
            retried=counts.retried,
            batched=counts.batched,
            earlier_rows=earlier_rows,
            ended=is_last,
            retrying=retrying,
            reason=reason,
        )


def _add_note(error: BaseException, note: str) -> None:
    """Adds a line to the traceback of an exception, on Python 3.11 and later."""
    if hasattr(error, "add_note"):
        error.add_note(note)


def progress_callback(progress: Any) -> Callable[[Progress], object] | None:
    """Returns the callback for the option `progress`, or `None` if progress is not reported.

    Raises: `TypeError` unless `progress` is a callable, a bool or `None`.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        # The bar is created at the first report, because the load may raise an error before that.
        callbacks: list[Callable[[Progress], object]] = []

        def show(report: Progress) -> None:
            if not callbacks:
                callbacks.append(shown_progress())
            callbacks[0](report)

        return show
    if not callable(progress):
        raise TypeError(f"progress must be True or a callable, got {type(progress).__name__}")
    callback: Callable[[Progress], object] = progress
    return callback


def shown_progress() -> Callable[[Progress], None]:
    """Shows progress by a bar of tqdm or rich, or by lines of text if neither is installed."""
    try:
        return _tqdm(importlib.import_module("tqdm.auto").tqdm)
    except ModuleNotFoundError:
        pass
    try:
        return _rich(importlib.import_module("rich.progress"))
    except ModuleNotFoundError:
        return _text_progress()


def _tqdm(tqdm: Any) -> Callable[[Progress], None]:
    # The text is set as tqdm's description, because tqdm would put a comma before a postfix.
    bar = tqdm(total=100, bar_format="rows: {desc}")

    def show(progress: Progress) -> None:
        if progress.share is not None:
            bar.bar_format = "rows {percentage:3.0f}%|{bar}| {desc}"
            bar.n = round(100 * progress.share, 1)
        elif progress.ended:
            # In a notebook, a bar that is closed before it reaches its total becomes red, as after
            # an error.
            bar.n = bar.total
        bar.set_description_str(str(progress), refresh=False)
        bar.refresh()
        if progress.ended:
            bar.close()

    return show


def _rich(module: Any) -> Callable[[Progress], None]:
    text = module.TextColumn("{task.description}")
    bar = module.Progress(module.BarColumn(), module.TaskProgressColumn(), text)
    # Without a total, the bar moves without a percentage.
    task = bar.add_task("", total=None)
    bar.start()

    def show(progress: Progress) -> None:
        completion: dict[str, float] = {}
        if progress.share is not None:
            completion = {"completed": progress.share, "total": 1.0}
        bar.update(task, description=str(progress), **completion)
        if progress.ended:
            bar.stop()

    return show


def _text_progress() -> Callable[[Progress], None]:
    last_shown_s = 0.0

    def show(progress: Progress) -> None:
        nonlocal last_shown_s
        if progress.ended or progress.elapsed_s >= last_shown_s + 5:
            last_shown_s = progress.elapsed_s
            print(progress, file=sys.stderr, flush=True)

    return show
