//! Values of Python's own classes to bytes, without a reference taken and without a Python call.
//!
//! Nothing here runs Python code, so no object that a container holds goes away meanwhile: a
//! subclass, and whatever else has code of its own, is turned down, and so is every value that does
//! not fit. The caller then goes the safe way, which has the message. Nothing that was borrowed is
//! looked at after something was turned down.

use std::mem::MaybeUninit;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDate};
use turbocql_codec::{Plan, types, wire};

use super::bytes::copy;
use super::collections::{put_dict, put_items, put_parts, put_set};
use super::dialect::{Dialect, Protocol};
use super::int::{self, small};
use super::object::{Object, bytes, items, text};
use super::quick_path::QuickPath;
use super::scalar::{
    as_bigint, as_boolean, as_double, as_float, as_int, as_timestamp, as_uuid, borrowed, is_none,
};
use super::vector::{put_bare, put_vector, sized};
use super::{decimal, numpy};
use crate::value::scratch::with_scratch;
use crate::value::{HostPlan, interned, temporal};

/// Appends the bytes of a value without framing. False, and nothing appended, when the value is
/// turned down.
#[inline]
pub fn value<D: Dialect>(plan: &HostPlan, given: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    if !QuickPath::Encode.is_on() {
        return false;
    }
    if let Plan::Vector(_) = plan {
        numpy::learn(given);
    }
    let start = out.len();
    // SAFETY: the object is alive as long as `given`, by which the interpreter's lock is held too.
    let done = unsafe { put::<D>(plan, given.as_ptr(), out) };
    if !done {
        out.truncate(start);
    }
    done
}

/// Appends a value after its length; null for `None`. False, and nothing appended, when the value
/// is turned down.
#[inline]
pub fn cell(plan: &HostPlan, given: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    if !QuickPath::Encode.is_on() {
        return false;
    }
    if let Plan::Vector(_) = plan {
        numpy::learn(given);
    }
    let start = out.len();
    // SAFETY: as in `value`.
    let done = unsafe { put_cell::<Protocol>(plan, given.as_ptr(), out) };
    if !done {
        out.truncate(start);
    }
    done
}

/// New `bytes` of a value that needs no other memory: of one of fixed width, of text and bytes, or of
/// a vector of numbers in a list, tuple or array.
#[inline(always)]
pub fn whole<'py, D: Dialect>(
    plan: &HostPlan,
    given: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if !QuickPath::Encode.is_on() {
        return Ok(None);
    }
    let (py, object) = (given.py(), given.as_ptr());
    // SAFETY: the object is alive as long as `given`, by which the interpreter's lock is held too.
    unsafe {
        match plan {
            Plan::Int => fixed(py, as_int(object)),
            Plan::BigInt | Plan::Counter => fixed(py, as_bigint(object)),
            Plan::Double => fixed(py, as_double(object)),
            Plan::Float => fixed(py, as_float(object)),
            Plan::Boolean => fixed(py, as_boolean(object)),
            Plan::Timestamp => fixed(py, as_timestamp::<D>(object)),
            Plan::Uuid => fixed(py, as_uuid(object)),
            Plan::Text => copied(py, text(object)),
            // Nobody changes them: they are their own bytes.
            Plan::Blob => {
                let bytes = given.cast_exact::<PyBytes>().ok();
                Ok(bytes.filter(|bytes| can_be_sent(bytes.as_bytes())).cloned())
            }
            Plan::Vector(vector) => {
                numpy::learn(given);
                let made = sized(plan, given)?;
                let of_objects = items(object).is_some();
                Ok(made.filter(|made| D::accepts_vector(vector, made.as_bytes(), of_objects)))
            }
            _ => Ok(None),
        }
    }
}

/// New `bytes` of a value that goes the quick way; none, without an exception, for any other.
#[inline(always)]
pub fn bytes_of<'py, D: Dialect>(
    plan: &HostPlan,
    given: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyBytes>> {
    let py = given.py();
    match whole::<D>(plan, given) {
        Ok(Some(made)) => Some(made),
        // No memory: the other way will say so.
        Err(_) => None,
        Ok(None) => {
            with_scratch(|out| value::<D>(plan, given, out).then(|| copy(py, out).ok()).flatten())
        }
    }
}

#[inline(always)]
fn fixed<const N: usize>(
    py: Python<'_>,
    bytes: Option<[u8; N]>,
) -> PyResult<Option<Bound<'_, PyBytes>>> {
    copied(py, bytes.as_ref().map(<[u8; N]>::as_slice))
}

