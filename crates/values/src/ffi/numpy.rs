//! Reads NumPy arrays and NumPy's numbers through the layout that NumPy promises to extensions
//! compiled against it.
//!
//! The buffer protocol would give the same information, but using it takes longer than copying the
//! numbers of a vector.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::probe;
use super::quick_path::QuickPath;

/// The fields of `PyArrayObject_fields` that are read, and the fields before them.
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

/// The number types of the arrays that are read. The numbers are in the machine's byte order.
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

/// The objects of the loaded NumPy with which the classes and dtypes of values are compared. They
/// are leaked, so they are never freed.
struct Known {
    class: *mut ffi::PyTypeObject,
    dtypes: [*mut ffi::PyObject; KINDS.len()],
    /// The dtype of arrays of Python objects.
    objects: *mut ffi::PyObject,
    /// The classes of numbers, such as `numpy.float32`.
    scalars: [*mut ffi::PyTypeObject; KINDS.len()],
}

/// The layout of a NumPy number, as NumPy promises it to extensions.
#[repr(C)]
struct Scalar<T> {
    head: ffi::PyObject,
    value: T,
}

/// The value of a NumPy number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Float(f64),
    Int(i64),
    Unsigned(u64),
}

/// Reads a NumPy number. Returns `None` for `float16`.
///
/// # Safety
/// The caller must ensure that `object` is alive, that it has the layout of a number of this kind,
/// and that the GIL is held.
unsafe fn read(kind: Kind, object: *mut ffi::PyObject) -> Option<Number> {
    // SAFETY: `object` is a live number of this kind, as `# Safety` demands. Its value does not
    // change. Tests: accel/test_everyday_values.py.
    unsafe {
        Some(match kind {
            Kind::F32 => Number::Float((*object.cast::<Scalar<f32>>()).value.into()),
            Kind::F64 => Number::Float((*object.cast::<Scalar<f64>>()).value),
            Kind::I8 => Number::Int((*object.cast::<Scalar<i8>>()).value.into()),
            Kind::I16 => Number::Int((*object.cast::<Scalar<i16>>()).value.into()),
            Kind::I32 => Number::Int((*object.cast::<Scalar<i32>>()).value.into()),
            Kind::I64 => Number::Int((*object.cast::<Scalar<i64>>()).value),
            Kind::U8 => Number::Unsigned((*object.cast::<Scalar<u8>>()).value.into()),
            Kind::U16 => Number::Unsigned((*object.cast::<Scalar<u16>>()).value.into()),
            Kind::U32 => Number::Unsigned((*object.cast::<Scalar<u32>>()).value.into()),
            Kind::U64 => Number::Unsigned((*object.cast::<Scalar<u64>>()).value),
            Kind::F16 => return None,
        })
    }
}

/// Returns the value of a NumPy number whose type is in [`Kind`], or `None` for `float16` and for
/// any other object.
#[inline]
pub fn number(object: &Bound<'_, PyAny>) -> Option<Number> {
    // SAFETY: `object` is alive and shows that the GIL is held. Tests:
    // accel/test_everyday_values.py.
    unsafe { number_at(object.as_ptr()) }
}

/// Like [`number`], for a borrowed object.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline]
pub unsafe fn number_at(object: *mut ffi::PyObject) -> Option<Number> {
    // SAFETY: `KNOWN` is null or points to a leaked box. `object` is alive and the GIL is held, as
    // `# Safety` demands. The object is read as a number only if its class is one of the classes
    // whose layout `try_layout` has checked. Tests: accel/test_everyday_values.py.
    unsafe {
        let numpy_objects = KNOWN.load(Ordering::Acquire).as_ref()?;
        let class = (*object).ob_type;
        let at = numpy_objects.scalars.iter().position(|&scalar| scalar == class)?;
        read(KINDS[at].0, object)
    }
}

