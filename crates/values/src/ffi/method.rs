//! `Serializer.serialize` as a function of C's, for values that need nothing but their bytes: what
//! pyo3 does around every call takes longer than such a value.

use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::{PyBytes, PyType};

use super::dialect::Protocol;
use super::int::small;
use super::quick_path::QuickPath;
use super::{encode, probe};
use crate::value::HostPlan;

/// A class with a method `serialize(value, protocol_version=4)`, made from the name of a CQL type.
pub trait Serializes: PyClass<Frozen = True> + Sync {
    fn plan(&self) -> &HostPlan;
}

/// The method as pyo3 has it, which takes every call.
static WHOLE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());

/// Puts the function in the method's place, once it has been tried; why it was not, if so.
pub fn install<T: Serializes>(py: Python<'_>) -> PyResult<Option<String>> {
    if !QuickPath::Encode.is_on() {
        return Ok(Some("it needs the quick path \"encode\"".to_owned()));
    }
    let class = py.get_type::<T>();
    let whole = class.getattr("serialize")?;
    let said = |name: &str| whole.getattr(name)?.extract::<String>();
    // As CPython reads it: the signature, and what `help` says.
    let doc = format!("serialize{}\n--\n\n{}", said("__text_signature__")?, said("__doc__")?);
    let doc = CString::new(doc).map_err(|_| pyo3::exceptions::PyValueError::new_err("a doc"))?;
    let function = ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: serialize::<T> };
    let definition = ffi::PyMethodDef {
        ml_name: c"serialize".as_ptr(),
        ml_meth: function,
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.into_raw(),
    };
    // For as long as the class.
    let definition = Box::into_raw(Box::new(definition));
    WHOLE.store(whole.into_ptr(), Ordering::Release);
    // SAFETY: a class, and a definition that lives for ever.
    let method = unsafe {
        let method = ffi::PyDescr_NewMethod(class.as_ptr().cast::<ffi::PyTypeObject>(), definition);
        Bound::from_owned_ptr_or_err(py, method)?
    };
    let sample = class.call1(("int",))?;
    let (made, expected) =
        (method.call1((&sample, 70_000))?, PyBytes::new(py, &[0, 1, 0x11, 0x70]));
    let wrong = probe::made(QuickPath::Serialize, "a value", &made, &expected, false)?;
    if wrong.is_none() {
        class.cast::<PyType>()?.setattr("serialize", method)?;
    }
    Ok(wrong)
}

/// # Safety
/// Called by CPython only: with a `T`, as many arguments as it says, and the lock held.
unsafe extern "C" fn serialize<T: Serializes>(
    this: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // A panic must not pass through C; the whole method has its own way with them.
    let quick = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's word. Nothing here gives up a reference that pyo3 counts.
        unsafe {
            let known = match (count, names.is_null()) {
                _ if !QuickPath::Encode.is_on() => false,
                (1, true) => true,
                (2, true) => matches!(small(*arguments.add(1)), Some(3..=5)),
                _ => false,
            };
            if !known {
                return ptr::null_mut();
            }
            let py = Python::assume_attached();
            let given = Borrowed::from_ptr(py, *arguments);
            let serializer = Borrowed::from_ptr(py, this).cast_unchecked::<T>();
            let bytes = encode::bytes_of::<Protocol>(serializer.get().plan(), &given);
            bytes.map_or(ptr::null_mut(), Bound::into_ptr)
        }
    }));
    match quick {
        Ok(bytes) if !bytes.is_null() => bytes,
        // SAFETY: the caller's word.
        _ => unsafe { call_whole(this, arguments, count, names) },
    }
}

/// # Safety
/// As for [`serialize`].
#[cold]
#[inline(never)]
unsafe fn call_whole(
    this: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the method lives for ever; the arguments are those that came, behind `this`.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let given = std::slice::from_raw_parts(arguments, (count + named) as usize);
        let all: Vec<_> = std::iter::once(this).chain(given.iter().copied()).collect();
        let whole = WHOLE.load(Ordering::Acquire);
        ffi::PyObject_Vectorcall(whole, all.as_ptr(), (count + 1) as usize, names)
    }
}
