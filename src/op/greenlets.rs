//! Lets a greenlet wait for an operation while the other greenlets of its thread run.
//!
//! gevent replaces the blocking functions of the standard library, but not the waits of this core.
//! So each hub of gevent watches a file descriptor. There is one hub per thread. If a greenlet of
//! the hub waits for an operation, the I/O thread makes the descriptor readable when the operation
//! has a completion.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::op::descriptor::Descriptor;
use crate::op::{Op, OpState};
use crate::python;

/// Whether gevent has replaced the threads of the standard library.
static GREENLETS: AtomicBool = AtomicBool::new(false);

/// From now on, blocking calls of all sessions let other greenlets run.
#[pyfunction]
pub fn let_greenlets_run() {
    GREENLETS.store(true, Ordering::Relaxed);
}

pub(super) fn may_run() -> bool {
    GREENLETS.load(Ordering::Relaxed)
}

/// Waits for a completion of the operation while other greenlets run. Returns false, without
/// waiting, if this thread has no hub. If an exception ends the wait, abandons the operation.
#[cold]
pub(super) fn wait(py: Python<'_>, op: &Arc<OpState>) -> PyResult<bool> {
    let waited = python::wait_in_hub(py)?.call1((Op(op.clone()),));
    waited.and_then(|waited| waited.extract()).inspect_err(|_| op.abandon())
}

/// The descriptor that wakes a hub, and a list of tokens. A token is a number that identifies one
/// wait of a greenlet. The list has the tokens of the greenlets that the hub must resume, because
/// their operations have completions.
struct Woken {
    descriptor: Descriptor,
    tokens: Mutex<Vec<u64>>,
}

impl Woken {
    fn tokens(&self) -> MutexGuard<'_, Vec<u64>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A greenlet that waits for an operation.
pub(super) struct Sleeper {
    hub: Arc<Woken>,
    token: u64,
}

impl Sleeper {
    pub(super) fn wake(self) {
        let mut tokens = self.hub.tokens();
        tokens.push(self.token);
        let is_first = tokens.len() == 1;
        drop(tokens);
        if is_first {
            self.hub.descriptor.wake();
        }
    }
}

/// The waits of the greenlets of one hub.
#[pyclass(frozen, module = "turbocql._core")]
pub struct HubWaits(Arc<Woken>);

#[pymethods]
impl HubWaits {
    #[new]
    fn new() -> PyResult<HubWaits> {
        let descriptor = Descriptor::new().map_err(|error| {
            PyOSError::new_err(format!("no file descriptor that wakes gevent's hub: {error}"))
        })?;
        Ok(HubWaits(Arc::new(Woken { descriptor, tokens: Mutex::default() })))
    }

    /// Returns the file descriptor. It is readable while the list of tokens is not empty.
    fn fileno(&self) -> c_int {
        self.0.descriptor.fileno()
    }

    /// Makes the next completion of the operation add `token` to the list of tokens. Returns false
    /// if a completion has already arrived, or if the operation is over.
    fn watch(&self, op: &Bound<'_, Op>, token: u64) -> bool {
        op.get().0.wake_greenlet(Sleeper { hub: Arc::clone(&self.0), token })
    }

    /// Returns the tokens of the greenlets whose operations have completions, and empties the list.
    fn woken(&self) -> Vec<u64> {
        // The descriptor is cleared before the list is read, so that no later wake is lost.
        self.0.descriptor.clear();
        std::mem::take(&mut *self.0.tokens())
    }
}
