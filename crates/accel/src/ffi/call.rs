//! Built-in functions that call a stand-in. They replace the driver's functions, so a call must
//! cost next to nothing.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, PoisonError};

use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::switch::is_on;

/// An object that does the work of a driver's function, its original.
pub trait StandIn: PyClass {
    /// Does the work of a call; `None` if the original must be called with the same arguments.
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>>;

    /// Does the work of a call with arguments by name: the last values of `arguments` are those of
    /// `names`. `None` if the original must be called.
    fn call_named<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = (this, arguments, names);
        Ok(None)
    }

    /// Returns the original. This method is called only directly before the original is called, so
    /// that it can count the fallback.
    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny>;
}

/// The definitions of all functions, by the type of their stand-in, their name and their docstring.
/// Definitions are never freed, so each is made once, however often a driver is accelerated.
static DEFINITIONS: LazyLock<Mutex<HashMap<FunctionKey, Definition>>> =
    LazyLock::new(Mutex::default);

#[derive(PartialEq, Eq, Hash)]
struct FunctionKey {
    stand_in: &'static str,
    name: &'static CStr,
    doc: String,
}

struct Definition(*mut ffi::PyMethodDef);

// SAFETY: the pointer must be usable from any thread. It is: a definition is leaked, so it lives as
// long as the process, and nothing writes to it after `function` has made it. Tests:
// accel/test_switching.py (threads_may_do_all_at_once).
unsafe impl Send for Definition {}

/// A built-in function that calls a stand-in. To be a method of a class, it must be wrapped in a
/// `StandInMethod`.
///
/// `doc` has the form in which CPython expects the signature and docstring of built-in functions:
/// name and parameters, a line `--`, an empty line, the docstring.
pub fn function<'py, T: StandIn>(
    this: &Bound<'py, T>,
    name: &'static CStr,
    doc: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let key = FunctionKey { stand_in: std::any::type_name::<T>(), name, doc: doc.to_owned() };
    let mut definitions = DEFINITIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let definition = match definitions.get(&key) {
        Some(definition) => definition.0,
        None => {
            let definition = ffi::PyMethodDef {
                ml_name: name.as_ptr(),
                ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: call::<T> },
                ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
                ml_doc: CString::new(doc)?.into_raw(),
            };
            // Leaked, because a program may keep a function for as long as the process runs.
            let definition = Box::into_raw(Box::new(definition));
            definitions.insert(key, Definition(definition));
            definition
        }
    };
    drop(definitions);
    // SAFETY: CPython requires that the definition outlives the function: it is leaked above. The
    // function takes a reference to `this`, which is alive by its `Bound`. The result is a new
    // reference, or null with an exception. `call::<T>` has the signature that `METH_FASTCALL |
    // METH_KEYWORDS` requires, and receives `this`, a `T`, as its first argument. Tests: all of
    // tests/accel.
    unsafe {
        let function = ffi::PyCFunction_NewEx(definition, this.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(this.py(), function)
    }
}

/// # Safety
/// Only CPython may call it, through a function that [`function`] made for `T`. `this` is then a
/// live `T`, `arguments` has `count` borrowed references and the values of `names` after them, and
/// the GIL is held.
unsafe extern "C" fn call<T: StandIn>(
    this: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // A panic must not pass through C.
    let result = catch_unwind(AssertUnwindSafe(|| {
        Python::attach(|py| {
            // SAFETY: `this` is a live `T`, since `function` bound this code to one. By CPython's
            // documentation of METH_FASTCALL, `names` is null or a tuple, and `arguments` has
            // `count` live objects and one more per name, which the caller of the function owns
            // until it returns. A `Borrowed` is `repr(transparent)` over a non-null object pointer,
            // so the array can be read as `Borrowed`s. Without arguments the pointer may be null
            // and is not used. Tests: all of tests/accel; of names: accel/test_mapper.py.
            let (this, named, values) = unsafe {
                let this = Borrowed::from_ptr(py, this).cast_unchecked::<T>();
                let named = Bound::from_borrowed_ptr_or_opt(py, names)
                    .map(|names| names.cast_into_unchecked::<PyTuple>());
                let all = count as usize + named.as_ref().map_or(0, |names| names.len());
                let values = if all == 0 {
                    &[]
                } else {
                    std::slice::from_raw_parts(arguments.cast::<Borrowed<'_, '_, PyAny>>(), all)
                };
                (this, named, values)
            };
            let result = match named {
                _ if !is_on() => Ok(None),
                Some(names) => T::call_named(&this, values, &names),
                None => T::call(&this, values),
            };
            match result {
                Ok(Some(value)) => value.into_ptr(),
                Ok(None) => {
                    let original = T::original(&this).as_ptr();
                    // SAFETY: `this`, which CPython keeps alive during the call, owns the original.
                    // The arguments, their count and `names` are passed on unchanged, in the
                    // vectorcall format in which they came. The result is a new reference, or null
                    // with an exception. Tests: accel/test_overrides.py, accel/test_hostile.py.
                    unsafe { ffi::PyObject_Vectorcall(original, arguments, count as usize, names) }
                }
                Err(error) => {
                    error.restore(py);
                    std::ptr::null_mut()
                }
            }
        })
    }));
    result.unwrap_or_else(|_| {
        let reason = "a native function of turbocql.accel panicked";
        Python::attach(|py| PyRuntimeError::new_err(reason).restore(py));
        std::ptr::null_mut()
    })
}