/// Whether an object is an exact `ndarray` of one dimension whose elements are Python objects.
pub fn is_row_of_objects(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: `KNOWN` is null or points to a leaked box. `object` is alive and shows that the GIL
    // is held. Its class is compared first, and instances of it have the layout that `try_layout`
    // has checked. Tests: accel/test_everyday_values.py.
    unsafe {
        let Some(numpy_objects) = KNOWN.load(Ordering::Acquire).as_ref() else { return false };
        if (*object.as_ptr()).ob_type != numpy_objects.class {
            return false;
        }
        let array = object.as_ptr().cast::<Array>();
        (*array).dimensions == 1 && (*array).dtype == numpy_objects.objects
    }
}

/// Whether an object is an exact `ndarray` of one dimension whose elements are numbers that
/// [`number`] reads.
pub fn is_row_of_numbers(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: `object` is alive and shows that the GIL is held; the numbers are not read. Tests:
    // accel/test_everyday_values.py.
    unsafe { row(object.as_ptr()) }.is_some_and(|row| row.kind != Kind::F16)
}

static KNOWN: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());
static TRIED: AtomicBool = AtomicBool::new(false);

/// The `count` numbers of a one-dimensional array. Each begins `stride` bytes after the previous
/// number.
pub struct Row {
    pub kind: Kind,
    pub start: *const u8,
    pub count: usize,
    pub stride: isize,
}

/// Probes the layout of arrays and numbers once, at the first call after NumPy was imported. The
/// probe calls NumPy, which runs Python code. So after the call, the caller must not use an object
/// that it borrowed before the call. The caller may use `value`, which keeps its object alive by a
/// reference.
#[inline]
pub fn learn(value: &Bound<'_, PyAny>) {
    if !TRIED.load(Ordering::Relaxed) {
        try_to_learn(value);
    }
}

#[cold]
fn try_to_learn(value: &Bound<'_, PyAny>) {
    let py = value.py();
    let loaded = || -> PyResult<Option<Bound<'_, PyAny>>> {
        let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
        modules.get_item("numpy")
    };
    let Ok(Some(numpy)) = loaded() else { return };
    // Another thread may still be importing NumPy.
    let attributes = ["ndarray", "dtype", "zeros", "__version__"];
    if !attributes.iter().all(|name| numpy.hasattr(*name).unwrap_or(false)) {
        return;
    }
    // If the probe fails for any reason, arrays are read through the buffer protocol.
    let decided = QuickPath::Arrays.decide(py, |_| {
        Ok(match try_layout(&numpy)? {
            Ok(numpy_objects) => {
                KNOWN.store(Box::into_raw(Box::new(numpy_objects)), Ordering::Release);
                None
            }
            Err(reason) => Some(reason),
        })
    });
    if let Err(interrupt) = decided {
        if interrupt.is_instance_of::<PyKeyboardInterrupt>(py) {
            // SAFETY: the function needs an initialized interpreter, and `py` shows that the GIL is
            // held. It simulates a SIGINT, so that KeyboardInterrupt is raised when Python next
            // handles signals. No test runs this line.
            unsafe { ffi::PyErr_SetInterrupt() };
        }
        return;
    }
    TRIED.store(true, Ordering::Relaxed);
}

