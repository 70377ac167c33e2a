//! NumPy arrays, read through the layout that NumPy promises to those who compile against it.
//!
//! The buffer protocol says the same, and takes longer for it than a vector takes to be copied.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::probe;
use super::quick_path::QuickPath;

/// `PyArrayObject_fields`, as far as it is read.
#[repr(C)]
struct Array {
    head: ffi::PyObject,
    data: *const u8,
    dimensions: std::ffi::c_int,
    lengths: *const ffi::Py_ssize_t,
    strides: *const ffi::Py_ssize_t,
    base: *mut ffi::PyObject,
    dtype: *mut ffi::PyObject,
}

/// The numbers whose arrays are known, in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    F32,
    F64,
    I32,
    I64,
    U32,
    I16,
    U16,
    F16,
    I8,
    U8,
    U64,
}

const KINDS: [(Kind, &str); 11] = [
    (Kind::F32, "float32"),
    (Kind::F64, "float64"),
    (Kind::I32, "int32"),
    (Kind::I64, "int64"),
    (Kind::U32, "uint32"),
    (Kind::I16, "int16"),
    (Kind::U16, "uint16"),
    (Kind::F16, "float16"),
    (Kind::I8, "int8"),
    (Kind::U8, "uint8"),
    (Kind::U64, "uint64"),
];

/// What was learnt of the NumPy that is loaded. Its objects live for ever.
struct Known {
    class: *mut ffi::PyTypeObject,
    dtypes: [*mut ffi::PyObject; KINDS.len()],
}

static KNOWN: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());
static TRIED: AtomicBool = AtomicBool::new(false);

/// A row of numbers in an array.
pub struct Row {
    pub kind: Kind,
    pub start: *const u8,
    pub count: usize,
    pub stride: isize,
}

/// Learns the layout of arrays, once somebody has one. Calls NumPy: nothing may be borrowed but
/// `given`.
#[inline]
pub fn learn(given: &Bound<'_, PyAny>) {
    if !TRIED.load(Ordering::Relaxed) {
        try_to_learn(given);
    }
}

#[cold]
fn try_to_learn(given: &Bound<'_, PyAny>) {
    let py = given.py();
    let loaded = || -> PyResult<Option<Bound<'_, PyAny>>> {
        let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
        modules.get_item("numpy")
    };
    let Ok(Some(numpy)) = loaded() else { return };
    // Another thread may be importing it.
    let whole = ["ndarray", "dtype", "zeros", "__version__"];
    if !whole.iter().all(|name| numpy.hasattr(*name).unwrap_or(false)) {
        return;
    }
    // Whatever it was, the buffer protocol goes on to work.
    let decided = QuickPath::Arrays.decide(py, |_| {
        Ok(match try_layout(&numpy)? {
            Ok(known) => {
                KNOWN.store(Box::into_raw(Box::new(known)), Ordering::Release);
                None
            }
            Err(reason) => Some(reason),
        })
    });
    if let Err(interrupt) = decided {
        if interrupt.is_instance_of::<PyKeyboardInterrupt>(py) {
            // SAFETY: the lock is held. It is raised where Python looks for signals next.
            unsafe { ffi::PyErr_SetInterrupt() };
        }
        return;
    }
    TRIED.store(true, Ordering::Relaxed);
}

/// Tries the layout on arrays of which everything is known.
fn try_layout(numpy: &Bound<'_, PyAny>) -> PyResult<Result<Known, String>> {
    let wrong = || Ok(Err("arrays are not laid out as expected".to_owned()));
    // What is read is part of the interface that NumPy keeps within a major version.
    let version: String = numpy.getattr("__version__")?.extract()?;
    if !["1.", "2."].iter().any(|major| version.starts_with(major)) {
        return Ok(Err(format!("tested with NumPy 1 and 2, this is {version}")));
    }
    let class = numpy.getattr("ndarray")?.cast_into::<PyType>()?;
    if class.getattr("__basicsize__")?.extract::<usize>()? < size_of::<Array>() {
        return wrong();
    }
    let mut dtypes = [ptr::null_mut(); KINDS.len()];
    for ((_, name), place) in KINDS.iter().zip(&mut dtypes) {
        let dtype = numpy.getattr("dtype")?.call1((*name,))?;
        let width: isize = dtype.getattr("itemsize")?.extract()?;
        // Whatever somebody has put in NumPy's place.
        if dtype.getattr("name")?.extract::<String>()? != *name
            || name.trim_start_matches(char::is_alphabetic) != (width * 8).to_string()
        {
            return wrong();
        }
        let whole = numpy.call_method1("zeros", (5, &dtype))?;
        let every_other =
            whole.get_item(pyo3::types::PySlice::new(whole.py(), 1, isize::MAX, 2))?;
        let start: usize =
            every_other.getattr("__array_interface__")?.get_item("data")?.get_item(0)?.extract()?;
        if !every_other.get_type().is(&class) {
            return wrong();
        }
        let array = every_other.as_ptr().cast::<Array>();
        // SAFETY: alive, and an object of at least this size; lengths and strides are followed only
        // where the number of dimensions and the address are as they should be.
        let as_expected = unsafe {
            (*array).dimensions == 1
                && (*array).data as usize == start
                && (*array).dtype == dtype.as_ptr()
                && *(*array).lengths == 2
                && *(*array).strides == 2 * width
        };
        if probe::read(QuickPath::Arrays, "an array", as_expected, true).is_some() {
            return wrong();
        }
        *place = dtype.into_ptr();
    }
    Ok(Ok(Known { class: class.into_ptr().cast(), dtypes }))
}

/// The numbers of an exact, one-dimensional `ndarray` of a known dtype.
///
/// # Safety
/// `object` is alive and the interpreter's lock is held. What is returned is good as long as no
/// Python code runs.
#[inline]
pub unsafe fn row(object: *mut ffi::PyObject) -> Option<Row> {
    // SAFETY: what is known lives for ever; an object of this class has the layout that was tried.
    unsafe {
        let known = KNOWN.load(Ordering::Acquire).as_ref()?;
        if (*object).ob_type != known.class {
            return None;
        }
        let array = object.cast::<Array>();
        if (*array).dimensions != 1 {
            return None;
        }
        let at = known.dtypes.iter().position(|&dtype| dtype == (*array).dtype)?;
        let count = usize::try_from(*(*array).lengths).ok()?;
        let (start, stride) = ((*array).data, *(*array).strides);
        Some(Row { kind: KINDS[at].0, start, count, stride })
    }
}
