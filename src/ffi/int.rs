//! The digits of an `int`.

use pyo3::ffi;

/// An `int` as CPython lays it out: digits of 30 bits, the lowest first. Where `ob_size` stands,
/// CPython 3.12 and later have a tag.
#[repr(C)]
struct Digits {
    head: ffi::PyObject,
    /// Before 3.12 the number of digits, below zero for an integer below zero; from then on the
    /// number of digits times eight, plus 0, 1 or 2 for an integer above, of or below zero.
    tag: ffi::Py_ssize_t,
    digit: [u32; 2],
}

/// The value of an exact `int` of at most two digits, which is 60 bits.
///
/// # Safety
/// `object` is a valid object, and the interpreter's lock is held.
#[inline(always)]
pub unsafe fn small(object: *mut ffi::PyObject) -> Option<i64> {
    // SAFETY: the caller's word for the object; a type's address is always valid.
    let exact = unsafe { (*object).ob_type } == &raw mut ffi::PyLong_Type;
    if !exact {
        return None;
    }
    let digits = object.cast::<Digits>();
    // SAFETY: an exact int has this layout (`interpreter_is_known` has checked the width of its
    // digits), and so many digits as its tag says; none is read beyond them.
    unsafe {
        let tag = (*digits).tag;
        #[cfg(Py_3_12)]
        let (sign, count) = (1 - (tag & 3) as i64, tag >> 3);
        #[cfg(not(Py_3_12))]
        let (sign, count) = (tag.signum() as i64, tag.abs());
        match count {
            0 => Some(0),
            1 => Some(sign * i64::from((*digits).digit[0])),
            2 => {
                let high = i64::from((*digits).digit[1]) << 30;
                Some(sign * (high | i64::from((*digits).digit[0])))
            }
            _ => None,
        }
    }
}