/// Probes the layouts with a sample array and a sample number of each dtype. Returns the objects to
/// compare with, or the reason why the layouts cannot be used.
fn try_layout(numpy: &Bound<'_, PyAny>) -> PyResult<Result<Known, String>> {
    let wrong = || Ok(Err("arrays are not laid out as expected".to_owned()));
    // NumPy keeps this layout compatible within a major version, so only the major version is
    // compared.
    let version: String = numpy.getattr("__version__")?.extract()?;
    if !["1.", "2."].iter().any(|major| version.starts_with(major)) {
        return Ok(Err(format!("tested with NumPy 1 and 2, this is {version}")));
    }
    let class = numpy.getattr("ndarray")?.cast_into::<PyType>()?;
    if class.getattr("__basicsize__")?.extract::<usize>()? < size_of::<Array>() {
        return wrong();
    }
    let mut dtypes = [ptr::null_mut(); KINDS.len()];
    let mut scalars = [ptr::null_mut(); KINDS.len()];
    for (((kind, name), slot), scalar) in KINDS.iter().zip(&mut dtypes).zip(&mut scalars) {
        let dtype = numpy.getattr("dtype")?.call1((*name,))?;
        let width: isize = dtype.getattr("itemsize")?.extract()?;
        // User code may have replaced NumPy's `dtype` by another object.
        if dtype.getattr("name")?.extract::<String>()? != *name
            || name.trim_start_matches(char::is_alphabetic) != (width * 8).to_string()
        {
            return wrong();
        }
        let zeros = numpy.call_method1("zeros", (5, &dtype))?;
        let every_other =
            zeros.get_item(pyo3::types::PySlice::new(zeros.py(), 1, isize::MAX, 2))?;
        let start: usize =
            every_other.getattr("__array_interface__")?.get_item("data")?.get_item(0)?.extract()?;
        if !every_other.get_type().is(&class) {
            return wrong();
        }
        let array = every_other.as_ptr().cast::<Array>();
        // SAFETY: `every_other` keeps the array alive and shows that the GIL is held. Its class is
        // `class`, as checked above. Instances of `class` are at least as large as `Array`.
        // `lengths` and `strides` are followed only if the number of dimensions, the address of the
        // data and the dtype are the expected ones. Tests: unit/test_quick_paths.py (arrays).
        let as_expected = unsafe {
            (*array).dimensions == 1
                && (*array).data as usize == start
                && (*array).dtype == dtype.as_ptr()
                && *(*array).lengths == 2
                && *(*array).strides == 2 * width
        };
        if probe::check_value(QuickPath::Arrays, "an array", as_expected, true).is_some() {
            return wrong();
        }
        let scalar_class = dtype.getattr("type")?.cast_into::<PyType>()?;
        let three = scalar_class.call1((3,))?;
        let size = size_of::<ffi::PyObject>() as isize + width;
        if !three.get_type().is(&scalar_class)
            || scalar_class.getattr("__basicsize__")?.extract::<isize>()? < size
        {
            return wrong();
        }
        // SAFETY: `three` keeps the number alive and shows that the GIL is held. Instances of its
        // class have room for a value of this width after the head. Tests:
        // accel/test_everyday_values.py.
        let value = unsafe { read(*kind, three.as_ptr()) };
        if !matches!(value, None | Some(Number::Float(3.0) | Number::Int(3) | Number::Unsigned(3)))
        {
            return wrong();
        }
        *scalar = scalar_class.into_ptr().cast();
        *slot = dtype.into_ptr();
    }
    let objects = numpy.getattr("dtype")?.call1(("object",))?.into_ptr();
    Ok(Ok(Known { class: class.into_ptr().cast(), dtypes, objects, scalars }))
}

/// Returns the numbers of an exact, one-dimensional `ndarray` whose dtype is in `KINDS`, or
/// `None` for any other object.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. The caller must not use
/// the result after Python code may have run, because that code could resize the array or free it.
#[inline]
pub unsafe fn row(object: *mut ffi::PyObject) -> Option<Row> {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. `KNOWN` is null or
    // points to a leaked box. The class of `object` is compared first, and instances of it have the
    // layout that `try_layout` has checked. An array of one dimension has one length and one
    // stride. Tests: property/test_safe_path_arrays.py, property/test_hostile.py
    // (test_arrays_that_are_no_row_of_numbers). Benchmark:
    // "value: vector<float, 1536>, float32 ndarray".
    unsafe {
        let numpy_objects = KNOWN.load(Ordering::Acquire).as_ref()?;
        if (*object).ob_type != numpy_objects.class {
            return None;
        }
        let array = object.cast::<Array>();
        if (*array).dimensions != 1 {
            return None;
        }
        let at = numpy_objects.dtypes.iter().position(|&dtype| dtype == (*array).dtype)?;
        let count = usize::try_from(*(*array).lengths).ok()?;
        let (start, stride) = ((*array).data, *(*array).strides);
        Some(Row { kind: KINDS[at].0, start, count, stride })
    }
}
