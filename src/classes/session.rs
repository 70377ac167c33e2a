//! The session: statements in, results out.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyString};
use turbocql_codec::{Column, RowBuffer};
use turbocql_engine::{
    BatchKind, EngineError, ErrorKind, PageSource, RequestOptions, Runtime, first_word,
};

use super::batch::{BatchStep, Statement};
use super::bulk::{BulkOptions, BulkStep};
use super::cursor::{Cursor, Following};
use super::options::{CallOptions, ConnectOptions, config_error, timeout};
use super::prepared::{Bound_, Prepared};
use crate::ending::Inside;
use crate::error::{self, Way};
use crate::op::{Arrival, Next, Op, OpState, Step};
use crate::row::{RowKind, Shape, Shapes};
use crate::value::decode::Choices;
use crate::value::describe::describe;

/// Counts forks of this process: a session belongs to the process that opened it.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Called in the child after a fork.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    crate::ending::forked();
}

pub struct SessionState {
    pub runtime: Runtime,
    pub engine: turbocql_engine::Session,
    pub choices: Choices,
    shapes: Shapes,
    prepared: Mutex<LruCache<String, Py<Prepared>>>,
    /// The keyspace that the cached statements were prepared in.
    keyspace: Mutex<Option<String>>,
    row_kind: RowKind,
    /// What makes the result object that users see from a [`Cursor`].
    rows_class: Py<PyAny>,
    closed: AtomicBool,
    forks: u64,
}

impl SessionState {
    pub fn check_open(&self) -> PyResult<()> {
        let reason = if self.forks != FORKS.load(Ordering::Relaxed) {
            "the session was opened before this process was forked; connect again in the child"
        } else if self.closed.load(Ordering::Acquire) {
            "the session is closed"
        } else {
            return Ok(());
        };
        let error = EngineError::new(ErrorKind::Closed, reason);
        Err(Python::attach(|py| error::raise_engine(py, &error)))
    }

    /// Begins a call that may run Python code, unless the session is closed.
    fn enter(&self, py: Python<'_>) -> PyResult<Inside> {
        self.check_open()?;
        Inside::nested(py)
    }

    pub fn shape(&self, py: Python<'_>, columns: &Arc<[Column]>) -> PyResult<Arc<Shape>> {
        self.shapes.get(py, columns).map_err(|failure| error::raise(py, *failure, Way::Decode))
    }

    /// The result object for a cursor.
    pub fn rows(&self, py: Python<'_>, cursor: Cursor) -> PyResult<Py<PyAny>> {
        self.rows_class.call1(py, (cursor,))
    }

    fn cache(&self) -> MutexGuard<'_, LruCache<String, Py<Prepared>>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all prepared statements.
    fn clear_cache(&self) {
        let mut cache = self.cache();
        let empty = LruCache::new(cache.cap());
        let dropped = std::mem::replace(&mut *cache, empty);
        // Not before: Python objects go with them.
        drop(cache);
        drop(dropped);
    }

    /// The prepared statement of this text, if it is in the cache.
    pub fn cached(&self, py: Python<'_>, text: &str) -> Option<Py<Prepared>> {
        self.cache().get(text).map(|prepared| prepared.clone_ref(py))
    }

    /// Puts a statement into the cache.
    pub fn remember(
        &self,
        py: Python<'_>,
        engine: Arc<turbocql_engine::Prepared>,
    ) -> PyResult<Py<Prepared>> {
        let prepared = Py::new(py, Prepared::new(py, engine)?)?;
        let text = prepared.get().engine.text().to_owned();
        let replaced = self.cache().push(text, prepared.clone_ref(py));
        drop(replaced);
        Ok(prepared)
    }

    /// Forgets prepared statements when a plain text has changed what they mean: a `USE` the
    /// unqualified names, a schema statement perhaps the types. The server gives the same text
    /// the same id, so nothing else would tell.
    fn follow_schema(&self, text: &str) {
        let now = self.engine.keyspace();
        let mut known = self.keyspace.lock().unwrap_or_else(PoisonError::into_inner);
        let used = *known != now;
        *known = now;
        drop(known);
        if used || changes_schema(text) {
            self.clear_cache();
        }
    }

    fn row_kind(&self, py: Python<'_>, rows: Option<&str>) -> PyResult<RowKind> {
        rows.map_or(Ok(self.row_kind), |rows| RowKind::parse(py, rows))
    }

