//! The session: it executes statements, and caches prepared ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyString, PyTuple};
use turbocql_codec::Column;
use turbocql_engine::{EngineError, ErrorKind, PageSource, Response, Runtime, first_word};

use super::call;
use super::cluster;
use super::cursor::{Cursor, Following};
use super::execute_many::{BulkOptions, BulkStep};
use super::prepared::{Prepared, Query};
use crate::error::raise_engine;
use crate::op::{Arrival, Next, Op, OpState, Origin, Step};
use crate::options::{self, Options, Place, given, timeout, under};
use turbocql_values::ending::Inside;
use turbocql_values::error::config_error;
use turbocql_values::error::{self, Direction};
use turbocql_values::plan::Choices;
use turbocql_values::row::{RowKind, RowsAs, Shape, Shapes};
use turbocql_values::value::describe::describe;

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
    closed: AtomicBool,
    forks: u64,
}

/// The settings of a session that is not connected yet.
pub struct Settings {
    pub choices: Choices,
    pub row_kind: RowKind,
    pub cache_size: usize,
    pub rows_class: Py<PyAny>,
    forks: u64,
}

impl Settings {
    /// Settings of a session that belongs to this process.
    pub fn new(
        choices: Choices,
        row_kind: RowKind,
        cache_size: usize,
        rows_class: Py<PyAny>,
    ) -> Settings {
        let forks = FORKS.load(Ordering::Relaxed);
        Settings { choices, row_kind, cache_size, rows_class, forks }
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
            closed: AtomicBool::new(false),
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

    /// Raises if the options name a profile that the session does not have.
    pub fn check_profile(&self, py: Python<'_>, options: &Options) -> PyResult<()> {
        let named = options.as_ref().and_then(|options| options.profile.as_ref());
        match named {
            Some(name) if !self.engine.has_profile(name) => {
                Err(config_error(py, &format!("there is no profile {name:?} in this session")))
            }
            _ => Ok(()),
        }
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
    fn clear_cache(&self) {
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
        self.cache().get(text).map(|prepared| prepared.clone_ref(py))
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
        let prepared = Py::new(py, Prepared::new(py, engine)?)?;
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
    fn follow_keyspace(&self) {
        let now = self.engine.keyspace();
        let mut known = self.keyspace.lock().unwrap_or_else(PoisonError::into_inner);
        let used = *known != now;
        *known = now;
        drop(known);
        if used {
            self.clear_cache();
        }
    }

    /// The guard for a statement that changes the schema; `None` for other statements.
    pub fn changing(self: &Arc<Self>, text: &str) -> Option<SchemaChange> {
        changes_schema(text).then(|| SchemaChange(self.clone()))
    }
}

/// A schema statement in flight. When it ends, with any outcome, the cache of prepared statements
/// is emptied. The server assigns the same id to the same text, so nothing else would show that
/// types have changed.
pub struct SchemaChange(Arc<SessionState>);

impl Drop for SchemaChange {
    fn drop(&mut self) {
        self.0.clear_cache();
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

pub struct ExecuteStep {
    pub session: Arc<SessionState>,
    /// Set for a text that was sent without being prepared.
    pub plain: Option<Plain>,
    pub schema: Option<SchemaChange>,
    pub rows: RowsAs,
}

/// A text that is sent without being prepared.
pub struct Plain {
    pub text: Arc<str>,
    pub options: Options,
    /// The keyspace of the session when the text was sent.
    pub keyspace: Option<String>,
}

impl Plain {
    /// The source of the pages after the first. A `USE` may come before they are fetched. It does
    /// not matter to a statement that names its keyspace. Any other statement would read tables of
    /// the new keyspace, so its source has the old one. The pager fails if the session has left it.
    fn source(self, response: &Response) -> (PageSource, Options) {
        let Plain { text, options, keyspace } = self;
        let keyspace = keyspace.filter(|keyspace| {
            let columns = response.page.as_ref().map_or(&[][..], |page| &page.columns);
            let is_of_it = columns.first().is_none_or(|column| *column.keyspace == **keyspace);
            let small = text.to_ascii_lowercase();
            let bare = format!("{}.", keyspace.to_ascii_lowercase());
            let quoted = format!("\"{}\".", keyspace.to_ascii_lowercase());
            is_of_it && !small.contains(&bare) && !small.contains(&quoted)
        });
        (PageSource::Text(text, keyspace), options)
    }
}

impl Step for ExecuteStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let Self { session, plain, schema, rows } = *self;
        drop(schema);
        if plain.is_some() {
            session.follow_keyspace();
        }
        let Arrival::Response(mut response) = arrival.map_err(|error| raise_engine(py, &error))?
        else {
            return Err(out_of_turn());
        };
        let following = match response.next.take() {
            None => None,
            Some(next) => {
                let (source, options) = match plain {
                    Some(plain) => plain.source(&response),
                    None => {
                        let execution = op.execution().ok_or_else(out_of_turn)?;
                        (execution.source(), execution.options.clone())
                    }
                };
                Some(Following { source, options, next })
            }
        };
        Cursor::make(py, &session, rows, response, following).map(Next::Done)
    }
}

fn changes_schema(text: &str) -> bool {
    is_one_of(text, &["CREATE", "ALTER", "DROP"])
}

/// Whether the text is a `USE`. A prepared one would change the keyspace of one connection only.
fn changes_keyspace(text: &str) -> bool {
    is_one_of(text, &["USE"])
}

fn is_one_of(text: &str, words: &[&str]) -> bool {
    let first = first_word(text);
    words.iter().any(|word| word.eq_ignore_ascii_case(first))
}

/// The error for a completion that a step does not expect.
pub fn out_of_turn() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("an operation got an unexpected completion")
}

/// The action that follows the preparation of a statement.
pub enum Then {
    Return,
    Execute { values: Option<Py<PyAny>>, options: Options, rows: RowsAs },
    Many { rows: Py<PyIterator>, options: BulkOptions },
}

struct PrepareStep {
    session: Arc<SessionState>,
    epoch: u64,
    then: Then,
}

impl Step for PrepareStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let Arrival::Prepared(mut prepared) = arrival.map_err(|error| raise_engine(py, &error))?
        else {
            return Err(out_of_turn());
        };
        let engine = prepared.pop().ok_or_else(out_of_turn)?;
        let prepared = self.session.remember(py, engine, self.epoch)?;
        self.then.run(py, &self.session, prepared, op)
    }
}

