//! Implements `execute_many`: encodes rows into arenas (buffers of rows), and passes the arenas to
//! the engine. The engine's window (`turbocql_engine::Bulk`) keeps a limited number of requests in
//! flight, and asks for the next arena when it can send more rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use turbocql_codec::RowBuffer;
use turbocql_engine::{
    Bulk, BulkEvents, BulkOutcome, BulkPlan, EngineError, Pace, Progress, Response, RowNumbers,
    WrittenTable,
};

use crate::classes::bulk::feeding::{ARENA_BYTES, ARENA_ROWS, ARENA_TIME, Columns, Feed, State};
use crate::classes::request::preparing::AfterPreparing;
use crate::classes::result::cursor::Cursor;
use crate::classes::session::changing::SchemaChange;
use crate::classes::session::state::SessionState;
use crate::classes::statement::prepared::Prepared;
use crate::error::{interrupted, raise_engine};
use crate::op::{Arrival, Next, OpState, Step};
use crate::options::{Options, or_default};
use crate::python;
use turbocql_values::failure::Failure;

/// The options of a call of `execute_many`.
#[derive(Clone)]
pub struct BulkOptions {
    pub request: Options,
    pub concurrency: usize,
    /// `execute_many` stops when more rows than this have failed.
    pub max_failures: usize,
    /// Whether the result of each execution is kept. There is one execution for each row of bind
    /// values.
    pub keep_results: bool,
    pub progress: Option<Arc<Progress>>,
    pub pace: Pace,
    /// How long a row is sent again after transient errors.
    pub patience: Duration,
}

/// A call of `execute_many`. It begins once its statement has been prepared.
pub struct Many {
    pub rows: RowsOf,
    pub options: BulkOptions,
}

impl AfterPreparing for Many {
    fn options(&self) -> Options {
        self.options.request.clone()
    }

    fn run(
        self,
        py: Python<'_>,
        session: &Arc<SessionState>,
        prepared: Py<Prepared>,
        _: Option<Instant>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let step = BulkStep::start(py, session.clone(), prepared, self.rows, &self.options, op)?;
        Ok(Next::Again(Box::new(step)))
    }
}

/// The limits on the speed of sending, and how long a row is sent again after transient errors.
/// Python passes them as a tuple.
#[derive(FromPyObject)]
pub struct PaceOptions {
    #[pyo3(item(0))]
    adaptive: bool,
    #[pyo3(item(1))]
    rows_per_s: Option<f64>,
    #[pyo3(item(2))]
    bytes_per_s: Option<f64>,
    #[pyo3(item(3))]
    patience_s: f64,
}

/// The limits of a call of `execute_many`.
pub struct BulkLimits {
    pub concurrency: usize,
    pub max_failures: usize,
    pub keep_results: bool,
}

impl BulkOptions {
    pub fn new(
        request: Options,
        limits: &BulkLimits,
        progress: Option<&Bound<'_, BulkProgress>>,
        pace: &PaceOptions,
    ) -> BulkOptions {
        let progress = progress.map(|progress| Arc::clone(&progress.get().0));
        BulkOptions {
            request,
            concurrency: limits.concurrency,
            max_failures: limits.max_failures,
            keep_results: limits.keep_results,
            progress,
            pace: Pace {
                adaptive: pace.adaptive,
                rows_per_s: pace.rows_per_s,
                bytes_per_s: pace.bytes_per_s,
            },
            patience: Duration::try_from_secs_f64(pace.patience_s).unwrap_or(Duration::MAX),
        }
    }
}

/// The counts of an `execute_many` at one moment.
#[pyclass(frozen, get_all, module = "turbocql._core")]
pub struct BulkSnapshot {
    succeeded: u64,
    failed: u64,
    /// The number of bytes of the values of rows that succeeded.
    bytes: u64,
    /// The number of requests that may be in flight.
    window: usize,
    in_flight: usize,
    /// How often rows were sent again, added up over all rows.
    retried: u64,
    /// The number of rows that succeeded in a batch with other rows.
    batched: u64,
}

