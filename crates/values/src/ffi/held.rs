//! Serialized values that a message holds: references to `bytes`, null and unset.

use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::Cell;
use turbocql_codec::message::AsCell;

use super::object::items;
use super::quick_path::QuickPath;

/// An owned reference to an exact `bytes`. The contents of a `bytes` never change, so they are read
/// without taking the GIL. `drop` does not check that the GIL is held.
pub struct Held(NonNull<ffi::PyObject>);

// SAFETY: another thread may read the contents, because the contents of an exact `bytes` never
// change. The reference count changes only while the GIL is held: `new`, `object` and
// `append_values` take a `Bound` or a `Python`, which shows that it is held. Values are dropped in
// calls from Python, or with a message, which Python frees; in both cases the GIL is held. Tests:
// unit/test_protocol.py (test_threads_share_a_message).
unsafe impl Send for Held {}
// SAFETY: a shared `Held` is only read, and reading is safe for the reason given at `Send`. The
// tests are the same.
unsafe impl Sync for Held {}

impl Held {
    #[inline]
    pub fn new(bytes: Bound<'_, PyBytes>) -> Held {
        // An instance of a subclass can have attributes. If an attribute referred to the message,
        // there would be a reference cycle, which the GC could not free.
        debug_assert!(bytes.is_exact_instance_of::<PyBytes>());
        // SAFETY: the pointer must not be null. The pointer of a `Bound` never is null. Tests:
        // unit/test_protocol.py.
        Held(unsafe { NonNull::new_unchecked(bytes.into_ptr()) })
    }

    #[inline(always)]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the object must be an exact `bytes` and alive as long as the slice is used. The
        // callers of `new` ensure the class, and `append_values` compares it. The reference in
        // `self` keeps the object alive. `contents` is called only if the probe of the layout has
        // passed. The two functions of CPython only read the object's size and address, so they
        // need no GIL. Tests: unit/test_protocol.py, once with all quick paths and once with none
        // (`make check`).
        unsafe {
            if QuickPath::Encode.is_on() {
                return contents(self.0.as_ptr());
            }
            let length = ffi::PyBytes_Size(self.0.as_ptr()) as usize;
            std::slice::from_raw_parts(ffi::PyBytes_AsString(self.0.as_ptr()).cast(), length)
        }
    }

    pub fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        // SAFETY: the object is alive by the reference in `self`. It is a `bytes`, by the type of
        // `new`'s argument or the comparison in `append_values`. `py` shows that the GIL is held.
        // Tests: unit/test_protocol.py (test_arguments_can_be_read).
        unsafe { Bound::from_borrowed_ptr(py, self.0.as_ptr()).cast_into_unchecked() }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` owns one reference, which is released once. The GIL is held, because
        // values are dropped in calls from Python, or with a message, which Python frees. Tests:
        // property/paths.py ("make a query").
        unsafe { ffi::Py_DECREF(self.0.as_ptr()) };
    }
}

/// Returns the contents of a `bytes`, read through its layout.
///
/// # Safety
/// The caller must ensure that `bytes` is an exact `bytes`, that it stays alive as long as the
/// slice is used, and that the probe of [`QuickPath::Encode`] has passed.
#[inline(always)]
unsafe fn contents<'a>(bytes: *mut ffi::PyObject) -> &'a [u8] {
    // SAFETY: an exact `bytes` has this layout, which the probe has checked. The `# Safety` section
    // demands an exact `bytes` and a probe that has passed. Tests: unit/test_quick_paths.py
    // (encode). Benchmark: "execute body: 12 mixed".
    unsafe {
        let bytes = bytes.cast::<ffi::PyBytesObject>();
        let length = (*bytes).ob_base.ob_size as usize;
        std::slice::from_raw_parts((&raw const (*bytes).ob_sval).cast(), length)
    }
}

/// Serialized bytes that are read through their layout. [`Value::of`] and [`append_values`] make a
/// `Quick` only if the probe of that layout has passed.
pub struct Quick(pub Held);

/// A serialized value.
pub enum Value {
    Bytes(Quick),
    /// Serialized bytes that are read by CPython's functions.
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
            // SAFETY: `held` refers to an exact `bytes`, which lives as long as `self`, and a
            // `Quick` is made only after the probe has passed. Tests: unit/test_protocol.py.
            // Benchmark: "execute body: 12 mixed".
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

/// Appends the values of an exact list or tuple. Returns false and appends nothing if `sequence` is
/// of another class, or if an item is not an exact `bytes`, None or `unset`. It also returns false
/// and appends nothing if there are more than `maximum` items, if a value is too long for a
/// message, if there is no memory, or if the quick path is off.
#[inline]
pub fn append_values(
    sequence: &Bound<'_, PyAny>,
    unset: &Bound<'_, PyAny>,
    values: &mut Vec<Value>,
    maximum: usize,
) -> bool {
    if !QuickPath::Encode.is_on() {
        return false;
    }
    let start = values.len();
    // SAFETY: `sequence` keeps the list or tuple alive and shows that the GIL is held, as `items`
    // and `contents` demand; the probe has passed, as checked above. No Python code runs here, so
    // the borrowed items stay alive and in place. If an item is refused, the values that were made
    // before it are dropped. This frees no `bytes`, because the list or tuple refers to them too.
    // Each `Held` gets a new reference of its own. Tests: unit/test_protocol.py,
    // property/test_hostile_messages.py. Benchmark: "execute body: 12 mixed".
    unsafe {
        let Some(items) = items(sequence.as_ptr()) else { return false };
        if items.len() > maximum || values.try_reserve(items.len()).is_err() {
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
