//! Objects looked at without a reference of our own.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDateTime, PyFloat, PyList, PyString, PyTuple, PyTzInfo};

use super::probe;
use super::quick_path::QuickPath;
use crate::value::temporal::exact_timestamp;

/// An object whose reference somebody else owns.
pub type Object = *mut ffi::PyObject;

/// The items of an exact `list` or `tuple`: where they are, and how many.
///
/// # Safety
/// `object` is a valid object and the interpreter's lock is held. What is returned is good until
/// the next moment in which Python code may run.
#[inline(always)]
pub unsafe fn items<'a>(object: *mut ffi::PyObject) -> Option<&'a [*mut ffi::PyObject]> {
    // SAFETY: the type says which layout the object has; a list without items may have no array.
    unsafe {
        let class = (*object).ob_type;
        if class == &raw mut ffi::PyList_Type {
            let list = object.cast::<ffi::PyListObject>();
            let count = (*list).ob_base.ob_size as usize;
            if count == 0 {
                return Some(&[]);
            }
            return Some(std::slice::from_raw_parts((*list).ob_item, count));
        }
        if class == &raw mut ffi::PyTuple_Type {
            let tuple = object.cast::<ffi::PyTupleObject>();
            let count = (*tuple).ob_base.ob_size as usize;
            return Some(std::slice::from_raw_parts((&raw const (*tuple).ob_item).cast(), count));
        }
        None
    }
}

/// The value of an exact `float`.
///
/// # Safety
/// As for [`items`].
#[inline(always)]
pub unsafe fn float(object: *mut ffi::PyObject) -> Option<f64> {
    // SAFETY: an exact float has this layout.
    unsafe {
        if (*object).ob_type != &raw mut ffi::PyFloat_Type {
            return None;
        }
        Some((*object.cast::<ffi::PyFloatObject>()).ob_fval)
    }
}

/// The UTF-8 of an exact `str`; `None` where it has none, without an exception.
///
/// # Safety
/// As for [`items`]; the text is good as long as the object is.
#[inline(always)]
pub unsafe fn text<'a>(object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    // SAFETY: an exact str; what the call returns belongs to it. It runs no Python code.
    unsafe {
        if (*object).ob_type != &raw mut ffi::PyUnicode_Type {
            return None;
        }
        let mut length = 0;
        let start = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut length);
        if start.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(std::slice::from_raw_parts(start.cast(), length as usize))
    }
}

/// What an exact `bytes` holds.
///
/// # Safety
/// As for [`items`]; the bytes are good as long as the object is.
#[inline(always)]
pub unsafe fn bytes<'a>(object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    // SAFETY: an exact bytes has this layout.
    unsafe {
        if (*object).ob_type != &raw mut ffi::PyBytes_Type {
            return None;
        }
        let start = ffi::PyBytes_AS_STRING(object).cast();
        let length = (*object.cast::<ffi::PyVarObject>()).ob_size as usize;
        Some(std::slice::from_raw_parts(start, length))
    }
}

/// Tries how floats, text, bytes, datetimes, lists and tuples are read.
pub fn probe_objects(py: Python<'_>) -> PyResult<Option<String>> {
    // SAFETY, of all here: what is read is alive, and the lock is held; no Python code runs between
    // a read and the last look at what it gave.
    let wrong = |what: &str, good: bool| Ok(probe::read(QuickPath::Encode, what, good, true));
    for number in
        [0.0, -0.0, 1.5, f64::MIN_POSITIVE, f64::INFINITY, f64::from_bits(0x7ff8_0000_0000_1234)]
    {
        // SAFETY: see above.
        let found = unsafe { float(PyFloat::new(py, number).as_ptr()) };
        if found.map(f64::to_bits) != Some(number.to_bits()) {
            return wrong("a float", false);
        }
    }
    for sample in ["", "a", "text", "\u{e9}", "\u{20ac}uro", "\u{1f600} \0 end"] {
        let (string, data) = (PyString::new(py, sample), PyBytes::new(py, sample.as_bytes()));
        // SAFETY: see above.
        let (found, raw) = unsafe { (text(string.as_ptr()), bytes(data.as_ptr())) };
        if found != Some(sample.as_bytes()) || raw != Some(sample.as_bytes()) {
            return wrong("text", false);
        }
    }
    let lone = py.eval(c"'\\ud800'", None, None)?;
    // SAFETY: see above.
    if unsafe { text(lone.as_ptr()) }.is_some() {
        return wrong("text that has no UTF-8", false);
    }
    for count in [0, 1, 2, 5, 1000] {
        let parts: Vec<_> = (0..count).map(|i| PyFloat::new(py, f64::from(i)).into_any()).collect();
        let expected: Vec<_> = parts.iter().map(Bound::as_ptr).collect();
        let (list, tuple) = (PyList::new(py, &parts)?, PyTuple::new(py, &parts)?);
        // SAFETY: see above.
        let good = unsafe {
            items(list.as_ptr()) == Some(&expected) && items(tuple.as_ptr()) == Some(&expected)
        };
        if !good {
            return wrong("a list or tuple", false);
        }
    }
    let shrunk = PyList::new(py, 0..100)?;
    shrunk.del_slice(3, 100)?;
    let class = py.eval(c"type('Own', (list,), {})()", None, None)?;
    // SAFETY: see above.
    let (shrunk, other) = unsafe { (items(shrunk.as_ptr()), items(class.as_ptr())) };
    if shrunk.is_none_or(|items| items.len() != 3) || other.is_some() {
        return wrong("a list", false);
    }
    let utc = PyTzInfo::utc(py)?;
    for zone in [None, Some(&*utc)] {
        let late = PyDateTime::new(py, 9999, 12, 31, 23, 59, 59, 999_999, zone)?;
        let early = PyDateTime::new(py, 1, 1, 1, 0, 0, 0, 1000, zone)?;
        let found = (exact_timestamp(&late), exact_timestamp(&early));
        if found != (Some(253_402_300_799_999), Some(-62_135_596_799_999)) {
            return wrong("a datetime", false);
        }
    }
    wrong("an object", true)
}