/// The progress of an `execute_many`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct BulkProgress(pub Arc<Progress>);

#[pymethods]
impl BulkProgress {
    /// If `keeps_ranges` is true, the progress also records which rows were acknowledged.
    #[new]
    fn new(keeps_ranges: bool) -> BulkProgress {
        BulkProgress(Arc::new(Progress::new(keeps_ranges)))
    }

    fn snapshot(&self) -> BulkSnapshot {
        let now = self.0.snapshot();
        BulkSnapshot {
            succeeded: now.succeeded,
            failed: now.failed,
            bytes: now.bytes,
            window: now.window,
            in_flight: now.in_flight,
            retried: now.retried,
            batched: now.batched,
        }
    }

    /// Stops the bulk: no further row is sent.
    fn stop(&self) {
        self.0.stop();
    }

    /// Returns the number of rows that have failed and are being sent again, and the reason why the
    /// last of these rows failed. Returns None if there are no such rows.
    fn trouble(&self) -> Option<(usize, String)> {
        self.0.trouble()
    }

    /// Returns the numbers of the acknowledged rows as ranges. A range is a pair: its first number,
    /// and its last number plus one.
    fn acknowledged(&self, py: Python<'_>) -> Vec<(u64, u64)> {
        py.detach(|| self.0.acknowledged())
    }
}

/// The source of the rows.
pub enum RowsOf {
    Iterator(Py<PyIterator>),
    Columns(Py<Columns>),
}

enum Source {
    Iterator(Py<PyIterator>),
    Columns(Box<Feed>),
}

pub struct BulkStep {
    session: Arc<SessionState>,
    prepared: Py<Prepared>,
    source: Source,
    bulk: Bulk,
    arenas_wanted: Arc<AtomicUsize>,
    max_failures: usize,
    /// The number of rows whose encoding or execution has failed.
    failures: Arc<AtomicUsize>,
    /// If the statement changes the schema, the guard that empties the cache of prepared statements
    /// when this step is dropped.
    _schema: Option<SchemaChange>,
    next_row: u64,
    /// The numbers of rows that could not be encoded, and the errors.
    unfit: Vec<(u64, PyErr)>,
    /// The exception that the caller's iterable raised, or the interrupt that stopped the encoding.
    raised: Option<PyErr>,
    /// Whether no more rows are read from the source.
    ended: bool,
}

/// Passes the events of the engine's window to the operation.
struct Events {
    op: Arc<OpState>,
    /// The number of arenas that the window has requested and not received yet.
    arenas_wanted: Arc<AtomicUsize>,
}

impl BulkEvents for Events {
    fn wants_more(&self) {
        self.arenas_wanted.fetch_add(1, Ordering::Relaxed);
        self.op.arrive(Ok(Arrival::WantsMore));
    }

    fn completed(self: Box<Self>, outcome: BulkOutcome) {
        self.op.arrive(Ok(Arrival::Bulk(outcome)));
    }
}

impl Drop for Events {
    /// Completes the operation with an error. If the window has passed its outcome before, the
    /// operation is already complete, and this has no effect.
    fn drop(&mut self) {
        self.op.arrive(Err(interrupted()));
    }
}

