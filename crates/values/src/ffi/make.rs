//! New objects past the Python code of their classes.

use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::probe;
use super::quick_path::QuickPath;

/// A record of a named tuple class: what `tuple.__new__(class, values)` gives.
#[inline]
pub fn record<'py>(
    class: &Bound<'py, PyAny>,
    values: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = class.cast::<PyType>()?;
    let quick = QuickPath::Records.is_on();
    let tuple = if quick {
        // SAFETY: a class that is alive.
        unsafe { ffi::PyType_HasFeature(class.as_type_ptr(), ffi::Py_TPFLAGS_TUPLE_SUBCLASS) != 0 }
    } else {
        class.is_subclass_of::<PyTuple>()?
    };
    if !tuple {
        return Err(PyTypeError::new_err("a record is of a subclass of tuple"));
    }
    if quick {
        return filled(class, values);
    }
    // `__new__` of the class may be anything.
    let new = class.py().get_type::<PyTuple>().getattr(pyo3::intern!(class.py(), "__new__"))?;
    new.call1((class, PyTuple::new(class.py(), values.drain(..))?))
}

/// The same for a subclass of tuple, past every call.
#[inline]
fn filled<'py>(
    class: &Bound<'py, PyType>,
    values: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a subclass of tuple that Python code made, as the caller has seen; it is filled before
    // anybody else can see it: nothing in between runs Python code.
    unsafe {
        let object = allocate_tuple(class.as_type_ptr(), values.len() as isize);
        let object = Bound::from_owned_ptr_or_err(class.py(), object)?;
        for (i, value) in values.drain(..).enumerate() {
            ffi::PyTuple_SET_ITEM(object.as_ptr(), i as isize, value.into_ptr());
        }
        Ok(object)
    }
}

/// A new instance of a subclass of tuple with empty places, as `tuple.__new__` begins one; null with
/// an exception where there is no memory.
///
/// # Safety
/// A subclass of tuple that Python code made, alive, and the interpreter's lock is held.
#[inline(always)]
pub unsafe fn allocate_tuple(
    class: *mut ffi::PyTypeObject,
    width: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's word; the memory comes zeroed but for its head.
    unsafe {
        let Some(allocate) = (*class).tp_alloc else { return ffi::PyErr_NoMemory() };
        let tuple = allocate(class, width);
        // Tuples keep their hash from 3.14 on, and this is what they have before they have one: 0
        // would be their hash.
        #[cfg(Py_3_14)]
        if !tuple.is_null() {
            (*tuple.cast::<ffi::PyTupleObject>()).ob_hash = -1;
        }
        tuple
    }
}

/// Tries how records and instances are made.
pub fn probe_records(py: Python<'_>) -> PyResult<Option<String>> {
    let wrong = probe::classes(py)?;
    if wrong.is_some() {
        return Ok(wrong);
    }
    let sample = c"__import__('collections').namedtuple('Sample', ['one', 'other'])";
    let class = py.eval(sample, None, None)?.cast_into::<PyType>()?;
    let parts = PyTuple::new(py, ["a", "b"])?;
    let (made, expected) = (filled(&class, &mut parts.iter().collect())?, class.call1(&parts)?);
    #[cfg(Py_3_14)]
    if probe::is_corrupted(QuickPath::Records, probe::Fault::Hash) {
        // SAFETY: a tuple, alive, that nobody else has.
        unsafe { (*made.as_ptr().cast::<ffi::PyTupleObject>()).ob_hash = 0 };
    }
    let wrong = probe::made(QuickPath::Records, "a named tuple", &made, &expected, true)?;
    if wrong.is_some() {
        return Ok(wrong);
    }
    // As an element of a set, it is found among tuples.
    if made.hash()? != parts.hash()? {
        return Ok(Some("a named tuple was made with another hash than a tuple".to_owned()));
    }
    let class = py.eval(c"type('Sample', (), {'__slots__': ('own',)})", None, None)?;
    let builtin = py.get_type::<pyo3::types::PyMemoryView>();
    if !has_own_allocation(class.cast::<PyType>()?) || has_own_allocation(&builtin) {
        return Ok(Some("classes that Python code made are not told from others".to_owned()));
    }
    let made = bare(class.cast::<PyType>()?)?;
    let expected = class.call0()?;
    set(&made, &PyString::new(py, "own"), parts.as_any())?;
    expected.setattr("own", &parts)?;
    let good = made.getattr("own")?.is(&parts) && made.get_type().is(&class) && {
        let size = pyo3::intern!(py, "__sizeof__");
        made.call_method0(size)?.eq(expected.call_method0(size)?)?
    };
    Ok(probe::read(QuickPath::Records, "an instance", good, true))
}

/// An instance of a class without its `__init__`: what `object.__new__(class)` gives.
#[inline]
pub fn instance<'py>(class: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let class = class.cast::<PyType>()?;
    if QuickPath::Records.is_on() && has_own_allocation(class) {
        return bare(class);
    }
    let py = class.py();
    let object = py.get_type::<PyAny>();
    object.getattr(pyo3::intern!(py, "__new__"))?.call1((class,))
}

/// Whether instances of a class begin as `object.__new__` makes them: not so those of classes that C
/// code made and that fill in more.
#[inline]
pub fn has_own_allocation(class: &Bound<'_, PyType>) -> bool {
    let class = class.as_type_ptr();
    // SAFETY: classes that are alive.
    unsafe {
        let address = |class: *mut ffi::PyTypeObject| (*class).tp_new.map(|new| new as usize);
        ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) != 0
            && ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HAVE_GC) != 0
            && address(class) == address(&raw mut ffi::PyBaseObject_Type)
    }
}

/// The same, past every call.
#[inline]
fn bare<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: a class with `object.__new__` (`has_own_allocation`); the memory comes zeroed, which for
    // slots means that they are empty.
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
    name: &Bound<'py, PyString>,
    value: &Bound<'py, PyAny>,
) -> PyResult<()> {
    // SAFETY: three valid objects, and the lock is held.
    let done =
        unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}

unsafe extern "C" {
    /// Public, and in the headers of every CPython 3.
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
    if !QuickPath::Decode.is_on() {
        return list_of(py, (0..count).map(|i| PyFloat::new(py, next(i)).into_any()));
    }
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
    if !QuickPath::Decode.is_on() {
        return list_of(py, (0..count).map(|i| PyInt::new(py, next(i)).into_any()));
    }
    // SAFETY: a new int, or null with an exception.
    numbers(py, count, |i| unsafe { ffi::PyLong_FromLongLong(next(i)) })
}

fn list_of<'py>(
    py: Python<'py>,
    parts: impl Iterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let mut all = Vec::new();
    all.try_reserve(parts.size_hint().0).map_err(|_| PyMemoryError::new_err(()))?;
    all.extend(parts);
    crate::value::list_of(py, all)
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
