//! Counts the rows of a bulk, so that other threads can show its progress.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::EngineError;

/// The counts of a bulk, and its acknowledged rows. They may be read at any time, even after the
/// bulk was aborted.
#[derive(Debug, Default)]
pub struct Progress {
    succeeded: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    window: AtomicUsize,
    in_flight: AtomicUsize,
    retried: AtomicU64,
    batched: AtomicU64,
    trouble: Mutex<Trouble>,
    stopped: AtomicBool,
    acknowledged: Option<Mutex<Ranges>>,
}

/// The number of rows that are being tried again, and the reason of the last failure.
#[derive(Debug, Default)]
struct Trouble {
    rows: usize,
    reason: String,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub succeeded: u64,
    pub failed: u64,
    /// The number of bytes of the values of rows that succeeded.
    pub bytes: u64,
    /// The number of requests that may be in flight.
    pub window: usize,
    pub in_flight: usize,
    /// How often rows were sent again, added up over all rows.
    pub retried: u64,
    /// The number of rows that succeeded in a batch with other rows.
    pub batched: u64,
}

impl Progress {
    /// If `keeps_ranges` is true, the progress also records which rows were acknowledged.
    pub fn new(keeps_ranges: bool) -> Progress {
        let acknowledged = keeps_ranges.then(Mutex::default);
        Progress { acknowledged, ..Progress::default() }
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            window: self.window.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            retried: self.retried.load(Ordering::Relaxed),
            batched: self.batched.load(Ordering::Relaxed),
        }
    }

    /// Returns the numbers of the acknowledged rows as ranges: pairs of the first number and the
    /// number after the last. The ranges are in order and do not touch. Returns no ranges if the
    /// progress does not record them (see [`Progress::new`]).
    pub fn acknowledged(&self) -> Vec<(u64, u64)> {
        let Some(ranges) = &self.acknowledged else { return Vec::new() };
        lock(ranges).0.iter().map(|(&first, &end)| (first, end)).collect()
    }

    /// Stops the bulk: no further row is sent.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The number of rows that have failed and are being tried again, and the reason of the last
    /// failure. Returns `None` if there are no such rows.
    pub fn trouble(&self) -> Option<(usize, String)> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        (trouble.rows > 0).then(|| (trouble.rows, trouble.reason.clone()))
    }

    /// Called when rows have failed for the first time and will be tried again.
    pub(super) fn trying_again(&self, rows: usize, reason: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.rows += rows;
        reason.clone_into(&mut trouble.reason);
    }

    /// Called when rows that were tried again have failed once more, for this reason.
    pub(super) fn still_trying(&self, reason: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        reason.clone_into(&mut trouble.reason);
    }

    /// Called when rows that were tried again have succeeded, or failed for good.
    pub(super) fn tried_again(&self, rows: usize) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).rows -= rows;
    }

    pub(super) fn sent(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sent_again(&self, rows: usize) {
        self.retried.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(super) fn answered(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Called when a request was acknowledged. Each item of `rows` is a row of the request: its row
    /// number, and the size of its values in bytes.
    pub(super) fn succeeded(&self, rows: impl Iterator<Item = (u64, usize)>) {
        let mut ranges = self.acknowledged.as_ref().map(lock);
        let (mut count, mut total) = (0, 0);
        for (number, bytes) in rows {
            count += 1;
            total += bytes as u64;
            if let Some(ranges) = &mut ranges {
                ranges.add(number);
            }
        }
        self.succeeded.fetch_add(count, Ordering::Relaxed);
        self.bytes.fetch_add(total, Ordering::Relaxed);
        if count > 1 {
            self.batched.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(super) fn failed(&self, rows: usize) {
        self.failed.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(super) fn set_window(&self, window: usize) {
        self.window.store(window, Ordering::Relaxed);
    }
}

fn lock(ranges: &Mutex<Ranges>) -> MutexGuard<'_, Ranges> {
    ranges.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A set of row numbers as ranges: maps the first number of each range to the number after its
/// last. Each gap between ranges has a row that is not acknowledged (in flight, or failed). Such
/// rows are few, so the ranges are few too.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn add(&mut self, number: u64) {
        let Some(after) = number.checked_add(1) else { return };
        let mut end = after;
        if let Some(next) = self.0.remove(&after) {
            end = next;
        }
        if let Some((_, before)) = self.0.range_mut(..=number).next_back()
            && *before >= number
        {
            *before = end.max(*before);
            return;
        }
        self.0.insert(number, end);
    }
}

/// Counts rows in the progress as being tried again, until the guard is dropped.
pub(super) struct RetryGuard<'a> {
    progress: Option<&'a Progress>,
    rows: usize,
}

impl<'a> RetryGuard<'a> {
    pub(super) fn new(progress: Option<&'a Progress>) -> RetryGuard<'a> {
        RetryGuard { progress, rows: 0 }
    }

    pub(super) fn note(&mut self, rows: usize, error: &EngineError) {
        match self.progress {
            Some(progress) if self.rows == 0 => progress.trying_again(rows, error.brief()),
            Some(progress) => progress.still_trying(error.brief()),
            None => {}
        }
        self.rows = rows;
    }
}

impl Drop for RetryGuard<'_> {
    fn drop(&mut self) {
        if let Some(progress) = self.progress {
            progress.tried_again(self.rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the numbers below `count` in a pseudorandom order, which depends on `seed`.
    fn shuffled(count: u64, seed: u64) -> Vec<u64> {
        let mut state = seed;
        let mut numbers: Vec<u64> = (0..count).collect();
        for index in (1..numbers.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            numbers.swap(index, (state >> 33) as usize % (index + 1));
        }
        numbers
    }

    #[test]
    fn ranges_are_the_set_of_the_numbers() {
        for seed in 0..50 {
            let progress = Progress::new(true);
            let mut set = BTreeSet::new();
            for (index, number) in shuffled(200, seed).into_iter().enumerate() {
                // Every seventh row is never acknowledged.
                if number % 7 == 3 {
                    continue;
                }
                progress.succeeded([(number, 1)].into_iter());
                set.insert(number);
                let ranges = progress.acknowledged();
                let listed: Vec<u64> = ranges.iter().flat_map(|&(a, b)| a..b).collect();
                assert!(listed.iter().eq(set.iter()), "seed {seed}, after {index}");
                assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "seed {seed}");
            }
        }
    }

    #[test]
    fn rows_in_order_are_one_range() {
        let progress = Progress::new(true);
        progress.succeeded((5..1000).map(|number| (number, 3)));
        progress.succeeded([(7, 0)].into_iter());
        assert_eq!(progress.acknowledged(), [(5, 1000)]);
        assert_eq!(progress.snapshot().bytes, 995 * 3);
        assert_eq!(Progress::new(false).acknowledged(), []);
    }
}