#[inline(always)]
fn copied<'py>(py: Python<'py>, bytes: Option<&[u8]>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    bytes.filter(|bytes| can_be_sent(bytes)).map(|bytes| copy(py, bytes)).transpose()
}

/// The safe way has the error for what is longer.
#[inline(always)]
fn can_be_sent(bytes: &[u8]) -> bool {
    i32::try_from(bytes.len()).is_ok()
}

/// Room for `count` more; false where there is none, or where the value is longer than a frame can
/// carry: the safe way has the errors.
#[inline(always)]
pub fn room(out: &mut Vec<u8>, count: usize) -> bool {
    out.capacity() - out.len() >= count || grow(out, count)
}

#[cold]
fn grow(out: &mut Vec<u8>, count: usize) -> bool {
    out.len().saturating_add(count) <= i32::MAX as usize && out.try_reserve(count).is_ok()
}

#[inline(always)]
fn put_fixed<const N: usize>(bytes: Option<[u8; N]>, out: &mut Vec<u8>) -> bool {
    let Some(bytes) = bytes else { return false };
    if !room(out, N) {
        return false;
    }
    out.extend_from_slice(&bytes);
    true
}

#[inline(always)]
fn put_slice(bytes: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    let Some(bytes) = bytes else { return false };
    if !room(out, bytes.len()) {
        return false;
    }
    out.extend_from_slice(bytes);
    true
}

/// Appends a fixed-width value after its length.
#[inline(always)]
fn put_fixed_cell<const N: usize>(bytes: Option<[u8; N]>, out: &mut Vec<u8>) -> bool {
    let Some(bytes) = bytes else { return false };
    if !room(out, 4 + N) {
        return false;
    }
    // One write of a known size, where two would each ask for room.
    let start = out.len();
    out.resize(start + 4 + N, 0);
    out[start..start + 4].copy_from_slice(&(N as i32).to_be_bytes());
    out[start + 4..].copy_from_slice(&bytes);
    true
}

#[inline(always)]
fn put_slice_cell(bytes: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    let Some(bytes) = bytes else { return false };
    let Ok(length) = i32::try_from(bytes.len()) else { return false };
    if !room(out, 4 + bytes.len()) {
        return false;
    }
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    true
}

/// Appends a value after its length; null for `None`.
///
/// # Safety
/// `object` is alive and the interpreter's lock is held.
#[inline(always)]
pub unsafe fn put_cell<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: the caller's word, handed on.
    unsafe {
        if is_none(object) {
            return put_fixed(Some(wire::NULL.to_be_bytes()), out);
        }
        match plan {
            Plan::Int => put_fixed_cell(as_int(object), out),
            Plan::BigInt | Plan::Counter => put_fixed_cell(as_bigint(object), out),
            Plan::Float => put_fixed_cell(as_float(object), out),
            Plan::Double => put_fixed_cell(as_double(object), out),
            Plan::Boolean => put_fixed_cell(as_boolean(object), out),
            Plan::Timestamp => put_fixed_cell(as_timestamp::<D>(object), out),
            Plan::Uuid => put_fixed_cell(as_uuid(object), out),
            Plan::Text => put_slice_cell(text(object), out),
            Plan::Blob => put_slice_cell(bytes(object), out),
            _ => {
                if !room(out, 4) {
                    return false;
                }
                let start = wire::begin_value(out);
                put::<D>(plan, object, out) && wire::end_value(out, start).is_ok()
            }
        }
    }
}

/// Appends a part of a list, set or map after its length.
///
/// # Safety
/// As for [`put_cell`].
#[inline(always)]
pub unsafe fn put_part<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: the caller's word, handed on.
    unsafe {
        if D::NULL != wire::NULL && is_none(object) {
            return put_fixed(Some(D::NULL.to_be_bytes()), out);
        }
        put_cell::<D>(plan, object, out)
    }
}

