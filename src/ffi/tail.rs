//! The bytes of bytearrays that nobody else has.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// Room is made in multiples of this once an array is as long: a huge page of x86-64, and of ARM with
/// pages of 4 KiB.
const HUGE: usize = 2 << 20;
/// What the allocator and the bytearray add to an array, or more.
const BESIDE: usize = 64;

/// A bytearray that grows. It has room to spare, so its length is not that of its content.
pub struct Growing {
    array: Py<PyByteArray>,
    /// The bytes that are filled.
    length: usize,
}

impl Growing {
    pub fn new(py: Python<'_>) -> Growing {
        Growing { array: PyByteArray::new(py, &[]).unbind(), length: 0 }
    }

    /// The array, as long as its content.
    pub fn into_array(self, py: Python<'_>) -> PyResult<Bound<'_, PyByteArray>> {
        let array = self.array.into_bound(py);
        array.resize(self.length)?;
        Ok(array)
    }

    /// Makes room for so many bytes in all. Where there was none, for twice as many: memory that is
    /// not written to is not taken from the machine.
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
            // Where addresses are short.
            array.resize(bytes)?;
        }
        if array.len() >= HUGE {
            wish_for_huge_pages(array);
        }
        Ok(())
    }
}

/// Asks the kernel for huge pages: a page fault for each 4 KiB takes longer than what is written.
///
/// The whole mapping is named, not only the pages that lie in it as wholes, since the kernel moves a
/// mapping only if all of it has the same advice.
#[cfg(target_os = "linux")]
fn wish_for_huge_pages(array: &Bound<'_, PyByteArray>) {
    use rustix::mm::{Advice, madvise};

    const PAGE: usize = 4096;
    let start = array.data().addr();
    let before = start % PAGE;
    let length = (before + array.len() + 1).next_multiple_of(PAGE);
    // SAFETY: the advice changes how memory is provided, never what is in it, whichever pages it
    // names. Where pages are larger the kernel refuses, which does no harm.
    // `tests/columns/consume.py` reads such arrays.
    let _ =
        unsafe { madvise(array.data().wrapping_sub(before).cast(), length, Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn wish_for_huge_pages(_: &Bound<'_, PyByteArray>) {}

/// Lengthens arrays by so many bytes each, and calls `fill` with these.
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
        // SAFETY: the bytes stay where they are until the array is resized again. Only this module
        // does so, because the program is given the arrays at the end; and the GIL is held until
        // `fill` has returned. The arrays are different objects, so the slices do not overlap.
        // `tests/columns/consume.py` reads such arrays.
        let bytes = unsafe { array.as_bytes_mut() };
        tails.push(&mut bytes[growing.length..after]);
        growing.length = after;
    }
    Ok(fill(tails))
}
