//! Reads the digits of a `decimal.Decimal` from libmpdec's layout.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::probe;
use super::quick_path::QuickPath;
use crate::python;

/// The layout of a `Decimal` in CPython's `_decimal`.
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

/// The flag of a negative number.
const NEGATIVE: u8 = 1;
/// The flags of infinity, NaN and signalling NaN.
const SPECIAL: u8 = 2 | 4 | 8;
/// Ten to the power of 19. The words of a number are its digits in this base.
const WORD: i128 = 10_000_000_000_000_000_000;

/// Probes the layout with sample decimals. If one of them is not read as expected, returns what is
/// wrong.
pub fn probe(py: Python<'_>) -> PyResult<Option<String>> {
    let class = python::decimal(py)?.cast::<PyType>()?;
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
    for (text, expected_parts) in expected {
        let value = class.call1((text,))?;
        // SAFETY: `value` keeps the object alive and `py` shows that the GIL is held. Instances of
        // its class are as large as the struct `Decimal`, so all fields that are read lie within
        // the object. The layout itself is probed here; `data` is followed only if the number of
        // words is 1 or 2. Tests: unit/test_quick_paths.py (decimals).
        let parts_read = unsafe { read(value.as_ptr()) };
        let wrong =
            probe::check_value(QuickPath::Decimals, "a Decimal", parts_read, expected_parts);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

/// Returns the unscaled value and the exponent of a `Decimal` that is finite and has at most 38
/// digits. Returns `None` for any other `Decimal`, and if the quick path is off.
///
/// # Safety
/// The caller must ensure that `object` is alive, that its class is exactly `decimal.Decimal`, and
/// that the GIL is held.
#[inline]
pub unsafe fn parts(object: *mut ffi::PyObject) -> Option<(i128, i64)> {
    // SAFETY: the `# Safety` section demands all that `read` demands, except the size of instances.
    // If the path is on, the probe has checked the size and the layout. Tests:
    // property/test_safe_path.py (decimal). Benchmark: "value: decimal".
    if QuickPath::Decimals.is_on() { unsafe { read(object) } } else { None }
}

/// Reads the fields of a `Decimal`. Returns `None` if it is not finite or has more than 38 digits.
///
/// # Safety
/// The caller must ensure that `object` is alive, that its class is exactly `decimal.Decimal`, that
/// instances of it have the size of the layout, and that the GIL is held.
unsafe fn read(object: *mut ffi::PyObject) -> Option<(i128, i64)> {
    let decimal = object.cast::<Decimal>();
    // SAFETY: the object is alive and as large as the layout, as `# Safety` demands. libmpdec keeps
    // `words` words at `data`; this code reads at most that many. A `Decimal` never changes. Tests:
    // property/test_safe_path.py (decimal). Benchmark: "value: decimal".
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
