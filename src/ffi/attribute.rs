//! Attributes that may be missing, which costs nothing here.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

// Public from 3.13 on; before, pyo3 makes an AttributeError and throws it away, at ten times the
// cost of the look.
#[cfg(not(Py_3_13))]
unsafe extern "C" {
    #[link_name = "_PyObject_LookupAttr"]
    fn look_up(
        object: *mut ffi::PyObject,
        name: *mut ffi::PyObject,
        found: *mut *mut ffi::PyObject,
    ) -> std::ffi::c_int;
}
#[cfg(Py_3_13)]
use ffi::PyObject_GetOptionalAttr as look_up;

/// An attribute of an object; `None` where it has none.
///
/// # Errors
/// What the look has raised, other than an `AttributeError`.
pub fn optional<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut found = std::ptr::null_mut();
    // SAFETY: both are alive; with 1 there is a new reference in `found`, with -1 an exception.
    unsafe {
        match look_up(object.as_ptr(), name.as_ptr(), &raw mut found) {
            1 => Ok(Some(Bound::from_owned_ptr(object.py(), found))),
            0 => Ok(None),
            _ => Err(PyErr::fetch(object.py())),
        }
    }
}
