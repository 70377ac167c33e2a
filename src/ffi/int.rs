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
    // SAFETY: an exact int has this layout (`quick::prepare` has seen to the width of its digits),
    // and so many digits as its tag says; none is read beyond them.
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

/// The value of an exact `int` that is not below zero and has at most 128 bits.
///
/// # Safety
/// As for [`small`].
#[inline]
pub unsafe fn as_u128(object: *mut ffi::PyObject) -> Option<u128> {
    // SAFETY: as in `small`.
    unsafe {
        if (*object).ob_type != &raw mut ffi::PyLong_Type {
            return None;
        }
        let digits = object.cast::<Digits>();
        let tag = (*digits).tag;
        #[cfg(Py_3_12)]
        let (negative, count) = (tag & 3 == 2, tag >> 3);
        #[cfg(not(Py_3_12))]
        let (negative, count) = (tag < 0, tag);
        // The fifth digit has its lowest 8 bits left.
        let first = (&raw const (*digits).digit).cast::<u32>();
        if negative || count > 5 || (count == 5 && *first.add(4) > 0xff) {
            return None;
        }
        Some((0..count as usize).fold(0, |all, i| all | u128::from(*first.add(i)) << (30 * i)))
    }
}

unsafe extern "C" {
    /// An `int` of so many digits above zero, to be filled in; exported by CPython 3.10 to 3.13.
    fn _PyLong_New(digits: ffi::Py_ssize_t) -> *mut ffi::PyObject;
}

/// A new `int`; null, without an exception, where there is no memory.
///
/// # Safety
/// The interpreter's lock is held.
#[inline]
pub unsafe fn from_u128(number: u128) -> *mut ffi::PyObject {
    // SAFETY: the object is new, and as long as there are digits to write.
    unsafe {
        let object = match i64::try_from(number) {
            // Small ones have but one object each, which Python knows.
            Ok(small) => ffi::PyLong_FromLongLong(small),
            Err(_) => {
                let count = (128 - number.leading_zeros()).div_ceil(30) as usize;
                let object = _PyLong_New(count as isize);
                if !object.is_null() {
                    let first = (&raw mut (*object.cast::<Digits>()).digit).cast::<u32>();
                    for i in 0..count {
                        *first.add(i) = (number >> (30 * i)) as u32 & 0x3fff_ffff;
                    }
                }
                object
            }
        };
        if object.is_null() {
            ffi::PyErr_Clear();
        }
        object
    }
}

/// Appends the least two's complement of an exact `int` of any size, the highest byte first.
///
/// # Safety
/// As for [`small`].
pub unsafe fn put_varint(object: *mut ffi::PyObject, out: &mut Vec<u8>) -> bool {
    // SAFETY: as in `small`; so many digits stand there.
    let (negative, digits) = unsafe {
        if (*object).ob_type != &raw mut ffi::PyLong_Type {
            return false;
        }
        let int = object.cast::<Digits>();
        let tag = (*int).tag;
        #[cfg(Py_3_12)]
        let (negative, count) = (tag & 3 == 2, (tag >> 3) as usize);
        #[cfg(not(Py_3_12))]
        let (negative, count) = (tag < 0, tag.unsigned_abs());
        let first = (&raw const (*int).digit).cast::<u32>();
        (negative, std::slice::from_raw_parts(first, count))
    };
    let start = out.len();
    if out.try_reserve(digits.len() * 4 + 1).is_err() {
        return false;
    }
    // The lowest byte first; of a number below zero, what it is above the one before it, inverted.
    let (mut bits, mut held, mut borrow) = (0_u64, 0, u32::from(negative));
    for &digit in digits {
        let (low, under) = digit.overflowing_sub(borrow);
        borrow = u32::from(under);
        bits |= u64::from(low & 0x3fff_ffff) << held;
        held += 30;
        while held >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
    out.push(bits as u8);
    while out.len() > start + 1 && out.last() == Some(&0) {
        out.pop();
    }
    if out.last().is_some_and(|high| high & 0x80 != 0) {
        out.push(0);
    }
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    out[start..].reverse();
    true
}
