//! Times in which no request of a bulk succeeds.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::{Duration, Instant};

use crate::error::EngineError;

/// The outages of a bulk.
#[derive(Debug)]
pub(super) struct Outages {
    /// Of all requests.
    all: Outage,
    /// Of the rows that a rate limit has refused: others may succeed all the time.
    limited: Outage,
}

impl Outages {
    pub(super) fn new() -> Outages {
        Outages { all: Outage::new(), limited: Outage::new() }
    }

    /// A request has succeeded. `was_limited`: a rate limit had refused it before.
    pub(super) fn end(&self, was_limited: bool) {
        self.all.end();
        if was_limited {
            self.limited.end();
        }
    }

    /// The time from which the patience for a row counts that has just failed for the first time.
    pub(super) fn since(&self, error: &EngineError) -> Instant {
        match error {
            _ if error.may_be_of_row() || error.is_unavailable() => Instant::now(),
            _ if error.is_rate_limited() => self.limited.since(),
            _ => self.all.since(),
        }
    }
}

/// Since when no request has succeeded, although some were sent.
///
/// The rows that are sent then do not wait one after another for as long as the first: a load into a
/// cluster that is gone would take that time for each of them.
#[derive(Debug)]
struct Outage {
    began: Instant,
    /// Milliseconds after `began`, at least 1. 0 if the last request that ended has succeeded.
    since: AtomicU64,
}

impl Outage {
    fn new() -> Outage {
        Outage { began: Instant::now(), since: AtomicU64::new(0) }
    }

    /// A request has succeeded.
    fn end(&self) {
        if self.since.load(Ordering::Relaxed) != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
    }

    /// A request has failed, and its row is not the reason. Returns the time since when none has
    /// succeeded.
    fn since(&self) -> Instant {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let begins = self.since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        let since = begins.map_or_else(|earlier| earlier, |_| now);
        self.began + Duration::from_millis(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_with_its_first_failure_and_ends_with_a_success() {
        let outage = Outage::new();
        let first = outage.since();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(outage.since(), first);
        outage.end();
        assert!(outage.since() >= first + Duration::from_millis(10));
    }
}
