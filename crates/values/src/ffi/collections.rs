//! Encodes lists, tuples, sets and dicts. Some values and items are not taken: the functions here
//! return false for them. The safe path (`crate::value`) then encodes the whole value or raises the
//! error.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PySet};

use super::append::room;
use super::dialect::Dialect;
use super::encode::{put_cell, put_part};
use super::object::{Object, items};
use super::probe;
use super::quick_path::QuickPath;
use super::scalar::{as_bigint, as_double, as_float, as_int, as_smallint, as_tinyint, is_none};
use super::symbol::Symbol;
use crate::plan::HostPlan;
use crate::traits::{Numeric, traits};

/// Returns owned references to the objects in `parts`.
///
/// # Safety
/// The caller must ensure that all these objects are alive and that the GIL is held.
unsafe fn held(parts: &[Object]) -> Vec<Py<PyAny>> {
    // SAFETY: the objects are alive and the GIL is held, as `# Safety` demands. Taking a reference
    // runs no Python code. Tests: accel/test_hostile.py (keys_of_a_class_of_their_own),
    // unit/test_quick_paths.py (sets).
    unsafe {
        let py = Python::assume_attached();
        parts.iter().map(|&part| Bound::from_borrowed_ptr(py, part).unbind()).collect()
    }
}

/// Whether a list or tuple still has exactly the items in `held`.
///
/// # Safety
/// The caller must ensure that `owner` is alive and that the GIL is held.
unsafe fn has_still(owner: Object, held: &[Py<PyAny>]) -> bool {
    // SAFETY: `owner` is alive and the GIL is held, as `# Safety` demands. The items are compared
    // by address at once, and no Python code runs before that. Tests: accel/test_hostile.py
    // (keys_of_a_class_of_their_own).
    let now = unsafe { items(owner) };
    now.is_some_and(|now| {
        now.len() == held.len() && now.iter().zip(held).all(|(&now, then)| now == then.as_ptr())
    })
}

/// Appends the number of items of a list or tuple, and then the items. Returns false if an item is
/// not taken, or if Python code has changed the list during the call.
///
/// # Safety
/// The caller must ensure that `owner` is alive, that `parts` are its items now, and that the GIL
/// is held. If [`Dialect::may_run_python`] is true for `element`, the caller must own a reference
/// to `owner`.
#[inline]
pub unsafe fn put_items<D: Dialect>(
    element: &HostPlan,
    owner: Object,
    parts: &[Object],
    out: &mut Vec<u8>,
) -> bool {
    let Ok(count) = i32::try_from(parts.len()) else { return false };
    if !room(out, 4) {
        return false;
    }
    out.extend_from_slice(&count.to_be_bytes());
    // SAFETY: `owner` is alive and has these items, and the GIL is held, as `# Safety` demands. If
    // encoding runs no Python code, the list cannot change, so the borrowed items stay alive. If
    // encoding may run Python code, owned references to the items are taken first, and `parts` is
    // not used after that. Tests: property/test_safe_path.py, property/test_hostile.py
    // (test_sequences_that_change_while_they_are_read), accel/test_hostile.py. Benchmark:
    // "value: list<int> of 100".
    unsafe {
        match traits(element).numeric.filter(|_| !D::CONVERTS) {
            Some(Numeric::Int) => put_run::<D, _>(parts, out, |o| as_int(o)),
            Some(Numeric::BigInt) => put_run::<D, _>(parts, out, |o| as_bigint(o)),
            Some(Numeric::Float) => put_run::<D, _>(parts, out, |o| as_float(o)),
            Some(Numeric::Double) => put_run::<D, _>(parts, out, |o| as_double(o)),
            Some(Numeric::SmallInt) => put_run::<D, _>(parts, out, |o| as_smallint(o)),
            Some(Numeric::TinyInt) => put_run::<D, _>(parts, out, |o| as_tinyint(o)),
            None if D::may_run_python(element) => {
                let held = held(parts);
                held.iter().all(|part| put_part::<D>(element, part.as_ptr(), out))
                    && has_still(owner, &held)
            }
            None => parts.iter().all(|&part| put_part::<D>(element, part, out)),
        }
    }
}

/// Appends the items of a list or tuple, without their number. Each item is written as the type at
/// its position in `plans`; items beyond the last type are ignored. Returns false if an item is not
/// taken, or if Python code has changed the list during the call.
///
/// # Safety
/// The caller must ensure that `owner` is alive, that `parts` are its items now, and that the GIL
/// is held. If [`Dialect::may_run_python`] is true for one of `plans`, the caller must own a
/// reference to `owner`.
#[inline]
pub unsafe fn put_parts<D: Dialect>(
    plans: &[HostPlan],
    owner: Object,
    parts: &[Object],
    out: &mut Vec<u8>,
) -> bool {
    // SAFETY: `owner` is alive and has these items, and the GIL is held, as `# Safety` demands. If
    // encoding runs no Python code, the list cannot change, so the borrowed items stay alive. If
    // encoding may run Python code, owned references hold the items while they are encoded. Tests:
    // property/test_safe_path.py, accel/test_hostile.py (keys_of_a_class_of_their_own). Benchmarks:
    // "value: tuple of 10", "value: UDT of 5".
    unsafe {
        if !plans.iter().any(D::may_run_python) {
            return plans.iter().zip(parts).all(|(plan, &part)| put_cell::<D>(plan, part, out));
        }
        let held = held(parts);
        plans.iter().zip(&held).all(|(plan, part)| put_cell::<D>(plan, part.as_ptr(), out))
            && has_still(owner, &held)
    }
}

