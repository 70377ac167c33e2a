//! Replaces `Serializer.serialize`, which pyo3 made, by a C function that encodes values on the
//! quick path. For such values, pyo3's code around a call costs more time than the encoding.

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
use crate::plan::HostPlan;

/// A class with a method `serialize(value, protocol_version=4)` and a constructor that takes the
/// name of a CQL type.
pub trait Serializes: PyClass<Frozen = True> + Sync {
    fn plan(&self) -> &HostPlan;
}

/// The method `serialize` that pyo3 made. It handles every kind of call.
static PYO3_SERIALIZE: AtomicPtr<ffi::PyObject> = AtomicPtr::new(ptr::null_mut());

/// Replaces the method with the C function if the quick path of encoding is on and the probe of the
/// C function passes. Otherwise returns the reason.
pub fn install<T: Serializes>(py: Python<'_>) -> PyResult<Option<String>> {
    if !QuickPath::Encode.is_on() {
        return Ok(Some("it needs the quick path \"encode\"".to_owned()));
    }
    let class = py.get_type::<T>();
    let pyo3_serialize = class.getattr("serialize")?;
    let text_of = |name: &str| pyo3_serialize.getattr(name)?.extract::<String>();
    // CPython splits text of this form into `__text_signature__` and `__doc__`.
    let doc = format!("serialize{}\n--\n\n{}", text_of("__text_signature__")?, text_of("__doc__")?);
    let doc = CString::new(doc).map_err(|_| pyo3::exceptions::PyValueError::new_err("a doc"))?;
    let function = ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: serialize::<T> };
    let definition = ffi::PyMethodDef {
        ml_name: c"serialize".as_ptr(),
        ml_meth: function,
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.into_raw(),
    };
    // The definition is leaked, because the method refers to it and lives as long as the class.
    let definition = Box::into_raw(Box::new(definition));
    PYO3_SERIALIZE.store(pyo3_serialize.into_ptr(), Ordering::Release);
    // SAFETY: `PyDescr_NewMethod` needs the GIL, a class, and a definition that outlives the
    // method. `py` shows that the GIL is held. `Box::into_raw` has leaked the definition, so it is
    // never freed. The flags fit the signature of `serialize`. `PyDescr_NewMethod` returns a new
    // reference, or null with an exception. Tests: unit/test_quick_paths.py (serialize). Benchmark:
    // "value: int".
    let method = unsafe {
        let method = ffi::PyDescr_NewMethod(class.as_ptr().cast::<ffi::PyTypeObject>(), definition);
        Bound::from_owned_ptr_or_err(py, method)?
    };
    let sample = class.call1(("int",))?;
    let (quick_bytes, expected) =
        (method.call1((&sample, 70_000))?, PyBytes::new(py, &[0, 1, 0x11, 0x70]));
    let wrong =
        probe::check_object(QuickPath::Serialize, "a value", &quick_bytes, &expected, false)?;
    if wrong.is_none() {
        class.cast::<PyType>()?.setattr("serialize", method)?;
    }
    Ok(wrong)
}

/// The C function. Takes the quick path for one positional argument, or for two if the second is 3,
/// 4 or 5. Any other call, and any value that the quick path does not take, goes to pyo3's method.
///
/// # Safety
/// Only CPython may call this function, by the protocol of `METH_FASTCALL | METH_KEYWORDS`: `this`
/// is a `T`, `arguments` are `count` positional arguments followed by one for each of `names`, and
/// the GIL is held.
unsafe extern "C" fn serialize<T: Serializes>(
    this: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // A panic must not unwind into C. After a panic, pyo3's method is called: it turns panics into
    // exceptions.
    let quick = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the GIL is held and `this` and the arguments are alive during the call, as
        // `# Safety` demands. `this` is a `T`, which the method descriptor has checked. Only
        // arguments at indexes below `count` are read. pyo3 does not count this call as one that
        // holds the GIL, so it would free a dropped `Py` only later. The quick path drops no `Py`
        // if it encodes the value. Tests: property/test_safe_path.py,
        // unit/test_single_values.py. Benchmark: "value: int".
        unsafe {
            let is_quick = match (count, names.is_null()) {
                _ if !QuickPath::Encode.is_on() => false,
                (1, true) => true,
                (2, true) => matches!(small(*arguments.add(1)), Some(3..=5)),
                _ => false,
            };
            if !is_quick {
                return ptr::null_mut();
            }
            let py = Python::assume_attached();
            let value = Borrowed::from_ptr(py, *arguments);
            let serializer = Borrowed::from_ptr(py, this).cast_unchecked::<T>();
            let bytes = encode::bytes_of::<Protocol>(serializer.get().plan(), &value);
            bytes.map_or(ptr::null_mut(), Bound::into_ptr)
        }
    }));
    match quick {
        Ok(bytes) if !bytes.is_null() => bytes,
        // SAFETY: the caller of `call_safe_method` must ensure the same conditions as the caller of
        // this function, and the arguments are passed on unchanged. Tests:
        // property/test_safe_path.py (test_values_that_are_refused).
        _ => unsafe { call_safe_method(this, arguments, count, names) },
    }
}

/// Calls pyo3's method.
///
/// # Safety
/// The caller must ensure all that the `# Safety` section of [`serialize`] demands.
#[cold]
#[inline(never)]
unsafe fn call_safe_method(
    this: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: `install` leaked a reference to the method, so it is never freed. CPython passes
    // `count` arguments and one for each of `names`, as `# Safety` demands, so the slice is that
    // long. `all` has `this` before these arguments, so it begins with `count + 1` positional
    // arguments, as `PyObject_Vectorcall` demands. Without `PY_VECTORCALL_ARGUMENTS_OFFSET`, that
    // function does not write to the array. Tests: property/test_safe_path.py
    // (test_values_that_are_refused), scripts/memcheck.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let passed = std::slice::from_raw_parts(arguments, (count + named) as usize);
        let all: Vec<_> = std::iter::once(this).chain(passed.iter().copied()).collect();
        let pyo3_serialize = PYO3_SERIALIZE.load(Ordering::Acquire);
        ffi::PyObject_Vectorcall(pyo3_serialize, all.as_ptr(), (count + 1) as usize, names)
    }
}
