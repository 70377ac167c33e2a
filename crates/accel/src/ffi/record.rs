//! Reads the fields of objects that represent a value of a user-defined type. Runs no Python code,
//! with one exception: if a key in an object's dict is of another class than `str`, the `__eq__` of
//! that class may be called.

use std::slice;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};
use turbocql_codec::plan::UdtPlan;

use turbocql_values::ffi::dialect::Dialect;
use turbocql_values::ffi::encode::put_cell;
use turbocql_values::ffi::probe;
use turbocql_values::ffi::quick_path::QuickPath;
use turbocql_values::ffi::symbol::Symbol;
use turbocql_values::plan::Record;

type Object = *mut ffi::PyObject;

/// Looks a name up in a class and its bases. Returns a borrowed reference, or null. The function is
/// private to CPython.
type Lookup = unsafe extern "C" fn(class: *mut ffi::PyTypeObject, name: Object) -> Object;
// SAFETY: `Lookup` is the function's type as CPython 3.10 to 3.15 declare it; for all other
// versions quick paths are off. Tests: unit/test_quick_paths.py (attributes).
static LOOKUP: Symbol<Lookup> = unsafe { Symbol::new(c"_PyType_Lookup") };

/// Probes whether attributes and the items of tuples are found as expected.
pub fn probe_attributes(py: Python<'_>) -> PyResult<Option<String>> {
    if let Some(missing) = LOOKUP.look_up() {
        return Ok(Some(missing));
    }
    let wrong = |is_as_expected: bool| {
        Ok(probe::check_value(QuickPath::Attributes, "an object", is_as_expected, true))
    };
    let sample = c"type('Sample', (), {'__slots__': ('slot', '__dict__'), 'common': ['common'],\
        'computed': property(lambda self: ['computed'])})()";
    let sample = py.eval(sample, None, None)?;
    for name in ["slot", "own", "common"] {
        if name != "common" {
            sample.setattr(name, PyList::new(py, [name])?)?;
        }
        let expected = sample.getattr(name)?;
        // SAFETY: `sample` is alive, by its `Bound`, and `py` proves that the GIL is held. Tests:
        // unit/test_quick_paths.py (attributes).
        let found_value = unsafe { find(sample.as_ptr(), &PyString::new(py, name)) };
        if !found_value.is_some_and(|found_value| found_value.is(&expected)) {
            return wrong(false);
        }
    }
    for name in ["computed", "missing", "__init__"] {
        // SAFETY: `sample` is alive, by its `Bound`, and `py` proves that the GIL is held. Tests:
        // unit/test_quick_paths.py (attributes).
        if unsafe { find(sample.as_ptr(), &PyString::new(py, name)) }.is_some() {
            return wrong(false);
        }
    }
    let pair = py.eval(c"type('Pair', (tuple,), {'own': 1})(('a', 'b'))", None, None)?;
    let odd = c"type('Odd', (tuple,), {'__getitem__': lambda self, i: 1,\
        '__len__': lambda self: 1})(('a', 'b'))";
    let odd = py.eval(odd, None, None)?;
    let class = pair.get_type();
    // SAFETY: `class` is alive, by its `Bound`, and `py` proves that the GIL is held, so the fields
    // of its `PyTypeObject` can be read. They are compared with the results of the public
    // `PyType_GetSlot`. Tests: unit/test_quick_paths.py (attributes).
    let slots = unsafe {
        subscript(class.as_type_ptr()) == slot(&class, ffi::Py_mp_subscript)
            && (*class.as_type_ptr()).tp_getattro.map_or(0, |function| function as usize)
                == slot(&class, ffi::Py_tp_getattro)
            && (*class.as_type_ptr()).tp_alloc.map_or(0, |function| function as usize)
                == slot(&class, ffi::Py_tp_alloc)
    };
    if !slots {
        return wrong(false);
    }
    // SAFETY: `pair` and `odd` are alive until the end of this function, by their `Bound`s, and
    // `py` proves that the GIL is held. The items are immutable, so `parts` stays valid. Tests:
    // unit/test_quick_paths.py (attributes).
    let (parts, none) = unsafe { (positions(pair.as_ptr()), positions(odd.as_ptr())) };
    let expected: Vec<_> = pair.try_iter()?.collect::<PyResult<_>>()?;
    let expected: Vec<_> = expected.iter().map(Bound::as_ptr).collect();
    wrong(
        parts == Some(&expected)
            && none.is_none()
            && is_plain_by_slots(&pair)
            && !is_plain_by_slots(&odd)
            && !is_plain_by_slots(&sample),
    )
}

