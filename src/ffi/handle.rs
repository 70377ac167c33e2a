//! Makes handles for the ready queue of an event loop. `call_soon` is not needed for this.

use crate::python;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use turbocql_values::ffi::quick_path::QuickPath;
use turbocql_values::ffi::slots::Slotted;
use turbocql_values::ffi::{make, probe};

/// The slots of `turbocql._native.wake.Ready`.
static READY: Slotted = Slotted::new();

/// Decides whether the quick path `Handles`, which makes handles natively, may be used. This
/// decision depends only on the interpreter. Later, when the first event loop is used,
/// [`probe_ready`] makes a handle as a probe.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    QuickPath::Handles.decide(py, |_| Ok(None)).map(drop)
}

/// Makes a handle as a probe, unless this has succeeded before. Returns whether native handles may
/// be used.
///
/// This function imports asyncio. The import takes long, so this function is called only when the
/// application uses an event loop.
pub fn probe_ready(py: Python<'_>) -> PyResult<bool> {
    if READY.is_known() {
        return Ok(true);
    }
    let is_usable = QuickPath::Handles.decide(py, try_ready);
    if !matches!(is_usable, Ok(true)) {
        READY.forget();
    }
    is_usable
}

fn try_ready(py: Python<'_>) -> PyResult<Option<String>> {
    let class = python::ready(py)?;
    let missing = READY.find(class, &["_function", "_callback"])?;
    if missing.is_some() {
        return Ok(missing);
    }
    let parts: [Bound<'_, PyAny>; 2] =
        [PyList::new(py, [1])?.into_any(), PyList::new(py, [2])?.into_any()];
    let Some(handle) = ready(&parts[0], &parts[1]) else {
        return Ok(Some("a handle could not be made".to_owned()));
    };
    let good =
        handle.getattr("_function")?.is(&parts[0]) && handle.getattr("_callback")?.is(&parts[1]);
    let held = parts.iter().all(|part| probe::references(part) == 2);
    let expected = make::instance(class)?;
    for (name, part) in ["_function", "_callback"].into_iter().zip(&parts) {
        make::set(&expected, &PyString::new(py, name), part)?;
    }
    // Two handles are never equal, because they compare by identity. So their classes and their GC
    // tracking are compared instead.
    let facts = (good, held, handle.get_type().is(class), tracked(&handle), tracked(&expected));
    let wrong =
        probe::check_value(QuickPath::Handles, "a handle", facts, (true, true, true, true, true));
    Ok(wrong)
}

/// Whether the GC tracks an object.
fn tracked(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the function needs a live object and the GIL. `object` has a reference to it and
    // shows that the GIL is held. Tests: integration/test_awaiting.py
    // (test_handles_that_are_not_as_expected_are_not_used).
    unsafe { ffi::PyObject_GC_IsTracked(object.as_ptr()) != 0 }
}

/// Makes a handle for the ready queue of asyncio's own event loop. The event loop calls `function`
/// in its next round. If `function` raises, asyncio's message names `callback`. Returns `None` if
/// there is not enough memory, or if the slots of the handle's class were not found.
pub fn ready<'py>(
    function: &Bound<'py, PyAny>,
    callback: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyAny>> {
    // SAFETY: `make` needs an owned reference for each slot that was found, and the GIL. `into_ptr`
    // makes owned references. `probe_ready` forgets the class unless `try_ready` has found two
    // slots; `function` shows that the GIL is held. `make` returns an owned reference or null.
    // `PyObject_GC_Track` needs an untracked instance with its slots filled, as `make` leaves it.
    // The GC must track the instance, because it refers to a task, which may refer back to it.
    // Tests: integration/test_awaiting.py (test_tasks_resume_in_their_own_context).
    unsafe {
        let handle = READY.make([function.clone().into_ptr(), callback.clone().into_ptr()]);
        if !handle.is_null() {
            ffi::PyObject_GC_Track(handle.cast());
        }
        Bound::from_owned_ptr_or_opt(function.py(), handle)
    }
}

/// Returns the address of the C function behind a builtin, and the object that the builtin is bound
/// to. Returns `None` for other callables, and for builtins that are bound to no object.
pub fn builtin<'a, 'py>(call: &'a Bound<'py, PyAny>) -> Option<(usize, Borrowed<'a, 'py, PyAny>)> {
    // SAFETY: the two getters need a live builtin function and the GIL. `call` keeps the object
    // alive and shows that the GIL is held; `PyCFunction_CheckExact` has checked its class.
    // `bound_to` is borrowed: the builtin keeps it alive, and the `Borrowed` does not outlive
    // `call` (`'a`). Tests: integration/test_awaiting.py
    // (test_tasks_of_several_classes_wake_in_the_order_of_completion).
    unsafe {
        if ffi::PyCFunction_CheckExact(call.as_ptr()) == 0 {
            return None;
        }
        let function = ffi::PyCFunction_GetFunction(call.as_ptr())? as usize;
        let bound_to = ffi::PyCFunction_GetSelf(call.as_ptr());
        Some((function, Borrowed::from_ptr_or_opt(call.py(), bound_to)?))
    }
}
