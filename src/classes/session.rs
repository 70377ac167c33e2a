//! The session: it executes statements, and caches prepared ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use turbocql_codec::Column;
use turbocql_engine::{EngineError, ErrorKind, Runtime};

use super::call;
use super::cluster;
use super::execute_many::{BulkOptions, BulkProgress, PaceOf, RowsOf};
use super::feeding::Columns;
use super::prepared::{Prepared, Query, text_of};
use super::preparing::Then;
use super::scanning::ScanOf;
use crate::error::raise_engine;
use crate::op::{Arrival, Next, Op, OpState, Origin, Step};
use crate::options::{self, Options, Place, timeout, under};
use turbocql_values::ending::Inside;
use turbocql_values::error::{self, Direction};
use turbocql_values::plan::Choices;
use turbocql_values::row::{RowKind, Shape, Shapes};

/// The number of forks that led to this process, counted in the child. A session belongs to the
/// process that opened it.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Called in the child after a fork.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    turbocql_values::ending::forked();
}

pub struct SessionState {
    pub runtime: Runtime,
    pub engine: turbocql_engine::Session,
    pub choices: Choices,
    shapes: Shapes,
    prepared: Mutex<LruCache<String, Py<Prepared>>>,
    /// The maximum number of cached prepared statements.
    cache_size: usize,
    /// How often the cache was emptied. A statement is not cached if this number has changed since
    /// its preparation began.
    emptied: AtomicU64,
    /// The keyspace that the cached statements were prepared in.
    keyspace: Mutex<Option<String>>,
    pub row_kind: RowKind,
    /// The class of the result objects that users get, derived from [`Cursor`].
    pub rows_class: Py<PyAny>,
    /// Whether a call raises, instead of waiting, when the session is full.
    pub raises_when_full: bool,
    closed: AtomicBool,
    /// Whether the program was warned of conditions beside the client's timestamps.
    pub has_warned: AtomicBool,
    forks: u64,
}

/// The settings of a session that is not connected yet.
pub struct Settings {
    pub choices: Choices,
    pub row_kind: RowKind,
    pub cache_size: usize,
    pub rows_class: Py<PyAny>,
    pub raises_when_full: bool,
    forks: u64,
}

impl Settings {
    /// Settings of a session that belongs to this process.
    pub fn new(
        choices: Choices,
        row_kind: RowKind,
        cache_size: usize,
        rows_class: Py<PyAny>,
        raises_when_full: bool,
    ) -> Settings {
        let forks = FORKS.load(Ordering::Relaxed);
        Settings { choices, row_kind, cache_size, rows_class, raises_when_full, forks }
    }
}

impl SessionState {
    pub fn new(
        py: Python<'_>,
        runtime: Runtime,
        engine: turbocql_engine::Session,
        settings: &Settings,
    ) -> SessionState {
        let keyspace = Mutex::new(engine.keyspace());
        SessionState {
            runtime,
            engine,
            choices: settings.choices,
            shapes: Shapes::default(),
            // With a capacity, the cache would allocate room for all entries at once. `remember`
            // keeps the number of entries within `cache_size`.
            prepared: Mutex::new(LruCache::unbounded()),
            cache_size: settings.cache_size,
            emptied: AtomicU64::new(0),
            keyspace,
            row_kind: settings.row_kind,
            rows_class: settings.rows_class.clone_ref(py),
            raises_when_full: settings.raises_when_full,
            closed: AtomicBool::new(false),
            has_warned: AtomicBool::new(false),
            forks: settings.forks,
        }
    }

    pub fn check_open(&self) -> PyResult<()> {
        let reason = if self.forks != FORKS.load(Ordering::Relaxed) {
            "the session was opened before this process was forked; connect again in the child"
        } else if self.closed.load(Ordering::Acquire) {
            "the session is closed"
        } else {
            return Ok(());
        };
        let error = EngineError::new(ErrorKind::Closed, reason);
        Err(Python::attach(|py| raise_engine(py, &error)))
    }

