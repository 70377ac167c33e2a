//! Encodes vectors whose elements have a fixed width: the elements follow each other without
//! lengths. Values that the functions here do not take go to the safe path (`crate::value`).

use std::mem::MaybeUninit;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::Plan;
use turbocql_codec::plan::VectorPlan;

use super::append::room;
use super::buffer::put_array;
use super::bytes::{Filled, build};
use super::dialect::Dialect;
use super::encode::put;
use super::int::small;
use super::numpy::{self, Number};
use super::object::{Object, float, items};
use super::scalar::{as_bigint, as_double, as_int, is_none};
use crate::binary32::{KEEPS_SIGNALLING, narrow};
use crate::plan::HostPlan;
use crate::plan::Record;
use crate::traits::{Numeric, traits};

/// Makes the `bytes` of a vector of numbers. Returns `None` if the safe path must encode the value,
/// or if the vector is smaller than 64 bytes.
#[inline]
pub fn sized<'py>(
    plan: &HostPlan,
    object: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Plan::Vector(vector) = plan else { return Ok(None) };
    if vector.width.is_none() {
        return Ok(None);
    }
    let size = vector.width.unwrap_or(0).saturating_mul(vector.dimension);
    // For smaller vectors, writing in place saves no time.
    if size < 64 {
        return Ok(None);
    }
    // SAFETY: `object` keeps the object alive and shows that the GIL is held. The items are
    // borrowed until the end of this function. Meanwhile only a `bytes` is allocated. This
    // allocation never starts a GC, because the GC does not track `bytes`, so no Python code runs.
    // Tests: property/test_safe_path_arrays.py. Benchmark: "value: vector<float, 1536>, list".
    let Some(parts) = (unsafe { items(object.as_ptr()) }) else {
        return build(object.py(), size, |out| {
            // SAFETY: `object` keeps the object alive and shows that the GIL is held. If
            // `put_array` returns true, it has written `dimension` elements of the vector's width:
            // all `size` bytes, as `set_full` demands. Tests: property/test_safe_path_arrays.py.
            // Benchmark: "value: vector<float, 1536>, float32 ndarray".
            unsafe {
                let (element, dimension) = (&vector.element, vector.dimension);
                put_array(element, dimension, object.as_ptr(), out.unwritten()) && out.set_full()
            }
        });
    };
    if parts.len() != vector.dimension {
        return Ok(None);
    }
    let py = object.py();
    match traits(&vector.element).numeric {
        Some(Numeric::Float) => build(py, size, |out| {
            // SAFETY: the list or tuple keeps its items alive, since no Python code runs meanwhile.
            // If `put_singles` returns true, it has written four bytes for each item, which are all
            // `size` bytes, as `set_full` demands. Tests: accel/test_serializers.py
            // (vectors_are_the_types_own). Benchmark: "value: vector<float, 1536>, list", whose
            // bytes are compared with other drivers'.
            unsafe { put_singles(parts, out.unwritten()) && out.set_full() }
        }),
        Some(Numeric::Double) => build(py, size, |out| {
            // SAFETY: the list or tuple keeps its items alive, since no Python code runs meanwhile;
            // `object` shows that the GIL is held. Tests: accel/test_serializers.py
            // (vectors_are_the_types_own). Benchmark: "value: vector<double, 1536>, list", whose
            // bytes are compared with other drivers'.
            fill(out, parts, |o| unsafe { as_double(o) })
        }),
        Some(Numeric::Int) => build(py, size, |out| {
            // SAFETY: the reasons are the same as for doubles. Tests: accel/test_serializers.py
            // (vectors_are_the_types_own). Benchmark: "value: vector<int, 1536>, list".
            fill(out, parts, |o| unsafe { as_int(o) })
        }),
        Some(Numeric::BigInt) => build(py, size, |out| {
            // SAFETY: the reasons are the same as for doubles. No test or benchmark gets here with
            // a list of `bigint` that takes 64 bytes or more.
            fill(out, parts, |o| unsafe { as_bigint(o) })
        }),
        // In a vector, each element of these types has a length before it, so the numbers cannot be
        // written one after the other.
        Some(Numeric::TinyInt | Numeric::SmallInt) | None => Ok(None),
    }
}

/// Fills memory with one value of `N` bytes for each of the parts.
#[inline(always)]
fn fill<const N: usize>(
    out: &mut Filled<'_>,
    parts: &[Object],
    read: impl Fn(Object) -> Option<[u8; N]>,
) -> bool {
    out.extend(parts.len(), |i| read(parts[i]))
}

