//! Waits of greenlets: while one waits for an operation, the others of its thread run.
//!
//! gevent replaces the blocking functions of the standard library, but not the waits of this core.
//! gevent's hub of a thread watches an eventfd. The I/O thread writes to it when an operation has a
//! completion for which a greenlet of the thread waits.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::event::EventfdFlags;

use crate::op::{Op, OpState};
use crate::python;

/// Whether gevent has replaced the threads of the standard library.
static GREENLETS: AtomicBool = AtomicBool::new(false);

/// Makes blocking calls of all sessions let other greenlets run, from now on.
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

/// The greenlets of a hub whose operations have a completion.
struct Woken {
    eventfd: OwnedFd,
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
            // A write fails only if the counter is at its maximum, and then the hub wakes anyway.
            let _ = rustix::io::write(&self.hub.eventfd, &1u64.to_ne_bytes());
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
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let eventfd = rustix::event::eventfd(0, flags)
            .map_err(|error| PyOSError::new_err(format!("eventfd: {error}")))?;
        Ok(HubWaits(Arc::new(Woken { eventfd, tokens: Mutex::default() })))
    }

    /// The file descriptor that becomes readable when `woken` has tokens.
    fn fileno(&self) -> RawFd {
        self.0.eventfd.as_raw_fd()
    }

    /// Makes the next completion of the operation add `token` to `woken`. Returns false if there
    /// is already a completion to handle.
    fn watch(&self, op: &Bound<'_, Op>, token: u64) -> bool {
        op.get().0.wake_greenlet(Sleeper { hub: Arc::clone(&self.0), token })
    }

    /// Returns the tokens of the operations that have completions, and empties the list.
    fn woken(&self) -> Vec<u64> {
        // The counter is read before the list, so that no later write is lost.
        let _ = rustix::io::read(&self.0.eventfd, &mut [0; 8]);
        std::mem::take(&mut *self.0.tokens())
    }
}
