//! A cell that the GIL guards, for the fields of Python classes. pyo3 requires these classes to be
//! `Sync`.

use std::cell::Cell;

use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// A value that is read and written only by threads that hold the GIL. Its methods move values in
/// and out. Only `traverse` lends a reference, to the GC. So no Python code can run while the value
/// is in use.
pub struct GilCell<T>(Cell<T>);

// SAFETY: only one thread at a time may use the cell. `replace` and `take` require a `Python`
// token, which shows that the GIL is held; the GC calls `traverse` with the GIL held. `_core` is
// declared with `gil_used = true`, which turns the GIL on in an interpreter that can run without
// it. Tests: unit/test_row_iteration.py (test_threads_share_an_iterator).
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub const fn new(value: T) -> GilCell<T> {
        GilCell(Cell::new(value))
    }

    #[inline(always)]
    pub fn replace(&self, _py: Python<'_>, value: T) -> T {
        self.0.replace(value)
    }

    #[inline(always)]
    pub fn take(&self, _py: Python<'_>) -> T
    where
        T: Default,
    {
        self.0.take()
    }

    /// Passes the value to `look`. Only `__traverse__` methods may call this method. They get no
    /// `Python` token, because they must not run Python code.
    pub fn traverse<R>(&self, _visit: &PyVisit<'_>, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the value must not be replaced while `look` borrows it. The only callers are the
        // `__traverse__` methods in row_iteration.rs. The GC calls these methods with the GIL held,
        // by CPython's rule, so no other thread uses the cell. Their `look` functions only pass
        // objects to the GC, which runs no Python code and changes no cell. Tests:
        // unit/test_row_iteration.py (test_a_cycle_is_collected).
        look(unsafe { &*self.0.as_ptr() })
    }
}

impl<T: Default> Default for GilCell<T> {
    fn default() -> GilCell<T> {
        GilCell::new(T::default())
    }
}
