//! Lengthens bytearrays and fills the new bytes in place. No other code has a reference to these
//! bytearrays yet.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use turbocql_values::system::System;

/// Arrays that are at least this large grow in steps of this size. It is the size of a huge page on
/// x86-64, and on ARM with pages of 4 KiB.
const HUGE: usize = 2 << 20;
/// An upper bound for the number of bytes that the allocator and the bytearray add to an array.
const BESIDE: usize = 64;

/// A bytearray that grows. It may have spare room, so it may be longer than its content.
pub struct Growing {
    array: Py<PyByteArray>,
    /// The number of bytes that are filled.
    length: usize,
}

impl Growing {
    pub fn new(py: Python<'_>) -> Growing {
        Growing { array: PyByteArray::new(py, &[]).unbind(), length: 0 }
    }

    /// Shortens the array to its content, and returns it.
    pub fn into_array(self, py: Python<'_>) -> PyResult<Bound<'_, PyByteArray>> {
        let array = self.array.into_bound(py);
        array.resize(self.length)?;
        Ok(array)
    }

    /// Makes sure that the array has room for a total of `bytes` bytes. If it must grow and there
    /// is enough memory, it grows to at least twice the size of its content. Spare room that is
    /// never written to takes no physical memory.
    fn make_room(&self, array: &Bound<'_, PyByteArray>, bytes: usize) -> PyResult<()> {
        if bytes <= array.len() {
            return Ok(());
        }
        let twice = bytes.max(self.length.saturating_mul(2));
        let ample = match twice < HUGE {
            true => Some(twice),
            false => twice.checked_next_multiple_of(HUGE).map(|rounded| rounded + HUGE - BESIDE),
        };
        let ample = ample.filter(|&ample| isize::try_from(ample).is_ok());
        if ample.is_none_or(|ample| array.resize(ample).is_err()) {
            // There is not enough memory or address space for spare room, so the array gets only
            // the bytes that it needs.
            array.resize(bytes)?;
        }
        if array.len() >= HUGE && System::current() == System::Linux {
            wish_for_huge_pages(array);
        }
        Ok(())
    }
}

/// Asks the kernel for huge pages. With pages of 4 KiB, the first write to a page causes a page
/// fault, which takes longer than filling the page.
///
/// The advice covers the whole mapping, including pages that are only partly in the array. When the
/// array grows, the kernel can move the mapping only if all its pages have the same advice.
#[cfg(target_os = "linux")]
fn wish_for_huge_pages(array: &Bound<'_, PyByteArray>) {
    use rustix::mm::{Advice, madvise};

    const PAGE: usize = 4096;
    let start = array.data().addr();
    let before = start % PAGE;
    let length = (before + array.len() + 1).next_multiple_of(PAGE);
    // SAFETY: the advice never changes the contents of memory, for any pages. If the system's pages
    // are larger, the kernel refuses the advice, which does no harm.
    // `tests/columns/test_consumers.py` reads such arrays.
    let _ =
        unsafe { madvise(array.data().wrapping_sub(before).cast(), length, Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn wish_for_huge_pages(_: &Bound<'_, PyByteArray>) {}

/// Lengthens each array by a number of bytes, and calls `fill` with the new bytes of all arrays.
pub fn lengthen<R>(
    py: Python<'_>,
    arrays: Vec<(&mut Growing, usize)>,
    fill: impl FnOnce(Vec<&mut [u8]>) -> R,
) -> PyResult<R> {
    let too_long = || PyMemoryError::new_err(());
    let mut tails = Vec::with_capacity(arrays.len());
    for (growing, more) in arrays {
        let after = growing.length.checked_add(more).ok_or_else(too_long)?;
        isize::try_from(after).map_err(|_| too_long())?;
        let array = growing.array.bind(py);
        growing.make_room(array, after)?;
        // SAFETY: the bytes stay in place until the array is resized again. Only this module
        // resizes it, because no program has a reference to it yet. The GIL is held until `fill`
        // has returned. The arrays are different objects, so the slices do not overlap.
        // `tests/columns/test_consumers.py` reads such arrays.
        let bytes = unsafe { array.as_bytes_mut() };
        tails.push(&mut bytes[growing.length..after]);
        growing.length = after;
    }
    Ok(fill(tails))
}