/// Returns the address in a slot of a class, read with the public `PyType_GetSlot`.
fn slot(class: &Bound<'_, PyType>, slot: std::ffi::c_int) -> usize {
    // SAFETY: `class` is alive, by its `Bound`. `slot` is one of CPython's slot numbers: all
    // callers pass constants. Tests: unit/test_quick_paths.py (attributes).
    unsafe { ffi::PyType_GetSlot(class.as_type_ptr(), slot) as usize }
}

/// Appends the fields of an object as the package `cassandra` does, without the length of the whole
/// value. If it returns false, `out` may end with an incomplete value.
///
/// # Safety
/// The caller must own a reference to `object`, since Python code may run, and must hold the GIL.
pub unsafe fn put_record<D: Dialect>(
    udt: &UdtPlan<Record>,
    object: Object,
    out: &mut Vec<u8>,
) -> bool {
    if !QuickPath::Attributes.is_on() {
        return false;
    }
    let plans = &udt.fields;
    // SAFETY: the GIL is held, and `object` stays alive, both by this function's `# Safety`
    // section. The `parts` are items of `object`, a tuple, which cannot change; so they live as
    // long as it does. `attribute` returns an owned reference, which lives until its field is
    // written. Tests: accel/test_overrides.py (records_of_all_kinds), accel/test_hostile.py
    // (keys_of_a_class_of_their_own).
    unsafe {
        if let Some(parts) = positions(object) {
            return parts.len() >= plans.len()
                && plans.iter().zip(parts).all(|(plan, &part)| put_cell::<D>(plan, part, out));
        }
        is_no_sequence(object)
            && plans.iter().zip(&udt.host.names).all(|(plan, name)| {
                let value = attribute(object, name.bind(Python::assume_attached()));
                value.is_some_and(|value| put_cell::<D>(plan, value.as_ptr(), out))
            })
    }
}

/// Returns the items of a tuple, or of an instance of a subclass that does not override indexing,
/// such as a named tuple.
///
/// # Safety
/// The caller must hold the GIL, and must own a reference to `object` for as long as it uses the
/// slice.
unsafe fn positions<'a>(object: Object) -> Option<&'a [Object]> {
    // SAFETY: `object` is alive and the GIL is held, by this function's `# Safety` section. The
    // class flag shows that `object` has a tuple's layout: `PyTuple_GET_SIZE` items follow the
    // head. Subclasses have the same layout. A tuple's items do not change. The layout was probed
    // (`QuickPath::Attributes`). Tests: accel/test_overrides.py (records_of_all_kinds),
    // unit/test_quick_paths.py (attributes).
    unsafe {
        let class = ffi::Py_TYPE(object);
        if ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_TUPLE_SUBCLASS) == 0
            || subscript(class) != subscript(&raw mut ffi::PyTuple_Type)
        {
            return None;
        }
        let first = &raw const (*object.cast::<ffi::PyTupleObject>()).ob_item;
        Some(slice::from_raw_parts(first.cast(), ffi::PyTuple_GET_SIZE(object) as usize))
    }
}

/// Whether the object is a tuple whose class overrides neither `__len__` nor `__iter__`.
pub fn is_plain_tuple(object: &Bound<'_, PyAny>) -> bool {
    if QuickPath::Attributes.is_on() {
        return is_plain_by_slots(object);
    }
    let (class, tuple) = (object.get_type(), object.py().get_type::<PyTuple>());
    ["__len__", "__iter__"].into_iter().all(|name| {
        let (attribute, inherited) = (class.getattr(name), tuple.getattr(name));
        attribute.is_ok_and(|attribute| inherited.is_ok_and(|inherited| attribute.is(&inherited)))
    })
}

fn is_plain_by_slots(object: &Bound<'_, PyAny>) -> bool {
    let (class, tuple) = (object.get_type_ptr(), &raw mut ffi::PyTuple_Type);
    // SAFETY: `object` is alive, by its `Bound`, and owns its class; `PyTuple_Type` is static. The
    // GIL is held, by the same `Bound`. The tables that a class points to live as long as the
    // class. Tests: accel/test_comparison.py (bind_tasks), unit/test_quick_paths.py (attributes).
    unsafe {
        let length = |class: *mut ffi::PyTypeObject| {
            let (sequence, mapping) = (
                (*class).tp_as_sequence.as_ref().and_then(|table| table.sq_length),
                (*class).tp_as_mapping.as_ref().and_then(|table| table.mp_length),
            );
            (sequence.map(|function| function as usize), mapping.map(|function| function as usize))
        };
        ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_TUPLE_SUBCLASS) != 0
            && (*class).tp_iter.map(|function| function as usize)
                == (*tuple).tp_iter.map(|function| function as usize)
            && length(class) == length(tuple)
    }
}

