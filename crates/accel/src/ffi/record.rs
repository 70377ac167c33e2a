//! The fields of objects that stand for a user-defined type, read without calling Python code. Keys of
//! an object's dict that are of somebody's own class of strings may run some even so.

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
use turbocql_values::value::record::Record;

type Object = *mut ffi::PyObject;

/// What a class or a base of it has of a name, borrowed, or null. Private.
type Lookup = unsafe extern "C" fn(class: *mut ffi::PyTypeObject, name: Object) -> Object;
// SAFETY: CPython's declaration of it, 3.10 to 3.15.
static LOOKUP: Symbol<Lookup> = unsafe { Symbol::new(c"_PyType_Lookup") };

/// Tries how attributes and the parts of tuples are found.
pub fn probe_attributes(py: Python<'_>) -> PyResult<Option<String>> {
    if let Some(missing) = LOOKUP.look_up() {
        return Ok(Some(missing));
    }
    let wrong = |found: bool| Ok(probe::read(QuickPath::Attributes, "an object", found, true));
    let sample = c"type('Sample', (), {'__slots__': ('slot', '__dict__'), 'common': ['common'],\
        'computed': property(lambda self: ['computed'])})()";
    let sample = py.eval(sample, None, None)?;
    for name in ["slot", "own", "common"] {
        if name != "common" {
            sample.setattr(name, PyList::new(py, [name])?)?;
        }
        let expected = sample.getattr(name)?;
        // SAFETY: alive, and the lock is held.
        let found = unsafe { find(sample.as_ptr(), &PyString::new(py, name)) };
        if !found.is_some_and(|found| found.is(&expected)) {
            return wrong(false);
        }
    }
    for name in ["computed", "missing", "__init__"] {
        // SAFETY: the same.
        if unsafe { find(sample.as_ptr(), &PyString::new(py, name)) }.is_some() {
            return wrong(false);
        }
    }
    let pair = py.eval(c"type('Pair', (tuple,), {'own': 1})(('a', 'b'))", None, None)?;
    let odd = c"type('Odd', (tuple,), {'__getitem__': lambda self, i: 1,\
        '__len__': lambda self: 1})(('a', 'b'))";
    let odd = py.eval(odd, None, None)?;
    let class = pair.get_type();
    // SAFETY: the tables of a class that is alive; the lock is held. What a class has in its slots
    // is also what the public function gives.
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
    // SAFETY: alive, and the lock is held.
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

/// The address in a slot of a class, as CPython tells it.
fn slot(class: &Bound<'_, PyType>, slot: std::ffi::c_int) -> usize {
    // SAFETY: a class that is alive, and the number of a slot.
    unsafe { ffi::PyType_GetSlot(class.as_type_ptr(), slot) as usize }
}

/// Appends the fields of an object as the package `cassandra` does, without framing.
///
/// # Safety
/// The object is alive, and the interpreter's lock is held.
pub unsafe fn put_record<D: Dialect>(
    udt: &UdtPlan<Record>,
    object: Object,
    out: &mut Vec<u8>,
) -> bool {
    if !QuickPath::Attributes.is_on() {
        return false;
    }
    let plans = &udt.fields;
    // SAFETY: the caller's word, handed on; an attribute lives as long as it is looked at.
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

/// The values of a tuple, or of a named tuple that is indexed as tuples are.
///
/// # Safety
/// The object is alive, and the interpreter's lock is held as long as what is given.
unsafe fn positions<'a>(object: Object) -> Option<&'a [Object]> {
    // SAFETY: a tuple's values stand behind its head, whatever its class adds to it.
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

/// Whether a subclass of tuple has the length and the parts that it has as a tuple, whoever asks.
pub fn is_plain_tuple(given: &Bound<'_, PyAny>) -> bool {
    if QuickPath::Attributes.is_on() {
        return is_plain_by_slots(given);
    }
    let (class, tuple) = (given.get_type(), given.py().get_type::<PyTuple>());
    ["__len__", "__iter__"].into_iter().all(|name| {
        let (own, inherited) = (class.getattr(name), tuple.getattr(name));
        own.is_ok_and(|own| inherited.is_ok_and(|inherited| own.is(&inherited)))
    })
}

fn is_plain_by_slots(given: &Bound<'_, PyAny>) -> bool {
    let (class, tuple) = (given.get_type_ptr(), &raw mut ffi::PyTuple_Type);
    // SAFETY: classes that are alive; a table of one is as long as it.
    unsafe {
        let length = |class: *mut ffi::PyTypeObject| {
            let (sequence, mapping) = (
                (*class).tp_as_sequence.as_ref().and_then(|table| table.sq_length),
                (*class).tp_as_mapping.as_ref().and_then(|table| table.mp_length),
            );
            (sequence.map(|it| it as usize), mapping.map(|it| it as usize))
        };
        ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_TUPLE_SUBCLASS) != 0
            && (*class).tp_iter.map(|it| it as usize) == (*tuple).tp_iter.map(|it| it as usize)
            && length(class) == length(tuple)
    }
}

/// The address of what indexes instances of a class as mappings, zero if nothing does.
///
/// # Safety
/// The class is alive.
unsafe fn subscript(class: *mut ffi::PyTypeObject) -> usize {
    // SAFETY: the caller's word; a class has no table, or one as long as it.
    unsafe {
        match (*class).tp_as_mapping.as_ref() {
            Some(table) => table.mp_subscript.map_or(0, |function| function as usize),
            None => 0,
        }
    }
}

/// Whether indexing the object is an error for its class.
///
/// # Safety
/// The object is alive, and the interpreter's lock is held.
unsafe fn is_no_sequence(object: Object) -> bool {
    // SAFETY: the caller's word; as for `subscript`.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let sequence = (*class).tp_as_sequence.as_ref();
        subscript(class) == 0
            && sequence.is_none_or(|table| table.sq_item.is_none())
            // Classes themselves may be indexed by what they are made for.
            && ffi::PyType_Check(object) == 0
    }
}

/// An attribute that an instance keeps in its dict or in a slot, or that its class has as a value.
///
/// # Safety
/// The object is alive, and the interpreter's lock is held.
pub unsafe fn attribute(object: Object, name: &Bound<'_, PyString>) -> Option<Py<PyAny>> {
    if !QuickPath::Attributes.is_on() {
        return None;
    }
    // SAFETY: the caller's word.
    unsafe { find(object, name) }
}

/// # Safety
/// As for [`attribute`].
unsafe fn find(object: Object, name: &Bound<'_, PyString>) -> Option<Py<PyAny>> {
    let lookup = LOOKUP.get()?;
    // SAFETY: the caller's word. The class is asked in the way of CPython's own lookup, and what it
    // has is called only where it is a slot's descriptor, which is C's.
    unsafe {
        let class = ffi::Py_TYPE(object);
        let generic = (*class).tp_getattro.is_some_and(|function| {
            std::ptr::fn_addr_eq(function, ffi::PyObject_GenericGetAttr as ffi::getattrofunc)
        });
        if !generic {
            return None;
        }
        let found = lookup(class, name.as_ptr());
        if !found.is_null() {
            let kind = ffi::Py_TYPE(found);
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