/// Writes numbers as binary32 to the start of `target`, in chunks: reads the numbers of a chunk,
/// then narrows all of them in a loop without branches, which the compiler can vectorize. Returns
/// true if it has written four bytes for each of the parts.
///
/// # Safety
/// The caller must ensure that the parts stay alive until Python code runs, and that the GIL is
/// held.
unsafe fn put_singles(parts: &[Object], target: &mut [MaybeUninit<u8>]) -> bool {
    const CHUNK: usize = 64;
    let Some(target) = target.get_mut(..parts.len() * 4) else { return false };
    let mut wide = [0.0f64; CHUNK];
    for (parts, target) in parts.chunks(CHUNK).zip(target.chunks_mut(CHUNK * 4)) {
        for (&part, slot) in parts.iter().zip(&mut wide) {
            // SAFETY: `part` is alive and the GIL is held, as `# Safety` demands, and no Python
            // code runs here. Tests: property/test_safe_path.py (float), integration/test_types.py
            // (test_large_values). Benchmark: "value: vector<float, 1536>, list".
            match unsafe { float(part).or_else(|| small(part).map(|n| n as f64)) } {
                Some(number) => *slot = number,
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

/// Narrows as many numbers as `target` has room for. Returns false if one of them is out of range,
/// or is a NaN that the safe path must take.
fn narrow_all(wide: &[f64], target: &mut [MaybeUninit<u8>]) -> bool {
    #[inline(always)]
    fn run(wide: &[f64], target: &mut [MaybeUninit<u8>]) -> bool {
        let mut good = true;
        for (number, slot) in wide.iter().zip(target.as_chunks_mut::<4>().0) {
            let single = *number as f32;
            good &= single.is_finite() | !number.is_finite();
            // If `KEEPS_SIGNALLING`, every NaN goes to the safe path, which keeps signalling NaNs.
            good &= !(KEEPS_SIGNALLING & number.is_nan());
            *slot = single.to_be_bytes().map(MaybeUninit::new);
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
        // SAFETY: the function is compiled for AVX2, and the check above has shown that the
        // processor has AVX2. Tests: property/test_safe_path.py (float). Benchmark:
        // "value: vector<float, 1536>, list".
        return unsafe { run_wide(wide, target) };
    }
    run(wide, target)
}

/// Appends the elements of a vector without lengths. If it returns false, `out` may end with an
/// incomplete value.
///
/// # Safety
/// The caller must ensure that the parts are items of a live list or tuple, that vectors of
/// `element` have a width ([`VectorPlan::width`]), and that the GIL is held.
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
        let capacity = parts.len().saturating_mul(N);
        if !room(out, capacity) {
            return false;
        }
        let start = out.len();
        let spare = &mut out.spare_capacity_mut()[..capacity];
        for (&part, slot) in parts.iter().zip(spare.chunks_exact_mut(N)) {
            let Some(bytes) = read(part) else { return false };
            slot.copy_from_slice(&bytes.map(MaybeUninit::new));
        }
        // SAFETY: `room` has ensured a capacity of `start + capacity`. The loop has written `N`
        // bytes for each of the parts: `capacity` bytes in all. Tests: property/test_safe_path.py
        // (bigint), scripts/memcheck.
        unsafe { out.set_len(start + capacity) };
        true
    }
    // SAFETY: the parts are alive and the GIL is held, as `# Safety` demands. Elements of vectors
    // with a width are numbers, booleans, timestamps, UUIDs and vectors of these. They are encoded
    // without running Python code, because the only caller, `put_non_scalar`, excludes dialects
    // that convert. So borrowed parts stay alive. Before `set_len`, `room` has ensured the capacity
    // and `put_singles` has written four bytes for each of the parts. Tests:
    // property/test_safe_path.py (test_random_values_alone_and_inside), scripts/memcheck.
    // Benchmark: "bind: (int, vector 1536), list".
    unsafe {
        match traits(element).numeric {
            Some(Numeric::Int) => run(parts, out, |o| as_int(o)),
            Some(Numeric::BigInt) => run(parts, out, |o| as_bigint(o)),
            Some(Numeric::Float) => {
                let (start, size) = (out.len(), parts.len().saturating_mul(4));
                let is_written = room(out, size) && put_singles(parts, out.spare_capacity_mut());
                if is_written {
                    out.set_len(start + size);
                }
                is_written
            }
            Some(Numeric::Double) => run(parts, out, |o| as_double(o)),
            // A null is not allowed in a vector: the safe path raises the error.
            Some(Numeric::TinyInt | Numeric::SmallInt) | None => {
                parts.iter().all(|&part| !is_none(part) && put::<D>(element, part, out))
            }
        }
    }
}

/// Appends the numbers of an array as the elements of a vector. Returns false and appends nothing
/// if only the safe path takes the array.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline]
pub unsafe fn put_vector(vector: &VectorPlan<Record>, object: Object, out: &mut Vec<u8>) -> bool {
    let size = vector.width.unwrap_or(0).saturating_mul(vector.dimension);
    if !room(out, size) {
        return false;
    }
    let start = out.len();
    let spare = &mut out.spare_capacity_mut()[..size];
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. `room` has ensured the
    // capacity. If `put_array` returns true, it has written `dimension` elements of the vector's
    // width: all `size` bytes. Tests: property/test_safe_path_arrays.py, scripts/memcheck.
    // Benchmark: "bind: (int, vector 1536), ndarray".
    unsafe {
        let is_written = put_array(&vector.element, vector.dimension, object, spare);
        if is_written {
            out.set_len(start + size);
        }
        is_written
    }
}

/// Like [`put_vector`], but takes a `Bound`, which keeps the object alive.
pub fn append_vector(
    vector: &VectorPlan<Record>,
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> bool {
    // SAFETY: `object` owns a reference to the object, and shows that the GIL is held. Tests:
    // accel/test_everyday_values.py.
    unsafe { put_vector(vector, object.as_ptr(), out) }
}

/// Appends the elements of an exact list or tuple of Python or NumPy numbers, without lengths. The
/// type of the elements must be `float`, `double`, `int` or `bigint`. Returns false for any other
/// type, if `list` is of another class, or if an element is not such a number or is out of range;
/// `out` may then end with an incomplete value.
pub fn append_numbers(element: &HostPlan, list: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    // SAFETY: `list` is alive and shows that the GIL is held. It keeps its items alive: no Python
    // code runs here. Tests: accel/test_everyday_values.py.
    unsafe {
        let Some(parts) = items(list.as_ptr()) else { return false };
        match traits(element).numeric {
            Some(Numeric::Float) => {
                append_each(parts, out, |part| narrow(as_binary64(part)?).map(f32::to_be_bytes))
            }
            Some(Numeric::Double) => {
                append_each(parts, out, |part| as_binary64(part).map(f64::to_be_bytes))
            }
            Some(Numeric::Int) => append_each(parts, out, |part| {
                i32::try_from(as_integer(part)?).ok().map(i32::to_be_bytes)
            }),
            Some(Numeric::BigInt) => {
                append_each(parts, out, |part| as_integer(part).map(i64::to_be_bytes))
            }
            Some(Numeric::TinyInt | Numeric::SmallInt) | None => false,
        }
    }
}

fn append_each<const N: usize>(
    parts: &[Object],
    out: &mut Vec<u8>,
    read: impl Fn(Object) -> Option<[u8; N]>,
) -> bool {
    room(out, parts.len().saturating_mul(N))
        && parts.iter().all(|&part| read(part).map(|bytes| out.extend_from_slice(&bytes)).is_some())
}

/// Reads an exact `float`, an exact `int` of at most 60 bits, or a NumPy number that
/// [`numpy::number`] reads. Returns `None` for any other object.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
unsafe fn as_binary64(object: Object) -> Option<f64> {
    // SAFETY: all functions called here require only what the `# Safety` section requires. Tests:
    // accel/test_everyday_values.py.
    unsafe {
        match numpy::number_at(object) {
            Some(Number::Float(number)) => Some(number),
            Some(Number::Int(number)) => Some(number as f64),
            Some(Number::Unsigned(number)) => Some(number as f64),
            None => float(object).or_else(|| small(object).map(|number| number as f64)),
        }
    }
}

/// Reads an exact `int` of at most 60 bits, or a NumPy integer in the range of `i64`. Returns
/// `None` for any other object.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
unsafe fn as_integer(object: Object) -> Option<i64> {
    // SAFETY: all functions called here require only what the `# Safety` section requires. Tests:
    // accel/test_everyday_values.py.
    unsafe {
        match numpy::number_at(object) {
            Some(Number::Int(number)) => Some(number),
            Some(Number::Unsigned(number)) => i64::try_from(number).ok(),
            Some(Number::Float(_)) => None,
            None => small(object),
        }
    }
}
