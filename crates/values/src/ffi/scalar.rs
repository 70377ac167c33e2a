//! Encodes values of a few exact classes, such as `int` and `UUID`, to CQL types of fixed width.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDate, PyDateTime};
use turbocql_codec::types;

use super::dialect::Dialect;
use super::int::{self, small};
use super::object::{Object, float};
use super::slots;
use crate::binary32::narrow;
use crate::calendar::days_of;

/// Returns an exact `float`, or an exact `int` of at most 60 bits, as binary64.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_double(object: Object) -> Option<[u8; 8]> {
    // SAFETY: `float` and `small` require only what the `# Safety` section requires. Tests:
    // property/test_safe_path.py (double). Benchmark: "value: double".
    unsafe { float(object).or_else(|| small(object).map(|n| n as f64)) }.map(f64::to_be_bytes)
}

/// Returns an exact `float`, or an exact `int` of at most 60 bits, as binary32. Returns `None` for
/// a number beyond the range of binary32.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_float(object: Object) -> Option<[u8; 4]> {
    // SAFETY: `float` and `small` require only what the `# Safety` section requires. Tests:
    // property/test_safe_path.py (float).
    let wide = unsafe { float(object).or_else(|| small(object).map(|n| n as f64)) }?;
    narrow(wide).map(f32::to_be_bytes)
}

/// Returns an exact `int` as 32 bits, or `None` if it does not fit into them.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_int(object: Object) -> Option<[u8; 4]> {
    // SAFETY: `small` requires only what the `# Safety` section requires. Tests:
    // property/test_safe_path.py (int). Benchmark: "value: int".
    i32::try_from(unsafe { small(object) }?).ok().map(i32::to_be_bytes)
}

/// Returns an exact `int` of at most 60 bits as 64 bits, or `None` for a larger one, which the safe
/// path (`crate::value`) takes.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_bigint(object: Object) -> Option<[u8; 8]> {
    // SAFETY: `small` requires only what the `# Safety` section requires. Tests:
    // property/test_safe_path.py (bigint). Benchmark: "value: bigint".
    unsafe { small(object) }.map(i64::to_be_bytes)
}

/// Returns a borrowed object as pyo3's type for borrowed objects.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held, for as long as the
/// `Borrowed` is used. The caller must not run Python code meanwhile, because that could free the
/// object.
#[inline(always)]
pub unsafe fn borrowed<'a, 'py>(object: Object) -> Borrowed<'a, 'py, PyAny> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. Tests:
    // property/test_safe_path.py (date, timestamp, decimal).
    unsafe { Borrowed::from_ptr(Python::assume_attached(), object) }
}

/// Returns an exact `int` as 16 bits, or `None` if it does not fit into them.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_smallint(object: Object) -> Option<[u8; 2]> {
    // SAFETY: `small` requires only what the `# Safety` section requires. Tests:
    // property/test_safe_path.py (smallint).
    i16::try_from(unsafe { small(object) }?).ok().map(i16::to_be_bytes)
}

/// Returns an exact `int` as 8 bits, or `None` if it does not fit into them.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_tinyint(object: Object) -> Option<[u8; 1]> {
    // SAFETY: `small` requires only what the `# Safety` section requires. Tests:
    // property/test_safe_path.py (tinyint).
    i8::try_from(unsafe { small(object) }?).ok().map(i8::to_be_bytes)
}

/// Returns an exact `datetime.date` as the bytes of a CQL date.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_date(object: Object) -> Option<[u8; 4]> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. It is used only to
    // compare the class and to read the fields of a `date`, which runs no Python code. Tests:
    // property/test_safe_path.py (date).
    let object = unsafe { borrowed(object) };
    object.cast_exact::<PyDate>().ok().map(|date| types::date::to_bytes(days_of(&*date)))
}

/// Whether an object is `None`.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn is_none(object: Object) -> bool {
    // SAFETY: the address of None is only compared. `Py_None` returns it without any access to an
    // object. Tests: property/test_safe_path.py (test_random_values_alone_and_inside).
    object == unsafe { ffi::Py_None() }
}

/// Returns `True` or `False` as one byte.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_boolean(object: Object) -> Option<[u8; 1]> {
    // SAFETY: the addresses of True and False are only compared; the two functions return them
    // without any access to an object. Tests: property/test_safe_path.py (boolean). Benchmark:
    // "value: boolean".
    unsafe {
        if object == ffi::Py_True() {
            Some([1])
        } else if object == ffi::Py_False() {
            Some([0])
        } else {
            None
        }
    }
}

/// Returns the milliseconds since 1970 of an exact `datetime`, or `None` if the dialect does not
/// take the value. A [`Dialect`] is the form in which turbocql, or one of the accelerated drivers,
/// writes values.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_timestamp<D: Dialect>(object: Object) -> Option<[u8; 8]> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. In all dialects, it is
    // used only to compare the class and to read the fields of a `datetime`. This runs no Python
    // code, because the time zone is compared by address. Tests: property/test_safe_path.py
    // (timestamp), accel/test_comparison.py. Benchmark: "value: timestamp, datetime".
    let object = unsafe { borrowed(object) };
    let exact = object.cast_exact::<PyDateTime>().ok()?;
    D::milliseconds(&exact).map(i64::to_be_bytes)
}

/// Returns the bytes of an exact `UUID`.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
pub unsafe fn as_uuid(object: Object) -> Option<[u8; 16]> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. `get` is called only
    // after `is` has returned true. The object in the slot is alive, since the UUID refers to it
    // and no Python code runs here. Tests: property/test_safe_path.py (uuid). Benchmark:
    // "value: uuid".
    unsafe {
        if !slots::UUID.is(object) {
            return None;
        }
        // A program may have set the slot to another object. `as_u128` takes an exact `int` only,
        // so no Python code of such an object runs.
        let number = slots::UUID.get(object, 0);
        if number.is_null() { None } else { int::as_u128(number).map(u128::to_be_bytes) }
    }
}
