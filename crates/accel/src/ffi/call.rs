//! Functions of C's that belong to an object of ours: what is called in the place of a function of
//! somebody else's, and must cost next to nothing.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, PoisonError};

use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::is_on;

/// An object that stands in for a function.
pub trait StandIn: PyClass {
    /// `None` where the function itself is to be called, with the same arguments.
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>>;

    /// The function; called when it is about to be called.
    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny>;
}

/// What functions are made of, by the class of their stand-in, their name and documentation: each
/// once, however often a driver is accelerated.
static DEFINITIONS: LazyLock<Mutex<HashMap<Key, Definition>>> = LazyLock::new(Mutex::default);

type Key = (&'static str, &'static CStr, String);

struct Definition(*mut ffi::PyMethodDef);

// SAFETY: nobody writes to a definition once it is made.
unsafe impl Send for Definition {}

/// A function that calls a stand-in. As a method of a class, it wants to be a `Method`.
///
/// `doc` is what CPython reads of functions of C's: name and parameters, a mark, the documentation.
pub fn function<'py, T: StandIn>(
    this: &Bound<'py, T>,
    name: &'static CStr,
    doc: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let key = (std::any::type_name::<T>(), name, doc.to_owned());
    let mut known = DEFINITIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let definition = match known.get(&key) {
        Some(definition) => definition.0,
        None => {
            let definition = ffi::PyMethodDef {
                ml_name: name.as_ptr(),
                ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: call::<T> },
                ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
                ml_doc: CString::new(doc)?.into_raw(),
            };
            // For ever: a function may be kept by anybody.
            let definition = Box::into_raw(Box::new(definition));
            known.insert(key, Definition(definition));
            definition
        }
    };
    drop(known);
    // SAFETY: the definition lives for ever, and the function owns a reference to the object.
    unsafe {
        let made = ffi::PyCFunction_NewEx(definition, this.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(this.py(), made)
    }
}

/// # Safety
/// Called by CPython only: with a `T`, as many arguments as it says, and the lock held.
unsafe extern "C" fn call<T: StandIn>(
    this: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // A panic must not pass through C.
    let done = catch_unwind(AssertUnwindSafe(|| {
        Python::attach(|py| {
            // SAFETY: the caller's word; a `Borrowed` is a pointer, and says that it is one.
            let (this, given) = unsafe {
                let this = Borrowed::from_ptr(py, this).cast_unchecked::<T>();
                let given = if count == 0 {
                    &[]
                } else {
                    std::slice::from_raw_parts(
                        arguments.cast::<Borrowed<'_, '_, PyAny>>(),
                        count as usize,
                    )
                };
                (this, given)
            };
            let usual = names.is_null() && is_on();
            let done = if usual { T::call(&this, given) } else { Ok(None) };
            match done {
                Ok(Some(value)) => value.into_ptr(),
                Ok(None) => {
                    let original = T::original(&this).as_ptr();
                    // SAFETY: alive as long as the stand-in, and the arguments are those that came.
                    unsafe { ffi::PyObject_Vectorcall(original, arguments, count as usize, names) }
                }
                Err(error) => {
                    error.restore(py);
                    std::ptr::null_mut()
                }
            }
        })
    }));
    done.unwrap_or_else(|_| {
        let reason = "a stand-in of turbocql's panicked";
        Python::attach(|py| PyRuntimeError::new_err(reason).restore(py));
        std::ptr::null_mut()
    })
}
