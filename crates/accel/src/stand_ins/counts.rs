//! Counts the native calls and the fallbacks of a stand-in.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many calls of a stand-in were native, and how many fell back to the driver's function.
#[derive(Default)]
pub struct Counts {
    native: AtomicU64,
    fallback: AtomicU64,
}

impl Counts {
    /// Adds 1 to a counter. This is no atomic addition: a load and a store are enough, because the
    /// GIL is held.
    fn add(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub fn native(&self) {
        Counts::add(&self.native);
    }

    pub fn fallback(&self) {
        Counts::add(&self.fallback);
    }

    pub fn get(&self) -> (u64, u64) {
        (self.native.load(Ordering::Relaxed), self.fallback.load(Ordering::Relaxed))
    }
}
