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

// Where an object keeps what is set on it; null for those that keep nothing. pyo3 has none.
unsafe extern "C" {
    #[link_name = "_PyObject_GetDictPtr"]
    fn place_of_dict(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject;
}

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

/// Whether nothing has been set on an object, beyond what its class has fields for.
pub fn are_none(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive and the lock is held; the dict is there once it is not null.
    unsafe {
        let place = place_of_dict(object.as_ptr());
        place.is_null() || (*place).is_null() || ffi::PyDict_Size(*place) == 0
    }
}
