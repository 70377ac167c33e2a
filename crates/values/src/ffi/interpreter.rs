//! The number of the interpreter that runs, for processes with several interpreters.

use pyo3::ffi;
use pyo3::prelude::*;

/// The number of the interpreter that runs; the first interpreter of a process has 0.
#[pyfunction]
pub fn interpreter(_py: Python<'_>) -> i64 {
    // SAFETY: both functions need the GIL, which `_py` shows is held; so an interpreter runs, and
    // the pointer to it is valid. Runs at every import. Tests: unit/test_quick_paths.py.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) }
}
