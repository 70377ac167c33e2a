//! Functions of C's that belong to an object of ours: what is called in the place of a function of
//! somebody else's, and must cost next to nothing.

use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::accel::is_on;

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

/// A function that calls a stand-in. As a method of a class, it wants to be a `method`.
///
/// `doc` is what CPython reads of functions of C's: name and parameters, a mark, the documentation.
pub fn function<'py, T: StandIn>(
    this: &Bound<'py, T>,
    name: &'static CStr,
    doc: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let doc = CString::new(doc)?;
    let definition = ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: call::<T> },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.into_raw(),
    };
    // For ever: a function may be kept by anybody. Stand-ins are made once for each function.
    let definition = Box::into_raw(Box::new(definition));
    // SAFETY: the definition lives for ever, and the function owns a reference to the object.
    unsafe {
        let made = ffi::PyCFunction_NewEx(definition, this.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(this.py(), made)
    }
}

unsafe extern "C" {
    /// A callable that becomes a method of the instance it is looked up on; CPython 3.10 to 3.13.
    fn PyInstanceMethod_New(callable: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// What makes a method of a function: functions of C's are none by themselves.
pub fn method<'py>(function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a callable, alive; a new object that is ours, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), PyInstanceMethod_New(function.as_ptr())) }
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
