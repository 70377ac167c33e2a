//! A clock that moves only when a model or a timer moves it.

use std::ops::Add;
use std::time::Duration;

use crate::sync::atomic::{AtomicU64, Ordering};

loom::lazy_static! {
    static ref CLOCK: AtomicU64 = AtomicU64::new(0);
}

/// Returns the nanoseconds since the model began. The clock is read by adding zero, which returns
/// the newest value. A plain load could return an earlier time than another thread has already
/// read.
pub fn now() -> u64 {
    CLOCK.fetch_add(0, Ordering::AcqRel)
}

/// Moves the clock forward to `then`.
pub fn pass(then: u64) {
    CLOCK.fetch_max(then, Ordering::AcqRel);
}

/// Moves the clock forward by `time`.
pub fn pass_by(time: Duration) {
    CLOCK.fetch_add(time.as_nanos() as u64, Ordering::AcqRel);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    pub fn now() -> Instant {
        Instant(now())
    }

    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(now() - self.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, time: Duration) -> Instant {
        Instant(self.0 + time.as_nanos() as u64)
    }
}
