//! What an event loop runs in its next round, made past `call_soon`.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use turbocql_values::ffi::quick_path::QuickPath;
use turbocql_values::ffi::slots::Slotted;
use turbocql_values::ffi::{make, probe};
use turbocql_values::value::interned;

static READY: Slotted = Slotted::new();

/// Handles are tried when the first loop comes.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    QuickPath::Handles.decide(py, |_| Ok(None)).map(drop)
}

/// The same of what loops run: not before there is a loop, whose modules take long to import.
pub fn probe_ready(py: Python<'_>) -> PyResult<bool> {
    if READY.is_known() {
        return Ok(true);
    }
    let known = QuickPath::Handles.decide(py, try_ready);
    if !matches!(known, Ok(true)) {
        READY.forget();
    }
    known
}

fn try_ready(py: Python<'_>) -> PyResult<Option<String>> {
    let class = interned::ready(py)?;
    let missing = READY.find(class, &["_told", "_callback"])?;
    if missing.is_some() {
        return Ok(missing);
    }
    let parts: [Bound<'_, PyAny>; 2] =
        [PyList::new(py, [1])?.into_any(), PyList::new(py, [2])?.into_any()];
    let Some(made) = ready(&parts[0], &parts[1]) else {
        return Ok(Some("a handle could not be made".to_owned()));
    };
    let good = made.getattr("_told")?.is(&parts[0]) && made.getattr("_callback")?.is(&parts[1]);
    let held = parts.iter().all(|part| probe::references(part) == 2);
    let expected = make::instance(class)?;
    for (name, part) in ["_told", "_callback"].into_iter().zip(&parts) {
        make::set(&expected, &PyString::new(py, name), part)?;
    }
    // Each is equal to itself alone.
    let found = (good, held, made.get_type().is(class), tracked(&made), tracked(&expected));
    let wrong = probe::read(QuickPath::Handles, "a handle", found, (true, true, true, true, true));
    Ok(wrong)
}

/// Whether the GC tracks an object.
fn tracked(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: alive, and the lock is held.
    unsafe { ffi::PyObject_GC_IsTracked(object.as_ptr()) != 0 }
}

/// What asyncio's own loop runs in its next round, and for whom; `None` where there is no memory.
pub fn ready<'py>(
    told: &Bound<'py, PyAny>,
    callback: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyAny>> {
    // SAFETY: two new references for the slots, and the lock is held. It refers to a task, so the
    // collector has to know it: it was not tracked before, and is whole.
    unsafe {
        let made = READY.make([told.clone().into_ptr(), callback.clone().into_ptr()]);
        if !made.is_null() {
            ffi::PyObject_GC_Track(made.cast());
        }
        Bound::from_owned_ptr_or_opt(told.py(), made)
    }
}

/// The address of the function that a builtin calls, and what it is bound to; `None` for other
/// callables, and for functions that are bound to nothing.
pub fn builtin<'a, 'py>(call: &'a Bound<'py, PyAny>) -> Option<(usize, Borrowed<'a, 'py, PyAny>)> {
    // SAFETY: an object that is alive, and looked into only when it is a builtin of C's; what it is
    // bound to lives as long.
    unsafe {
        if ffi::PyCFunction_CheckExact(call.as_ptr()) == 0 {
            return None;
        }
        let function = ffi::PyCFunction_GetFunction(call.as_ptr())? as usize;
        let bound_to = ffi::PyCFunction_GetSelf(call.as_ptr());
        Some((function, Borrowed::from_ptr_or_opt(call.py(), bound_to)?))
    }
}
