//! The state of a session: its runtime, its engine, its cache of prepared statements, and its
//! settings.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use pyo3::prelude::*;
use turbocql_codec::Column;
use turbocql_engine::{EngineError, ErrorKind, Runtime};

use crate::classes::session::hooks::Hooks;
use crate::classes::statement::prepared::Prepared;
use crate::error::raise_engine;
use crate::op::execution::Origin;
use turbocql_values::ending::Inside;
use turbocql_values::error::{self, Direction};
use turbocql_values::plan::Choices;
use turbocql_values::row::{RowKind, Shape, Shapes};

/// The number of forks between the first process and this process. Each child adds one to the
/// number of its parent. A session can only be used in the process that opened it, so it stores the
/// number of that process.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Counts a fork. Python calls this function in the child after each fork.
#[pyfunction]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    turbocql_values::ending::forked();
}

pub struct SessionState {
    pub runtime: Runtime,
    pub engine: turbocql_engine::Session,
    pub choices: Choices,
    pub shapes: Shapes,
    prepared: Mutex<LruCache<String, Py<Prepared>>>,
    /// The maximum number of cached prepared statements.
    cache_size: usize,
    /// How many times the cache was emptied. If this number changes while a statement is being
    /// prepared, the statement is not cached.
    emptied: AtomicU64,
    /// The session's keyspace when the cached statements were prepared.
    keyspace: Mutex<Option<String>>,
    pub row_kind: RowKind,
    /// The class of the result objects that users get, derived from [`Cursor`].
    pub rows_class: Py<PyAny>,
    /// Whether a call raises when the session is full. If not, the call waits. A session is full
    /// when it has as many requests or bytes in flight as its settings allow.
    pub raises_when_full: bool,
    closed: AtomicBool,
    /// Whether the session has already warned about conditional statements with client timestamps.
    pub has_warned: AtomicBool,
    forks: u64,
    pub hooks: Hooks,
}

/// The settings for a session that is being opened.
pub struct Settings {
    pub choices: Choices,
    pub row_kind: RowKind,
    pub cache_size: usize,
    pub rows_class: Py<PyAny>,
    pub raises_when_full: bool,
    forks: u64,
}

impl Settings {
    /// Makes the settings of a session that belongs to this process.
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
            // The cache is unbounded, because a cache with a capacity allocates room for all
            // entries at once. `remember` keeps the number of entries within `cache_size`.
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
            hooks: Hooks::default(),
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

    /// Whether the session was closed, in this process or before the fork that made this process.
    pub fn was_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Marks the session as closed, so that new calls raise. Returns false if the session was
    /// closed before, or belongs to another process.
    pub fn close(&self) -> bool {
        let was_closed = self.closed.swap(true, Ordering::AcqRel);
        !was_closed && self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// Begins a call that may run Python code. Raises if the session is closed, if it was opened
    /// before a fork, or if native calls are nested too deep.
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

    /// Returns the cached prepared statements, the most recently used first.
    pub fn statements(&self, py: Python<'_>) -> Vec<Py<Prepared>> {
        self.cache().iter().map(|(_, prepared)| prepared.clone_ref(py)).collect()
    }

    /// Empties the cache of prepared statements.
    pub fn clear_cache(&self) {
        let mut cache = self.cache();
        self.emptied.fetch_add(1, Ordering::AcqRel);
        let dropped = std::mem::replace(&mut *cache, LruCache::unbounded());
        // The statements are dropped after the lock is released, because they own Python objects,
        // whose destructors may run Python code.
        drop(cache);
        drop(dropped);
    }

    /// Returns the cached prepared statement of this text. Returns `None` if no statement is
    /// cached, or if it can no longer be executed (see `is_stale` of the engine).
    pub fn cached(&self, py: Python<'_>, text: &str) -> Option<Py<Prepared>> {
        let mut cache = self.cache();
        let prepared = cache.get(text).filter(|prepared| !prepared.get().engine.is_stale())?;
        self.count_cache_hit();
        Some(prepared.clone_ref(py))
    }

    /// Removes the statement from the cache if [`Prepared::may_be_outdated`] is true. Another
    /// client may then have changed the types of its bind markers. Returns whether the statement
    /// may be outdated. If this is true, the caller prepares the text again.
    pub fn forget_outdated(&self, prepared: &Prepared) -> bool {
        if !prepared.may_be_outdated() {
            return false;
        }
        let mut cache = self.cache();
        let text = prepared.engine.text();
        let is_same = |cached: &Py<Prepared>| Arc::ptr_eq(&cached.get().engine, &prepared.engine);
        let dropped = if cache.peek(text).is_some_and(is_same) { cache.pop(text) } else { None };
        drop(cache);
        drop(dropped);
        true
    }

    /// Returns how many times the cache was emptied. [`SessionState::remember`] needs this number.
    pub fn epoch(&self) -> u64 {
        self.emptied.load(Ordering::Acquire)
    }

    /// Caches a prepared statement. `epoch` is the value that [`SessionState::epoch`] returned
    /// before the preparation began. If the cache was emptied since then, the statement is not
    /// cached, because the schema or the keyspace may have changed.
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

    /// Empties the cache if a `USE` has changed the keyspace. In the new keyspace, unqualified
    /// names in the cached texts denote other tables.
    pub fn follow_keyspace(&self) {
        let now = self.engine.keyspace();
        let mut prepared_in = self.keyspace.lock().unwrap_or_else(PoisonError::into_inner);
        let used = *prepared_in != now;
        *prepared_in = now;
        drop(prepared_in);
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

/// Makes the error for an operation that got an arrival of another kind than its current step
/// expects.
pub fn out_of_turn() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("an operation got an unexpected completion")
}

#[pyclass(frozen, module = "turbocql._core")]
pub struct Session(pub Arc<SessionState>);
