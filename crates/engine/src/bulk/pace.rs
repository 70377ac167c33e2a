//! Paces a bulk: adapts the number of requests in flight to the cluster's load, and limits rows and
//! bytes per second.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How the requests of a bulk are paced.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Whether the number of requests in flight follows the latency and the errors of the cluster,
    /// up to the bulk's `concurrency`.
    pub adaptive: bool,
    pub rows_per_s: Option<f64>,
    /// The maximum number of bytes of values to send per second.
    pub bytes_per_s: Option<f64>,
}

/// The initial limit on requests in flight.
const BEGINNING: usize = 32;
/// If the mean latency is above this many times the calm latency (see [`Control`]), the cluster is
/// busy, and the limit does not grow. With more requests, a busy server answers later, but handles
/// no more rows per second.
const BUSY: f64 = 3.0;
/// If the mean latency is above this many times the calm latency, the limit shrinks.
const TOO_BUSY: f64 = 6.0;
/// After this many epochs (see [`Control`]) the calm latency is measured again, if the limit is
/// above 16.
const EPOCHS: usize = 100;
/// The minimum time between two reductions of the limit after errors.
const RECOVERY: Duration = Duration::from_millis(200);

/// Decides how many requests may be in flight.
///
/// An epoch ends after a number of successes: the current limit on requests in flight, but at least
/// 16. The mean latency of an epoch is compared with the calm latency, which is the least mean so
/// far. After [`EPOCHS`] epochs, the calm latency is measured anew, with a quarter of the limit.
/// While the cluster is calm, the limit grows if it was reached. While the cluster is busy, the
/// limit stays. When the cluster is too busy, the limit shrinks to 80 %. After an error that shows
/// an overload, the limit shrinks to 60 %.
#[derive(Debug)]
pub(super) struct Control {
    maximum: usize,
    limit: f64,
    /// The calm latency in seconds. The field is `None` until an epoch has ended since the start or
    /// the last [`Control::forget`].
    calm: Option<f64>,
    latencies: f64,
    answers: usize,
    was_full: bool,
    epochs: usize,
    /// The limit to go back to after a measurement of the calm latency. The field is `None` unless
    /// such a measurement is in progress.
    measuring: Option<f64>,
    /// The number of successes still to be ignored, because their requests were sent under the
    /// previous limit.
    old: usize,
    reduced: Option<Instant>,
}

impl Control {
    pub(super) fn new(maximum: usize) -> Control {
        let maximum = maximum.max(1);
        Control {
            maximum,
            limit: BEGINNING.min(maximum) as f64,
            calm: None,
            latencies: 0.0,
            answers: 0,
            was_full: false,
            epochs: 0,
            measuring: None,
            old: 0,
            reduced: None,
        }
    }

    pub(super) fn limit(&self) -> usize {
        (self.limit as usize).clamp(1, self.maximum)
    }

    /// Called when a request has succeeded. `in_flight` is the number of requests in flight,
    /// including this one.
    pub(super) fn on_success(&mut self, latency: Duration, in_flight: usize) {
        if self.old > 0 {
            self.old -= 1;
            return;
        }
        self.latencies += latency.as_secs_f64();
        self.answers += 1;
        self.was_full |= in_flight >= self.limit();
        if self.answers < self.limit().max(16) {
            return;
        }
        let mean = self.latencies / self.answers as f64;
        let was_full = self.was_full;
        (self.latencies, self.answers, self.was_full) = (0.0, 0, false);
        if let Some(limit) = self.measuring.take() {
            self.calm = Some(mean);
            self.limit = limit;
            // The limit has its former value again, which lets many requests be sent at once. The
            // first of them find no queue on the servers, so their latencies are ignored.
            self.old = 2 * self.limit();
            return;
        }
        self.old = in_flight;
        let calm = self.calm.map_or(mean, |calm| calm.min(mean));
        self.calm = Some(calm);
        self.epochs += 1;
        if mean > TOO_BUSY * calm {
            self.limit = (self.limit * 0.8).max(1.0);
        } else if mean <= BUSY * calm && was_full {
            self.limit = (self.limit + (self.limit / 4.0).max(1.0)).min(self.maximum as f64);
        }
        // A limit of at most 16 requests is not reduced to measure the calm latency: with so few
        // requests in flight, every epoch shows the calm latency.
        if self.epochs >= EPOCHS && self.limit > 16.0 {
            self.epochs = 0;
            self.measuring = Some(self.limit);
            self.limit = (self.limit / 4.0).max(8.0);
        }
    }

