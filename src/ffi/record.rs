//! The fields of objects that stand for a user-defined type, read without calling Python code. Keys of
//! an object's dict that are of somebody's own class of strings may run some even so.

use std::slice;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use turbocql_codec::plan::UdtPlan;

use super::quick::{Dialect, put_cell};
use crate::value::record::Record;

type Object = *mut ffi::PyObject;

unsafe extern "C" {
    /// What the class or a base of it has of that name, borrowed, or null; CPython 3.10 to 3.13.
    fn _PyType_Lookup(class: *mut ffi::PyTypeObject, name: Object) -> Object;
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
        let found = _PyType_Lookup(class, name.as_ptr());
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
