//! Encodes values of common classes, such as `int`, `list` and `UUID`, but not of their subclasses.
//!
//! A [`Dialect`] is the form in which one driver writes values. In turbocql's own dialect,
//! `Protocol`, encoding takes no references and runs no Python code while objects are borrowed, so
//! the items of a container stay alive. `numpy::learn`, which may run Python code, is called before
//! objects are borrowed.
//!
//! The functions here do not take (encode) instances of subclasses, objects that may run Python
//! code, and values that do not fit the type. For a value that they do not take, they return false
//! or `None`, and use no borrowed object after that. The caller then takes the safe path
//! (`crate::value`), which raises the errors.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::{Plan, types, wire};

use super::append::room;
use super::bytes::copy;
use super::collections::{put_dict, put_items, put_parts, put_set};
use super::dialect::{Dialect, Protocol};
use super::int::{self, small};
use super::object::{Object, bytes, items, text};
use super::quick_path::QuickPath;
use super::scalar::{
    as_bigint, as_boolean, as_date, as_double, as_float, as_int, as_smallint, as_timestamp,
    as_tinyint, as_uuid, borrowed, is_none,
};
use super::sink::{Bare, Framed, Sink, Unbuffered};
use super::vector::{put_bare, put_vector};
use super::{decimal, numpy};
use crate::memory::with_scratch;
use crate::plan::HostPlan;
use crate::python;

/// Appends the bytes of a value, and no length before them. Returns false and appends nothing if
/// the value is not taken.
#[inline]
pub fn value<D: Dialect>(plan: &HostPlan, object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    if !QuickPath::Encode.is_on() {
        return false;
    }
    if let Plan::Vector(_) = plan {
        numpy::learn(object);
    }
    let start = out.len();
    // SAFETY: `object` keeps the object alive, by a reference of its own or a borrowed one, and
    // shows that the GIL is held. Tests: property/test_safe_path.py.
    let is_encoded = unsafe { put::<D>(plan, object.as_ptr(), out) };
    if !is_encoded {
        out.truncate(start);
    }
    is_encoded
}

/// Appends, without a length, the bytes of a value that [`bytes_unbuffered`] does not take. If it
/// returns false, `out` may end with an incomplete value.
#[inline(always)]
fn append_buffered<D: Dialect>(
    plan: &HostPlan,
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> bool {
    if !QuickPath::Encode.is_on() {
        return false;
    }
    // SAFETY: `object` keeps the object alive by a reference, and shows that the GIL is held.
    // Tests: property/test_safe_path.py, accel/test_comparison.py (serialize_tasks). Benchmark:
    // "value: list<int> of 100".
    unsafe { put_non_scalar::<D>(plan, object.as_ptr(), out) }
}

/// Appends a length and the bytes of a value. For `None`, appends only the length that means null.
/// Returns false and appends nothing if the value is not taken.
#[inline]
pub fn cell(plan: &HostPlan, object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    if !QuickPath::Encode.is_on() {
        return false;
    }
    if let Plan::Vector(_) = plan {
        numpy::learn(object);
    }
    let start = out.len();
    // SAFETY: `object` keeps the object alive by a reference, and shows that the GIL is held.
    // Tests: property/test_safe_path.py. Benchmark: "bind: 10 mixed, sequence".
    let is_encoded = unsafe { put_cell::<Protocol>(plan, object.as_ptr(), out) };
    if !is_encoded {
        out.truncate(start);
    }
    is_encoded
}

/// Makes the `bytes` of a value without a buffer. Takes the types that [`put_scalar`] writes
/// itself, and vectors of numbers that [`sized`](super::vector::sized) takes. Returns `None` for
/// any other value, and if the quick path is off.
#[inline(always)]
pub fn bytes_unbuffered<'py, D: Dialect>(
    plan: &HostPlan,
    object: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if !QuickPath::Encode.is_on() {
        return Ok(None);
    }
    // SAFETY: `object` keeps the object alive by a reference, and shows that the GIL is held.
    // Tests: property/test_safe_path.py. Benchmark: "value: int".
    unsafe { put_scalar::<D, _>(plan, object.as_ptr(), Unbuffered(object)) }
}

/// Makes the `bytes` of a value that the quick path takes. Returns `None` without an exception for
/// any other value, and if there is no memory.
#[inline(always)]
pub fn bytes_of<'py, D: Dialect>(
    plan: &HostPlan,
    object: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyBytes>> {
    let py = object.py();
    match bytes_unbuffered::<D>(plan, object) {
        Ok(Some(bytes)) => Some(bytes),
        // There is no memory. The caller then takes the safe path, or calls the accelerated
        // driver's own function. Either raises the error.
        Err(_) => None,
        Ok(None) => with_scratch(|out| {
            append_buffered::<D>(plan, object, out).then(|| copy(py, out).ok()).flatten()
        }),
    }
}

