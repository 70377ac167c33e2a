//! Values of Python's own classes to bytes, without a reference taken and without a Python call.
//!
//! Nothing here runs Python code, so no object that a container holds goes away meanwhile: a
//! subclass, and whatever else has code of its own, is turned down, and so is every value that does
//! not fit. The caller then goes the safe way, which has the message. Nothing that was borrowed is
//! looked at after something was turned down.

use std::cell::Cell;
use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDate, PyDateTime, PyTzInfo};
use turbocql_codec::types;
use turbocql_codec::{Plan, wire};

use super::bytes::copy;
use super::collections::{self, put_dict, put_items, put_parts, put_set};
use super::decimal;
use super::int::{self, small};
use super::object::{self, bytes, float, items, text};
use super::quick_path::QuickPath;
use super::record::{self, put_record};
use super::util::put_util;
use super::vector::{put_bare, put_vector, sized};
use super::{attribute, decode, make, numpy, rows, slots, version};
use crate::value::numbers::{KEEPS_SIGNALLING, narrow};
use crate::value::{HostPlan, interned, temporal};

/// Decides which quick paths are on, and looks up what is needed here, so that nothing is imported,
/// by Python code, in between.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    PyTzInfo::utc(py)?;
    QuickPath::Encode.decide(py, |py| {
        let wrong = int::probe_digits(py)?;
        if wrong.is_some() { Ok(wrong) } else { object::probe_objects(py) }
    })?;
    QuickPath::Sets.decide(py, collections::probe_sets)?;
    QuickPath::Attributes.decide(py, record::probe_attributes)?;
    QuickPath::Lookups.decide(py, attribute::probe_lookups)?;
    QuickPath::Versions.decide(py, version::probe_versions)?;
    QuickPath::Decimals.decide(py, decimal::probe)?;
    // These two are tried when they are first asked for.
    QuickPath::Arrays.decide(py, |_| Ok(None))?;
    QuickPath::Handles.decide(py, |_| Ok(None))?;
    QuickPath::BigInts.decide(py, int::probe_large)?;
    QuickPath::Records.decide(py, make::probe_records)?;
    QuickPath::Rows.decide(py, rows::probe_rows)?;
    QuickPath::Decode.decide(py, decode::probe_decode)?;
    slots::probe(py)
}

pub type Object = *mut ffi::PyObject;

/// What is written in more than one way.
pub trait Dialect {
    /// The length that stands for a null in a list, set or map.
    const NULL: i32;

    /// Whether it is that of the package `cassandra`. Arrays with signalling NaNs are turned down
    /// then: drivers convert elements to Python floats, which quiets them, or not. Values of
    /// user-defined types are read by position, or else by attribute.
    const REFERENCE: bool;

    /// Whether timestamps are computed in binary64.
    const FLOAT_TIME: bool;
}

/// The protocol's, which is ours.
pub struct Protocol;

impl Dialect for Protocol {
    const NULL: i32 = wire::NULL;
    const REFERENCE: bool = false;
    const FLOAT_TIME: bool = false;
}

/// That of drivers whose arrays are sequences of numbers.
pub struct Numbers;

impl Dialect for Numbers {
    const NULL: i32 = wire::NULL;
    const REFERENCE: bool = true;
    const FLOAT_TIME: bool = false;
}

/// That of drivers that also compute timestamps in binary64.
pub struct FloatTime;

impl Dialect for FloatTime {
    const NULL: i32 = wire::NULL;
    const REFERENCE: bool = true;
    const FLOAT_TIME: bool = true;
}

/// That of drivers that also write nothing for a null.
pub struct FloatTimeEmptyNull;

