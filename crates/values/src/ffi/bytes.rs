//! New `bytes`, written in place.

use std::mem::MaybeUninit;

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::message::Body;

/// New `bytes` of a length, whose memory `write` fills; `None` when it does not.
///
/// `PyBytes::new_with` does the same and writes zeros first.
#[inline]
pub fn build<'py>(
    py: Python<'py>,
    length: usize,
    write: impl FnOnce(&mut Filled<'_>) -> bool,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let size = isize::try_from(length).map_err(|_| PyMemoryError::new_err(()))?;
    // SAFETY: a null pointer asks for memory that is not written; the result is null or an object
    // that is ours.
    let object = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
        Bound::from_owned_ptr_or_err(py, object)?
    };
    // SAFETY: the object is new, nobody else has it, and it has `length` bytes.
    let memory = unsafe {
        let start = ffi::PyBytes_AsString(object.as_ptr()).cast::<MaybeUninit<u8>>();
        std::slice::from_raw_parts_mut(start, length)
    };
    let mut filled = Filled { memory, written: 0 };
    if write(&mut filled) && filled.written == length {
        // SAFETY: a `bytes` object, of which every byte has been written.
        return Ok(Some(unsafe { object.cast_into_unchecked() }));
    }
    Ok(None)
}

/// New `bytes` with what these are; `MemoryError` where there is no room for them.
///
/// `PyBytes::new` does the same and panics then.
#[inline]
pub fn copy<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let (start, size) = (bytes.as_ptr().cast(), bytes.len() as isize);
    // SAFETY: as many bytes as the slice has; a new object that is ours, or null with an exception.
    unsafe {
        let object = ffi::PyBytes_FromStringAndSize(start, size);
        Ok(Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked())
    }
}

/// Memory that is filled from its beginning on.
pub struct Filled<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    written: usize,
}

impl Filled<'_> {
    /// The memory that is left, for who fills all of it.
    pub fn rest(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.memory[self.written..]
    }

    /// Says that all memory has been filled.
    ///
    /// # Safety
    /// It has.
    pub unsafe fn set_full(&mut self) -> bool {
        self.written = self.memory.len();
        true
    }

    /// Appends items of `N` bytes each, until they end or one is not given. True when all fitted
    /// and were given.
    #[inline(always)]
    pub fn extend<const N: usize>(
        &mut self,
        count: usize,
        mut next: impl FnMut(usize) -> Option<[u8; N]>,
    ) -> bool {
        let Some(room) = self.memory.get_mut(self.written..self.written + count * N) else {
            return false;
        };
        for (i, place) in room.chunks_exact_mut(N).enumerate() {
            let Some(item) = next(i) else { return false };
            place.copy_from_slice(&item.map(MaybeUninit::new));
        }
        self.written += count * N;
        true
    }
}

impl Filled<'_> {
    /// The next `length` bytes; none beyond the end, where they are counted only: the object is not
    /// used then.
    #[inline(always)]
    fn next(&mut self, length: usize) -> Option<*mut u8> {
        let start = self.written;
        self.written = start + length;
        Some(self.memory.get_mut(start..start + length)?.as_mut_ptr().cast())
    }
}

impl Body for Filled<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        if let Some(target) = self.next(bytes.len()) {
            // SAFETY: the place is as long as the bytes, and nobody else's.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
        }
    }

    /// One look at the room that is left, instead of two.
    #[inline(always)]
    fn long_bytes(&mut self, bytes: &[u8]) {
        if let Some(target) = self.next(4 + bytes.len()) {
            let length = (bytes.len() as u32).to_be_bytes();
            // SAFETY: the place is as long as both, and nobody else's.
            unsafe {
                target.cast::<[u8; 4]>().write(length);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.add(4), bytes.len());
            }
        }
    }
}