    /// Called when a bulk changes between batches and single rows. Forgets the measured latencies.
    pub(super) fn forget(&mut self) {
        self.limit = self.measuring.take().unwrap_or(self.limit);
        (self.calm, self.latencies, self.answers, self.was_full) = (None, 0.0, 0, false);
        self.old = 2 * self.limit();
    }

    /// Called when a request has failed because the cluster is overloaded or does not answer.
    pub(super) fn on_overload(&mut self, now: Instant) {
        if self.reduced.is_some_and(|before| now < before + RECOVERY) {
            return;
        }
        self.reduced = Some(now);
        self.limit = (self.measuring.take().unwrap_or(self.limit) * 0.6).max(1.0);
        (self.latencies, self.answers, self.was_full, self.old) = (0.0, 0, false, 0);
    }
}

/// Limits the rows and bytes per second.
#[derive(Debug)]
pub(super) struct Rates {
    rows: Option<Rate>,
    bytes: Option<Rate>,
}

impl Rates {
    /// Returns `None` if nothing is limited.
    pub(super) fn of(pace: &Pace) -> Option<Rates> {
        let (rows, bytes) = (pace.rows_per_s.map(Rate::new), pace.bytes_per_s.map(Rate::new));
        (rows.is_some() || bytes.is_some()).then_some(Rates { rows, bytes })
    }

    /// Waits until `rows` rows with `bytes` bytes in all may be sent.
    pub(super) async fn pass(&self, rows: usize, bytes: usize) {
        for (rate, cost) in [(&self.rows, rows as f64), (&self.bytes, bytes as f64)] {
            let Some(rate) = rate else { continue };
            let at = rate.reserve(cost, Instant::now());
            tokio::time::sleep_until(at).await;
        }
    }
}

#[derive(Debug)]
struct Rate {
    seconds_each: f64,
    /// The time from which the next row or byte may be sent.
    next: Mutex<Option<Instant>>,
}

/// After a pause, a burst may be sent at once: as many rows or bytes as the rate allows in this
/// time.
const BURST: Duration = Duration::from_millis(100);

