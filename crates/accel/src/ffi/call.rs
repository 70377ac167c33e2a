//! Makes Python functions, each of which calls a stand-in. Such a function replaces a function of
//! the driver, so it has that function's name, docstring and attributes.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::PyClass;
use pyo3::exceptions::{PyAttributeError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};
use turbocql_values::ffi::make;

use crate::switch::is_on;

/// An object that does the work of one function of the driver. That function is called its
/// original.
pub trait StandIn: PyClass {
    /// Does the work of a call. Returns `None` if the original must be called with the same
    /// arguments.
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>>;

    /// Does the work of a call with keyword arguments: the last items of `arguments` are the values
    /// of `names`. Returns `None` if the original must be called.
    fn call_named<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = (this, arguments, names);
        Ok(None)
    }

    /// Returns the original. May count a fallback, because this method is called only if the
    /// original is called next.
    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny>;
}

/// The layout of a function that [`function`] makes. As an attribute of a class, it behaves as a
/// Python function does: a lookup on an instance returns a bound method, and a lookup on the class
/// returns the function itself.
#[repr(C)]
struct Function {
    head: ffi::PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    /// Owned, and null only before `function` returns.
    stand_in: *mut ffi::PyObject,
    /// Owned, and null only before `function` returns.
    original: *mut ffi::PyObject,
    weak_references: *mut ffi::PyObject,
}

/// The class of all functions that [`function`] makes.
static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Makes a function that calls a stand-in. Its name, its docstring, and all attributes that its
/// class lacks are those of the original.
pub fn function<'py, T: StandIn>(
    this: &Bound<'py, T>,
    original: &Py<PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = this.py();
    let class = CLASS.get_or_try_init(py, || make_class(py))?.bind(py);
    // SAFETY: `class` is the class that `make_class` made, and the GIL is held by its `Bound`.
    // `PyType_GenericAlloc` returns a new instance with zeroed fields, or null with an exception.
    // An instance has the layout of `Function`, by the class's size. Each field is set once, to an
    // owned reference or to a function with the signature of a vectorcall. `call::<T>` gets a
    // function whose stand-in is a `T`. No Python code runs before all fields are set. Tests: all
    // of tests/accel.
    unsafe {
        let object = ffi::PyType_GenericAlloc(class.as_type_ptr(), 0);
        let function = Bound::from_owned_ptr_or_err(py, object)?;
        let fields = object.cast::<Function>();
        (*fields).vectorcall = Some(call::<T>);
        (*fields).stand_in = this.clone().into_any().into_ptr();
        (*fields).original = original.clone_ref(py).into_ptr();
        Ok(function)
    }
}

/// Whether an object is `original`, or a function that [`function`] made to replace `original`.
pub fn stands_for(object: &Bound<'_, PyAny>, original: &Py<PyAny>) -> bool {
    let is_function = CLASS.get(object.py()).is_some_and(|class| object.get_type().is(class));
    // SAFETY: an object of this class has the layout of `Function`, and `object` keeps it alive.
    // Tests: accel/test_keys.py (a_replaced_packer_wins).
    let replaced = is_function.then(|| unsafe { (*object.as_ptr().cast::<Function>()).original });
    object.is(original) || replaced == Some(original.as_ptr())
}

/// Calls a function. The last arguments are passed by name, with the names `names`.
pub fn with_names<'py, const N: usize>(
    function: &Bound<'py, PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
    names: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let pointers = arguments.map(|argument| argument.as_ptr());
    let positional = N - names.len().min(N);
    // SAFETY: the `Bound`s keep the function, the arguments and the names alive during the call,
    // and prove that the GIL is held. All callers pass a tuple of at most `N` different `str`. The
    // array has `positional` arguments, and then one for each name, as vectorcall demands. The
    // result is a new reference, or null with an exception. Tests: accel/test_querying.py.
    unsafe {
        let result = ffi::PyObject_Vectorcall(
            function.as_ptr(),
            pointers.as_ptr(),
            positional,
            names.as_ptr(),
        );
        Bound::from_owned_ptr_or_err(function.py(), result)
    }
}

