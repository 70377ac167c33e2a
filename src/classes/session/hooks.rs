//! The application's functions that a session calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

/// A function of the application, or none. If there is none, `get` takes no lock.
#[derive(Default)]
pub struct Hook {
    is_set: AtomicBool,
    function: Mutex<Option<Py<PyAny>>>,
}

impl Hook {
    pub fn set(&self, function: Option<Py<PyAny>>) {
        let mut current = self.function.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_set.store(function.is_some(), Ordering::Release);
        let replaced = std::mem::replace(&mut *current, function);
        // The replaced function is dropped after the lock is released, because its destructor may
        // run Python code.
        drop(current);
        drop(replaced);
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // If the lock is held, the function is in use. So it is not garbage, and the GC may skip
        // it.
        match self.function.try_lock() {
            Ok(function) => visit.call(function.as_ref()),
            Err(_) => Ok(()),
        }
    }

    pub fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        let current = self.function.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|function| function.clone_ref(py))
    }
}

/// The functions of a session.
#[derive(Default)]
pub struct Hooks {
    /// Decides whether a failed request is sent again: see `Session.retry_when`.
    pub retry_when: Hook,
    /// Returns the context of the current trace, which requests carry as their custom payload.
    pub trace_context: Hook,
}

impl Hooks {
    /// Reports the functions to the GC, because they may refer to the session.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.retry_when.traverse(visit)?;
        self.trace_context.traverse(visit)
    }

    /// Drops the functions. They may refer to the session, so this breaks reference cycles.
    pub fn clear(&self) {
        self.retry_when.set(None);
        self.trace_context.set(None);
    }
}
