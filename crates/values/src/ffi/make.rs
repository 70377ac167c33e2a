//! Makes objects without running the Python code of their classes.

use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::probe;
use super::quick_path::QuickPath;

/// Makes an instance of a named tuple class, as `tuple.__new__(class, values)` does. Takes the
/// values out of the vector. Python code must have defined `class`, because a subclass that C code
/// defines can have another layout.
#[inline]
pub fn record<'py>(
    class: &Bound<'py, PyAny>,
    values: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = class.cast::<PyType>()?;
    let quick = QuickPath::Records.is_on();
    let tuple = if quick {
        // SAFETY: the function needs a live class; `class` has a reference to it, and shows that
        // the GIL is held. Tests: unit/test_records.py.
        unsafe { ffi::PyType_HasFeature(class.as_type_ptr(), ffi::Py_TPFLAGS_TUPLE_SUBCLASS) != 0 }
    } else {
        class.is_subclass_of::<PyTuple>()?
    };
    if !tuple {
        return Err(PyTypeError::new_err("the class of a record must be a subclass of tuple"));
    }
    if quick {
        return filled(class, values);
    }
    // `tuple.__new__` is called, not the class, because the class may have a `__new__` of its own.
    let new = class.py().get_type::<PyTuple>().getattr(pyo3::intern!(class.py(), "__new__"))?;
    new.call1((class, PyTuple::new(class.py(), values.drain(..))?))
}

/// Makes an instance of a subclass of tuple, without calling Python code. Python code must have
/// defined the subclass.
#[inline]
fn filled<'py>(
    class: &Bound<'py, PyType>,
    values: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `class` keeps the class alive and shows that the GIL is held. `record` has checked
    // that it is a subclass of tuple. Python code made it: the classes come from
    // `turbocql._native.records`, or for the accelerator from `collections.namedtuple`. The new
    // tuple has `values.len()` empty items, and each is set once to an owned reference. No Python
    // code runs between the allocation and the last item, so no other code sees an empty item.
    // Tests: unit/test_records.py, unit/test_quick_paths.py (records), accel/test_overrides.py
    // (rows_of_one_shape_have_one_class).
    unsafe {
        let object = allocate_tuple(class.as_type_ptr(), values.len() as isize);
        let object = Bound::from_owned_ptr_or_err(class.py(), object)?;
        for (i, value) in values.drain(..).enumerate() {
            ffi::PyTuple_SET_ITEM(object.as_ptr(), i as isize, value.into_ptr());
        }
        Ok(object)
    }
}

/// Makes an instance of a subclass of tuple with `width` empty items. This is the first step of
/// `tuple.__new__`, before it sets the items. Returns an owned reference, or null with an exception
/// if there is no memory.
///
/// # Safety
/// The caller must ensure that `class` is a live subclass of tuple that Python code made, that
/// `width` is not negative, and that the GIL is held. The caller must fill all items before other
/// code reads them.
#[inline(always)]
pub unsafe fn allocate_tuple(
    class: *mut ffi::PyTypeObject,
    width: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: the class is alive, a subclass of tuple and made by Python code, and the GIL is held,
    // as `# Safety` demands. The class's `tp_alloc` is `PyType_GenericAlloc`, which zeroes all
    // memory except the object's head. An instance begins with the layout of a tuple, which the
    // probes have checked by the instance's hash. Tests: unit/test_quick_paths.py (records, rows).
    // Benchmark: "page: 5000x10 to named".
    unsafe {
        let Some(allocate) = (*class).tp_alloc else { return ffi::PyErr_NoMemory() };
        let tuple = allocate(class, width);
        // From CPython 3.14 on, tuples cache their hash. -1 means that the hash is not computed
        // yet. The memory is zeroed, and CPython would read 0 as the hash of the tuple, so -1 is
        // written.
        #[cfg(Py_3_14)]
        if !tuple.is_null() {
            (*tuple.cast::<ffi::PyTupleObject>()).ob_hash = -1;
        }
        tuple
    }
}

