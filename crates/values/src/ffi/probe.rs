//! What quick paths are tried on: objects of which everything is known.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use super::quick_path::QuickPath;

/// Has what one probe is shown corrupted: `PATH:WHAT`, for the tests that probes notice it.
const CORRUPTED: &str = "_TURBOCQL_TEST_PROBE";

/// What can be wrong with an object that was read or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Value,
    Hash,
    Tracking,
    References,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Value => "value",
            Fault::Hash => "hash",
            Fault::Tracking => "tracking",
            Fault::References => "references",
        }
    }
}

/// Whether a test has asked for this fault in what the probe of a path is shown.
pub fn is_corrupted(path: QuickPath, fault: Fault) -> bool {
    static ASKED: OnceLock<Option<String>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| std::env::var(CORRUPTED).ok());
    asked.as_deref().and_then(|asked| asked.split_once(':')) == Some((path.name(), fault.name()))
}

/// Why what a quick path has read is wrong, if it is.
pub fn read<T: PartialEq>(path: QuickPath, what: &str, found: T, expected: T) -> Option<String> {
    let good = found == expected && !is_corrupted(path, Fault::Value);
    (!good).then(|| format!("{what} was not read as it is"))
}

/// Why an object that a quick path has made is wrong, if it is: it is compared with one that Python
/// has made, in its class, value, hash and size, and by whether the GC tracks it. It has one
/// reference, which is `made`, unless Python gives the same object to all.
pub fn made(
    path: QuickPath,
    what: &str,
    made: &Bound<'_, PyAny>,
    expected: &Bound<'_, PyAny>,
    tracked: bool,
) -> PyResult<Option<String>> {
    let py = made.py();
    let wrong = |fact: &str| Ok(Some(format!("{what} was made with another {fact}")));
    if is_corrupted(path, Fault::Tracking) {
        flip_tracking(made);
    }
    let extra = is_corrupted(path, Fault::References).then(|| made.clone());
    if !made.get_type().is(expected.get_type()) {
        return wrong("class");
    }
    if !made.eq(expected)? || is_corrupted(path, Fault::Value) {
        return wrong("value");
    }
    if let Ok(hash) = expected.hash()
        && (!made.hash().is_ok_and(|found| found == hash) || is_corrupted(path, Fault::Hash))
    {
        return wrong("hash");
    }
    let size = pyo3::intern!(py, "__sizeof__");
    // A list may have room for more.
    if !made.is_instance_of::<PyList>()
        && !made.call_method0(size)?.eq(expected.call_method0(size)?)?
    {
        return wrong("size");
    }
    // SAFETY: both are alive, and the lock is held.
    let (is_tracked, count) =
        unsafe { (ffi::PyObject_GC_IsTracked(made.as_ptr()) != 0, ffi::Py_REFCNT(made.as_ptr())) };
    if is_tracked != tracked {
        if is_corrupted(path, Fault::Tracking) {
            flip_tracking(made);
        }
        return wrong("relation to the GC");
    }
    if count != 1 && !made.is(expected) {
        return wrong("count of references");
    }
    drop(extra);
    Ok(None)
}

/// Has the GC track an object that it does not track, or the reverse.
fn flip_tracking(object: &Bound<'_, PyAny>) {
    // SAFETY: alive, and the lock is held; only an object that the GC can track is told of.
    unsafe {
        if ffi::PyType_HasFeature(object.get_type_ptr(), ffi::Py_TPFLAGS_HAVE_GC) == 0 {
            return;
        }
        if ffi::PyObject_GC_IsTracked(object.as_ptr()) != 0 {
            ffi::PyObject_GC_UnTrack(object.as_ptr().cast());
        } else {
            ffi::PyObject_GC_Track(object.as_ptr().cast());
        }
    }
}

/// How many references there are to an object.
pub fn references<T>(object: &Bound<'_, T>) -> isize {
    // SAFETY: alive, and the lock is held.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// Why classes do not keep their functions where they are looked for, if so: what CPython itself tells
/// of them is compared with what is read.
pub fn classes(py: Python<'_>) -> PyResult<Option<String>> {
    let samples = [c"type('Sample', (tuple,), {})", c"type('Sample', (), {'__slots__': ('own',)})"];
    for sample in samples {
        let class = py.eval(sample, None, None)?.cast_into::<PyType>()?;
        let class = class.as_type_ptr();
        // SAFETY: a class that is alive, and numbers of slots. What is read is compared, not called.
        let same = unsafe {
            let told = |slot| ffi::PyType_GetSlot(class, slot) as usize;
            let allocate = (*class).tp_alloc.map_or(0, |function| function as usize);
            let new = (*class).tp_new.map_or(0, |function| function as usize);
            let flags = ffi::PyType_GetFlags(class);
            allocate == told(ffi::Py_tp_alloc)
                && new == told(ffi::Py_tp_new)
                && ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE)
                    == i32::from(flags & ffi::Py_TPFLAGS_HEAPTYPE != 0)
        };
        if !same {
            return Ok(Some("a class does not have its functions where they should be".to_owned()));
        }
    }
    Ok(None)
}
