//! Checks an object's class by its C fields: whether it overrides operators of `int`, whether it is
//! implemented in C, and whether it has a buffer.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// Whether an object is an `int` whose class overrides neither `__index__` nor `__float__`, nor any
/// operator with which the drivers make the bytes of a `varint`: comparisons, `abs`, `-`, `+`, `&`,
/// `>>` and `>>=`.
pub fn is_plain_int(object: &Bound<'_, PyAny>) -> bool {
    if !object.is_instance_of::<PyInt>() {
        return false;
    }
    let (class, int) = (object.get_type_ptr(), &raw mut ffi::PyLong_Type);
    // SAFETY: `object` is alive, by its `Bound`, and owns its class; `PyLong_Type` is static. The
    // GIL is held, by the same `Bound`. The table that a class points to lives as long as the
    // class. Tests: accel/test_everyday_values.py.
    unsafe {
        let operators = |class: *mut ffi::PyTypeObject| {
            let compare = (*class).tp_richcompare.map_or(0, |function| function as usize);
            (*class).tp_as_number.as_ref().map(|table| {
                let binary_slot = |function: Option<ffi::binaryfunc>| {
                    function.map_or(0, |function| function as usize)
                };
                let unary_slot = |function: Option<ffi::unaryfunc>| {
                    function.map_or(0, |function| function as usize)
                };
                let unary = [
                    unary_slot(table.nb_absolute),
                    unary_slot(table.nb_float),
                    unary_slot(table.nb_index),
                ];
                let binary = [
                    binary_slot(table.nb_subtract),
                    binary_slot(table.nb_add),
                    binary_slot(table.nb_and),
                    binary_slot(table.nb_rshift),
                    binary_slot(table.nb_inplace_rshift),
                ];
                (compare, unary, binary)
            })
        };
        operators(class) == operators(int)
    }
}

/// Whether an object's class is implemented in C. Python code cannot change such a class.
pub fn is_of_c(object: &Bound<'_, PyAny>) -> bool {
    let class = object.get_type_ptr();
    // SAFETY: `object` is alive, by its `Bound`, and owns its class; the GIL is held, by the same
    // `Bound`. Tests: accel/test_everyday_values.py.
    unsafe {
        ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HEAPTYPE) == 0
            || ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_IMMUTABLETYPE) != 0
    }
}

/// Whether an object supports the buffer protocol.
pub fn has_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: `object` is alive and shows that the GIL is held. Tests:
    // accel/test_everyday_values.py.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) != 0 }
}
