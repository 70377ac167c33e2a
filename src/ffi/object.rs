//! Objects looked at without a reference of our own.

use pyo3::ffi;

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
