//! Attributes that may be missing, which costs nothing here.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use turbocql_values::ffi::probe;
use turbocql_values::ffi::quick_path::QuickPath;
use turbocql_values::ffi::symbol::Symbol;

type LookUp = unsafe extern "C" fn(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    found: *mut *mut ffi::PyObject,
) -> std::ffi::c_int;

// SAFETY: CPython's declaration of it, 3.10 to 3.12.
#[cfg(not(Py_3_13))]
static LOOK_UP: Symbol<LookUp> = unsafe { Symbol::new(c"_PyObject_LookupAttr") };

/// The function, which is public from 3.13 on. Before, pyo3 makes an AttributeError and throws it
/// away, at ten times the cost of the look.
#[inline(always)]
fn look_up() -> Option<LookUp> {
    #[cfg(Py_3_13)]
    return Some(ffi::PyObject_GetOptionalAttr);
    #[cfg(not(Py_3_13))]
    LOOK_UP.get()
}

/// Where an object keeps what is set on it; null for those that keep nothing. Private.
type PlaceOfDict = unsafe extern "C" fn(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject;
// SAFETY: CPython's declaration of it, 3.10 to 3.15.
static PLACE_OF_DICT: Symbol<PlaceOfDict> = unsafe { Symbol::new(c"_PyObject_GetDictPtr") };

/// An attribute of an object; `None` where it has none.
///
/// # Errors
/// What the look has raised, other than an `AttributeError`.
pub fn optional<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match look_up() {
        Some(look_up) if QuickPath::Lookups.is_on() => quick(look_up, object, name),
        _ => object.getattr_opt(name),
    }
}

#[inline(always)]
fn quick<'py>(
    look_up: LookUp,
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

/// Tries the function on attributes that are there, and on one that is not.
pub fn probe_lookups(py: Python<'_>) -> PyResult<Option<String>> {
    #[cfg(not(Py_3_13))]
    if let Some(missing) = LOOK_UP.look_up() {
        return Ok(Some(missing));
    }
    if let Some(missing) = PLACE_OF_DICT.look_up() {
        return Ok(Some(missing));
    }
    let Some(look_up) = look_up() else { return Ok(Some("there is no function".to_owned())) };
    let object = py.import("types")?.getattr("SimpleNamespace")?.call0()?;
    let value = pyo3::types::PyList::new(py, [1])?.into_any();
    object.setattr("there", &value)?;
    let there = quick(look_up, &object, &PyString::new(py, "there"))?;
    let missing = quick(look_up, &object, &PyString::new(py, "missing"))?;
    let mut good = there.is_some_and(|found| found.is(&value)) && missing.is_none();
    if let Some(place_of_dict) = PLACE_OF_DICT.get() {
        let (with, without) =
            (py.import("io")?.getattr("BytesIO")?.call0()?, PyString::new(py, ""));
        // SAFETY: alive, and the lock is held; a place lives as long as its object.
        unsafe {
            let place = place_of_dict(with.as_ptr());
            good = good && !place.is_null() && (*place).is_null();
            with.setattr("own", &value)?;
            good = good
                && ffi::PyDict_Size(*place) == 1
                && with.getattr("__dict__")?.as_ptr() == *place;
            good = good && place_of_dict(without.as_ptr()).is_null();
        }
    }
    Ok(probe::read(QuickPath::Lookups, "an attribute", good, true))
}

/// Whether nothing has been set on an object, beyond what its class has fields for.
pub fn are_none(object: &Bound<'_, PyAny>) -> bool {
    let Some(place_of_dict) = PLACE_OF_DICT.get().filter(|_| QuickPath::Lookups.is_on()) else {
        // Looking makes a dict for whoever has none yet.
        let dict = object.getattr_opt(pyo3::intern!(object.py(), "__dict__"));
        let none = |dict: Bound<'_, PyAny>| dict.is_truthy().is_ok_and(|any| !any);
        return dict.is_ok_and(|dict| dict.is_none_or(none));
    };
    // SAFETY: the object is alive and the lock is held; the dict is there once it is not null.
    unsafe {
        let place = place_of_dict(object.as_ptr());
        place.is_null() || (*place).is_null() || ffi::PyDict_Size(*place) == 0
    }
}
