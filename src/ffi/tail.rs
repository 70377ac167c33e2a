//! The bytes of bytearrays that nobody else has.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// Lengthens bytearrays, and calls `fill` with the new bytes of each. They must be different objects
/// that no other code has.
pub fn lengthen<R>(
    arrays: &[(Bound<'_, PyByteArray>, usize)],
    fill: impl FnOnce(Vec<&mut [u8]>) -> R,
) -> PyResult<R> {
    let mut tails = Vec::with_capacity(arrays.len());
    for (array, more) in arrays {
        let before = array.len();
        let after = before.checked_add(*more).filter(|&after| isize::try_from(after).is_ok());
        array.resize(after.ok_or_else(|| PyMemoryError::new_err(()))?)?;
        // SAFETY: the bytes stay where they are until the array is resized again. Only this function
        // does so, because the program is given the arrays at the end; and the GIL is held until
        // `fill` has returned. The arrays are different objects, so the slices do not overlap.
        // `tests/columns/consume.py` reads such arrays.
        let bytes = unsafe { array.as_bytes_mut() };
        tails.push(&mut bytes[before..]);
    }
    Ok(fill(tails))
}
