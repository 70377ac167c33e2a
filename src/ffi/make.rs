//! New objects past the Python code of their classes.

use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

/// A record of a named tuple class: what `tuple.__new__(class, values)` gives.
#[inline]
pub fn record<'py>(
    class: &Bound<'py, PyAny>,
    values: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let class = class.cast::<PyType>()?;
    let count = values.len();
    // SAFETY: a subclass of tuple that Python code made; its memory is asked for as `tuple.__new__`
    // asks, and filled before anybody else can see it: nothing in between runs Python code.
    unsafe {
        let class = class.as_type_ptr();
        let allocate = (*class)
            .tp_alloc
            .filter(|_| ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_TUPLE_SUBCLASS) != 0);
        let Some(allocate) = allocate else {
            return Err(PyTypeError::new_err("a record is of a subclass of tuple"));
        };
        let object = Bound::from_owned_ptr_or_err(py, allocate(class, count as isize))?;
        for (i, value) in values.drain(..).enumerate() {
            ffi::PyTuple_SET_ITEM(object.as_ptr(), i as isize, value.into_ptr());
        }
        Ok(object)
    }
}

/// An instance of a class without its `__init__`: what `object.__new__(class)` gives.
#[inline]
pub fn instance<'py>(class: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let class = class.cast::<PyType>()?;
    // SAFETY: a class that Python code made and that has `object.__new__`, of which the callers see
    // to it; the memory comes zeroed, which for slots means that they are empty.
    unsafe {
        let class = class.as_type_ptr();
        let Some(allocate) = (*class).tp_alloc else {
            return Err(PyMemoryError::new_err(()));
        };
        Bound::from_owned_ptr_or_err(py, allocate(class, 0))
    }
}

/// What `object.__setattr__` does: past a class's own.
#[inline]
pub fn set<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, pyo3::types::PyString>,
    value: &Bound<'py, PyAny>,
) -> PyResult<()> {
    // SAFETY: three valid objects, and the lock is held.
    let done =
        unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}

unsafe extern "C" {
    /// Exported by CPython 3.10 to 3.13.
    fn PyMethod_New(function: *mut ffi::PyObject, object: *mut ffi::PyObject)
    -> *mut ffi::PyObject;
}

/// A method of an object: calls the function with it first.
#[inline]
pub fn method<'py>(
    function: &Bound<'py, PyAny>,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: two valid objects; a new one that is ours, or null with an exception.
    unsafe {
        let made = PyMethod_New(function.as_ptr(), object.as_ptr());
        Bound::from_owned_ptr_or_err(function.py(), made)
    }
}

/// A list of so many floats, each made by `next`.
#[inline]
pub fn floats<'py>(
    py: Python<'py>,
    count: usize,
    mut next: impl FnMut(usize) -> f64,
) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: a new float, or null with an exception.
    numbers(py, count, |i| unsafe { ffi::PyFloat_FromDouble(next(i)) })
}

/// A list of so many ints, each made by `next`.
#[inline]
pub fn ints<'py>(
    py: Python<'py>,
    count: usize,
    mut next: impl FnMut(usize) -> i64,
) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: a new int, or null with an exception.
    numbers(py, count, |i| unsafe { ffi::PyLong_FromLongLong(next(i)) })
}

/// A list of new numbers, owned by nobody yet.
#[inline(always)]
fn numbers<'py>(
    py: Python<'py>,
    count: usize,
    mut number: impl FnMut(usize) -> *mut ffi::PyObject,
) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: the list is new, and filled before anybody else can see it: making a number runs
    // neither Python code nor the collector. Where one cannot be made, the list goes with its
    // empty places, which the list knows to pass over.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(count as isize))?;
        for i in 0..count {
            let number = number(i);
            if number.is_null() {
                return Err(PyErr::fetch(py));
            }
            ffi::PyList_SET_ITEM(list.as_ptr(), i as isize, number);
        }
        Ok(list.cast_into_unchecked())
    }
}