impl Rate {
    fn new(per_s: f64) -> Rate {
        Rate { seconds_each: 1.0 / per_s, next: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves `cost` rows or bytes, and returns the time from which they may be sent.
    fn reserve(&self, cost: f64, now: Instant) -> Instant {
        let mut next = self.lock();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let at = next.map_or(earliest, |next| next.max(earliest));
        // The pause is capped at about a year, so that no sum overflows.
        let pause = (cost * self.seconds_each).min(3.2e7);
        *next = Some(at + Duration::from_secs_f64(pause));
        at
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// A simulated cluster and client, with simulated time. Each worker handles one request at a
    /// time, for `service_s`. The client keeps as many requests in flight as [`Control`] allows.
    struct Cluster {
        now: f64,
        /// The time at which each worker is free.
        workers: BinaryHeap<Reverse<u64>>,
        /// For each request in flight: the time at which it ends, the time at which it began, and
        /// whether it succeeds.
        in_flight: BinaryHeap<Reverse<(u64, u64, bool)>>,
        service_s: f64,
        /// Requests that are sent before this time get no answer. The client gives up after
        /// `LIMIT_S`.
        paused_until: f64,
        answered: u64,
        lost: u64,
        slowest_s: f64,
    }

    const LIMIT_S: f64 = 1.0;
    const NANO: f64 = 1e9;

    impl Cluster {
        fn new(workers: usize, service_s: f64) -> Cluster {
            Cluster {
                now: 0.0,
                workers: std::iter::repeat_n(Reverse(0), workers).collect(),
                in_flight: BinaryHeap::new(),
                service_s,
                paused_until: 0.0,
                answered: 0,
                lost: 0,
                slowest_s: 0.0,
            }
        }

        fn send(&mut self) {
            let now = (self.now * NANO) as u64;
            if self.now < self.paused_until {
                let end = ((self.now + LIMIT_S) * NANO) as u64;
                self.in_flight.push(Reverse((end, now, false)));
                return;
            }
            let Reverse(free) = self.workers.pop().unwrap();
            let end = free.max(now) + (self.service_s * NANO) as u64;
            self.workers.push(Reverse(end));
            let late = now + (LIMIT_S * NANO) as u64;
            self.in_flight.push(Reverse((end.min(late), now, end <= late)));
        }

        /// Runs for `seconds`. Returns the requests answered per second.
        fn run(&mut self, seconds: f64, control: &mut Control, start: Instant) -> f64 {
            let (until, before) = (self.now + seconds, self.answered);
            (self.slowest_s, self.lost) = (0.0, 0);
            while self.now < until {
                while self.in_flight.len() < control.limit() {
                    self.send();
                }
                let in_flight = self.in_flight.len();
                let Reverse((end, began, succeeds)) = self.in_flight.pop().unwrap();
                self.now = end as f64 / NANO;
                if succeeds {
                    let latency = (end - began) as f64 / NANO;
                    self.answered += 1;
                    self.slowest_s = self.slowest_s.max(latency);
                    control.on_success(Duration::from_secs_f64(latency), in_flight);
                } else {
                    self.lost += 1;
                    control.on_overload(start + Duration::from_secs_f64(self.now));
                }
            }
            (self.answered - before) as f64 / seconds
        }
    }

    #[test]
    fn the_limit_follows_the_capacity_of_the_cluster() {
        let (start, mut control) = (Instant::now(), Control::new(1024));
        // 64 workers that take 2 ms per request answer at most 32,000 requests per second.
        let mut cluster = Cluster::new(64, 0.002);
        cluster.run(1.0, &mut control, start);
        let steady = cluster.run(10.0, &mut control, start);
        assert!(steady > 0.95 * 32_000.0, "{steady}");
        assert!(cluster.slowest_s < 8.0 * 0.002, "{}", cluster.slowest_s);
        let wide = control.limit();
        assert!((64..=64 * 6).contains(&wide), "{wide}");

        // A tenth of the workers is left. The wait in the queue must not grow to the client's time
        // limit.
        cluster.workers = std::iter::repeat_n(Reverse((cluster.now * NANO) as u64), 6).collect();
        cluster.run(5.0, &mut control, start);
        let slow = cluster.run(10.0, &mut control, start);
        assert!(slow > 0.95 * 3000.0, "{slow}");
        assert!(cluster.slowest_s < 0.1, "{}", cluster.slowest_s);
        assert!(control.limit() < wide, "{}", control.limit());

        // Nothing is answered for five seconds.
        cluster.paused_until = cluster.now + 5.0;
        cluster.run(5.0, &mut control, start);
        assert!(control.limit() <= 16, "{}", control.limit());
        assert!(cluster.lost < 200, "{}", cluster.lost);

        // All workers are back.
        cluster.workers = std::iter::repeat_n(Reverse((cluster.now * NANO) as u64), 64).collect();
        cluster.run(5.0, &mut control, start);
        let recovered_rate = cluster.run(10.0, &mut control, start);
        assert!(recovered_rate > 0.95 * 32_000.0, "{recovered_rate}");
        assert_eq!(cluster.lost, 0);
    }

    #[test]
    fn the_limit_grows_to_the_maximum_while_the_cluster_stays_calm() {
        let (start, mut control) = (Instant::now(), Control::new(100));
        Cluster::new(10_000, 0.001).run(2.0, &mut control, start);
        assert!(control.limit() >= 25, "{}", control.limit());
        let mut cluster = Cluster::new(10_000, 0.001);
        assert!(cluster.run(10.0, &mut control, start) > 95_000.0);
        assert!(control.limit() <= 100);
    }

    #[test]
    fn errors_of_one_moment_reduce_the_limit_once() {
        let (now, mut control) = (Instant::now(), Control::new(32));
        (0..50).for_each(|_| control.on_overload(now));
        assert_eq!(control.limit(), 19);
        for second in 1..100 {
            control.on_overload(now + Duration::from_secs(second));
        }
        assert_eq!(control.limit(), 1);
    }

    #[test]
    fn a_rate_permits_a_burst_and_then_one_row_after_another() {
        let (rate, now) = (Rate::new(100.0), Instant::now() + Duration::from_secs(1));
        let passed: Vec<_> = (0..30).map(|_| rate.reserve(1.0, now)).collect();
        assert_eq!(passed.iter().filter(|&&at| at <= now).count(), 11);
        assert_eq!(passed[29].duration_since(now).as_millis(), 190);
        // A request with more rows than the rate allows in a second is sent at once, but the
        // request after it waits.
        let rate = Rate::new(10.0);
        assert!(rate.reserve(1000.0, now) <= now);
        assert!(rate.reserve(1.0, now).duration_since(now) > Duration::from_secs(99));
    }
}