/// Returns the address of the function in a class's `mp_subscript` slot; zero if the slot is empty.
///
/// # Safety
/// The caller must ensure that `class` is alive and that the GIL is held.
unsafe fn subscript(class: *mut ffi::PyTypeObject) -> usize {
    // SAFETY: `class` is alive, by this function's `# Safety` section. `tp_as_mapping` is null or
    // points to a table that lives as long as the class. Tests: accel/test_overrides.py
    // (records_of_all_kinds), unit/test_quick_paths.py (attributes).
    unsafe {
        match (*class).tp_as_mapping.as_ref() {
            Some(table) => table.mp_subscript.map_or(0, |function| function as usize),
            None => 0,
        }
    }
}

/// Whether indexing the object raises a TypeError, because its class has no function for indexing.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
unsafe fn is_no_sequence(object: Object) -> bool {
    // SAFETY: `object` is alive and the GIL is held, by this function's `# Safety` section; an
    // object owns its class. `tp_as_sequence` is null or points to a table that lives as long as
    // the class. Tests: accel/test_overrides.py (records_of_all_kinds).
    unsafe {
        let class = ffi::Py_TYPE(object);
        let sequence = (*class).tp_as_sequence.as_ref();
        subscript(class) == 0
            && sequence.is_none_or(|table| table.sq_item.is_none())
            // If the object is a class, it may be indexed through `__class_getitem__`.
            && ffi::PyType_Check(object) == 0
    }
}

/// Returns an attribute that is in the instance's dict or in one of its `__slots__`, or that is a
/// plain value in the class.
///
/// Returns `None` in four cases: the attribute is missing; the class overrides the lookup, for
/// example with `__getattr__`; the class has a descriptor of that name that is not a slot; or the
/// quick path is off.
///
/// # Safety
/// The caller must own a reference to `object`, since Python code may run, and must hold the GIL.
pub unsafe fn attribute(object: Object, name: &Bound<'_, PyString>) -> Option<Py<PyAny>> {
    if !QuickPath::Attributes.is_on() {
        return None;
    }
    // SAFETY: by this function's `# Safety` section, the caller owns a reference to `object` and
    // holds the GIL. Tests: accel/test_overrides.py (records_of_all_kinds).
    unsafe { find(object, name) }
}

/// Does what [`attribute`] does, even if the quick path is off, so that the probe can call it.
///
/// # Safety
/// The caller must own a reference to `object`, since Python code may run, and must hold the GIL.
unsafe fn find(object: Object, name: &Bound<'_, PyString>) -> Option<Py<PyAny>> {
    let lookup = LOOKUP.get()?;
    // SAFETY: by this function's `# Safety` section, the GIL is held and `object` stays alive; an
    // object owns its class. `class_attribute` is a borrowed reference. It is used only before the
    // next call that may run Python code. `PyObject_GenericGetAttr` returns a new reference, or
    // null with an exception, which is cleared. The only descriptors that it can call here are
    // slots, which are C code. Tests: accel/test_overrides.py (records_of_all_kinds),
    // accel/test_hostile.py (keys_of_a_class_of_their_own), unit/test_quick_paths.py (attributes).
    unsafe {
        let class = ffi::Py_TYPE(object);
        let generic = (*class).tp_getattro.is_some_and(|function| {
            std::ptr::fn_addr_eq(function, ffi::PyObject_GenericGetAttr as ffi::getattrofunc)
        });
        if !generic {
            return None;
        }
        let class_attribute = lookup(class, name.as_ptr());
        if class_attribute.is_null() && has_no_dict(class) {
            return None;
        }
        if !class_attribute.is_null() {
            let kind = ffi::Py_TYPE(class_attribute);
            let slot = kind == &raw mut ffi::PyMemberDescr_Type;
            if (*kind).tp_descr_get.is_some() && !slot {
                return None;
            }
        }
        let value = ffi::PyObject_GenericGetAttr(object, name.as_ptr());
        if value.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(Bound::from_owned_ptr(Python::assume_attached(), value).unbind())
    }
}

/// Whether instances of a class have no dict. An instance then has no other attributes than those
/// that its class defines.
///
/// # Safety
/// The caller must ensure that `class` is alive and that the GIL is held.
unsafe fn has_no_dict(class: *mut ffi::PyTypeObject) -> bool {
    /// `Py_TPFLAGS_MANAGED_DICT`, which exists since CPython 3.11. CPython 3.10 has no flag at this
    /// bit.
    const MANAGED_DICT: std::ffi::c_ulong = 1 << 4;
    // SAFETY: `class` is alive and the GIL is held, by the `# Safety` section. Tests:
    // accel/test_overrides.py (records_of_all_kinds), accel/test_everyday_values.py.
    unsafe { (*class).tp_dictoffset == 0 && ffi::PyType_HasFeature(class, MANAGED_DICT) == 0 }
}
