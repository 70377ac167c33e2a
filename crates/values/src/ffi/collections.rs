//! Lists, tuples, sets and dicts to bytes.

use std::ffi::c_int;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PySet};
use turbocql_codec::Plan;

use super::dialect::Dialect;
use super::encode::{put_cell, put_part, put_run, room};
use super::object::{Object, items};
use super::probe;
use super::quick_path::QuickPath;
use super::scalar::{as_bigint, as_double, as_float, as_int};
use super::symbol::Symbol;
use crate::value::HostPlan;

/// References of our own.
///
/// # Safety
/// The objects are alive, and the interpreter's lock is held.
unsafe fn held(parts: &[Object]) -> Vec<Py<PyAny>> {
    // SAFETY: the caller's word.
    unsafe {
        let py = Python::assume_attached();
        parts.iter().map(|&part| Bound::from_borrowed_ptr(py, part).unbind()).collect()
    }
}

/// Whether a list or tuple has these parts still.
///
/// # Safety
/// The object is alive, and the interpreter's lock is held.
unsafe fn has_still(owner: Object, held: &[Py<PyAny>]) -> bool {
    // SAFETY: the caller's word; what is given is looked at at once.
    let now = unsafe { items(owner) };
    now.is_some_and(|now| {
        now.len() == held.len() && now.iter().zip(held).all(|(&now, then)| now == then.as_ptr())
    })
}

/// Appends a count and the parts, which are those of a list or tuple.
///
/// # Safety
/// The owner is alive, has these parts, and the lock is held.
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
    // SAFETY: the caller's word, handed on.
    unsafe {
        match element {
            Plan::Int => put_run::<D, _>(parts, out, |o| as_int(o)),
            Plan::BigInt => put_run::<D, _>(parts, out, |o| as_bigint(o)),
            Plan::Float => put_run::<D, _>(parts, out, |o| as_float(o)),
            Plan::Double => put_run::<D, _>(parts, out, |o| as_double(o)),
            _ if D::may_run_python(element) => {
                let held = held(parts);
                held.iter().all(|part| put_part::<D>(element, part.as_ptr(), out))
                    && has_still(owner, &held)
            }
            _ => parts.iter().all(|&part| put_part::<D>(element, part, out)),
        }
    }
}

/// Appends parts of a type each, without a count: so many as there are types at most.
///
/// # Safety
/// As for [`put_items`].
#[inline]
pub unsafe fn put_parts<D: Dialect>(
    plans: &[HostPlan],
    owner: Object,
    parts: &[Object],
    out: &mut Vec<u8>,
) -> bool {
    // SAFETY: the caller's word, handed on.
    unsafe {
        if !plans.iter().any(D::may_run_python) {
            return plans.iter().zip(parts).all(|(plan, &part)| put_cell::<D>(plan, part, out));
        }
        let held = held(parts);
        plans.iter().zip(&held).all(|(plan, part)| put_cell::<D>(plan, part.as_ptr(), out))
            && has_still(owner, &held)
    }
}

/// Appends a count and the entries of an exact `dict`.
///
/// # Safety
/// The object is alive, and the interpreter's lock is held.
pub unsafe fn put_dict<D: Dialect>(
    key: &HostPlan,
    value: &HostPlan,
    object: Object,
    out: &mut Vec<u8>,
) -> bool {
    // SAFETY: an exact dict, which does not change while it is passed over: where Python code may
    // run, that has been done before.
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

/// Keys and values of a dict, in turn.
///
/// # Safety
/// An exact dict, alive, and the interpreter's lock is held.
unsafe fn entries(object: Object) -> Vec<Py<PyAny>> {
    // SAFETY: the caller's word; taking references runs no Python code.
    unsafe {
        let mut found = Vec::with_capacity(2 * ffi::PyDict_Size(object).max(0) as usize);
        let (mut at, mut k, mut v) = (0, ptr::null_mut(), ptr::null_mut());
        while ffi::PyDict_Next(object, &raw mut at, &raw mut k, &raw mut v) != 0 {
            found.extend(held(&[k, v]));
        }
        found
    }
}

fn are_same(some: &[Py<PyAny>], others: &[Py<PyAny>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| one.is(other))
}

/// CPython's own iteration over a set, which gives borrowed references. Private.
type NextEntry = unsafe extern "C" fn(
    set: Object,
    at: *mut ffi::Py_ssize_t,
    key: *mut Object,
    hash: *mut ffi::Py_hash_t,
) -> c_int;
// SAFETY: CPython's declaration of it, 3.10 to 3.15.
static NEXT_ENTRY: Symbol<NextEntry> = unsafe { Symbol::new(c"_PySet_NextEntry") };

/// Tries the iteration on sets whose elements are known.
pub fn probe_sets(py: Python<'_>) -> PyResult<Option<String>> {
    if let Some(missing) = NEXT_ENTRY.look_up() {
        return Ok(Some(missing));
    }
    let mut thinned: Vec<_> = (0..1000).collect();
    let large = PySet::new(py, &thinned)?;
    // Places of elements that were removed are passed over.
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
        // SAFETY: an exact set, alive, and the lock is held.
        let found: Vec<_> =
            unsafe { elements(set.as_ptr()) }.iter().map(|part| part.as_ptr()).collect();
        let expected: Vec<_> = set.try_iter()?.collect::<PyResult<_>>()?;
        let expected = expected.iter().map(Bound::as_ptr).collect();
        let wrong = probe::read(QuickPath::Sets, "a set", found, expected);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

/// Appends a count and the elements of an exact `set` or `frozenset`.
///
/// # Safety
/// As for [`put_dict`].
pub unsafe fn put_set<D: Dialect>(element: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: as in `put_dict`, an exact set.
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

/// The elements of a set.
///
/// # Safety
/// An exact set or frozenset, alive, and the interpreter's lock is held.
unsafe fn elements(object: Object) -> Vec<Py<PyAny>> {
    // SAFETY: the caller's word; taking references runs no Python code.
    unsafe {
        let mut found = Vec::with_capacity(ffi::PySet_Size(object).max(0) as usize);
        let (mut at, mut key, mut hash) = (0, ptr::null_mut(), 0);
        let Some(next_entry) = NEXT_ENTRY.get() else { return found };
        while next_entry(object, &raw mut at, &raw mut key, &raw mut hash) != 0 {
            found.extend(held(&[key]));
        }
        found
    }
}
