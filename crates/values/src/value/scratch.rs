//! Memory that a thread keeps for the bytes of one value after another.

use std::cell::Cell;

/// Scratch memory above this is given back after use.
const SCRATCH_KEPT: usize = 1 << 20;

/// Calls with empty memory that the thread keeps: most values are small, and asking for memory would
/// cost more than they do. Calls within one another each have their own.
#[inline(always)]
pub fn with_scratch<T>(call: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    let mut out = SCRATCH.take();
    out.clear();
    let done = call(&mut out);
    if out.capacity() <= SCRATCH_KEPT {
        SCRATCH.set(out);
    }
    done
}