/// Probes whether records and instances are made correctly. If they are not, returns what is wrong.
pub fn probe_records(py: Python<'_>) -> PyResult<Option<String>> {
    let wrong = probe::classes(py)?;
    if wrong.is_some() {
        return Ok(wrong);
    }
    let sample = c"__import__('collections').namedtuple('Sample', ['one', 'other'])";
    let class = py.eval(sample, None, None)?.cast_into::<PyType>()?;
    let parts = PyTuple::new(py, ["a", "b"])?;
    let (record, expected) = (filled(&class, &mut parts.iter().collect())?, class.call1(&parts)?);
    #[cfg(Py_3_14)]
    if probe::is_corrupted(QuickPath::Records, probe::Fault::Hash) {
        // SAFETY: `record` has the only reference to the tuple, and a tuple of CPython 3.14 has
        // this field. Tests: unit/test_quick_paths.py (test_each_probe_notices_what_is_wrong).
        unsafe { (*record.as_ptr().cast::<ffi::PyTupleObject>()).ob_hash = 0 };
    }
    let wrong = probe::check_object(QuickPath::Records, "a named tuple", &record, &expected, true)?;
    if wrong.is_some() {
        return Ok(wrong);
    }
    // A set finds a record by an equal tuple only if both have the same hash.
    if record.hash()? != parts.hash()? {
        return Ok(Some("a named tuple was made with another hash than a tuple".to_owned()));
    }
    let class = py.eval(c"type('Sample', (), {'__slots__': ('own',)})", None, None)?;
    let builtin = py.get_type::<pyo3::types::PyMemoryView>();
    if !has_own_allocation(class.cast::<PyType>()?) || has_own_allocation(&builtin) {
        return Ok(Some("classes made by Python code are not recognized".to_owned()));
    }
    let instance = bare(class.cast::<PyType>()?)?;
    let expected = class.call0()?;
    set(&instance, &PyString::new(py, "own"), parts.as_any())?;
    expected.setattr("own", &parts)?;
    let good = instance.getattr("own")?.is(&parts) && instance.get_type().is(&class) && {
        let size = pyo3::intern!(py, "__sizeof__");
        instance.call_method0(size)?.eq(expected.call_method0(size)?)?
    };
    Ok(probe::check_value(QuickPath::Records, "an instance", good, true))
}

/// Makes an instance of a class without calling its `__init__`, as `object.__new__(class)` does.
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

/// Whether a class is a heap type with the `tp_new` of `object`, and its instances have a GC head.
/// Classes made by C code, or derived from a class with its own `tp_new`, may initialize more
/// fields.
#[inline]
pub fn has_own_allocation(class: &Bound<'_, PyType>) -> bool {
    let class = class.as_type_ptr();
    // SAFETY: both classes are alive: the class `object` is never freed, and the `Bound` has a
    // reference to `class`. The `Bound` also shows that the GIL is held. Function pointers are
    // compared, not called; `probe::classes` has checked that `tp_new` is read correctly. Tests:
    // unit/test_quick_paths.py (records, test_what_somebody_has_put_in_the_place_of_a_class).
    unsafe {
        let address = |class: *mut ffi::PyTypeObject| (*class).tp_new.map(|new| new as usize);
        ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) != 0
            && ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HAVE_GC) != 0
            && address(class) == address(&raw mut ffi::PyBaseObject_Type)
    }
}

/// Makes an instance of a class for which [`has_own_allocation`] is true.
#[inline]
fn bare<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: `class` keeps the class alive and shows that the GIL is held. The callers have
    // checked with `has_own_allocation` that `object.__new__` makes instances of the class, and
    // `object.__new__` only calls `tp_alloc`. The memory is zeroed, so all slots are empty.
    // `tp_alloc` returns an owned reference, or null with an exception. Tests:
    // unit/test_quick_paths.py (records), property/test_safe_path_decode.py (time).
    unsafe {
        let class = class.as_type_ptr();
        let Some(allocate) = (*class).tp_alloc else {
            return Err(PyMemoryError::new_err(()));
        };
        Bound::from_owned_ptr_or_err(py, allocate(class, 0))
    }
}

/// Sets an attribute as `object.__setattr__` does, without calling the `__setattr__` of the class.
#[inline]
pub fn set<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    value: &Bound<'py, PyAny>,
) -> PyResult<()> {
    // SAFETY: the function needs three live objects and the GIL, which the three `Bound`s ensure.
    // Tests: unit/test_quick_paths.py (records), property/test_safe_path_decode.py (time).
    let status =
        unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value.as_ptr()) };
    if status == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}

unsafe extern "C" {
    /// Makes a bound method. This function is public, and the headers of every CPython 3 declare
    /// it.
    fn PyMethod_New(function: *mut ffi::PyObject, object: *mut ffi::PyObject)
    -> *mut ffi::PyObject;
}

/// Makes a bound method of `object`. Calling the method calls `function` with `object` as the first
/// argument.
#[inline]
pub fn method<'py>(
    function: &Bound<'py, PyAny>,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `PyMethod_New` needs two live objects and the GIL, which the two `Bound`s ensure. It
    // returns a new reference, or null with an exception. Tests: accel/test_comparison.py,
    // accel/test_switching.py (functions_may_be_taken_from_their_classes_and_put_back).
    unsafe {
        let method = PyMethod_New(function.as_ptr(), object.as_ptr());
        Bound::from_owned_ptr_or_err(function.py(), method)
    }
}

