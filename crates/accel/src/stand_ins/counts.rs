//! Counts of a stand-in's native calls and fallbacks.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many calls a stand-in counts as native, and how many as fallbacks.
#[derive(Default)]
pub struct Counts {
    native: AtomicU64,
    fallback: AtomicU64,
}

impl Counts {
    /// A load and a store are enough, without an atomic addition, because the GIL is held.
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
