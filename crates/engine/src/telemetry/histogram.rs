//! Histograms of durations, in memory of a fixed size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of buckets.
pub const BUCKETS: usize = 105;

/// Each number of microseconds below 2 to the power of this exponent has a bucket of its own. From
/// this power of two on, each interval to the next power of two is divided into buckets.
const FIRST_EXPONENT: u32 = 2;

/// Counts durations in whole microseconds. From 4 to 2^27, each interval from a power of two to the
/// next one is divided into four buckets. So a bucket's upper bound is at most 25 % above its lower
/// bound. The last bucket has all longer durations.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// The counts of a [`Histogram`] at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramCounts {
    pub counts: [u64; BUCKETS],
    pub sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [const { AtomicU64::new(0) }; BUCKETS], sum_us: AtomicU64::new(0) }
    }
}

impl Default for HistogramCounts {
    fn default() -> HistogramCounts {
        HistogramCounts { counts: [0; BUCKETS], sum_us: 0 }
    }
}

impl Histogram {
    pub(crate) fn add(&self, duration: Duration) {
        let us = duration.as_secs() * 1_000_000 + u64::from(duration.subsec_micros());
        self.counts[bucket(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> HistogramCounts {
        HistogramCounts {
            counts: std::array::from_fn(|nth| self.counts[nth].load(Ordering::Relaxed)),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

/// The index of the bucket for a duration of this many microseconds.
fn bucket(us: u64) -> usize {
    let exponent = us.max(1).ilog2();
    if exponent < FIRST_EXPONENT {
        return us as usize;
    }
    let quarter = (us >> (exponent - 2)) & 3;
    let nth = 4 * (exponent - FIRST_EXPONENT + 1) as usize + quarter as usize;
    nth.min(BUCKETS - 1)
}

/// The upper bound of each bucket except the last, in microseconds. A duration that equals the
/// upper bound of a bucket is in the next bucket.
pub fn bounds_us() -> [u64; BUCKETS - 1] {
    std::array::from_fn(|nth| match nth {
        0..4 => nth as u64 + 1,
        _ => (4 + nth as u64 % 4 + 1) << (nth / 4 - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_below_the_bound_of_its_bucket_only() {
        let bounds = bounds_us();
        assert_eq!(bounds[..10], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]);
        assert_eq!(bounds[BUCKETS - 2], 1 << 27);
        assert!(bounds.is_sorted_by(|a, b| a < b && b * 4 <= a * 8));
        for us in (0..5000).chain(bounds.iter().flat_map(|&bound| [bound - 1, bound, bound + 1])) {
            let nth = bucket(us);
            assert!(nth == BUCKETS - 1 || us < bounds[nth], "{us}");
            assert!(nth == 0 || us >= bounds[nth - 1], "{us}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_and_the_sum_are_kept() {
        let histogram = Histogram::default();
        histogram.add(Duration::from_micros(3));
        histogram.add(Duration::from_nanos(3999));
        histogram.add(Duration::from_secs(1000));
        let HistogramCounts { counts, sum_us } = histogram.counts();
        assert_eq!((counts[3], counts[BUCKETS - 1]), (2, 1));
        assert_eq!(sum_us, 1_000_000_006);
    }
}
