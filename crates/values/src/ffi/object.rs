//! Reads borrowed objects of exact built-in classes through their C layouts.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDateTime, PyFloat, PyList, PyString, PyTuple, PyTzInfo};

use super::probe;
use super::quick_path::QuickPath;
use crate::calendar::exact_timestamp;

/// A borrowed object: its reference is owned elsewhere.
pub type Object = *mut ffi::PyObject;

/// Returns the items of an exact `list` or `tuple`, borrowed, or `None` for any other class.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. The caller must not use
/// the slice after Python code may have run, because that code could change the list, nor after
/// `object` is freed.
#[inline(always)]
pub unsafe fn items<'a>(object: *mut ffi::PyObject) -> Option<&'a [*mut ffi::PyObject]> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. Its class is compared
    // first, and an exact list or tuple has the layout that is read, which `probe_objects` has
    // checked. The items of an empty list are not read, because its pointer to them may be null.
    // Tests: unit/test_quick_paths.py (encode), property/test_safe_path.py. Benchmark:
    // "value: list<int> of 100".
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

/// Returns the value of an exact `float`, or `None` for any other class.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn float(object: *mut ffi::PyObject) -> Option<f64> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. Its class is compared
    // first, and an exact float has the layout that is read, which `probe_objects` has checked.
    // Tests: property/test_safe_path.py. Benchmark: "value: double".
    unsafe {
        if (*object).ob_type != &raw mut ffi::PyFloat_Type {
            return None;
        }
        Some((*object.cast::<ffi::PyFloatObject>()).ob_fval)
    }
}

/// Returns the UTF-8 of an exact `str`, or `None` for any other class. Also returns `None`, without
/// an exception, if the `str` has lone surrogates, which UTF-8 cannot express, or if there is no
/// memory.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held, and that the object
/// outlives the slice. If the function returns `None` for a `str`, the caller must not use borrowed
/// objects any more. In that case CPython has made an exception, which this function has cleared.
/// Making an exception may start a GC, and a GC may run Python code.
#[inline(always)]
pub unsafe fn text<'a>(object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands; its class is compared
    // first. `PyUnicode_AsUTF8AndSize` runs no Python code unless it fails. The UTF-8 belongs to
    // the `str` and lives as long as the `str`. Tests: property/test_safe_path.py, with lone
    // surrogates too. Benchmark: "value: text".
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

/// Returns the contents of an exact `bytes`, or `None` for any other class.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held, and that the object
/// outlives the slice.
#[inline(always)]
pub unsafe fn bytes<'a>(object: *mut ffi::PyObject) -> Option<&'a [u8]> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. Its class is compared
    // first, and an exact `bytes` has the layout that is read, which `probe_objects` has checked.
    // Tests: property/test_safe_path.py. Benchmark: "value: blob".
    unsafe {
        if (*object).ob_type != &raw mut ffi::PyBytes_Type {
            return None;
        }
        let start = ffi::PyBytes_AS_STRING(object).cast();
        let length = (*object.cast::<ffi::PyVarObject>()).ob_size as usize;
        Some(std::slice::from_raw_parts(start, length))
    }
}

/// Probes whether floats, text, bytes, datetimes, lists and tuples are read correctly. If they are
/// not, returns what is wrong.
pub fn probe_objects(py: Python<'_>) -> PyResult<Option<String>> {
    // SAFETY, for all blocks of this function: the `Bound`s keep the objects alive, `py` shows that
    // the GIL is held, and no Python code runs between a read and the last use of what it returned.
    // Tests: unit/test_quick_paths.py (encode).
    let wrong =
        |subject: &str, good: bool| Ok(probe::check_value(QuickPath::Encode, subject, good, true));
    for number in
        [0.0, -0.0, 1.5, f64::MIN_POSITIVE, f64::INFINITY, f64::from_bits(0x7ff8_0000_0000_1234)]
    {
        // SAFETY: as at the beginning of this function.
        let float_read = unsafe { float(PyFloat::new(py, number).as_ptr()) };
        if float_read.map(f64::to_bits) != Some(number.to_bits()) {
            return wrong("a float", false);
        }
    }
    for sample in ["", "a", "text", "\u{e9}", "\u{20ac}uro", "\u{1f600} \0 end"] {
        let (string, data) = (PyString::new(py, sample), PyBytes::new(py, sample.as_bytes()));
        // SAFETY: as at the beginning of this function.
        let (text_read, bytes_read) = unsafe { (text(string.as_ptr()), bytes(data.as_ptr())) };
        if text_read != Some(sample.as_bytes()) || bytes_read != Some(sample.as_bytes()) {
            return wrong("text", false);
        }
    }
    let lone = py.eval(c"'\\ud800'", None, None)?;
    // SAFETY: as at the beginning of this function.
    if unsafe { text(lone.as_ptr()) }.is_some() {
        return wrong("text that has no UTF-8", false);
    }
    for count in [0, 1, 2, 5, 1000] {
        let parts: Vec<_> = (0..count).map(|i| PyFloat::new(py, f64::from(i)).into_any()).collect();
        let expected: Vec<_> = parts.iter().map(Bound::as_ptr).collect();
        let (list, tuple) = (PyList::new(py, &parts)?, PyTuple::new(py, &parts)?);
        // SAFETY: as at the beginning of this function.
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
    // SAFETY: as at the beginning of this function.
    let (shrunk, other) = unsafe { (items(shrunk.as_ptr()), items(class.as_ptr())) };
    if shrunk.is_none_or(|items| items.len() != 3) || other.is_some() {
        return wrong("a list", false);
    }
    let utc = PyTzInfo::utc(py)?;
    for zone in [None, Some(&*utc)] {
        let late = PyDateTime::new(py, 9999, 12, 31, 23, 59, 59, 999_999, zone)?;
        let early = PyDateTime::new(py, 1, 1, 1, 0, 0, 0, 1000, zone)?;
        let timestamps = (exact_timestamp(&late), exact_timestamp(&early));
        if timestamps != (Some(253_402_300_799_999), Some(-62_135_596_799_999)) {
            return wrong("a datetime", false);
        }
    }
    wrong("an object", true)
}
