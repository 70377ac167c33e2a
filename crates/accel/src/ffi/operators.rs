//! The operators of subclasses of `int`.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// Whether an object is an `int` whose class overrides none of the operators by which the drivers
/// make the bytes of a `varint`: comparisons, `abs`, `-`, `+`, `&`, `>>` and `>>=`.
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
                let two = |function: Option<ffi::binaryfunc>| {
                    function.map_or(0, |function| function as usize)
                };
                let absolute = table.nb_absolute.map_or(0, |function| function as usize);
                let binary = [
                    two(table.nb_subtract),
                    two(table.nb_add),
                    two(table.nb_and),
                    two(table.nb_rshift),
                    two(table.nb_inplace_rshift),
                ];
                (compare, absolute, binary)
            })
        };
        operators(class) == operators(int)
    }
}