    /// Whether this process has closed the session.
    pub fn is_closed(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed) && self.closed.load(Ordering::Acquire)
    }

    /// Begins a call that may run Python code. Raises if the session is closed.
    pub fn enter(&self, py: Python<'_>) -> PyResult<Inside> {
        self.check_open()?;
        Inside::nested(py)
    }

    pub fn shape(&self, py: Python<'_>, columns: &Arc<[Column]>) -> PyResult<Arc<Shape>> {
        self.shapes
            .get(py, columns)
            .map_err(|failure| error::raise(py, *failure, Direction::Decode))
    }

    fn cache(&self) -> MutexGuard<'_, LruCache<String, Py<Prepared>>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties the cache of prepared statements.
    pub fn clear_cache(&self) {
        let mut cache = self.cache();
        self.emptied.fetch_add(1, Ordering::AcqRel);
        let dropped = std::mem::replace(&mut *cache, LruCache::unbounded());
        // The statements are dropped after the lock is released: they own Python objects, whose
        // release may run Python code.
        drop(cache);
        drop(dropped);
    }

    /// The prepared statement of this text, if it is cached.
    pub fn cached(&self, py: Python<'_>, text: &str) -> Option<Py<Prepared>> {
        let mut cache = self.cache();
        let prepared = cache.get(text).filter(|prepared| !prepared.get().engine.is_stale())?;
        Some(prepared.clone_ref(py))
    }

    /// How often the cache was emptied, for [`SessionState::remember`].
    pub fn epoch(&self) -> u64 {
        self.emptied.load(Ordering::Acquire)
    }

    /// Caches a prepared statement. `epoch` is the [`SessionState::epoch`] at which its preparation
    /// began. If the cache was emptied since then, the statement is not cached: its text may have
    /// another meaning now.
    pub fn remember(
        &self,
        py: Python<'_>,
        engine: Arc<turbocql_engine::Prepared>,
        epoch: u64,
    ) -> PyResult<Py<Prepared>> {
        let prepared = Py::new(py, Prepared::new(py, engine, self.engine.hides())?)?;
        let text = prepared.get().engine.text().to_owned();
        let mut cache = self.cache();
        if self.epoch() != epoch {
            return Ok(prepared);
        }
        let replaced = cache.push(text, prepared.clone_ref(py));
        let oldest = if cache.len() > self.cache_size { cache.pop_lru() } else { None };
        drop(cache);
        drop((replaced, oldest));
        Ok(prepared)
    }

    /// Empties the cache if a `USE` has changed the keyspace, and so the meaning of unqualified
    /// names.
    pub fn follow_keyspace(&self) {
        let now = self.engine.keyspace();
        let mut known = self.keyspace.lock().unwrap_or_else(PoisonError::into_inner);
        let used = *known != now;
        *known = now;
        drop(known);
        if used {
            self.clear_cache();
        }
    }
}

impl Origin for SessionState {
    fn engine(&self) -> &turbocql_engine::Session {
        &self.engine
    }

    fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        self.runtime.shutdown();
    }
}

/// The error for a completion that a step does not expect.
pub fn out_of_turn() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("an operation got an unexpected completion")
}

#[pyclass(frozen, module = "turbocql._core")]
pub struct Session(pub Arc<SessionState>);

