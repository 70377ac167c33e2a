//! Vectors: elements of fixed width that stand bare, one after another.

use std::mem::MaybeUninit;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::Plan;
use turbocql_codec::plan::VectorPlan;

use super::buffer::put_array;
use super::bytes::{Filled, build};
use super::dialect::Dialect;
use super::encode::{put, room};
use super::int::small;
use super::object::{Object, float, items};
use super::scalar::{as_bigint, as_double, as_int, is_none};
use crate::value::HostPlan;
use crate::value::numbers::KEEPS_SIGNALLING;
use crate::value::record::Record;

/// New `bytes` of a vector of numbers.
#[inline]
pub fn sized<'py>(
    plan: &HostPlan,
    given: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Plan::Vector(vector) = plan else { return Ok(None) };
    if vector.width.is_none() {
        return Ok(None);
    }
    let size = vector.width.unwrap_or(0).saturating_mul(vector.dimension);
    // Smaller ones gain nothing.
    if size < 64 {
        return Ok(None);
    }
    // SAFETY: the object is alive, the lock is held; the items are read before anything else
    // happens, except for the allocation of `bytes`, which no collection of garbage follows.
    let Some(parts) = (unsafe { items(given.as_ptr()) }) else {
        return build(given.py(), size, |out| {
            // SAFETY: alive, and the lock is held; all is filled when it says so.
            unsafe {
                let (element, dimension) = (&vector.element, vector.dimension);
                put_array(element, dimension, given.as_ptr(), out.rest()) && out.set_full()
            }
        });
    };
    if parts.len() != vector.dimension {
        return Ok(None);
    }
    let py = given.py();
    match vector.element {
        Plan::Float => build(py, size, |out| {
            // SAFETY: the items are alive, since no Python code runs; all is filled when it says so.
            unsafe { put_singles(parts, out.rest()) && out.set_full() }
        }),
        // SAFETY: the items are alive, since no Python code runs.
        Plan::Double => build(py, size, |out| fill(out, parts, |o| unsafe { as_double(o) })),
        // SAFETY: the same.
        Plan::Int => build(py, size, |out| fill(out, parts, |o| unsafe { as_int(o) })),
        // SAFETY: the same.
        Plan::BigInt => build(py, size, |out| fill(out, parts, |o| unsafe { as_bigint(o) })),
        _ => Ok(None),
    }
}

#[inline(always)]
fn fill<const N: usize>(
    out: &mut Filled<'_>,
    parts: &[Object],
    read: impl Fn(Object) -> Option<[u8; N]>,
) -> bool {
    out.extend(parts.len(), |i| read(parts[i]))
}

/// Writes numbers as binary32, by the chunk: first they are read, then all are narrowed, in a loop
/// without branches that the compiler makes wide.
///
/// # Safety
/// The parts are alive as long as no Python code runs, and the lock is held.
unsafe fn put_singles(parts: &[Object], target: &mut [MaybeUninit<u8>]) -> bool {
    const CHUNK: usize = 64;
    let Some(target) = target.get_mut(..parts.len() * 4) else { return false };
    let mut wide = [0.0f64; CHUNK];
    for (parts, target) in parts.chunks(CHUNK).zip(target.chunks_mut(CHUNK * 4)) {
        for (&part, place) in parts.iter().zip(&mut wide) {
            // SAFETY: the caller's word.
            match unsafe { float(part).or_else(|| small(part).map(|n| n as f64)) } {
                Some(number) => *place = number,
                None => return false,
            }
        }
        let good = narrow_all(&wide, target);
        if !good {
            return false;
        }
    }
    true
}

/// Narrows as many numbers as there is room for; false when one of them is out of range.
fn narrow_all(wide: &[f64], target: &mut [MaybeUninit<u8>]) -> bool {
    #[inline(always)]
    fn run(wide: &[f64], target: &mut [MaybeUninit<u8>]) -> bool {
        let mut good = true;
        for (number, place) in wide.iter().zip(target.as_chunks_mut::<4>().0) {
            let single = *number as f32;
            good &= single.is_finite() | !number.is_finite();
            // The safe way knows what becomes of a signalling NaN.
            good &= !(KEEPS_SIGNALLING & number.is_nan());
            *place = single.to_be_bytes().map(MaybeUninit::new);
        }
        good
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn run_wide(wide: &[f64], target: &mut [MaybeUninit<u8>]) -> bool {
        run(wide, target)
    }

    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { run_wide(wide, target) };
    }
    run(wide, target)
}

/// Appends parts that stand bare.
///
/// # Safety
/// As for [`put`].
#[inline]
pub unsafe fn put_bare<D: Dialect>(
    element: &HostPlan,
    parts: &[Object],
    out: &mut Vec<u8>,
) -> bool {
    #[inline(always)]
    fn run<const N: usize>(
        parts: &[Object],
        out: &mut Vec<u8>,
        read: impl Fn(Object) -> Option<[u8; N]>,
    ) -> bool {
        let most = parts.len().saturating_mul(N);
        if !room(out, most) {
            return false;
        }
        let start = out.len();
        let spare = &mut out.spare_capacity_mut()[..most];
        for (&part, place) in parts.iter().zip(spare.chunks_exact_mut(N)) {
            let Some(bytes) = read(part) else { return false };
            place.copy_from_slice(&bytes.map(MaybeUninit::new));
        }
        // SAFETY: all of `most` bytes have been written.
        unsafe { out.set_len(start + most) };
        true
    }
    // SAFETY: the caller's word, handed on.
    unsafe {
        match element {
            Plan::Int => run(parts, out, |o| as_int(o)),
            Plan::BigInt => run(parts, out, |o| as_bigint(o)),
            Plan::Float => {
                let (start, size) = (out.len(), parts.len().saturating_mul(4));
                let done = room(out, size) && put_singles(parts, out.spare_capacity_mut());
                if done {
                    out.set_len(start + size);
                }
                done
            }
            Plan::Double => run(parts, out, |o| as_double(o)),
            // The safe way knows how null is refused here.
            _ => parts.iter().all(|&part| !is_none(part) && put::<D>(element, part, out)),
        }
    }
}

/// Appends the numbers of an array.
///
/// # Safety
/// As for [`put`].
#[inline]
pub unsafe fn put_vector(vector: &VectorPlan<Record>, object: Object, out: &mut Vec<u8>) -> bool {
    let size = vector.width.unwrap_or(0).saturating_mul(vector.dimension);
    if !room(out, size) {
        return false;
    }
    let start = out.len();
    let spare = &mut out.spare_capacity_mut()[..size];
    // SAFETY: the caller's word; when it says so, all of `size` bytes have been written.
    unsafe {
        let done = put_array(&vector.element, vector.dimension, object, spare);
        if done {
            out.set_len(start + size);
        }
        done
    }
}