/// Appends the number of entries of an exact `dict`, and the entries. Returns false if `object` is
/// not an exact `dict`, if an entry is not taken, or if Python code has changed the dict during the
/// call.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. If
/// [`Dialect::may_run_python`] is true for `key` or `value`, the caller must own a reference to
/// `object`.
pub unsafe fn put_dict<D: Dialect>(
    key: &HostPlan,
    value: &HostPlan,
    object: Object,
    out: &mut Vec<u8>,
) -> bool {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands; its class is compared
    // first. `PyDict_Next` demands a dict that does not change during the iteration, and returns
    // borrowed references. If encoding runs no Python code, the dict cannot change. If encoding may
    // run Python code, `entries` has taken owned references before, in a separate iteration. Tests:
    // property/test_safe_path.py (map), property/test_hostile.py
    // (test_sets_and_dicts_that_change_while_they_are_read), accel/test_comparison.py. Benchmark:
    // "value: map<text, int> of 100".
    unsafe {
        if (*object).ob_type != &raw mut ffi::PyDict_Type {
            return false;
        }
        let Ok(count) = i32::try_from(ffi::PyDict_Size(object)) else { return false };
        if !room(out, 4) {
            return false;
        }
        out.extend_from_slice(&count.to_be_bytes());
        if D::may_run_python(key) || D::may_run_python(value) {
            let both = entries(object);
            return both.as_chunks::<2>().0.iter().all(|[k, v]| {
                put_part::<D>(key, k.as_ptr(), out) && put_part::<D>(value, v.as_ptr(), out)
            }) && are_same(&both, &entries(object));
        }
        let (mut at, mut k, mut v) = (0, ptr::null_mut(), ptr::null_mut());
        while ffi::PyDict_Next(object, &raw mut at, &raw mut k, &raw mut v) != 0 {
            if !put_part::<D>(key, k, out) || !put_part::<D>(value, v, out) {
                return false;
            }
        }
        true
    }
}

/// Returns owned references to the keys and values of a dict, alternating.
///
/// # Safety
/// The caller must ensure that `object` is an exact `dict`, that it is alive, and that the GIL is
/// held.
unsafe fn entries(object: Object) -> Vec<Py<PyAny>> {
    // SAFETY: `object` is a live dict and the GIL is held, as `# Safety` demands. Taking references
    // runs no Python code, so the dict does not change during the iteration, as `PyDict_Next`
    // demands. Tests: accel/test_comparison.py (serialize_tasks).
    unsafe {
        let mut entries = Vec::with_capacity(2 * ffi::PyDict_Size(object).max(0) as usize);
        let (mut at, mut k, mut v) = (0, ptr::null_mut(), ptr::null_mut());
        while ffi::PyDict_Next(object, &raw mut at, &raw mut k, &raw mut v) != 0 {
            entries.extend(held(&[k, v]));
        }
        entries
    }
}

fn are_same(parts: &[Py<PyAny>], other_parts: &[Py<PyAny>]) -> bool {
    parts.len() == other_parts.len()
        && parts.iter().zip(other_parts).all(|(part, other_part)| part.is(other_part))
}

/// CPython's function that moves to the next element of a set, and sets `key` to a borrowed
/// reference to that element. Returns 0 at the end. The function is private.
type NextEntry = unsafe extern "C" fn(
    set: Object,
    at: *mut ffi::Py_ssize_t,
    key: *mut Object,
    hash: *mut ffi::Py_hash_t,
) -> c_int;
// SAFETY: `NextEntry` is the function's type as CPython 3.10 to 3.15 declare it; for all other
// versions quick paths are off. Tests: unit/test_quick_paths.py (sets).
static NEXT_ENTRY: Symbol<NextEntry> = unsafe { Symbol::new(c"_PySet_NextEntry") };