    /// Sends the only row of `row` for `prepared`.
    fn send(
        self: &Arc<Self>,
        prepared: Arc<turbocql_engine::Prepared>,
        row: Arc<RowBuffer>,
        options: Arc<RequestOptions>,
        op: &Arc<OpState>,
    ) {
        let engine = self.engine.clone();
        op.run(&self.runtime, async move {
            // The engine's future is some kilobytes large. Made here, where it is awaited, it is
            // moved once; made by the caller, it would be copied at every hand-over.
            let answer = Box::pin(engine.execute(&prepared, &row, &options, None)).await;
            answer.map(Arrival::Response)
        });
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        self.runtime.shutdown();
    }
}

struct ExecuteStep {
    session: Arc<SessionState>,
    source: PageSource,
    options: Arc<RequestOptions>,
    kind: RowKind,
}

impl Step for ExecuteStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        let Self { session, source, options, kind } = *self;
        match arrival.map_err(|error| error::raise_engine(py, &error))? {
            Arrival::Response(mut response) => {
                if let PageSource::Text(text) = &source {
                    session.follow_schema(text);
                }
                let following =
                    response.next.take().map(|next| Following { source, options, next });
                let cursor = Cursor::new(py, session.clone(), kind, response, following)?;
                Ok(Next::Done(session.rows(py, cursor)?))
            }
            _ => Err(out_of_turn()),
        }
    }
}

fn changes_schema(text: &str) -> bool {
    is_one_of(text, &["CREATE", "ALTER", "DROP"])
}

/// A `USE` that is prepared would change the keyspace of one connection only.
fn changes_keyspace(text: &str) -> bool {
    is_one_of(text, &["USE"])
}

fn is_one_of(text: &str, words: &[&str]) -> bool {
    let first = first_word(text);
    words.iter().any(|word| word.eq_ignore_ascii_case(first))
}

pub fn out_of_turn() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("an arrival out of turn")
}

/// What to do with a statement once it is prepared.
enum Then {
    Return,
    Execute { values: Option<Py<PyAny>>, options: Arc<RequestOptions>, kind: RowKind },
    Many { rows: Py<PyIterator>, options: BulkOptions },
}

struct PrepareStep {
    session: Arc<SessionState>,
    then: Then,
}

impl Step for PrepareStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let Arrival::Prepared(mut prepared) =
            arrival.map_err(|error| error::raise_engine(py, &error))?
        else {
            return Err(out_of_turn());
        };
        let engine = prepared.pop().ok_or_else(out_of_turn)?;
        let prepared = self.session.remember(py, engine)?;
        self.then.run(py, &self.session, prepared, op)
    }
}

impl Then {
    fn options(&self) -> Arc<RequestOptions> {
        match self {
            Then::Return => Arc::default(),
            Then::Execute { options, .. } => options.clone(),
            Then::Many { options, .. } => options.request.clone(),
        }
    }

    fn run(
        self,
        py: Python<'_>,
        session: &Arc<SessionState>,
        prepared: Py<Prepared>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        Ok(match self {
            Then::Return => Next::Done(prepared.into_any()),
            Then::Execute { values, options, kind } => {
                let values = values.as_ref().map(|values| values.bind(py));
                let row = Arc::new(prepared.get().encode(py, values)?);
                let engine = prepared.get().engine.clone();
                session.send(engine.clone(), row.clone(), options.clone(), op);
                let source = PageSource::Prepared(engine, row);
                Next::Again(Box::new(ExecuteStep {
                    session: session.clone(),
                    source,
                    options,
                    kind,
                }))
            }
            Then::Many { rows, options } => {
                let session = session.clone();
                Next::Again(Box::new(BulkStep::start(py, session, prepared, rows, &options, op)))
            }
        })
    }
}

#[pyclass(frozen, module = "turbocql._core")]
pub struct Session(Arc<SessionState>);

