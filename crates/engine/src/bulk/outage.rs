//! Tracks outages: periods in which requests of a bulk fail, and none succeeds.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::{Duration, Instant};

use crate::error::EngineError;

/// The outages of a bulk.
#[derive(Debug)]
pub(super) struct Outages {
    /// The outage in which requests of all rows fail.
    all: Outage,
    /// The outage of rows that a rate limit has refused. During this outage, other rows may
    /// succeed.
    limited: Outage,
}

impl Outages {
    pub(super) fn new() -> Outages {
        Outages { all: Outage::new(), limited: Outage::new() }
    }

    /// Called when a request has succeeded. `was_limited` says whether a rate limit had refused the
    /// request before.
    pub(super) fn end(&self, was_limited: bool) {
        self.all.end();
        if was_limited {
            self.limited.end();
        }
    }

    /// Returns the time from which a row's patience (`BulkPlan::patience`) is counted. Called when
    /// the row has failed for the first time.
    pub(super) fn since(&self, error: &EngineError) -> Instant {
        match error {
            _ if error.may_be_of_row() || error.is_unavailable() => Instant::now(),
            _ if error.is_rate_limited() => self.limited.since(),
            _ => self.all.since(),
        }
    }
}

/// An outage of all requests, or of the requests that a rate limit has refused.
///
/// The patience for the rows that fail in an outage is counted from the start of the outage. If it
/// were counted from each row's first failure, a bulk into a dead cluster would wait for the whole
/// patience with the first rows, then again with the next rows, and so on.
#[derive(Debug)]
struct Outage {
    /// The start of the bulk.
    began: Instant,
    /// The start of the outage in milliseconds after `began`, at least 1. The field is 0 if there
    /// is no outage.
    since: AtomicU64,
}

impl Outage {
    fn new() -> Outage {
        Outage { began: Instant::now(), since: AtomicU64::new(0) }
    }

    /// Ends the outage: a request has succeeded.
    fn end(&self) {
        if self.since.load(Ordering::Relaxed) != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
    }

    /// Called when a request has failed for a reason other than its row. Returns the start of the
    /// outage.
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
