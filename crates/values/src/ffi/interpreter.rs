//! Which of a process's interpreters runs.

use pyo3::ffi;
use pyo3::prelude::*;

/// Its number: that of the first one is 0.
#[pyfunction]
pub fn interpreter(_py: Python<'_>) -> i64 {
    // SAFETY: the interpreter's lock is held, so one runs.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) }
}