impl Session {
    fn options(&self, options: Option<&Bound<'_, PyDict>>) -> PyResult<Arc<RequestOptions>> {
        match options {
            None => Ok(Arc::default()),
            Some(options) => Ok(Arc::new(options.extract::<CallOptions<'_>>()?.parse()?)),
        }
    }

    /// Runs `then` with the statement prepared: at once when it is in the cache.
    fn with_prepared(&self, py: Python<'_>, text: String, then: Then) -> PyResult<Op> {
        if changes_keyspace(&text) {
            let reason = "USE cannot be prepared: execute it as a text without values";
            return Err(config_error(py, reason));
        }
        if let Some(prepared) = self.0.cached(py, &text) {
            return self.start(py, prepared, then);
        }
        let options = then.options();
        let op = OpState::new(Box::new(PrepareStep { session: self.0.clone(), then }));
        let engine = self.0.engine.clone();
        op.run(&self.0.runtime, async move {
            let prepared = engine.prepare(&text, &options).await?;
            Ok(Arrival::Prepared(vec![prepared]))
        });
        Ok(Op(op))
    }

    fn start(&self, py: Python<'_>, prepared: Py<Prepared>, then: Then) -> PyResult<Op> {
        let op = OpState::empty();
        let next = then.run(py, &self.0, prepared, &op)?;
        op.begin(next);
        Ok(Op(op))
    }
}

#[pymethods]
impl Session {
    /// Sends one statement.
    #[pyo3(signature = (statement, values, options, rows))]
    fn execute(
        &self,
        statement: &Bound<'_, PyAny>,
        values: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
        rows: Option<&str>,
    ) -> PyResult<Op> {
        let py = statement.py();
        let _inside = self.0.enter(py)?;
        let options = self.options(options)?;
        let kind = self.0.row_kind(py, rows)?;
        let value = values.map(|values| values.clone().unbind());
        if let Ok(prepared) = statement.cast::<Prepared>() {
            let then = Then::Execute { values: value, options, kind };
            return self.start(py, prepared.clone().unbind(), then);
        }
        if let Ok(bound) = statement.cast::<Bound_>() {
            if values.is_some() {
                return Err(PyTypeError::new_err("a bound statement has its values already"));
            }
            let bound = bound.get();
            let (engine, row) = (bound.prepared.get().engine.clone(), bound.row.clone());
            let source = PageSource::Prepared(engine.clone(), row.clone());
            let session = self.0.clone();
            let step = ExecuteStep { session, source, options: options.clone(), kind };
            let op = OpState::new(Box::new(step));
            self.0.send(engine, row, options, &op);
            return Ok(Op(op));
        }
        let text = text_of(statement)?;
        if values.is_some() {
            return self.with_prepared(py, text, Then::Execute { values: value, options, kind });
        }
        let text: Arc<str> = text.into();
        let op = OpState::new(Box::new(ExecuteStep {
            session: self.0.clone(),
            source: PageSource::Text(text.clone()),
            options: options.clone(),
            kind,
        }));
        let engine = self.0.engine.clone();
        op.run(&self.0.runtime, async move {
            Box::pin(engine.query(&text, &options, None)).await.map(Arrival::Response)
        });
        Ok(Op(op))
    }

    fn prepare(&self, py: Python<'_>, statement: &Bound<'_, PyAny>) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        self.with_prepared(py, text_of(statement)?, Then::Return)
    }

    /// Sends `(statement, values)` pairs as one batch.
    fn execute_batch(
        &self,
        py: Python<'_>,
        kind: &str,
        statements: Vec<Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
        rows: Option<&str>,
    ) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let kind = match kind {
            "logged" => BatchKind::Logged,
            "unlogged" => BatchKind::Unlogged,
            "counter" => BatchKind::Counter,
            _ => return Err(config_error(py, &format!("unknown kind of batch {kind:?}"))),
        };
        let mut step = BatchStep {
            session: self.0.clone(),
            kind,
            statements: statements.iter().map(Statement::parse).collect::<PyResult<_>>()?,
            prepared: HashMap::new(),
            options: self.options(options)?,
            rows: self.0.row_kind(py, rows)?,
            sent: false,
        };
        let op = OpState::empty();
        let unprepared = step.unprepared(py);
        if unprepared.is_empty() {
            step.send(py, &op)?;
        } else {
            let (engine, options) = (self.0.engine.clone(), step.options.clone());
            op.run(&self.0.runtime, async move {
                let mut prepared = Vec::with_capacity(unprepared.len());
                for text in &unprepared {
                    prepared.push(engine.prepare(text, &options).await?);
                }
                Ok(Arrival::Prepared(prepared))
            });
        }
        op.begin(Next::Again(Box::new(step)));
        Ok(Op(op))
    }