/// Makes the `bytes` of a value. Used with dialects that convert values whose classes the quick
/// path does not take ([`Dialect::CONVERTS`]). Returns `None` without an exception if the value is
/// not taken, and if there is no memory.
#[inline(never)]
pub fn bytes_converted<'py, D: Dialect>(
    plan: &HostPlan,
    object: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyBytes>> {
    with_scratch(|out| value::<D>(plan, object, out).then(|| copy(object.py(), out).ok()).flatten())
}

/// Appends a length and the bytes of a part of a collection. For `None`, appends only the length
/// that means null in the dialect. If it returns false, `out` may end with an incomplete value.
pub fn part<D: Dialect>(plan: &HostPlan, object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    // SAFETY: `object` owns a reference to the object, and shows that the GIL is held. Tests:
    // accel/test_everyday_values.py.
    unsafe { put_part::<D>(plan, object.as_ptr(), out) }
}

/// Appends a length and the bytes of a value. For `None`, appends only the length that means null.
/// If it returns false, `out` may end with an incomplete value.
pub fn cell_of<D: Dialect>(plan: &HostPlan, object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    // SAFETY: `object` owns a reference to the object, and shows that the GIL is held. Tests:
    // accel/test_everyday_values.py.
    unsafe { put_cell::<D>(plan, object.as_ptr(), out) }
}

/// Writes a value of one of the most frequent types, and leaves values of all other types to the
/// sink. The function is inlined for every kind of sink, so it handles only the types that gain
/// from inlining.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. If
/// [`Dialect::may_run_python`] is true for `plan`, the caller must own a reference to `object`.
#[inline(always)]
unsafe fn put_scalar<D: Dialect, S: Sink>(plan: &HostPlan, object: Object, sink: S) -> S::Output {
    // SAFETY: all functions called here require only what the `# Safety` section requires. The
    // slices that `text` and `bytes` return are copied before Python code could run. Tests:
    // property/test_safe_path.py. Benchmarks: "value: int", "value: text" and the other scalars.
    unsafe {
        match plan {
            Plan::Int => sink.fixed(as_int(object)),
            Plan::BigInt | Plan::Counter => sink.fixed(as_bigint(object)),
            Plan::Float => sink.fixed(as_float(object)),
            Plan::Double => sink.fixed(as_double(object)),
            Plan::Boolean => sink.fixed(as_boolean(object)),
            Plan::Timestamp => sink.fixed(as_timestamp::<D>(object)),
            Plan::Uuid => sink.fixed(as_uuid(object)),
            Plan::Text => sink.slice(text(object)),
            Plan::Blob => sink.blob(bytes(object)),
            Plan::SmallInt
            | Plan::TinyInt
            | Plan::TimeUuid
            | Plan::Ascii
            | Plan::Date
            | Plan::VarInt
            | Plan::Decimal
            | Plan::Inet
            | Plan::Time
            | Plan::Duration
            | Plan::List(_)
            | Plan::Set(_)
            | Plan::Map(_)
            | Plan::Tuple(_)
            | Plan::Udt(_)
            | Plan::Vector(_)
            | Plan::Composite(_)
            | Plan::Custom(_) => sink.non_scalar::<D>(plan, object),
        }
    }
}

/// Appends a length and a value. For `None`, appends only the length that means null. If it returns
/// false, `out` may end with an incomplete value.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. If
/// [`Dialect::may_run_python`] is true for `plan`, the caller must own a reference to `object`.
#[inline(always)]
pub unsafe fn put_cell<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: `is_none` and `put_scalar` require only what the `# Safety` section requires.
    // `put_converted` demands an owned reference to `object`. The caller has one, because
    // `may_run_python` is true for every type in a dialect that converts. Tests:
    // property/test_safe_path.py. Benchmark: "bind: 10 mixed, sequence".
    unsafe {
        if is_none(object) {
            return Bare(out).fixed(Some(wire::NULL.to_be_bytes()));
        }
        if D::CONVERTS {
            if !room(out, 4) {
                return false;
            }
            let start = wire::begin_value(out);
            return put_converted::<D>(plan, object, out) && wire::end_value(out, start).is_ok();
        }
        put_scalar::<D, _>(plan, object, Framed(out))
    }
}