impl Dialect for FloatTimeEmptyNull {
    const NULL: i32 = 0;
    const REFERENCE: bool = true;
    const FLOAT_TIME: bool = true;
}

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
            Plan::Float => fixed(py, as_float::<D>(object)),
            Plan::Boolean => fixed(py, as_boolean(object)),
            Plan::Timestamp => fixed(py, as_timestamp::<D>(object)),
            Plan::Uuid => fixed(py, as_uuid(object)),
            Plan::Text => copied(py, text(object)),
            // Nobody changes them: they are their own bytes.
            Plan::Blob => {
                let bytes = given.cast_exact::<PyBytes>().ok();
                Ok(bytes.filter(|bytes| can_be_sent(bytes.as_bytes())).cloned())
            }
            Plan::Vector(_) => {
                numpy::learn(given);
                let made = sized(plan, given)?;
                Ok(made.filter(|made| !D::REFERENCE || !is_unusual(plan, made.as_bytes())))
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

/// Scratch memory above this is given back after use.
const SCRATCH_KEPT: usize = 1 << 20;

/// Calls with empty memory that the thread keeps: most values are small, and asking for memory would
/// cost more than they do. Calls within one another each have their own.
pub fn with_scratch<T>(call: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    let mut out = SCRATCH.take();
    out.clear();
    let done = call(&mut out);
    if out.capacity() <= SCRATCH_KEPT {
        SCRATCH.set(out);
    }
    done
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

#[inline(always)]
pub unsafe fn as_double(object: Object) -> Option<[u8; 8]> {
    // SAFETY: the caller's word.
    unsafe { float(object).or_else(|| small(object).map(|n| n as f64)) }.map(f64::to_be_bytes)
}

#[inline(always)]
pub(super) unsafe fn as_float<D: Dialect>(object: Object) -> Option<[u8; 4]> {
    // SAFETY: the caller's word.
    let wide = unsafe { float(object).or_else(|| small(object).map(|n| n as f64)) }?;
    narrow(wide).map(f32::to_be_bytes)
}

#[inline(always)]
pub unsafe fn as_int(object: Object) -> Option<[u8; 4]> {
    // SAFETY: the caller's word.
    i32::try_from(unsafe { small(object) }?).ok().map(i32::to_be_bytes)
}

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
unsafe fn borrowed<'a, 'py>(object: Object) -> Borrowed<'a, 'py, PyAny> {
    // SAFETY: the caller's word.
    unsafe { Borrowed::from_ptr(Python::assume_attached(), object) }
}

/// Whether drivers may write one of the numbers of a vector of binary32 otherwise: a signalling NaN,
/// which goes through a Python float there; or any NaN, where that has come from a signalling one.
pub fn is_unusual(plan: &HostPlan, bytes: &[u8]) -> bool {
    let Plan::Vector(vector) = plan else { return false };
    // All are looked at, without a branch, and without putting their bytes into order: many at once.
    let mask = if KEEPS_SIGNALLING { 0x0000_807f } else { 0x0000_c07f };
    let one = |number: &[u8; 4]| {
        let bytes = u32::from_le_bytes(*number);
        let (all_ones, some) = (bytes & mask == 0x0000_807f, bytes & 0xffff_7f00 != 0);
        u32::from(all_ones & some)
    };
    matches!(vector.element, Plan::Float)
        && bytes.as_chunks::<4>().0.iter().fold(0, |any, number| any | one(number)) != 0
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

#[inline(always)]
pub unsafe fn is_none(object: Object) -> bool {
    // SAFETY: the address of a singleton.
    object == unsafe { ffi::Py_None() }
}

#[inline(always)]
unsafe fn as_boolean(object: Object) -> Option<[u8; 1]> {
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
#[inline(always)]
unsafe fn as_timestamp<D: Dialect>(object: Object) -> Option<[u8; 8]> {
    // SAFETY: the caller's word; what is done with it runs no Python code.
    let given = unsafe { borrowed(object) };
    let exact = given.cast_exact::<PyDateTime>().ok()?;
    let milliseconds = if D::FLOAT_TIME {
        temporal::float_timestamp(&exact)
    } else {
        temporal::exact_timestamp(&exact)
    };
    milliseconds.map(i64::to_be_bytes)
}

/// The bytes of an exact `UUID`.
#[inline(always)]
unsafe fn as_uuid(object: Object) -> Option<[u8; 16]> {
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

/// Appends a value after its length; null for `None`.
///
/// # Safety
/// `object` is alive and the interpreter's lock is held.
#[inline(always)]
pub(super) unsafe fn put_cell<D: Dialect>(
    plan: &HostPlan,
    object: Object,
    out: &mut Vec<u8>,
) -> bool {
    // SAFETY: the caller's word, handed on.
    unsafe {
        if is_none(object) {
            return put_fixed(Some(wire::NULL.to_be_bytes()), out);
        }
        match plan {
            Plan::Int => put_fixed_cell(as_int(object), out),
            Plan::BigInt | Plan::Counter => put_fixed_cell(as_bigint(object), out),
            Plan::Float => put_fixed_cell(as_float::<D>(object), out),
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
pub(super) unsafe fn put_part<D: Dialect>(
    plan: &HostPlan,
    object: Object,
    out: &mut Vec<u8>,
) -> bool {
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
            Plan::Float => put_fixed(as_float::<D>(object), out),
            Plan::Double => put_fixed(as_double(object), out),
            Plan::Boolean => put_fixed(as_boolean(object), out),
            Plan::Text => put_slice(text(object), out),
            Plan::Ascii => put_slice(text(object).filter(|text| text.is_ascii()), out),
            Plan::Blob => put_slice(bytes(object), out),
            Plan::List(element) => match items(object) {
                Some(parts) => put_items::<D>(element, object, parts, out),
                None => D::REFERENCE && put_util::<D>(plan, object, out),
            },
            Plan::Set(element) => match items(object) {
                Some(parts) => put_items::<D>(element, object, parts, out),
                None if put_set::<D>(element, object, out) => true,
                None => D::REFERENCE && put_util::<D>(plan, object, out),
            },
            Plan::Map(entry) => {
                put_dict::<D>(&entry.0, &entry.1, object, out)
                    || D::REFERENCE && put_util::<D>(plan, object, out)
            }
            Plan::Tuple(components) => match items(object) {
                Some(parts) if parts.len() <= components.len() => {
                    put_parts::<D>(&components[..parts.len()], object, parts, out)
                }
                _ => false,
            },
            Plan::Udt(udt) => match items(object) {
                Some(parts)
                    if parts.len() == udt.fields.len()
                        || D::REFERENCE && parts.len() > udt.fields.len() =>
                {
                    put_parts::<D>(&udt.fields, object, parts, out)
                }
                None if D::REFERENCE => put_record::<D>(udt, object, out),
                _ => false,
            },
            Plan::Vector(vector) => match items(object) {
                Some(parts) if parts.len() == vector.dimension && vector.width.is_some() => {
                    let start = out.len();
                    put_bare::<D>(&vector.element, parts, out)
                        && !(D::REFERENCE && KEEPS_SIGNALLING && is_unusual(plan, &out[start..]))
                }
                None if vector.width.is_some() => {
                    let start = out.len();
                    put_vector(vector, object, out)
                        && !(D::REFERENCE && is_unusual(plan, &out[start..]))
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
                    _ => D::REFERENCE && put_util::<D>(plan, object, out),
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
            Plan::Time | Plan::Duration => D::REFERENCE && put_util::<D>(plan, object, out),
            Plan::Inet | Plan::Composite(_) | Plan::Custom(_) => false,
        }
    }
}

/// Appends fixed-width parts, each after its length, null for `None`: room is made once.
#[inline(always)]
pub(super) fn put_run<D: Dialect, const N: usize>(
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