/// Probes whether iteration over sample sets is correct. If it is not, returns what is wrong.
pub fn probe_sets(py: Python<'_>) -> PyResult<Option<String>> {
    if let Some(missing) = NEXT_ENTRY.look_up() {
        return Ok(Some(missing));
    }
    let mut thinned: Vec<_> = (0..1000).collect();
    let large = PySet::new(py, &thinned)?;
    // The iteration must skip the entries of removed elements.
    for removed in thinned.extract_if(.., |number| *number % 3 != 0) {
        large.discard(removed)?;
    }
    let sets = [
        PySet::empty(py)?.into_any(),
        PySet::new(py, ["a", "b", "c"])?.into_any(),
        PyFrozenSet::new(py, [1.5, 2.5])?.into_any(),
        large.into_any(),
    ];
    for set in sets {
        // SAFETY: `set` is an exact `set` or `frozenset` that its `Bound` keeps alive, and `py`
        // shows that the GIL is held. Tests: unit/test_quick_paths.py (sets).
        let read_elements: Vec<_> =
            unsafe { elements(set.as_ptr()) }.iter().map(|part| part.as_ptr()).collect();
        let expected: Vec<_> = set.try_iter()?.collect::<PyResult<_>>()?;
        let expected = expected.iter().map(Bound::as_ptr).collect();
        let wrong = probe::check_value(QuickPath::Sets, "a set", read_elements, expected);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

/// Appends the number of elements of an exact `set` or `frozenset`, and the elements. Returns false
/// if `object` is of another class, if an element is not taken, if Python code has changed the set
/// during the call, or if the quick path is off.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. If
/// [`Dialect::may_run_python`] is true for `element`, the caller must own a reference to `object`.
pub unsafe fn put_set<D: Dialect>(element: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands; its class is compared
    // first. `_PySet_NextEntry` demands a set that does not change during the iteration, and
    // returns borrowed references. If encoding runs no Python code, the set cannot change. If
    // encoding may run Python code, `elements` has taken owned references before, in a separate
    // iteration. Tests: property/test_safe_path.py (set), property/test_hostile.py
    // (test_sets_and_dicts_that_change_while_they_are_read), accel/test_comparison.py. Benchmark:
    // "value: set<text> of 100".
    unsafe {
        let class = (*object).ob_type;
        if class != &raw mut ffi::PySet_Type && class != &raw mut ffi::PyFrozenSet_Type {
            return false;
        }
        if !QuickPath::Sets.is_on() {
            return false;
        }
        let Some(next_entry) = NEXT_ENTRY.get() else { return false };
        let Ok(count) = i32::try_from(ffi::PySet_Size(object)) else { return false };
        if !room(out, 4) {
            return false;
        }
        out.extend_from_slice(&count.to_be_bytes());
        if D::may_run_python(element) {
            let parts = elements(object);
            return parts.iter().all(|part| put_part::<D>(element, part.as_ptr(), out))
                && are_same(&parts, &elements(object));
        }
        let (mut at, mut key, mut hash) = (0, ptr::null_mut(), 0);
        while next_entry(object, &raw mut at, &raw mut key, &raw mut hash) != 0 {
            if !put_part::<D>(element, key, out) {
                return false;
            }
        }
        true
    }
}

/// Returns owned references to the elements of a set.
///
/// # Safety
/// The caller must ensure that `object` is an exact `set` or `frozenset`, that it is alive, and
/// that the GIL is held.
unsafe fn elements(object: Object) -> Vec<Py<PyAny>> {
    // SAFETY: `object` is a live set and the GIL is held, as `# Safety` demands. Taking references
    // runs no Python code, so the set does not change during the iteration. Tests:
    // unit/test_quick_paths.py (sets), accel/test_comparison.py (serialize_tasks).
    unsafe {
        let mut elements = Vec::with_capacity(ffi::PySet_Size(object).max(0) as usize);
        let (mut at, mut key, mut hash) = (0, ptr::null_mut(), 0);
        let Some(next_entry) = NEXT_ENTRY.get() else { return elements };
        while next_entry(object, &raw mut at, &raw mut key, &raw mut hash) != 0 {
            elements.extend(held(&[key]));
        }
        elements
    }
}

/// Appends elements of fixed width, each after its length. For `None`, appends only the length that
/// means null. Reserves room for all elements at once.
#[inline(always)]
fn put_run<D: Dialect, const N: usize>(
    parts: &[Object],
    out: &mut Vec<u8>,
    read: impl Fn(Object) -> Option<[u8; N]>,
) -> bool {
    let capacity = parts.len().saturating_mul(4 + N);
    if !room(out, capacity) {
        return false;
    }
    let start = out.len();
    let spare = &mut out.spare_capacity_mut()[..capacity];
    let mut at = 0;
    for &part in parts {
        // SAFETY: `is_none` compares the address only. The object is alive and the GIL is held in
        // the only caller, `put_items`. Tests: property/test_safe_path.py. Benchmark:
        // "value: list<int> of 100, half null".
        if unsafe { is_none(part) } {
            spare[at..at + 4].copy_from_slice(&D::NULL.to_be_bytes().map(MaybeUninit::new));
            at += 4;
            continue;
        }
        let Some(bytes) = read(part) else { return false };
        let slot = &mut spare[at..at + 4 + N];
        slot[..4].copy_from_slice(&(N as i32).to_be_bytes().map(MaybeUninit::new));
        slot[4..].copy_from_slice(&bytes.map(MaybeUninit::new));
        at += 4 + N;
    }
    // SAFETY: `room` has ensured a capacity of `start + capacity`, and `at` is at most `capacity`.
    // All `at` bytes after `start` are written: each pass of the loop adds the number of bytes that
    // it writes to `at`. Tests: property/test_safe_path.py, scripts/memcheck. Benchmark:
    // "value: list<int> of 100".
    unsafe { out.set_len(start + at) };
    true
}
