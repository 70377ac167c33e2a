//! Returns the number of the current interpreter (a process may have several), and whether the
//! current thread has a Python thread state.

use pyo3::ffi;
use pyo3::prelude::*;

/// Returns the number of the current interpreter; the first interpreter of a process has 0.
#[pyfunction]
pub fn interpreter(_py: Python<'_>) -> i64 {
    // SAFETY: both functions need the GIL, which `_py` shows is held; so an interpreter runs, and
    // the pointer to it is valid. This code runs at every import. Tests: unit/test_quick_paths.py.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) }
}

/// Whether the calling thread has no Python thread state. Threads of other libraries have none.
pub fn is_foreign_thread() -> bool {
    // SAFETY: the function reads a thread-local pointer and needs no GIL; it may be called at any
    // time, also after the interpreter's end. This code runs at every batch of a stream. Tests:
    // columns/test_ending.py.
    unsafe { ffi::PyGILState_GetThisThreadState() }.is_null()
}