/// Appends a length and an element of a list, set or map. For `None`, appends only the length that
/// means null in the dialect. If it returns false, `out` may end with an incomplete value.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. If
/// [`Dialect::may_run_python`] is true for `plan`, the caller must own a reference to `object`.
#[inline(always)]
pub unsafe fn put_part<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: `is_none` and `put_cell` require only what the `# Safety` section requires. Tests:
    // property/test_safe_path.py, accel/test_comparison.py (serialize_tasks). Benchmark:
    // "value: set<text> of 100".
    unsafe {
        if D::NULL != wire::NULL && is_none(object) {
            return Bare(out).fixed(Some(D::NULL.to_be_bytes()));
        }
        put_cell::<D>(plan, object, out)
    }
}

/// Appends a value without a length. If it returns false, `out` may end with an incomplete value.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. If
/// [`Dialect::may_run_python`] is true for `plan`, the caller must own a reference to `object`.
#[inline]
pub unsafe fn put<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: `put_scalar` requires only what the `# Safety` section requires. `put_converted`
    // demands an owned reference to `object`. The caller has one, because `may_run_python` is true
    // for every type in a dialect that converts. Tests: property/test_safe_path.py,
    // accel/test_everyday_values.py.
    unsafe {
        if D::CONVERTS {
            return put_converted::<D>(plan, object, out);
        }
        put_scalar::<D, _>(plan, object, Bare(out))
    }
}

/// Appends a value without a length. If `put_scalar` does not take the value, calls
/// `Dialect::convert`. If this function returns false, `out` may end with an incomplete value.
///
/// # Safety
/// The caller must own a reference to `object` and must hold the GIL.
unsafe fn put_converted<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. `bound` takes a
    // reference of its own. Tests: accel/test_everyday_values.py.
    unsafe {
        if put_scalar::<D, _>(plan, object, Bare(out)) {
            return true;
        }
        out.truncate(start);
        let bound = Bound::from_borrowed_ptr(Python::assume_attached(), object);
        D::convert(plan, &bound, out)
    }
}

/// Appends, without a length, a value of a type that [`put_scalar`] does not take. If it returns
/// false, `out` may end with an incomplete value.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. If
/// [`Dialect::may_run_python`] is true for `plan`, the caller must own a reference to `object`.
#[inline(always)]
pub unsafe fn put_non_scalar<D: Dialect>(
    plan: &HostPlan,
    object: Object,
    out: &mut Vec<u8>,
) -> bool {
    // SAFETY: most functions called here require only what the `# Safety` section requires. The
    // others demand the following. `put_items`, `put_parts` and `put_bare` demand the current items
    // of a list or tuple; here these are the items of `object`, which are passed on as soon as they
    // are read. `decimal::parts` demands the class `Decimal`, which is compared first. `borrowed`
    // demands that no Python code runs; none runs, because `prepare` has already looked up the
    // class that `python::decimal` returns. Tests: property/test_safe_path.py. Benchmarks:
    // "value: list<int> of 100", "value: decimal", "value: UDT of 5".
    unsafe {
        match plan {
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
            // `put_bare` demands that encoding an element runs no Python code.
            Plan::Vector(_) if D::CONVERTS => false,
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
            Plan::Decimal => {
                let number = borrowed(object);
                let exact = python::decimal(number.py());
                if !exact.is_ok_and(|class| number.get_type().is(class)) {
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
            Plan::SmallInt => Bare(out).fixed(as_smallint(object)),
            Plan::TinyInt => Bare(out).fixed(as_tinyint(object)),
            // A timeuuid is a UUID of version 1.
            Plan::TimeUuid => Bare(out).fixed(as_uuid(object).filter(|bytes| bytes[6] >> 4 == 1)),
            Plan::Ascii => Bare(out).slice(text(object).filter(|text| text.is_ascii())),
            Plan::Date => match as_date(object) {
                Some(bytes) => Bare(out).fixed(Some(bytes)),
                None => D::put_other(plan, object, out),
            },
            Plan::Time | Plan::Duration => D::put_other(plan, object, out),
            Plan::Inet | Plan::Composite(_) | Plan::Custom(_) => false,
            // `put_scalar` has already written or refused the value.
            Plan::Int
            | Plan::BigInt
            | Plan::Counter
            | Plan::Float
            | Plan::Double
            | Plan::Boolean
            | Plan::Timestamp
            | Plan::Uuid
            | Plan::Text
            | Plan::Blob => false,
        }
    }
}