impl BulkStep {
    /// Starts the window and passes it the first arena.
    pub fn start(
        py: Python<'_>,
        session: Arc<SessionState>,
        prepared: Py<Prepared>,
        rows: RowsOf,
        options: &BulkOptions,
        op: &Arc<OpState>,
    ) -> PyResult<BulkStep> {
        session.warn_of(py, || prepared.get().engine.has_condition)?;
        let (source, batches, table) = match rows {
            RowsOf::Iterator(rows) => (Source::Iterator(rows), None, WrittenTable::default()),
            RowsOf::Columns(columns) => {
                let (columns, prepared) = (columns.get(), prepared.get());
                let feed = Feed::start(py, columns, prepared, op)?;
                (Source::Columns(Box::new(feed)), columns.batches(prepared), columns.care(prepared))
            }
        };
        let failures = Arc::<AtomicUsize>::default();
        let plan = BulkPlan {
            prepared: prepared.get().engine.clone(),
            options: or_default(&options.request).clone(),
            concurrency: options.concurrency,
            max_failures: options.max_failures,
            failures: failures.clone(),
            keep_results: options.keep_results,
            progress: options.progress.clone(),
            pace: options.pace,
            batches,
            patience: options.patience,
            table,
        };
        // The count begins with 1, which stands for the first arena. The window expects it without
        // a request.
        let arenas_wanted = Arc::new(AtomicUsize::new(1));
        let events = Box::new(Events { op: op.clone(), arenas_wanted: arenas_wanted.clone() });
        let bulk = Bulk::start(&session.runtime, session.engine.clone(), plan, events);
        let mut step = BulkStep {
            _schema: session.changing(prepared.get().engine.text()),
            session,
            prepared,
            source,
            bulk,
            arenas_wanted,
            max_failures: options.max_failures,
            failures,
            next_row: 0,
            unfit: Vec::new(),
            raised: None,
            ended: false,
        };
        step.feed(py, op);
        Ok(step)
    }

    /// Encodes rows into an arena and passes it to the window. If none of the rows can be encoded,
    /// the window gets no arena and requests no further arena. So if the window still waits for an
    /// arena at the end, this function wakes the operation, which encodes the next rows. If a
    /// separate thread fetches the columns, this thread may wake the operation instead.
    fn feed(&mut self, py: Python<'_>, op: &Arc<OpState>) {
        // The thread that fetches the columns wakes the operation when it has more rows, even if
        // the window has requested no arena.
        if self.ended || self.arenas_wanted.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut arena = RowBuffer::with_capacity(16 * 1024, ARENA_ROWS);
        let (numbers, is_awaited) = match &self.source {
            Source::Iterator(rows) => {
                let rows = rows.bind(py).clone();
                (self.encode_rows(py, rows, &mut arena), false)
            }
            Source::Columns(_) => self.encode_columns(py, &mut arena),
        };
        if let Err(interrupt) = py.check_signals() {
            self.raised = Some(interrupt);
            self.ended = true;
        }
        let empty = arena.is_empty();
        if !empty {
            self.arenas_wanted.fetch_sub(1, Ordering::Relaxed);
            self.bulk.push(arena, numbers);
        }
        if self.ended {
            self.bulk.finish();
        } else if !is_awaited && self.arenas_wanted.load(Ordering::Relaxed) > 0 {
            op.arrive(Ok(Arrival::WantsMore));
        }
    }

    fn encode_rows(
        &mut self,
        py: Python<'_>,
        mut rows: Bound<'_, PyIterator>,
        arena: &mut RowBuffer,
    ) -> RowNumbers {
        let begun = Instant::now();
        let mut numbers = Vec::with_capacity(ARENA_ROWS);
        for _ in 0..ARENA_ROWS {
            match rows.next() {
                None => self.ended = true,
                Some(Err(error)) => {
                    self.raised = Some(error);
                    self.ended = true;
                }
                Some(Ok(row)) => self.encode(py, &row, arena, &mut numbers),
            }
            if self.ended || arena.byte_len() >= ARENA_BYTES || begun.elapsed() >= ARENA_TIME {
                break;
            }
        }
        RowNumbers::Each(numbers)
    }

