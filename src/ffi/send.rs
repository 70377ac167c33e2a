//! Lets native coroutines return their results without raising an exception, as Python's own
//! coroutines do.
//!
//! This needs the slot `am_send`, which pyo3 does not support. Without this slot, a coroutine
//! raises `StopIteration` to return its result, so an exception is made, caught and unpacked for
//! every result.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use turbocql_values::ffi::probe;
use turbocql_values::ffi::quick_path::QuickPath;

/// What a coroutine yields or returns when it is resumed.
pub enum Sent {
    /// An object for the task that runs the coroutine, such as the future that the task waits for.
    Yield(Py<PyAny>),
    Return(Py<PyAny>),
}

pub trait Sends: PyClass {
    fn send(this: &Bound<'_, Self>) -> PyResult<Sent>;
}

/// Sets the `am_send` slot of a class to `send`. If the slot cannot be set, returns the reason.
pub fn install<T: Sends>(py: Python<'_>) -> PyResult<Option<String>> {
    let wrong =
        |member: &str| Ok(Some(format!("{member} is not at the expected offset in a class")));
    // SAFETY: `class` must be a live heap type, which contains the `PyAsyncMethods` that
    // `tp_as_async` points to. pyo3 makes such types and keeps them for the life of the process;
    // `py` shows that the GIL is held. No instance uses the slots meanwhile: `init` in lib.rs calls
    // this while the module is imported. `am_await` is compared with CPython's `PyType_GetSlot`
    // before the write, and `am_send` after it. Tests: unit/test_quick_paths.py (coroutines),
    // unit/test_row_iteration.py.
    unsafe {
        let class = T::type_object(py).as_type_ptr();
        let slot = |slot: c_int| ffi::PyType_GetSlot(class, slot) as usize;
        let Some(methods) = (*class).tp_as_async.as_mut() else { return wrong("tp_as_async") };
        let awaits = methods.am_await.map_or(0, |function| function as usize);
        let expected = slot(ffi::Py_am_await);
        let read = probe::check_value(QuickPath::Coroutines, "a class", awaits, expected);
        if read.is_some() || expected == 0 {
            return Ok(read.or(wrong("am_await")?));
        }
        // `am_send` may be set already, because an earlier import of the module may have failed
        // after this point.
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

/// Resumes a coroutine. This function is the `am_send` of the class of `T`.
///
/// # Safety
/// The caller must hold the GIL. `this` must be a live instance of the class of `T`, or of a class
/// derived from it. `result` must be a pointer that may be written to. CPython ensures this for
/// calls of `am_send`.
unsafe extern "C" fn send<T: Sends>(
    this: *mut ffi::PyObject,
    _value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    let sent = catch_unwind(AssertUnwindSafe(|| {
        Python::attach(|py| {
            // SAFETY: `this` is a live instance of the class of `T` or of a derived one, by the
            // `# Safety` section. `cast_into_unchecked` needs no more. Tests:
            // unit/test_row_iteration.py, integration/test_awaiting.py.
            let this = unsafe { Bound::from_borrowed_ptr(py, this).cast_into_unchecked::<T>() };
            match T::send(&this) {
                Ok(Sent::Yield(yielded)) => (yielded.into_ptr(), ffi::PySendResult::PYGEN_NEXT),
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
    // SAFETY: `result` may be written to, by the `# Safety` section. Tests:
    // unit/test_row_iteration.py, integration/test_awaiting.py.
    unsafe { *result = value };
    kind
}