fn make_class(py: Python<'_>) -> PyResult<Py<PyType>> {
    let offset = |name: &'static std::ffi::CStr, offset: usize| ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: ptr::null(),
    };
    // CPython keeps pointers to the members and methods, so they are leaked. The class is made
    // once.
    let members = Box::leak(Box::new([
        offset(c"__vectorcalloffset__", offset_of!(Function, vectorcall)),
        offset(c"__weaklistoffset__", offset_of!(Function, weak_references)),
        ffi::PyMemberDef::default(),
    ]));
    let methods = Box::leak(Box::new([
        ffi::PyMethodDef {
            ml_name: c"__reduce__".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: reduce },
            ml_flags: ffi::METH_NOARGS,
            ml_doc: ptr::null(),
        },
        ffi::PyMethodDef::zeroed(),
    ]));
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_dealloc, deallocate as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_call, ffi::PyVectorcall_Call as *mut c_void),
        slot(ffi::Py_tp_descr_get, bind as *mut c_void),
        slot(ffi::Py_tp_getattro, attribute as *mut c_void),
        slot(ffi::Py_tp_setattro, set_attribute as *mut c_void),
        slot(ffi::Py_tp_repr, represent as *mut c_void),
        slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        ffi::PyType_Slot::default(),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT
        | ffi::Py_TPFLAGS_HAVE_GC
        | ffi::Py_TPFLAGS_HAVE_VECTORCALL
        | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR
        | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION
        | ffi::Py_TPFLAGS_IMMUTABLETYPE;
    let mut spec = ffi::PyType_Spec {
        name: c"turbocql._core.StandInFunction".as_ptr(),
        basicsize: size_of::<Function>() as c_int,
        itemsize: 0,
        flags: flags as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: `py` shows that the GIL is held. The spec and its slots live until the call returns,
    // and what CPython refers to later is static or leaked. Each slot has a function of the
    // signature that CPython's documentation gives for it, or a list of members or methods, which
    // ends with a zeroed entry. The offsets are those of fields of the right type. The result is a
    // new reference to a class, or null with an exception. Tests: all of tests/accel.
    unsafe {
        let class = ffi::PyType_FromSpec(&raw mut spec);
        Ok(Bound::from_owned_ptr_or_err(py, class)?.cast_into_unchecked::<PyType>().unbind())
    }
}

