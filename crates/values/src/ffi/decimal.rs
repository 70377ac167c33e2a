//! The digits of a `decimal.Decimal`, as libmpdec has them.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::probe;
use super::quick_path::QuickPath;
use crate::value::interned;

/// A `Decimal` as CPython's `_decimal` lays it out.
#[repr(C)]
struct Decimal {
    head: ffi::PyObject,
    hash: ffi::Py_hash_t,
    flags: u8,
    exponent: ffi::Py_ssize_t,
    digits: ffi::Py_ssize_t,
    words: ffi::Py_ssize_t,
    allocated: ffi::Py_ssize_t,
    /// Words of 19 decimal digits, the lowest first.
    data: *const u64,
    inline: [u64; 4],
}

const NEGATIVE: u8 = 1;
/// Infinity, nan and signalling nan.
const SPECIAL: u8 = 2 | 4 | 8;
const WORD: i128 = 10_000_000_000_000_000_000;

/// Tries the layout on decimals whose digits are known; what is not as expected is never read so.
pub fn probe(py: Python<'_>) -> PyResult<Option<String>> {
    let class = interned::decimal(py)?.cast::<PyType>()?;
    let size: usize = class.getattr("__basicsize__")?.extract()?;
    if size != size_of::<Decimal>() {
        return Ok(Some(format!("a Decimal has {size} bytes, not {}", size_of::<Decimal>())));
    }
    let expected: [(&str, Option<(i128, i64)>); 6] = [
        ("-1234567.89", Some((-123_456_789, -2))),
        ("0E+3", Some((0, 3))),
        ("12345678901234567890123", Some((12_345_678_901_234_567_890_123, 0))),
        ("99999999999999999999999999999999999999", Some((WORD * WORD - 1, 0))),
        ("100000000000000000000000000000000000000", None),
        ("-Infinity", None),
    ];
    for (text, parts) in expected {
        let value = class.call1((text,))?;
        // SAFETY: an object of this class and size, alive, and the lock is held. The layout is
        // what is tried here; its words are only followed when their number is a small one.
        let found = unsafe { read(value.as_ptr()) };
        let wrong = probe::read(QuickPath::Decimals, "a Decimal", found, parts);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

/// Unscaled value and exponent of an exact `Decimal` that is finite and has at most 38 digits.
///
/// # Safety
/// `object` is alive, of the class `decimal.Decimal` exactly, and the interpreter's lock is held.
#[inline]
pub unsafe fn parts(object: *mut ffi::PyObject) -> Option<(i128, i64)> {
    // SAFETY: the caller's word, and the layout has been tried.
    if QuickPath::Decimals.is_on() { unsafe { read(object) } } else { None }
}

/// # Safety
/// As for [`parts`], and the object is as large as the layout says.
unsafe fn read(object: *mut ffi::PyObject) -> Option<(i128, i64)> {
    let decimal = object.cast::<Decimal>();
    // SAFETY: the caller's word; `words` of them stand at `data`.
    unsafe {
        if (*decimal).flags & SPECIAL != 0 {
            return None;
        }
        let unscaled = match (*decimal).words {
            1 => i128::from(*(*decimal).data),
            2 => i128::from(*(*decimal).data.add(1)) * WORD + i128::from(*(*decimal).data),
            _ => return None,
        };
        let negative = (*decimal).flags & NEGATIVE != 0;
        Some((if negative { -unscaled } else { unscaled }, (*decimal).exponent as i64))
    }
}
