//! Checks whether a class of the driver was changed, for stand-ins that depend on the class.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::ffi::{attribute, version};

/// One of the driver's classes, on which a stand-in depends, and a Python function that checks
/// whether the attributes that the stand-in relies on are the driver's own.
pub struct Dependence {
    class: Py<PyType>,
    is_usual: Py<PyAny>,
    /// The class's version at the last check, times two, plus 1 if the attributes were the driver's
    /// own. Zero before the first check.
    seen: AtomicU64,
}

impl Dependence {
    pub fn new(class: Py<PyType>, is_usual: Py<PyAny>) -> Dependence {
        Dependence { class, is_usual, seen: AtomicU64::new(0) }
    }

    /// Whether the attributes that the stand-in relies on are the driver's own. Calls the Python
    /// function only if the class's version has changed since the function's last call, or is zero.
    pub fn is_as_usual(&self, py: Python<'_>) -> PyResult<bool> {
        let (now, seen) = (version::of(self.class.bind(py)), self.seen.load(Ordering::Relaxed));
        if now != 0 && seen >> 1 == u64::from(now) {
            return Ok(seen & 1 == 1);
        }
        self.look(py)
    }

    #[cold]
    fn look(&self, py: Python<'_>) -> PyResult<bool> {
        let class = self.class.bind(py);
        // An attribute lookup, even of a missing attribute, makes CPython assign a version to the
        // class.
        let _ = attribute::optional(class, pyo3::intern!(py, "V5"));
        let before = version::of(class);
        let answer = self.is_usual.bind(py).call0().and_then(|answer| answer.is_truthy());
        let is_usual = match answer {
            Ok(is_usual) => is_usual,
            Err(error) if error.is_instance_of::<PyException>(py) => false,
            Err(interrupt) => return Err(interrupt),
        };
        // The result is kept only if the class has not changed while the Python function ran.
        if before == version::of(class) {
            let seen = u64::from(before) << 1 | u64::from(is_usual);
            self.seen.store(seen, Ordering::Relaxed);
        }
        Ok(is_usual)
    }
}
