//! Makes new `bytes` whose contents are written in place.

use std::mem::MaybeUninit;

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::message::Body;

/// Makes new `bytes` of `length` bytes, which `write` fills. Returns `None` if `write` returns
/// false or does not fill exactly `length` bytes.
///
/// `PyBytes::new_with` does the same, but writes zeros first.
#[inline]
pub fn build<'py>(
    py: Python<'py>,
    length: usize,
    write: impl FnOnce(&mut Filled<'_>) -> bool,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let size = isize::try_from(length).map_err(|_| PyMemoryError::new_err(()))?;
    // SAFETY: `py` shows that the GIL is held. With a null pointer, `PyBytes_FromStringAndSize`
    // leaves the contents uninitialized, by its documentation. It returns a new reference, or null
    // with an exception. Tests: property/test_safe_path_arrays.py, unit/test_protocol.py.
    // Benchmark: "value: vector<float, 1536>, list".
    let object = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
        Bound::from_owned_ptr_or_err(py, object)?
    };
    // SAFETY: the object is a `bytes` of `length` bytes. If the length is above 0, it is a new
    // object, and `object` has the only reference to it, so nothing else reads or writes the memory
    // while the slice exists. (CPython shares objects of length 1 only if it gets a pointer to the
    // byte. Here the pointer is null.) If the length is 0, the object is shared, but nothing is
    // written. The slice is of `MaybeUninit`, since the bytes are uninitialized. Tests:
    // property/test_safe_path_arrays.py, unit/test_protocol.py, scripts/memcheck (messages).
    // Benchmark: "value: vector<float, 1536>, list".
    let memory = unsafe {
        let start = ffi::PyBytes_AsString(object.as_ptr()).cast::<MaybeUninit<u8>>();
        std::slice::from_raw_parts_mut(start, length)
    };
    let mut filled = Filled { memory, written: 0 };
    if write(&mut filled) && filled.written == length {
        // SAFETY: `PyBytes_FromStringAndSize` made the object, so it is a `bytes`. `filled` has
        // counted the bytes that were written: all of them. Tests:
        // property/test_safe_path_arrays.py, unit/test_protocol.py, scripts/memcheck (messages).
        return Ok(Some(unsafe { object.cast_into_unchecked() }));
    }
    Ok(None)
}

/// Makes new `bytes` with a copy of the slice. Returns `MemoryError` if there is no memory.
///
/// `PyBytes::new` does the same, but panics if there is no memory.
#[inline]
pub fn copy<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let (start, size) = (bytes.as_ptr().cast(), bytes.len() as isize);
    // SAFETY: `py` shows that the GIL is held, and `start` points to the `size` bytes of the slice.
    // `PyBytes_FromStringAndSize` returns a new reference to a `bytes`, or null with an exception.
    // Tests: property/test_safe_path.py. Benchmark: "value: int".
    unsafe {
        let object = ffi::PyBytes_FromStringAndSize(start, size);
        Ok(Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked())
    }
}

/// The memory of a new `bytes` object, which is filled from the start to the end.
pub struct Filled<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    written: usize,
}

impl Filled<'_> {
    /// The memory that is not filled yet. After filling all of it, call [`Filled::set_full`].
    pub fn unwritten(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.memory[self.written..]
    }

    /// Records that all memory is filled. Returns true.
    ///
    /// # Safety
    /// The caller must have written every byte of [`Filled::unwritten`].
    pub unsafe fn set_full(&mut self) -> bool {
        self.written = self.memory.len();
        true
    }

    /// Appends `count` items of `N` bytes each. Returns false if there is no room for all of them,
    /// or if `next` returns `None` for one of them.
    #[inline(always)]
    pub fn extend<const N: usize>(
        &mut self,
        count: usize,
        mut next: impl FnMut(usize) -> Option<[u8; N]>,
    ) -> bool {
        let Some(room) = self.memory.get_mut(self.written..self.written + count * N) else {
            return false;
        };
        for (i, slot) in room.chunks_exact_mut(N).enumerate() {
            let Some(item) = next(i) else { return false };
            slot.copy_from_slice(&item.map(MaybeUninit::new));
        }
        self.written += count * N;
        true
    }
}

impl Filled<'_> {
    /// Returns a pointer to the next `length` bytes, or `None` if they go beyond the end. Bytes
    /// beyond the end are counted too, so that [`build`] sees a wrong total and drops the object.
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
            // SAFETY: `target` points to `bytes.len()` bytes that `next` has checked and reserved.
            // The target cannot overlap `bytes`, because `self` borrows it mutably. Tests:
            // unit/test_protocol.py, accel/test_comparison.py (body_tasks). Benchmark:
            // "execute body: 12 mixed".
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
        }
    }

    /// Appends the length of `bytes` in 4 bytes, and then `bytes`. Checks the room for both at
    /// once.
    #[inline(always)]
    fn long_bytes(&mut self, bytes: &[u8]) {
        if let Some(target) = self.next(4 + bytes.len()) {
            let length = (bytes.len() as u32).to_be_bytes();
            // SAFETY: `target` points to `4 + bytes.len()` bytes that `next` has checked and
            // reserved. The target cannot overlap `bytes`, because `self` borrows it mutably. A
            // `[u8; 4]` has an alignment of 1. Tests: unit/test_protocol.py,
            // accel/test_comparison.py (body_tasks). Benchmark: "execute body: 12 mixed".
            unsafe {
                target.cast::<[u8; 4]>().write(length);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.add(4), bytes.len());
            }
        }
    }
}