/// Makes a list of `count` objects. `next` makes each object, and may run Python code. The GC does
/// not track the list until it is full.
#[inline(always)]
pub fn list<'py, E: From<PyErr>>(
    py: Python<'py>,
    count: usize,
    mut next: impl FnMut() -> Result<Bound<'py, PyAny>, E>,
) -> Result<Bound<'py, PyList>, E> {
    // SAFETY: `py` shows that the GIL is held. The list is new and has `count` empty items; each is
    // set once to an owned reference, which the list takes over. The list is untracked until all
    // items are set, so no Python code that `next` runs can reach it. If `next` fails, the list is
    // freed with empty items, which its deallocation skips. Tests: accel/test_comparison.py
    // (deserialize_tasks).
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(count as isize))?;
        ffi::PyObject_GC_UnTrack(list.as_ptr().cast());
        for i in 0..count {
            ffi::PyList_SET_ITEM(list.as_ptr(), i as isize, next()?.into_ptr());
        }
        ffi::PyObject_GC_Track(list.as_ptr().cast());
        Ok(list.cast_into_unchecked())
    }
}

/// Makes a tuple of `width` objects. `next` makes each object, and may run Python code. With
/// `class`, makes an instance of that class, which must be a subclass of tuple that Python code
/// defined. The GC does not track the tuple until it is full.
#[inline(always)]
pub fn tuple<'py, E: From<PyErr>>(
    py: Python<'py>,
    class: Option<&Bound<'py, PyType>>,
    width: usize,
    mut next: impl FnMut() -> Result<Bound<'py, PyAny>, E>,
) -> Result<Bound<'py, PyAny>, E> {
    // SAFETY: `py` shows that the GIL is held. `class` is a subclass of tuple that Python code
    // made: `_is_plain` in turbocql/accel/_readers.py checks it. The tuple is new and has `width`
    // empty items; each is set once to an owned reference, which the tuple takes over. The tuple is
    // untracked until all items are set, so no Python code that `next` runs can reach it. If `next`
    // fails, the tuple is freed with empty items, which its deallocation skips. Tests:
    // accel/test_comparison.py (deserialize_tasks).
    unsafe {
        let tuple = match class.map(Bound::as_type_ptr) {
            None => ffi::PyTuple_New(width as isize),
            Some(class) => allocate_tuple(class, width as isize),
        };
        let tuple = Bound::from_owned_ptr_or_err(py, tuple)?;
        if width == 0 {
            // The empty tuple is one shared object, which the GC must not track, so it is returned
            // as it is.
            return Ok(tuple);
        }
        ffi::PyObject_GC_UnTrack(tuple.as_ptr().cast());
        for i in 0..width {
            ffi::PyTuple_SET_ITEM(tuple.as_ptr(), i as isize, next()?.into_ptr());
        }
        ffi::PyObject_GC_Track(tuple.as_ptr().cast());
        Ok(tuple)
    }
}

/// Makes a list of `count` floats, each from a number that `next` returns.
#[inline]
pub fn floats<'py>(
    py: Python<'py>,
    count: usize,
    mut next: impl FnMut(usize) -> f64,
) -> PyResult<Bound<'py, PyList>> {
    if !QuickPath::Decode.is_on() {
        return list_of(py, (0..count).map(|i| PyFloat::new(py, next(i)).into_any()));
    }
    // SAFETY: the function needs the GIL, which `py` shows is held. It returns a new reference, or
    // null with an exception. Tests: property/test_safe_path_decode.py (test_arrays). Benchmark:
    // "decode: vector<float, 1536> to list".
    numbers(py, count, |i| unsafe { ffi::PyFloat_FromDouble(next(i)) })
}

/// Makes a list of `count` ints, each from a number that `next` returns.
#[inline]
pub fn ints<'py>(
    py: Python<'py>,
    count: usize,
    mut next: impl FnMut(usize) -> i64,
) -> PyResult<Bound<'py, PyList>> {
    if !QuickPath::Decode.is_on() {
        return list_of(py, (0..count).map(|i| PyInt::new(py, next(i)).into_any()));
    }
    // SAFETY: the function needs the GIL, which `py` shows is held. It returns a new reference, or
    // null with an exception. Tests: property/test_safe_path_decode.py (test_arrays).
    numbers(py, count, |i| unsafe { ffi::PyLong_FromLongLong(next(i)) })
}

fn list_of<'py>(
    py: Python<'py>,
    parts: impl Iterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let mut all = Vec::new();
    all.try_reserve(parts.size_hint().0).map_err(|_| PyMemoryError::new_err(()))?;
    all.extend(parts);
    crate::memory::list_of(py, all)
}

/// Makes a list of `count` numbers. `number` returns an owned reference to an exact `int` or
/// `float`, or null with an exception.
#[inline(always)]
fn numbers<'py>(
    py: Python<'py>,
    count: usize,
    mut number: impl FnMut(usize) -> *mut ffi::PyObject,
) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: `py` shows that the GIL is held. The list is new and has `count` empty items; each is
    // set once to an owned reference, which the list takes over. The GC tracks the list from the
    // start, but does not see empty items: making a number runs neither Python code nor the GC,
    // because the GC does not track numbers. If a number cannot be made, the list is freed with
    // empty items, which its deallocation skips. Tests: property/test_safe_path_decode.py
    // (test_arrays), property/test_hostile_results.py (test_no_memory_for_many_rows). Benchmark:
    // "decode: vector<float, 1536> to list".
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
