//! Times in which no request of a bulk succeeds.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::{Duration, Instant};

/// Since when no request has succeeded, although some were sent.
///
/// The rows that are sent then do not wait one after another for as long as the first: a load into a
/// cluster that is gone would take that time for each of them.
#[derive(Debug)]
pub(super) struct Outage {
    began: Instant,
    /// Milliseconds after `began`, at least 1. 0 if the last request that ended has succeeded.
    since: AtomicU64,
}

impl Outage {
    pub(super) fn new() -> Outage {
        Outage { began: Instant::now(), since: AtomicU64::new(0) }
    }

    /// A request has succeeded.
    pub(super) fn end(&self) {
        if self.since.load(Ordering::Relaxed) != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
    }

    /// A request has failed, and its row is not the reason. Returns the time since when none has
    /// succeeded.
    pub(super) fn since(&self) -> Instant {
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
