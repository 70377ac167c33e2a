//! The digits of an `int`.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use turbocql_codec::types::varint;

use super::probe;
use super::quick_path::QuickPath;
#[cfg(not(Py_3_14))]
use super::symbol::Symbol;

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
    // SAFETY: an exact int has this layout (`probe_digits` has tried it), and so many digits as its
    // tag says; none is read beyond them.
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

/// An `int` of so many digits above zero, to be filled in. Private; later versions have
/// `PyLongWriter` for it.
#[cfg(not(Py_3_14))]
type New = unsafe extern "C" fn(digits: ffi::Py_ssize_t) -> *mut ffi::PyObject;
// SAFETY: CPython's declaration of it, 3.10 to 3.13.
#[cfg(not(Py_3_14))]
static NEW: Symbol<New> = unsafe { Symbol::new(c"_PyLong_New") };

/// A new `int` of so many digits, the lowest first, each from a function.
///
/// # Safety
/// The interpreter's lock is held.
#[cfg(not(Py_3_14))]
#[inline(always)]
unsafe fn from_digits(count: usize, digit: impl Fn(usize) -> u32) -> *mut ffi::PyObject {
    let Some(new) = NEW.get() else { return std::ptr::null_mut() };
    // SAFETY: the object is new, and as long as there are digits to write.
    unsafe {
        let object = new(count as isize);
        if !object.is_null() {
            let first = (&raw mut (*object.cast::<Digits>()).digit).cast::<u32>();
            (0..count).for_each(|i| *first.add(i) = digit(i));
        }
        object
    }
}

/// The same.
///
/// # Safety
/// The interpreter's lock is held.
#[cfg(Py_3_14)]
#[inline(always)]
unsafe fn from_digits(count: usize, digit: impl Fn(usize) -> u32) -> *mut ffi::PyObject {
    let mut digits = std::ptr::null_mut();
    // SAFETY: what the writer is there for: it gives memory for so many digits, of the width that
    // `sys.int_info` says, and makes an object of them when it is finished.
    unsafe {
        let writer = ffi::PyLongWriter_Create(0, count as isize, &raw mut digits);
        if writer.is_null() {
            return std::ptr::null_mut();
        }
        (0..count).for_each(|i| *digits.cast::<u32>().add(i) = digit(i));
        ffi::PyLongWriter_Finish(writer)
    }
}

/// A new `int`; null, without an exception, where there is no memory, or where large ones are not
/// made here.
///
/// # Safety
/// The interpreter's lock is held.
#[inline]
pub unsafe fn from_u128(number: u128) -> *mut ffi::PyObject {
    // SAFETY: the caller's word.
    unsafe {
        let object = match i64::try_from(number) {
            // Small ones have but one object each, which Python knows.
            Ok(small) => ffi::PyLong_FromLongLong(small),
            Err(_) if !can_make_large() => std::ptr::null_mut(),
            Err(_) => from_large(number),
        };
        if object.is_null() {
            ffi::PyErr_Clear();
        }
        object
    }
}

/// Whether [`from_large`] may be called. It is only called for what is decoded the quick way, which
/// the tests' switch for the safe way covers.
#[inline(always)]
fn can_make_large() -> bool {
    #[cfg(not(Py_3_14))]
    return NEW.get().is_some();
    #[cfg(Py_3_14)]
    QuickPath::BigInts.is_on()
}

/// A new `int` of more than 63 bits.
///
/// # Safety
/// The interpreter's lock is held.
#[inline(never)]
unsafe fn from_large(number: u128) -> *mut ffi::PyObject {
    let count = (128 - number.leading_zeros()).div_ceil(30) as usize;
    // SAFETY: the caller's word.
    unsafe { from_digits(count, |i| (number >> (30 * i)) as u32 & 0x3fff_ffff) }
}

/// Tries how ints are read.
pub fn probe_digits(py: Python<'_>) -> PyResult<Option<String>> {
    let digits = py.import("sys")?.getattr("int_info")?;
    let (bits, size): (u32, u32) =
        (digits.getattr("bits_per_digit")?.extract()?, digits.getattr("sizeof_digit")?.extract()?);
    if (bits, size) != (30, 4) {
        return Ok(Some(format!("ints have digits of {bits} bits in {size} bytes")));
    }
    const DIGIT: i128 = 1 << 30;
    let numbers: [i128; 20] = [
        0,
        1,
        -1,
        5,
        -6,
        256,
        257,
        -257,
        DIGIT - 1,
        DIGIT,
        -DIGIT,
        -DIGIT - 1,
        DIGIT * DIGIT - 1,
        1 - DIGIT * DIGIT,
        DIGIT * DIGIT,
        -DIGIT * DIGIT,
        i64::MIN.into(),
        i64::MAX.into(),
        i128::MAX,
        i128::MIN,
    ];
    for number in numbers {
        let object = number.into_pyobject(py)?;
        // SAFETY: the object is alive, and the lock is held. The layout is what is tried here: a
        // count of digits that is too large would be seen by the first of these, which reads two
        // at most, and ends the probe.
        let positive = unsafe {
            let expected = i64::try_from(number).ok();
            let expected = expected.filter(|_| number.unsigned_abs() < (DIGIT * DIGIT) as u128);
            if small(object.as_ptr()) != expected {
                return Ok(Some(format!("the int {number} was not read as it is")));
            }
            as_u128(object.as_ptr())
        };
        let mut bytes = Vec::new();
        // SAFETY: the same.
        let done = unsafe { put_varint(object.as_ptr(), &mut bytes) };
        let found = varint::decode_i128(&bytes).ok().flatten();
        let expected = (u128::try_from(number).ok(), true, Some(number));
        let wrong = probe::read(QuickPath::Encode, "an int", (positive, done, found), expected);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    // SAFETY: alive, and the lock is held.
    let truth = unsafe { small(pyo3::types::PyBool::new(py, true).as_ptr()) };
    Ok(probe::read(QuickPath::Encode, "a bool, which is no exact int,", truth, None))
}

/// Tries how large ints are made.
pub fn probe_large(py: Python<'_>) -> PyResult<Option<String>> {
    #[cfg(not(Py_3_14))]
    if let Some(missing) = NEW.look_up() {
        return Ok(Some(missing));
    }
    let wrong = try_large(py);
    #[cfg(not(Py_3_14))]
    if !matches!(wrong, Ok(None)) {
        NEW.forget();
    }
    wrong
}

fn try_large(py: Python<'_>) -> PyResult<Option<String>> {
    if let Some(wrong) = probe_digits(py)? {
        return Ok(Some(wrong));
    }
    for number in [1 << 63, (1 << 90) - 1, 1 << 90, 1 << 120, u128::MAX, u128::MAX / 3] {
        let expected = py.get_type::<PyInt>().call1((number.to_string(),))?;
        // SAFETY: the lock is held, and what is made is ours.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, from_large(number))? };
        let wrong = probe::made(QuickPath::BigInts, "an int", &made, &expected, false)?;
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
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