    /// Sends one statement for each of many rows of values.
    fn execute_many(
        &self,
        py: Python<'_>,
        statement: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
        concurrency: usize,
        max_failures: usize,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let options = BulkOptions { request: self.options(options)?, concurrency, max_failures };
        let then = Then::Many { rows: rows.try_iter()?.unbind(), options };
        if let Ok(prepared) = statement.cast::<Prepared>() {
            return self.start(py, prepared.clone().unbind(), then);
        }
        self.with_prepared(py, text_of(statement)?, then)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    #[getter]
    fn keyspace(&self) -> Option<String> {
        self.0.engine.keyspace()
    }

    /// Statements in the cache of prepared ones.
    #[getter]
    fn prepared_count(&self) -> usize {
        self.0.cache().len()
    }

    /// Requests on their way.
    #[getter]
    fn in_flight(&self) -> usize {
        self.0.runtime.in_flight()
    }

    /// Takes no further requests and waits until those under way have ended, `timeout_s` at most.
    fn close(&self, timeout_s: &Bound<'_, PyAny>) -> PyResult<Op> {
        let limit = timeout(timeout_s)?.unwrap_or(std::time::Duration::MAX);
        let op = OpState::new(Box::new(CloseStep { session: self.0.clone() }));
        let again = self.0.closed.swap(true, Ordering::AcqRel);
        if again || self.0.forks != FORKS.load(Ordering::Relaxed) {
            op.arrive(Ok(Arrival::Done));
            return Ok(Op(op));
        }
        let runtime = self.0.runtime.clone();
        op.run(&self.0.runtime, async move {
            runtime.drain(limit).await;
            Ok(Arrival::Done)
        });
        Ok(Op(op))
    }
}

fn text_of(statement: &Bound<'_, PyAny>) -> PyResult<String> {
    match statement.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.to_owned()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a statement is a str, a Prepared or a Bound, got {}",
            describe(statement)
        ))),
    }
}

struct CloseStep {
    session: Arc<SessionState>,
}

impl Drop for CloseStep {
    /// Also when the waiting is interrupted: the session is closed, one way or the other.
    fn drop(&mut self) {
        self.session.runtime.shutdown();
    }
}

impl Step for CloseStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        _: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        py.detach(|| self.session.runtime.shutdown());
        self.session.clear_cache();
        Ok(Next::Done(py.None()))
    }
}

struct ConnectStep {
    runtime: Runtime,
    choices: Choices,
    row_kind: RowKind,
    cache: NonZeroUsize,
    rows_class: Py<PyAny>,
    forks: u64,
}

impl Step for ConnectStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        let engine = match arrival {
            Ok(Arrival::Connected(engine)) => engine,
            Ok(_) => return Err(out_of_turn()),
            Err(error) => {
                py.detach(|| self.runtime.shutdown());
                return Err(error::raise_engine(py, &error));
            }
        };
        let keyspace = engine.keyspace();
        let state = SessionState {
            runtime: self.runtime,
            engine,
            choices: self.choices,
            shapes: Shapes::default(),
            prepared: Mutex::new(LruCache::new(self.cache)),
            keyspace: Mutex::new(keyspace),
            row_kind: self.row_kind,
            rows_class: self.rows_class,
            closed: AtomicBool::new(false),
            forks: self.forks,
        };
        Ok(Next::Done(Py::new(py, Session(Arc::new(state)))?.into_any()))
    }
}

/// Opens a session. `config` is what `turbocql.config.Config` gives; `rows_class` makes the
/// result object that users see.
#[pyfunction]
pub fn connect(config: &Bound<'_, PyDict>, rows_class: Py<PyAny>) -> PyResult<Op> {
    let options: ConnectOptions<'_> = config.extract()?;
    let engine_config = options.parse()?;
    let cache = NonZeroUsize::new(options.prepared_cache_size)
        .ok_or_else(|| PyValueError::new_err("prepared_cache_size must be above 0"))?;
    let runtime = Runtime::start(engine_config.workers)?;
    let step = ConnectStep {
        runtime: runtime.clone(),
        choices: Choices {
            naive_timestamps: options.naive_timestamps,
            numpy_vectors: options.numpy_vectors,
        },
        row_kind: RowKind::parse(config.py(), &options.rows)?,
        cache,
        rows_class,
        forks: FORKS.load(Ordering::Relaxed),
    };
    let op = OpState::new(Box::new(step));
    op.run(&runtime, async move {
        turbocql_engine::Session::connect(engine_config).await.map(Arrival::Connected)
    });
    Ok(Op(op))
}
