//! Takes Arrow data out of capsules.

use std::ffi::{CStr, c_void};

use arrow_array::ArrayRef;
use arrow_schema::Field;
use pyo3::prelude::*;
use pyo3::sync::critical_section::{with_critical_section, with_critical_section2};
use pyo3::types::PyCapsule;

use super::arrow::{Refused, Stream, import_array};

/// Returns the pointer of a capsule, or an error if the capsule does not have the name `name`.
fn pointer(capsule: &Bound<'_, PyCapsule>, name: &'static CStr) -> Result<*mut c_void, Refused> {
    let pointer = capsule.pointer_checked(Some(name)).map_err(|_| {
        let name = name.to_string_lossy();
        format!("expected a PyCapsule named {name:?}, got one of another name")
    })?;
    Ok(pointer.as_ptr())
}

/// Takes an array out of its two capsules, and marks the structs in the capsules as released.
pub fn array(
    schema: &Bound<'_, PyCapsule>,
    array: &Bound<'_, PyCapsule>,
) -> Result<(Field, ArrayRef), Refused> {
    let structs = (pointer(schema, c"arrow_schema")?, pointer(array, c"arrow_array")?);
    // SAFETY: capsules of these names point to the structs of the Arrow C data interface. The GIL
    // is held, as the capsules show, and any other user of the capsules needs the GIL too. On an
    // interpreter built without the GIL, the critical section keeps other threads from taking the
    // structs at the same time, because `import_array` takes both structs before it calls anything
    // that could leave the section. Tests: `tests/unit/test_hostile_producers.py` passes hostile
    // structs, and `tests/unit/test_threads.py` passes a capsule to many threads.
    with_critical_section2(schema, array, || unsafe { import_array(structs.0, structs.1) })
}

/// Takes a stream out of its capsule, and marks the struct in the capsule as released.
pub fn stream(capsule: &Bound<'_, PyCapsule>) -> Result<Stream, Refused> {
    let stream = pointer(capsule, c"arrow_array_stream")?;
    // SAFETY: the reasons are the same as in `array`, for one struct.
    with_critical_section(capsule, || unsafe { Stream::open(stream) })
}
