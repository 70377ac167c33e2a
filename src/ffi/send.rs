//! Coroutines that hand over their results as Python's own do: without an exception.
//!
//! pyo3 knows no `am_send`. Without it a coroutine returns by raising `StopIteration`, which has to
//! be made, caught and taken apart for every result.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use turbocql_values::ffi::probe;
use turbocql_values::ffi::quick_path::QuickPath;

/// What a coroutine does when it is run on.
pub enum Sent {
    /// It yields itself.
    Yield,
    Return(Py<PyAny>),
}

pub trait Sends: PyClass {
    fn send(this: &Bound<'_, Self>) -> PyResult<Sent>;
}

/// Makes `send` the `am_send` of a class; why it does not, if so.
pub fn install<T: Sends>(py: Python<'_>) -> PyResult<Option<String>> {
    let wrong = |what: &str| Ok(Some(format!("{what} is not where it should be in a class")));
    // SAFETY: a class that pyo3 has made is a heap type, whose asynchronous methods are part of it;
    // nobody has an instance yet. The slots beside the one that is written are compared with what
    // CPython itself tells of them, before and after.
    unsafe {
        let class = T::type_object(py).as_type_ptr();
        let slot = |slot: c_int| ffi::PyType_GetSlot(class, slot) as usize;
        let Some(methods) = (*class).tp_as_async.as_mut() else { return wrong("tp_as_async") };
        let awaits = methods.am_await.map_or(0, |function| function as usize);
        let expected = slot(ffi::Py_am_await);
        let read = probe::read(QuickPath::Coroutines, "a class", awaits, expected);
        if read.is_some() || expected == 0 {
            return Ok(read.or(wrong("am_await")?));
        }
        // It may be there from an import that something ended later.
        let function: ffi::sendfunc = send::<T>;
        methods.am_send = Some(function);
        if slot(ffi::Py_am_send) != function as usize {
            methods.am_send = None;
            return wrong("am_send");
        }
        ffi::PyType_Modified(class);
        Ok(None)
    }
}

/// # Safety
/// Called by Python, with its lock held, as `am_send` is: `this` is an instance of the class whose
/// method this is, and `result` is for the result.
unsafe extern "C" fn send<T: Sends>(
    this: *mut ffi::PyObject,
    _value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    let sent = catch_unwind(AssertUnwindSafe(|| {
        Python::attach(|py| {
            // SAFETY: see above; what has this method is of the class, or of one derived from it.
            let this = unsafe { Bound::from_borrowed_ptr(py, this).cast_into_unchecked::<T>() };
            match T::send(&this) {
                Ok(Sent::Yield) => (this.into_ptr(), ffi::PySendResult::PYGEN_NEXT),
                Ok(Sent::Return(value)) => (value.into_ptr(), ffi::PySendResult::PYGEN_RETURN),
                Err(error) => {
                    error.restore(py);
                    (std::ptr::null_mut(), ffi::PySendResult::PYGEN_ERROR)
                }
            }
        })
    }));
    let (value, kind) = sent.unwrap_or_else(|_| {
        Python::attach(|py| PyRuntimeError::new_err("a native coroutine panicked").restore(py));
        (std::ptr::null_mut(), ffi::PySendResult::PYGEN_ERROR)
    });
    // SAFETY: see above.
    unsafe { *result = value };
    kind
}
