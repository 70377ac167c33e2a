//! Lookups of attributes that may be missing, without the cost of an AttributeError.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use turbocql_values::ffi::probe;
use turbocql_values::ffi::quick_path::QuickPath;
use turbocql_values::ffi::symbol::Symbol;

type LookUp = unsafe extern "C" fn(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    value: *mut *mut ffi::PyObject,
) -> std::ffi::c_int;

// SAFETY: `LookUp` is the function's type as CPython 3.10 to 3.12 declare it; the `cfg` limits it
// to versions before 3.13, and quick paths are off before 3.10. Tests: unit/test_quick_paths.py
// (lookups).
#[cfg(not(Py_3_13))]
static LOOK_UP: Symbol<LookUp> = unsafe { Symbol::new(c"_PyObject_LookupAttr") };

/// Returns CPython's lookup function that raises no exception for a missing attribute. It is public
/// since CPython 3.13. For earlier versions, pyo3's `getattr_opt` raises and drops an
/// AttributeError, at ten times the cost of the lookup.
#[inline(always)]
fn look_up() -> Option<LookUp> {
    #[cfg(Py_3_13)]
    return Some(ffi::PyObject_GetOptionalAttr);
    #[cfg(not(Py_3_13))]
    LOOK_UP.get()
}

/// Returns the address of the pointer to an object's dict; null if the object has no such pointer.
/// The function is private to CPython.
type GetDictPointer = unsafe extern "C" fn(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject;
// SAFETY: `GetDictPointer` is the function's type as CPython 3.10 to 3.15 declare it; for all other
// versions quick paths are off. Tests: unit/test_quick_paths.py (lookups).
static DICT_POINTER: Symbol<GetDictPointer> = unsafe { Symbol::new(c"_PyObject_GetDictPtr") };

/// Returns an attribute of an object; `None` if the attribute is missing.
///
/// # Errors
/// If the lookup raises any exception except `AttributeError`.
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
    let mut value = std::ptr::null_mut();
    // SAFETY: the two `Bound`s keep `object` and `name` alive and prove that the GIL is held. By
    // CPython's contract, the function returns 1 with a new reference in `value`, 0 without a
    // reference, or -1 with an exception set. Tests: accel/test_bodies.py, unit/test_quick_paths.py
    // (lookups).
    unsafe {
        match look_up(object.as_ptr(), name.as_ptr(), &raw mut value) {
            1 => Ok(Some(Bound::from_owned_ptr(object.py(), value))),
            0 => Ok(None),
            _ => Err(PyErr::fetch(object.py())),
        }
    }
}

/// Probes two functions of CPython. The lookup must return an attribute that exists, and must not
/// raise an exception for one that is missing. `_PyObject_GetDictPtr` must return the address of
/// the pointer to an object's dict, and null for an object that cannot have a dict.
pub fn probe_lookups(py: Python<'_>) -> PyResult<Option<String>> {
    #[cfg(not(Py_3_13))]
    if let Some(missing) = LOOK_UP.look_up() {
        return Ok(Some(missing));
    }
    if let Some(missing) = DICT_POINTER.look_up() {
        return Ok(Some(missing));
    }
    let Some(look_up) = look_up() else {
        return Ok(Some("no lookup function exists".to_owned()));
    };
    let object = py.import("types")?.getattr("SimpleNamespace")?.call0()?;
    let value = pyo3::types::PyList::new(py, [1])?.into_any();
    object.setattr("there", &value)?;
    let present = quick(look_up, &object, &PyString::new(py, "there"))?;
    let missing = quick(look_up, &object, &PyString::new(py, "missing"))?;
    let mut good = present.is_some_and(|attribute| attribute.is(&value)) && missing.is_none();
    if let Some(dict_pointer) = DICT_POINTER.get() {
        let (with, without) =
            (py.import("io")?.getattr("BytesIO")?.call0()?, PyString::new(py, ""));
        // SAFETY: `with` and `without` keep the objects alive, and `py` proves that the GIL is
        // held. The returned address lies within the object, so it is valid as long as the object.
        // `*slot` is dereferenced as a dict only after an attribute was set; a null dict makes
        // `PyDict_Size` return -1 with an exception. Tests: unit/test_quick_paths.py (lookups).
        unsafe {
            let slot = dict_pointer(with.as_ptr());
            good = good && !slot.is_null() && (*slot).is_null();
            with.setattr("own", &value)?;
            good =
                good && ffi::PyDict_Size(*slot) == 1 && with.getattr("__dict__")?.as_ptr() == *slot;
            good = good && dict_pointer(without.as_ptr()).is_null();
        }
    }
    Ok(probe::check_value(QuickPath::Lookups, "an attribute", good, true))
}

/// Whether the object's dict is missing or empty. If so, no attribute in the dict shadows an
/// attribute of the object's class.
pub fn are_none(object: &Bound<'_, PyAny>) -> bool {
    let Some(dict_pointer) = DICT_POINTER.get().filter(|_| QuickPath::Lookups.is_on()) else {
        // This lookup is slower: it makes a dict for an object that has none yet.
        let dict = object.getattr_opt(pyo3::intern!(object.py(), "__dict__"));
        let none = |dict: Bound<'_, PyAny>| dict.is_truthy().is_ok_and(|any| !any);
        return dict.is_ok_and(|dict| dict.is_none_or(none));
    };
    // SAFETY: `object` is alive and the GIL is held, both by its `Bound`. The returned address is
    // null or lies within the object. The pointer there is null or a dict, which the object owns.
    // `probe_lookups` has checked this with an `io.BytesIO`, the only class that `body.rs` passes
    // here. Tests: accel/test_bodies.py (bodies_are_written_into_buffers_alone).
    unsafe {
        let slot = dict_pointer(object.as_ptr());
        slot.is_null() || (*slot).is_null() || ffi::PyDict_Size(*slot) == 0
    }
}