/// Appends a value without framing.
///
/// # Safety
/// As for [`put_cell`].
#[inline]
pub unsafe fn put<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: the caller's word, handed on.
    unsafe {
        match plan {
            Plan::Int => put_fixed(as_int(object), out),
            Plan::BigInt | Plan::Counter => put_fixed(as_bigint(object), out),
            Plan::SmallInt => put_fixed(
                small(object).and_then(|n| i16::try_from(n).ok()).map(i16::to_be_bytes),
                out,
            ),
            Plan::TinyInt => put_fixed(
                small(object).and_then(|n| i8::try_from(n).ok()).map(i8::to_be_bytes),
                out,
            ),
            Plan::Float => put_fixed(as_float(object), out),
            Plan::Double => put_fixed(as_double(object), out),
            Plan::Boolean => put_fixed(as_boolean(object), out),
            Plan::Text => put_slice(text(object), out),
            Plan::Ascii => put_slice(text(object).filter(|text| text.is_ascii()), out),
            Plan::Blob => put_slice(bytes(object), out),
            Plan::List(element) => match items(object) {
                Some(parts) => put_items::<D>(element, object, parts, out),
                None => D::put_other(plan, object, out),
            },
            Plan::Set(element) => match items(object) {
                Some(parts) => put_items::<D>(element, object, parts, out),
                None if put_set::<D>(element, object, out) => true,
                None => D::put_other(plan, object, out),
            },
            Plan::Map(entry) => {
                put_dict::<D>(&entry.0, &entry.1, object, out) || D::put_other(plan, object, out)
            }
            Plan::Tuple(components) => match items(object) {
                Some(parts) if parts.len() <= components.len() => {
                    put_parts::<D>(&components[..parts.len()], object, parts, out)
                }
                _ => false,
            },
            Plan::Udt(udt) => match items(object) {
                Some(parts) if parts.len() == udt.fields.len() => {
                    put_parts::<D>(&udt.fields, object, parts, out)
                }
                _ => D::put_other(plan, object, out),
            },
            Plan::Vector(vector) => match items(object) {
                Some(parts) if parts.len() == vector.dimension && vector.width.is_some() => {
                    let start = out.len();
                    put_bare::<D>(&vector.element, parts, out)
                        && D::accepts_vector(vector, &out[start..], true)
                }
                None if vector.width.is_some() => {
                    let start = out.len();
                    put_vector(vector, object, out)
                        && D::accepts_vector(vector, &out[start..], false)
                }
                _ => false,
            },
            Plan::VarInt => match small(object) {
                Some(n) if room(out, 8) => {
                    types::varint::encode_i64(n, out);
                    true
                }
                None => int::put_varint(object, out),
                _ => false,
            },
            Plan::Timestamp => put_fixed(as_timestamp::<D>(object), out),
            Plan::Date => {
                let given = borrowed(object);
                match given.cast_exact::<PyDate>() {
                    Ok(date) if room(out, 4) => {
                        types::date::encode(temporal::days_of(&*date), out);
                        true
                    }
                    _ => D::put_other(plan, object, out),
                }
            }
            Plan::Uuid => put_fixed(as_uuid(object), out),
            // Of version 1.
            Plan::TimeUuid => put_fixed(as_uuid(object).filter(|bytes| bytes[6] >> 4 == 1), out),
            Plan::Decimal => {
                let given = borrowed(object);
                let exact = interned::decimal(given.py());
                if !exact.is_ok_and(|class| given.get_type().is(class)) {
                    return false;
                }
                let Some((unscaled, exponent)) = decimal::parts(object) else { return false };
                match i32::try_from(-exponent) {
                    Ok(scale) if room(out, 24) => {
                        out.extend_from_slice(&scale.to_be_bytes());
                        match i64::try_from(unscaled) {
                            Ok(small) => types::varint::encode_i64(small, out),
                            Err(_) => types::varint::encode_i128(unscaled, out),
                        }
                        true
                    }
                    _ => false,
                }
            }
            Plan::Time | Plan::Duration => D::put_other(plan, object, out),
            Plan::Inet | Plan::Composite(_) | Plan::Custom(_) => false,
        }
    }
}

/// Appends fixed-width parts, each after its length, null for `None`: room is made once.
#[inline(always)]
pub fn put_run<D: Dialect, const N: usize>(
    parts: &[Object],
    out: &mut Vec<u8>,
    read: impl Fn(Object) -> Option<[u8; N]>,
) -> bool {
    let most = parts.len().saturating_mul(4 + N);
    if !room(out, most) {
        return false;
    }
    let start = out.len();
    let spare = &mut out.spare_capacity_mut()[..most];
    let mut at = 0;
    for &part in parts {
        // SAFETY: the address of a singleton.
        if unsafe { is_none(part) } {
            spare[at..at + 4].copy_from_slice(&D::NULL.to_be_bytes().map(MaybeUninit::new));
            at += 4;
            continue;
        }
        let Some(bytes) = read(part) else { return false };
        let place = &mut spare[at..at + 4 + N];
        place[..4].copy_from_slice(&(N as i32).to_be_bytes().map(MaybeUninit::new));
        place[4..].copy_from_slice(&bytes.map(MaybeUninit::new));
        at += 4 + N;
    }
    // SAFETY: `at` bytes behind the length have been written, and there is room for `most`.
    unsafe { out.set_len(start + at) };
    true
}
