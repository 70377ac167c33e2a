//! Serialized values held by a message.

use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::Cell;
use turbocql_codec::message::AsCell;

use super::object::items;
use super::quick_path::QuickPath;

/// A reference to an exact `bytes`, which nobody changes: it is read without asking for the
/// interpreter's lock first, and given up without asking whether it is held.
pub struct Held(NonNull<ffi::PyObject>);

// SAFETY: the bytes do not change; the count of references is changed only by `new` and `drop`,
// which are called with the lock held: messages are made and dropped by Python.
unsafe impl Send for Held {}
// SAFETY: the same.
unsafe impl Sync for Held {}

impl Held {
    #[inline]
    pub fn new(bytes: Bound<'_, PyBytes>) -> Held {
        // A subclass could hold anything, even the message.
        debug_assert!(bytes.is_exact_instance_of::<PyBytes>());
        // SAFETY: a reference is never null.
        Held(unsafe { NonNull::new_unchecked(bytes.into_ptr()) })
    }

    #[inline(always)]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: an exact `bytes`, alive as long as the reference, at an address of its own. The two
        // functions only read it, whoever calls.
        unsafe {
            if QuickPath::Encode.is_on() {
                return contents(self.0.as_ptr());
            }
            let length = ffi::PyBytes_Size(self.0.as_ptr()) as usize;
            std::slice::from_raw_parts(ffi::PyBytes_AsString(self.0.as_ptr()).cast(), length)
        }
    }

    pub fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        // SAFETY: an exact `bytes`, alive, and the lock is held.
        unsafe { Bound::from_borrowed_ptr(py, self.0.as_ptr()).cast_into_unchecked() }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and the lock is held where messages go.
        unsafe { ffi::Py_DECREF(self.0.as_ptr()) };
    }
}

/// # Safety
/// An exact `bytes`, alive as long as what is returned.
#[inline(always)]
unsafe fn contents<'a>(bytes: *mut ffi::PyObject) -> &'a [u8] {
    // SAFETY: an exact `bytes` has this layout.
    unsafe {
        let bytes = bytes.cast::<ffi::PyBytesObject>();
        let length = (*bytes).ob_base.ob_size as usize;
        std::slice::from_raw_parts((&raw const (*bytes).ob_sval).cast(), length)
    }
}

/// Serialized bytes that are read by their layout, which has been tried: made by [`Value::of`] alone.
pub struct Quick(pub Held);

/// A serialized value.
pub enum Value {
    Bytes(Quick),
    /// The same, read by functions.
    Safe(Held),
    Null,
    Unset,
}

impl Value {
    #[inline]
    pub fn of(held: Held) -> Value {
        if QuickPath::Encode.is_on() { Value::Bytes(Quick(held)) } else { Value::Safe(held) }
    }
}

impl AsCell for Value {
    #[inline(always)]
    fn as_cell(&self) -> Cell<'_> {
        match self {
            // SAFETY: an exact `bytes`, alive as long as the reference.
            Value::Bytes(Quick(held)) => Cell::Value(unsafe { contents(held.0.as_ptr()) }),
            Value::Safe(held) => Cell::Value(held.as_bytes()),
            Value::Null => Cell::Null,
            Value::Unset => Cell::Unset,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.as_cell() == other.as_cell()
    }
}

/// Appends the values of an exact list or tuple. False, and nothing appended, where there is
/// anything else in it than exact `bytes`, None and `unset`, or too much for a message.
#[inline]
pub fn append_values(
    given: &Bound<'_, PyAny>,
    unset: &Bound<'_, PyAny>,
    values: &mut Vec<Value>,
    most: usize,
) -> bool {
    if !QuickPath::Encode.is_on() {
        return false;
    }
    let start = values.len();
    // SAFETY: the object is alive and the lock is held; nothing here runs Python code, so that its
    // items stay where they are. Each `bytes` is given a reference that `Held` owns.
    unsafe {
        let Some(items) = items(given.as_ptr()) else { return false };
        if items.len() > most || values.try_reserve(items.len()).is_err() {
            return false;
        }
        for &item in items {
            let value = if (*item).ob_type == &raw mut ffi::PyBytes_Type {
                if i32::try_from(contents(item).len()).is_err() {
                    values.truncate(start);
                    return false;
                }
                ffi::Py_INCREF(item);
                Value::Bytes(Quick(Held(NonNull::new_unchecked(item))))
            } else if item == ffi::Py_None() {
                Value::Null
            } else if item == unset.as_ptr() {
                Value::Unset
            } else {
                values.truncate(start);
                return false;
            };
            values.push(value);
        }
    }
    true
}
