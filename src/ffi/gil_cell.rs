//! A cell for fields of Python classes. pyo3 requires such fields to be `Sync`. The GIL guards the
//! cell. On an interpreter built without the GIL, a lock guards it.

use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// A value that threads move in and out while they are attached to the interpreter. Only `traverse`
/// and `update` lend a reference to the value. The functions to which they pass the reference run
/// no Python code.
pub struct GilCell<T>(Guarded<T>);

#[cfg(not(Py_GIL_DISABLED))]
type Guarded<T> = std::cell::Cell<T>;
#[cfg(Py_GIL_DISABLED)]
type Guarded<T> = std::sync::Mutex<T>;

// SAFETY: only one thread at a time may use the cell. `replace` and `take` require a `Python`
// token, which shows that the GIL is held. The GC also holds the GIL when it calls `traverse`. For
// an interpreter built without the GIL, this line is not compiled, because the `Mutex` makes the
// cell `Sync`. Tests: unit/test_row_iteration.py (test_threads_share_an_iterator).
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for GilCell<T> {}

#[cfg(not(Py_GIL_DISABLED))]
impl<T> GilCell<T> {
    pub const fn new(value: T) -> GilCell<T> {
        GilCell(Guarded::new(value))
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

    /// Passes the value to `look`. Only `__traverse__` methods may call this method. The GC passes
    /// no `Python` token to these methods, because they must not run Python code.
    pub fn traverse<R>(&self, _visit: &PyVisit<'_>, look: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: the value must not be replaced while `look` borrows it. The only callers are the
        // `__traverse__` methods in row_iteration.rs and remaining.rs. The GC calls these methods
        // with the GIL held, by CPython's rule, so no other thread uses the cell. Their `look`
        // functions only pass objects to the GC, which runs no Python code and changes no cell.
        // Tests: unit/test_row_iteration.py (test_a_cycle_is_collected).
        Some(look(unsafe { &*self.0.as_ptr() }))
    }
}

/// Without the GIL, a lock guards the value. A thread holds the lock only for a short time: it
/// moves or changes the value, and neither runs Python code nor detaches from the interpreter
/// meanwhile. When the GC stops all threads, a thread that waits for the lock delays the GC only
/// for this short time.
#[cfg(Py_GIL_DISABLED)]
impl<T> GilCell<T> {
    pub const fn new(value: T) -> GilCell<T> {
        GilCell(Guarded::new(value))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[inline]
    pub fn replace(&self, _py: Python<'_>, value: T) -> T {
        std::mem::replace(&mut self.lock(), value)
    }

    #[inline]
    pub fn take(&self, _py: Python<'_>) -> T
    where
        T: Default,
    {
        std::mem::take(&mut self.lock())
    }

    /// Changes the value in place. `change` must not run Python code. So it must not drop a
    /// reference to a Python object either, because a destructor may run Python code.
    #[inline]
    pub fn update<R>(&self, _py: Python<'_>, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.lock())
    }

    /// Passes the value to `look`, and returns the result of `look`. Returns `None` if another
    /// thread holds the lock. This does not happen: before the GC calls this method, it stops all
    /// threads, and no thread stops while it holds the lock. If it happened, the objects in the
    /// value would not be visited, and would only stay alive longer.
    pub fn traverse<R>(&self, _visit: &PyVisit<'_>, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.0.try_lock().ok().map(|value| look(&value))
    }
}

impl<T: Default> Default for GilCell<T> {
    fn default() -> GilCell<T> {
        GilCell::new(T::default())
    }
}
