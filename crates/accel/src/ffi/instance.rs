//! Reads the dicts of instances.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the dict with the attributes that were set on an object; `None` if the object has no
/// dict. CPython makes the dict if it does not exist yet. Reads the dict itself, even if the class
/// of the object has another attribute with the name `__dict__`.
pub fn dict<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    // SAFETY: the `Bound` keeps `object` alive and proves that the GIL is held. The function is
    // public. It returns a new reference to the object's dict, or null with an exception, which is
    // cleared. CPython keeps instance attributes only in an instance of `dict` or of a subclass.
    // Tests: accel/test_borrowing.py.
    unsafe {
        let dict = ffi::PyObject_GenericGetDict(object.as_ptr(), std::ptr::null_mut());
        if dict.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(Bound::from_owned_ptr(object.py(), dict).cast_into_unchecked())
    }
}