    /// Encodes rows of columns into the arena. Returns the numbers of the arena's rows, and whether
    /// the thread that fetches the columns will wake the operation when it has more rows.
    fn encode_columns(&mut self, py: Python<'_>, arena: &mut RowBuffer) -> (RowNumbers, bool) {
        let Source::Columns(feed) = &mut self.source else { return (RowNumbers::From(0), false) };
        let failed = self.failures.load(Ordering::Relaxed);
        let failures_left = self.max_failures.saturating_sub(failed);
        let filled = feed.fill(py, self.prepared.get(), arena, failures_left);
        self.next_row = feed.next_row();
        for (number, error) in filled.unfit {
            let failure = Box::new(Failure::Refused(error, None));
            self.unfit.push((number, self.prepared.get().unfit(py, failure)));
            let before = self.failures.fetch_add(1, Ordering::Relaxed);
            self.ended |= before >= self.max_failures;
        }
        let is_awaited = matches!(filled.state, State::Awaited);
        match filled.state {
            State::More | State::Awaited => {}
            State::Ended => self.ended = true,
            State::Failed(error) => {
                self.raised = Some(error);
                self.ended = true;
            }
        }
        (RowNumbers::Each(filled.numbers), is_awaited)
    }

    /// Encodes the next row into the arena, or records why the encoding failed.
    fn encode(
        &mut self,
        py: Python<'_>,
        row: &Bound<'_, PyAny>,
        arena: &mut RowBuffer,
        numbers: &mut Vec<u64>,
    ) {
        let number = self.next_row;
        self.next_row += 1;
        match self.prepared.get().append(py, Some(row), arena) {
            Ok(()) => numbers.push(number),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyException>(py) => {
                self.unfit.push((number, error));
                let before = self.failures.fetch_add(1, Ordering::Relaxed);
                self.ended |= before >= self.max_failures;
            }
            Err(interrupt) => {
                self.raised = Some(interrupt);
                self.ended = true;
            }
        }
    }

    /// Returns a list of `(row number, result)`, in the order of the rows of bind values. Returns
    /// `None` if the results were not kept.
    fn results<'py>(
        &self,
        py: Python<'py>,
        responses: Option<Vec<(u64, Response)>>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(mut responses) = responses else { return Ok(None) };
        responses.sort_unstable_by_key(|(row, _)| *row);
        let results = PyList::empty(py);
        for (row, response) in responses {
            let rows = self.session.row_kind.into();
            results.append((row, Cursor::make(py, &self.session, rows, response, None)?))?;
        }
        Ok(Some(results))
    }

    /// Makes the report, by a call of the Python function `bulk_report` with `(rows read,
    /// succeeded, failures, stopped, raised, results)`.
    fn report(&mut self, py: Python<'_>, outcome: BulkOutcome) -> PyResult<Next> {
        let stopped = self.failures.load(Ordering::Relaxed) > self.max_failures;
        let mut failed = std::mem::take(&mut self.unfit);
        failed.extend(outcome.failed.iter().map(|(row, error)| (*row, raise_engine(py, error))));
        failed.sort_unstable_by_key(|(row, _)| *row);
        let failures = PyList::empty(py);
        for (row, error) in failed {
            failures.append((row, error.into_value(py)))?;
        }
        let raised = self.raised.take().map(|error| error.into_value(py));
        let results = self.results(py, outcome.results)?;
        let arguments = (self.next_row, outcome.succeeded, failures, stopped, raised, results);
        Ok(Next::Done(python::bulk_report(py)?.call1(arguments)?.unbind()))
    }
}

impl Drop for BulkStep {
    /// Aborts the bulk and its requests in flight. This matters if the operation was abandoned. If
    /// the bulk has ended, it has no effect.
    fn drop(&mut self) {
        self.bulk.abort();
    }
}

impl Step for BulkStep {
    fn arrived(
        mut self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        match arrival.map_err(|error| raise_engine(py, &error))? {
            Arrival::Bulk(outcome) => self.report(py, outcome),
            _ => {
                match self.session.check_open() {
                    Ok(()) => self.feed(py, op),
                    // No further row is sent, but the bulk still waits for the requests in flight,
                    // because the report must count their rows.
                    Err(closed) if self.session.is_closed() => {
                        self.raised.get_or_insert(closed);
                        self.ended = true;
                        self.bulk.finish();
                    }
                    Err(forked) => return Err(forked),
                }
                Ok(Next::Again(self))
            }
        }
    }
}
