//! Appends bytes to a buffer. If there is no memory, the functions return false and do not panic.

use std::ptr;

/// Makes room for `count` more bytes. Returns false if there is no memory, or if `out` would be
/// longer than a frame can carry. The safe path (`crate::value`) then raises the error.
#[inline(always)]
pub fn room(out: &mut Vec<u8>, count: usize) -> bool {
    out.capacity() - out.len() >= count || grow(out, count)
}

#[cold]
fn grow(out: &mut Vec<u8>, count: usize) -> bool {
    out.len().saturating_add(count) <= i32::MAX as usize && out.try_reserve(count).is_ok()
}

/// Appends bytes. Returns false if there is no room.
#[inline(always)]
pub fn append(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let has_room = room(out, bytes.len());
    if has_room {
        // SAFETY: `room` has ensured a capacity of `length + bytes.len()`, and all bytes up to the
        // new length are written. The source is a borrowed slice, so it cannot overlap `out`.
        // Tests: property/test_safe_path.py, scripts/memcheck. Benchmark:
        // "value: tuple of 5 nulls". `extend_from_slice` would be slower, because it checks the
        // room again, in a call that is not inlined. The benchmark "value: set<text> of 100" shows
        // the difference for `append_framed`.
        unsafe {
            let length = out.len();
            let end = out.as_mut_ptr().add(length);
            ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
            out.set_len(length + bytes.len());
        }
    }
    has_room
}

/// Appends a length and then the bytes. Returns false if there is no room.
#[inline(always)]
pub fn append_framed(out: &mut Vec<u8>, length: i32, bytes: &[u8]) -> bool {
    let has_room = room(out, 4 + bytes.len());
    if has_room {
        // SAFETY: `room` has ensured a capacity of `before + 4 + bytes.len()`, and all bytes up to
        // the new length are written; neither source overlaps `out`. Tests:
        // property/test_safe_path.py, scripts/memcheck. Benchmark: "value: set<text> of 100".
        unsafe {
            let before = out.len();
            let end = out.as_mut_ptr().add(before);
            ptr::copy_nonoverlapping(length.to_be_bytes().as_ptr(), end, 4);
            ptr::copy_nonoverlapping(bytes.as_ptr(), end.add(4), bytes.len());
            out.set_len(before + 4 + bytes.len());
        }
    }
    has_room
}
