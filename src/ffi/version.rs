//! Whether a class has changed since it was looked at.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::quick::is_forced_safe;

/// A number that CPython gives a class when it looks one of its attributes up, and takes away with
/// every change of the class or of its bases. No other state of a class has had the same number.
/// 0 where the class has none: changed since it was looked at, or too often.
pub fn of(class: &Bound<'_, PyType>) -> u32 {
    if is_forced_safe() {
        return 0;
    }
    // SAFETY: a class is alive as long as the reference to it, and the lock is held.
    unsafe { (*class.as_ptr().cast::<ffi::PyTypeObject>()).tp_version_tag }
}
