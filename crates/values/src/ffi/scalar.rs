//! Single values of Python's own classes, as the bytes of fixed-width CQL types.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDateTime;

use super::dialect::Dialect;
use super::int::{self, small};
use super::object::{Object, float};
use super::slots;
use crate::value::numbers::narrow;

/// A Python float, or an int below 63 bits, as binary64.
///
/// # Safety
/// `object` is alive, and the GIL is held.
#[inline(always)]
pub unsafe fn as_double(object: Object) -> Option<[u8; 8]> {
    // SAFETY: the caller's word.
    unsafe { float(object).or_else(|| small(object).map(|n| n as f64)) }.map(f64::to_be_bytes)
}

/// The same as binary32; `None` beyond its range.
///
/// # Safety
/// `object` is alive, and the GIL is held.
#[inline(always)]
pub unsafe fn as_float(object: Object) -> Option<[u8; 4]> {
    // SAFETY: the caller's word.
    let wide = unsafe { float(object).or_else(|| small(object).map(|n| n as f64)) }?;
    narrow(wide).map(f32::to_be_bytes)
}

/// A Python int as 32 bits; `None` beyond them.
///
/// # Safety
/// `object` is alive, and the GIL is held.
#[inline(always)]
pub unsafe fn as_int(object: Object) -> Option<[u8; 4]> {
    // SAFETY: the caller's word.
    i32::try_from(unsafe { small(object) }?).ok().map(i32::to_be_bytes)
}

/// A Python int as 64 bits; `None` beyond them.
///
/// # Safety
/// `object` is alive, and the GIL is held.
#[inline(always)]
pub unsafe fn as_bigint(object: Object) -> Option<[u8; 8]> {
    // SAFETY: the caller's word.
    unsafe { small(object) }.map(i64::to_be_bytes)
}

/// An object as pyo3 has it.
///
/// # Safety
/// As for [`put_cell`]; and what is done with it runs no Python code.
#[inline(always)]
pub unsafe fn borrowed<'a, 'py>(object: Object) -> Borrowed<'a, 'py, PyAny> {
    // SAFETY: the caller's word.
    unsafe { Borrowed::from_ptr(Python::assume_attached(), object) }
}

/// Whether an object is `None`.
///
/// # Safety
/// `object` is alive, and the GIL is held.
#[inline(always)]
pub unsafe fn is_none(object: Object) -> bool {
    // SAFETY: the address of a singleton.
    object == unsafe { ffi::Py_None() }
}

/// A Python bool.
///
/// # Safety
/// `object` is alive, and the GIL is held.
#[inline(always)]
pub unsafe fn as_boolean(object: Object) -> Option<[u8; 1]> {
    // SAFETY: addresses of singletons.
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

/// Milliseconds of an exact `datetime`.
///
/// # Safety
/// `object` is alive, and the GIL is held.
#[inline(always)]
pub unsafe fn as_timestamp<D: Dialect>(object: Object) -> Option<[u8; 8]> {
    // SAFETY: the caller's word; what is done with it runs no Python code.
    let given = unsafe { borrowed(object) };
    let exact = given.cast_exact::<PyDateTime>().ok()?;
    D::milliseconds(&exact).map(i64::to_be_bytes)
}

/// The bytes of an exact `UUID`.
///
/// # Safety
/// `object` is alive, and the GIL is held.
#[inline(always)]
pub unsafe fn as_uuid(object: Object) -> Option<[u8; 16]> {
    // SAFETY: the caller's word; what is in the slot lives as long as the object.
    unsafe {
        if !slots::UUID.is(object) {
            return None;
        }
        // Anything else than an int that somebody put there may have code of its own.
        let number = slots::UUID.get(object, 0);
        if number.is_null() { None } else { int::as_u128(number).map(u128::to_be_bytes) }
    }
}