#[pymethods]
impl Session {
    fn prepare(&self, py: Python<'_>, statement: &Bound<'_, PyAny>) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let op = OpState::empty();
        op.begin(self.0.with_prepared(py, text_of(statement)?, Then::Return, None, &op)?);
        Ok(Op(op))
    }

    /// Executes a statement once for each row of bind values.
    #[allow(clippy::too_many_arguments)]
    fn execute_many(
        &self,
        py: Python<'_>,
        statement: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
        concurrency: usize,
        max_failures: usize,
        keep_results: bool,
        progress: Option<&Bound<'_, BulkProgress>>,
        pace: PaceOf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let request = options::parse(options, Place::Statement)?;
        let rows = match rows.cast::<Columns>() {
            Ok(columns) => RowsOf::Columns(columns.clone().unbind()),
            Err(_) => RowsOf::Iterator(rows.try_iter()?.unbind()),
        };
        let limits = (concurrency, max_failures, keep_results);
        let many = |request: Options| {
            self.0.check_profile(py, &request)?;
            let options = BulkOptions::new(request, limits, progress, pace);
            Ok::<_, PyErr>(Then::Many { rows, options })
        };
        let op = OpState::empty();
        if let Ok(prepared) = statement.cast::<Prepared>() {
            let then = many(under(request, &prepared.get().options))?;
            op.begin(then.run(py, &self.0, prepared.clone().unbind(), None, &op)?);
            return Ok(Op(op));
        }
        if let Ok(query) = statement.cast::<Query>() {
            let then = many(under(request, &query.get().options))?;
            let text = query.get().text.clone();
            op.begin(self.0.with_prepared(py, text, then, None, &op)?);
            return Ok(Op(op));
        }
        if statement.cast::<super::prepared::Bound_>().is_ok() {
            let reason = "execute_many takes a str, a Query or a Prepared: a Bound has its values";
            return Err(PyTypeError::new_err(reason));
        }
        op.begin(self.0.with_prepared(py, text_of(statement)?, many(request)?, None, &op)?);
        Ok(Op(op))
    }

    /// Reads token ranges of a table. The statement's first two values are the bounds of a range;
    /// `values` are the others. With a host id instead of ranges, asks that node.
    #[allow(clippy::too_many_arguments)]
    fn scan(
        &self,
        py: Python<'_>,
        statement: String,
        place: (String, String),
        ranges: Vec<(i64, i64)>,
        values: Py<PyTuple>,
        node: Option<[u8; 16]>,
        concurrency: usize,
        patience_s: f64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let rows = call::rows_as(py, &self.0, options)?;
        let options = options::parse(options, Place::Execute)?;
        let scan = ScanOf { place, ranges, values, node, concurrency, patience_s, options, rows };
        self.0.scan(py, statement, scan)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    #[getter]
    fn keyspace(&self) -> Option<String> {
        self.0.engine.keyspace()
    }

    /// The cached prepared statements, the most recently used first.
    #[getter]
    fn prepared(&self, py: Python<'_>) -> Vec<Py<Prepared>> {
        self.0.cache().iter().map(|(_, prepared)| prepared.clone_ref(py)).collect()
    }

    /// Empties the cache of prepared statements.
    fn forget_prepared(&self) {
        self.0.clear_cache();
    }

    /// Registers the class for values of a user-defined type. None removes it.
    #[pyo3(signature = (keyspace, name, made))]
    fn register_type(
        &self,
        py: Python<'_>,
        keyspace: &str,
        name: &str,
        made: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        self.0.check_open()?;
        self.0.shapes.register(py, keyspace, name, made);
        // A class may be registered because a field was added to its type. Cached statements still
        // have the old fields.
        self.0.clear_cache();
        Ok(())
    }

    /// The nodes of the cluster, as arguments of `turbocql.cluster.Node`.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.0.check_open()?;
        cluster::nodes(py, &self.0.engine)
    }

    #[getter]
    fn cluster_name(&self) -> String {
        self.0.engine.cluster_name()
    }

    /// The host ids and shards of the replicas of a token.
    fn replicas<'py>(
        &self,
        py: Python<'py>,
        keyspace: &str,
        table: &str,
        token: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        self.0.check_open()?;
        cluster::replicas(py, &self.0.engine, keyspace, table, token)
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        cluster::metrics(py, &self.0.engine)
    }

    /// Reads the nodes of the cluster again.
    fn refresh(&self) -> PyResult<Op> {
        self.0.check_open()?;
        Ok(Op(cluster::refresh(&self.0)))
    }

    /// Waits until all nodes that are up have the same schema. The result is the schema's version,
    /// 16 bytes.
    fn agreement(&self, timeout_s: &Bound<'_, PyAny>) -> PyResult<Op> {
        self.0.check_open()?;
        Ok(Op(cluster::agreement(&self.0, timeout(timeout_s)?)))
    }

    /// The number of requests in flight.
    #[getter]
    fn in_flight(&self) -> usize {
        self.0.runtime.in_flight()
    }

    /// Closes the session. Takes no further requests, and waits for those in flight, up to
    /// `timeout_s` seconds.
    fn close(&self, timeout_s: &Bound<'_, PyAny>) -> PyResult<Op> {
        // Zero cancels the requests in flight.
        let limit = match timeout_s.extract::<f64>() {
            Ok(0.0) => Some(std::time::Duration::ZERO),
            _ => timeout(timeout_s)?,
        };
        let limit = limit.unwrap_or(std::time::Duration::MAX);
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

struct CloseStep {
    session: Arc<SessionState>,
}

impl Drop for CloseStep {
    /// Runs also if the wait was interrupted: the session is closed in any case.
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
        // The registered classes may refer to the session.
        self.session.shapes.clear();
        Ok(Next::Done(py.None()))
    }
}