impl Then {
    fn options(&self) -> Options {
        match self {
            Then::Return => None,
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
            Then::Execute { values, options, rows } => {
                let values = values.as_ref().map(|values| values.bind(py));
                call::execute_prepared(py, session, prepared.get(), values, options, rows, op)?
            }
            Then::Many { rows, options } => {
                let session = session.clone();
                Next::Again(Box::new(BulkStep::start(py, session, prepared, rows, &options, op)))
            }
        })
    }
}

#[pyclass(frozen, module = "turbocql._core")]
pub struct Session(pub Arc<SessionState>);

impl SessionState {
    /// Runs `then` with the prepared statement: at once if it is cached, otherwise after it was
    /// prepared.
    pub fn with_prepared(
        self: &Arc<Self>,
        py: Python<'_>,
        text: String,
        then: Then,
    ) -> PyResult<Arc<OpState>> {
        if changes_keyspace(&text) {
            let reason = "USE cannot be prepared: execute it as a text without values";
            return Err(config_error(py, reason));
        }
        if let Some(prepared) = self.cached(py, &text) {
            return self.start(py, prepared, then);
        }
        let options = then.options();
        let step = PrepareStep { session: self.clone(), epoch: self.epoch(), then };
        let op = OpState::new(Box::new(step));
        let engine = self.engine.clone();
        op.run(&self.runtime, async move {
            let prepared = engine.prepare(&text, given(&options)).await?;
            Ok(Arrival::Prepared(vec![prepared]))
        });
        Ok(op)
    }

    /// Runs `then` with a prepared statement.
    pub fn start(
        self: &Arc<Self>,
        py: Python<'_>,
        prepared: Py<Prepared>,
        then: Then,
    ) -> PyResult<Arc<OpState>> {
        let op = OpState::empty();
        let next = then.run(py, self, prepared, &op)?;
        op.begin(next);
        Ok(op)
    }
}

#[pymethods]
impl Session {
    fn prepare(&self, py: Python<'_>, statement: &Bound<'_, PyAny>) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        self.0.with_prepared(py, text_of(statement)?, Then::Return).map(Op)
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
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let request = options::parse(options, Place::Statement)?;
        let rows = rows.try_iter()?.unbind();
        let many = |request: Options| {
            self.0.check_profile(py, &request)?;
            let options = BulkOptions { request, concurrency, max_failures, keep_results };
            Ok::<_, PyErr>(Then::Many { rows, options })
        };
        if let Ok(prepared) = statement.cast::<Prepared>() {
            let then = many(under(request, &prepared.get().options))?;
            return self.0.start(py, prepared.clone().unbind(), then).map(Op);
        }
        if let Ok(query) = statement.cast::<Query>() {
            let then = many(under(request, &query.get().options))?;
            return self.0.with_prepared(py, query.get().text.clone(), then).map(Op);
        }
        if statement.cast::<super::prepared::Bound_>().is_ok() {
            let reason = "execute_many takes a str, a Query or a Prepared: a Bound has its values";
            return Err(PyTypeError::new_err(reason));
        }
        self.0.with_prepared(py, text_of(statement)?, many(request)?).map(Op)
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

    /// Waits until all nodes that are up have the same schema. The result is its version, 16 bytes.
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

pub fn text_of(statement: &Bound<'_, PyAny>) -> PyResult<String> {
    match statement.cast::<PyString>() {
        Ok(text) => match text.to_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(why) => {
                let reason = format!("a statement must be UTF-8: {}", why.value(statement.py()));
                let error = EngineError::new(ErrorKind::Encode, reason);
                Err(raise_engine(statement.py(), &error))
            }
        },
        Err(_) => Err(PyTypeError::new_err(format!(
            "a statement is a str, a Query, a Prepared or a Bound, got {}",
            describe(statement)
        ))),
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