/// # Safety
/// Only CPython may call it, as `tp_dealloc` of [`CLASS`].
unsafe extern "C" fn deallocate(object: *mut ffi::PyObject) {
    // SAFETY: `object` is a function without references, the GIL is held, and nothing uses the
    // object after this call. Its fields are owned references, or null if `function` failed. An
    // instance of a class that was made from a spec has a reference to the class, which is dropped
    // last. Tests: accel/test_switching.py (switching_leaves_nothing_behind).
    unsafe {
        let fields = object.cast::<Function>();
        let class = ffi::Py_TYPE(object);
        ffi::PyObject_GC_UnTrack(object.cast());
        if !(*fields).weak_references.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        ffi::Py_XDECREF((*fields).stand_in);
        ffi::Py_XDECREF((*fields).original);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// # Safety
/// Only CPython may call it, as `tp_traverse` of [`CLASS`].
unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: `object` is a function. Its fields are null or live objects that it owns, and it owns
    // its class. `visit` may be called with each of these objects, by the protocol of
    // `tp_traverse`. Tests: accel/test_likeness.py (functions_are_collected).
    unsafe {
        let fields = object.cast::<Function>();
        for owned in [ffi::Py_TYPE(object).cast(), (*fields).stand_in, (*fields).original] {
            let stop = if owned.is_null() { 0 } else { visit(owned, argument) };
            if stop != 0 {
                return stop;
            }
        }
        0
    }
}

/// `__get__`.
///
/// # Safety
/// Only CPython may call it, as `tp_descr_get` of [`CLASS`].
unsafe extern "C" fn bind(
    function: *mut ffi::PyObject,
    instance: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the GIL is held, `function` is alive, and `instance` is null or alive, by the
    // protocol of `tp_descr_get`. The result is a new reference, or null with an exception. Tests:
    // accel/test_switching.py (functions_may_be_taken_from_their_classes_and_put_back).
    answer(|py| unsafe {
        let function = Bound::from_borrowed_ptr(py, function);
        match Bound::from_borrowed_ptr_or_opt(py, instance) {
            Some(instance) if !instance.is_none() => make::method(&function, &instance),
            _ => Ok(function),
        }
    })
}

/// `__getattribute__`. Looks up an attribute in [`CLASS`] first and, if the class lacks it, in the
/// original. Attributes of the class that describe the class itself, such as `__name__`, are looked
/// up in the original only. `__wrapped__` is the original.
///
/// # Safety
/// Only CPython may call it, as `tp_getattro` of [`CLASS`].
unsafe extern "C" fn attribute(
    function: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the GIL is held, `function` is a function, and `name` is a live `str`, by the
    // protocol of `tp_getattro`. `original` is alive as long as the function.
    // `PyObject_GenericGetAttr` returns a new reference, or null with an exception. Tests:
    // accel/test_likeness.py.
    answer(|py| unsafe {
        let original = Borrowed::from_ptr(py, (*function.cast::<Function>()).original);
        let name = Borrowed::from_ptr(py, name).cast_unchecked::<PyString>();
        match name.to_str().unwrap_or_default() {
            "__wrapped__" => return Ok(original.to_owned()),
            "__signature__" => {
                let inspect = py.import("inspect")?;
                return inspect.call_method1("signature", (original,));
            }
            // The class's attributes with these names describe the class, not the function.
            "__module__" | "__name__" | "__qualname__" | "__doc__" => {}
            _ => {
                let own = ffi::PyObject_GenericGetAttr(function, name.as_ptr());
                match Bound::from_owned_ptr_or_err(py, own) {
                    Err(error) if error.is_instance_of::<PyAttributeError>(py) => {}
                    own => return own,
                }
            }
        }
        original.getattr(&*name)
    })
}

/// `__setattr__` and `__delattr__`, which change the original.
///
/// # Safety
/// Only CPython may call it, as `tp_setattro` of [`CLASS`].
unsafe extern "C" fn set_attribute(
    function: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> c_int {
    // SAFETY: the GIL is held, `function` is a function, `name` is alive, and `value` is alive, or
    // null to delete the attribute, by the protocol of `tp_setattro`, which is also that of
    // `PyObject_SetAttr`. `original` is alive as long as the function. Tests:
    // accel/test_likeness.py (attributes_may_be_set).
    unsafe { ffi::PyObject_SetAttr((*function.cast::<Function>()).original, name, value) }
}

/// `__repr__`.
///
/// # Safety
/// Only CPython may call it, as `tp_repr` of [`CLASS`].
unsafe extern "C" fn represent(function: *mut ffi::PyObject) -> *mut ffi::PyObject {
    answer(|py| {
        // SAFETY: `function` is a live function, by the protocol of `tp_repr`. Tests:
        // accel/test_likeness.py (a_stand_in_is_like_its_original).
        let name = unsafe { qualified_name(py, function)? };
        Ok(PyString::new(py, &format!("<native {name}>")).into_any())
    })
}

/// `__reduce__`. Returns the qualified name, so that `pickle` and `copy` handle the function as a
/// global.
///
/// # Safety
/// Only CPython may call it, as a method of [`CLASS`] without arguments.
unsafe extern "C" fn reduce(
    function: *mut ffi::PyObject,
    _none: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the method descriptor has checked that `function` is a function, and
    // `qualified_name` demands nothing else. Tests: accel/test_likeness.py
    // (a_stand_in_is_like_its_original).
    answer(|py| unsafe { qualified_name(py, function) })
}

/// # Safety
/// The caller must ensure that `function` is a live function.
unsafe fn qualified_name(
    py: Python<'_>,
    function: *mut ffi::PyObject,
) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: `function` has the layout of `Function`, by the `# Safety` section, and keeps
    // `original` alive. Tests: accel/test_likeness.py (a_stand_in_is_like_its_original).
    let original = unsafe { Borrowed::from_ptr(py, (*function.cast::<Function>()).original) };
    original.getattr(pyo3::intern!(py, "__qualname__"))
}

/// Returns the result of `run` as C functions return it to CPython: an owned reference, or null
/// with an exception set.
fn answer(
    run: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    guarded(|py| match run(py) {
        Ok(object) => object.into_ptr(),
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    })
}

/// Turns a panic into an exception, because a panic must not pass through C.
#[inline(always)]
fn guarded(run: impl FnOnce(Python<'_>) -> *mut ffi::PyObject) -> *mut ffi::PyObject {
    catch_unwind(AssertUnwindSafe(|| Python::attach(run))).unwrap_or_else(|_| {
        let reason = "a native function of turbocql.accel panicked";
        Python::attach(|py| PyRuntimeError::new_err(reason).restore(py));
        ptr::null_mut()
    })
}

/// The vectorcall of a function whose stand-in is a `T`.
///
/// # Safety
/// Only CPython may call it, through a function that [`function`] made for `T`. By the vectorcall
/// protocol, `callable` is then that function, and `arguments` has as many borrowed references as
/// `count` says, followed by the values of `names`. The GIL is held.
unsafe extern "C" fn call<T: StandIn>(
    callable: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    guarded(|py| {
        // SAFETY: the stand-in of `callable` is a live `T`, since `function` has set `call::<T>`
        // only for a `T`, and the caller has a reference to `callable`. By CPython's documentation
        // of vectorcall, `names` is null or a tuple, and `arguments` has as many live objects as
        // `count` says, and one more per name. The caller of the function owns them until the call
        // returns. A `Borrowed` is `repr(transparent)` over a non-null object pointer, so the array
        // can be read as `Borrowed`s. Without arguments the pointer may be null and is not used.
        // Tests: all of tests/accel; for `names`, accel/test_mapper.py.
        let (this, named, values) = unsafe {
            let this = Borrowed::from_ptr(py, (*callable.cast::<Function>()).stand_in);
            let this = this.cast_unchecked::<T>();
            let named = Bound::from_borrowed_ptr_or_opt(py, names)
                .map(|names| names.cast_into_unchecked::<PyTuple>());
            let positional = ffi::PyVectorcall_NARGS(count) as usize;
            let all = positional + named.as_ref().map_or(0, |names| names.len());
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
                // SAFETY: `this`, which `callable` keeps alive, owns the original. The arguments,
                // their count and `names` are passed on unchanged, in the vectorcall format in
                // which they came. The result is a new reference, or null with an exception.
                // Tests: accel/test_overrides.py, accel/test_hostile.py.
                unsafe { ffi::PyObject_Vectorcall(original, arguments, count, names) }
            }
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
    })
}
