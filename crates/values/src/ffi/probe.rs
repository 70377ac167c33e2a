//! Probes decide whether a quick path may be on. A probe compares the objects that the quick path
//! reads or makes with expected objects.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use super::quick_path::QuickPath;

/// The environment variable that simulates a fault in one probe, in the form `PATH:FAULT`. Tests
/// use it to check that the probe notices the fault.
const CORRUPTED: &str = "_TURBOCQL_TEST_PROBE";

/// A fault of an object that was read or made.
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

/// Whether a test simulates this fault in the probe of a quick path.
pub fn is_corrupted(path: QuickPath, fault: Fault) -> bool {
    static ASKED: OnceLock<Option<String>> = OnceLock::new();
    let requested = ASKED.get_or_init(|| std::env::var(CORRUPTED).ok());
    requested.as_deref().and_then(|requested| requested.split_once(':'))
        == Some((path.name(), fault.name()))
}

/// Checks that `actual`, which a quick path has read, is equal to `expected`. If it is not, returns
/// what is wrong.
pub fn check_value<T: PartialEq>(
    path: QuickPath,
    subject: &str,
    actual: T,
    expected: T,
) -> Option<String> {
    let good = actual == expected && !is_corrupted(path, Fault::Value);
    (!good).then(|| format!("{subject} was not read correctly"))
}

/// Checks an object that a quick path has made. Its class, value, hash and size must be those of
/// `expected`, which Python has made. `tracked` says whether the GC must track the object. The
/// object's reference count must be 1. If one of these is wrong, returns a text that names it.
///
/// The reference count is not checked if `object` and `expected` are one shared object, such as
/// True.
pub fn check_object(
    path: QuickPath,
    subject: &str,
    object: &Bound<'_, PyAny>,
    expected: &Bound<'_, PyAny>,
    tracked: bool,
) -> PyResult<Option<String>> {
    let py = object.py();
    let wrong = |fact: &str| Ok(Some(format!("{subject} was made with another {fact}")));
    if is_corrupted(path, Fault::Tracking) {
        flip_tracking(object);
    }
    let extra = is_corrupted(path, Fault::References).then(|| object.clone());
    if !object.get_type().is(expected.get_type()) {
        return wrong("class");
    }
    if !object.eq(expected)? || is_corrupted(path, Fault::Value) {
        return wrong("value");
    }
    if let Ok(hash) = expected.hash()
        && (!object.hash().is_ok_and(|actual| actual == hash) || is_corrupted(path, Fault::Hash))
    {
        return wrong("hash");
    }
    let size = pyo3::intern!(py, "__sizeof__");
    // The size of a list depends on its capacity, which may be larger than needed.
    if !object.is_instance_of::<PyList>()
        && !object.call_method0(size)?.eq(expected.call_method0(size)?)?
    {
        return wrong("size");
    }
    // SAFETY: both functions need a live object and the GIL; `object` has a reference to it and
    // shows that the GIL is held. Tests: unit/test_quick_paths.py.
    let (is_tracked, count) = unsafe {
        (ffi::PyObject_GC_IsTracked(object.as_ptr()) != 0, ffi::Py_REFCNT(object.as_ptr()))
    };
    if is_tracked != tracked {
        if is_corrupted(path, Fault::Tracking) {
            flip_tracking(object);
        }
        return wrong("state of GC tracking");
    }
    if count != 1 && !object.is(expected) {
        return wrong("reference count");
    }
    drop(extra);
    Ok(None)
}

/// If the GC tracks the object, makes the GC stop tracking it. Otherwise makes the GC track it.
fn flip_tracking(object: &Bound<'_, PyAny>) {
    // SAFETY: `object` keeps the object alive and shows that the GIL is held. Both GC functions
    // need an object with a GC head, as `Py_TPFLAGS_HAVE_GC` shows. `PyObject_GC_Track` also needs
    // an object that is not tracked. These conditions are checked here. Tests:
    // unit/test_quick_paths.py (test_each_probe_notices_what_is_wrong).
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

/// Returns the reference count of an object.
pub fn references<T>(object: &Bound<'_, T>) -> isize {
    // SAFETY: `Py_REFCNT` needs a live object; `object` has a reference to it, and shows that the
    // GIL is held. Tests: unit/test_quick_paths.py.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// Checks that the fields of `PyTypeObject`, as quick paths read them, hold the same values as
/// CPython's public functions return. If they do not, returns what is wrong.
pub fn classes(py: Python<'_>) -> PyResult<Option<String>> {
    let samples = [c"type('Sample', (tuple,), {})", c"type('Sample', (), {'__slots__': ('own',)})"];
    for sample in samples {
        let class = py.eval(sample, None, None)?.cast_into::<PyType>()?;
        let class = class.as_type_ptr();
        // SAFETY: `class` points to the class that `py.eval` returned. The `Bound` it came from is
        // shadowed, not dropped, so the class is alive; `py` shows that the GIL is held. The slot
        // numbers are those of CPython's headers. The function pointers are compared, not called.
        // Tests: unit/test_quick_paths.py (records, rows, decode).
        let same = unsafe {
            let slot_function = |slot| ffi::PyType_GetSlot(class, slot) as usize;
            let allocate = (*class).tp_alloc.map_or(0, |function| function as usize);
            let new = (*class).tp_new.map_or(0, |function| function as usize);
            let flags = ffi::PyType_GetFlags(class);
            allocate == slot_function(ffi::Py_tp_alloc)
                && new == slot_function(ffi::Py_tp_new)
                && ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE)
                    == i32::from(flags & ffi::Py_TPFLAGS_HEAPTYPE != 0)
        };
        if !same {
            return Ok(Some("the functions of a class are not at the expected offsets".to_owned()));
        }
    }
    Ok(None)
}
