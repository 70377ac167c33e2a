//! The window: the requests of a bulk that are in flight, limited in number.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::intake::{Intake, Next, Taken};
use super::pace::{Control, Pace, Rates};
use super::progress::Progress;
use super::{BulkEvents, BulkOutcome};
use crate::error::EngineError;
use crate::session::Response;

/// The limits of a bulk.
pub(super) struct Limits {
    /// The maximum number of requests in flight.
    pub(super) concurrency: usize,
    pub(super) max_failures: usize,
    /// The number of failed rows. Rows that failed before they were handed in count too.
    pub(super) failures: Arc<AtomicUsize>,
    pub(super) pace: Pace,
    /// For so long a row is sent again after errors that may pass.
    pub(super) patience: Duration,
    pub(super) progress: Option<Arc<Progress>>,
}

/// The state that the slots of a window share.
struct Window<S> {
    intake: Arc<Intake>,
    send: S,
    max_failures: usize,
    failures: Arc<AtomicUsize>,
    outcome: Mutex<BulkOutcome>,
    /// The number of slots that there may be, and that there are.
    limit: AtomicUsize,
    occupied: AtomicUsize,
    /// `None` if the limit stays as it is.
    control: Option<Mutex<Control>>,
    rates: Option<Rates>,
    patience: Duration,
    progress: Option<Arc<Progress>>,
}

/// The pauses before a row is sent again: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A pause ends within this when the bulk is stopped.
const NAP: Duration = Duration::from_millis(200);

/// Keeps slots busy with the requests that `send` makes from rows, until there are no more rows or
/// too many have failed. There are `concurrency` slots, or as many as the control allows.
///
/// A slot is a task of its own that takes one row after another, while there are any. A single task
/// for all requests would cost more: it would exhaust tokio's budget for a task, and then poll all
/// of its requests in vain. Also, it could not spread over several threads.
pub(super) async fn send_all<S, F>(
    intake: Arc<Intake>,
    events: &dyn BulkEvents,
    limits: Limits,
    keep_results: bool,
    send: S,
) -> BulkOutcome
where
    S: Fn(Taken) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Option<Response>, EngineError>> + Send + 'static,
{
    let Limits { concurrency, max_failures, failures, pace, patience, progress } = limits;
    let results = keep_results.then(Vec::new);
    let outcome = Mutex::new(BulkOutcome { results, ..BulkOutcome::default() });
    let control = pace.adaptive.then(|| Control::new(concurrency));
    let limit = control.as_ref().map_or(concurrency.max(1), Control::limit);
    let window = Arc::new(Window {
        intake,
        send,
        max_failures,
        failures,
        outcome,
        limit: AtomicUsize::new(limit),
        occupied: AtomicUsize::new(0),
        control: control.map(Mutex::new),
        rates: Rates::of(&pace),
        patience,
        progress,
    });
    window.tell_limit(limit);
    // Dropped with this future, which drops every request.
    let mut slots = JoinSet::new();
    loop {
        let mut more = true;
        while more && slots.len() < window.limit.load(Ordering::Relaxed) {
            match window.take() {
                Next::Row(row) => {
                    window.occupied.fetch_add(1, Ordering::Relaxed);
                    slots.spawn(Arc::clone(&window).occupy(row));
                }
                Next::Nothing => break,
                Next::End => more = false,
            }
        }
        (0..window.intake.asks()).for_each(|_| events.wants_more());
        tokio::select! {
            biased;
            Some(left) = slots.join_next() => {
                if let Err(error) = left && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
            () = window.intake.bell.notified(), if more => {}
            else => return std::mem::take(&mut *window.outcome()),
        }
    }
}

impl<S, F> Window<S>
where
    S: Fn(Taken) -> F,
    F: Future<Output = Result<Option<Response>, EngineError>>,
{
    async fn occupy(self: Arc<Self>, mut row: Taken) {
        loop {
            let (number, bytes) = (row.number(), row.bytes());
            let result = self.send_patiently(row, bytes).await;
            self.note(number, bytes, result);
            if self.occupied.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed) {
                break;
            }
            match self.take() {
                Next::Row(next) => row = next,
                Next::Nothing | Next::End => break,
            }
        }
        self.occupied.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sends a row, and again after errors that may pass, as long as there is patience.
    async fn send_patiently(
        &self,
        mut row: Taken,
        bytes: usize,
    ) -> Result<Option<Response>, EngineError> {
        let (mut since, mut pause) = (None, PAUSES.0);
        loop {
            if let Some(rates) = &self.rates {
                rates.pass(bytes).await;
            }
            let again = (!self.patience.is_zero()).then(|| row.again());
            let began = self.control.is_some().then(Instant::now);
            self.progress.as_ref().inspect(|progress| progress.sent());
            let result = (self.send)(row).await;
            self.progress.as_ref().inspect(|progress| progress.answered());
            if let (Some(control), Some(began)) = (&self.control, began) {
                self.learn(control, began, &result);
            }
            let error = match result {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let Some(again) = again.filter(|_| error.may_pass()) else { return Err(error) };
            let since = *since.get_or_insert_with(Instant::now);
            if since.elapsed() + pause > self.patience || !self.nap(pause).await {
                return Err(error);
            }
            // Not all at once: rows that failed together would fail together again.
            pause = (pause * 2 - pause / 4 * (again.index() % 3) as u32).min(PAUSES.1);
            self.progress.as_ref().inspect(|progress| progress.sent_again());
            row = again;
        }
    }

    fn take(&self) -> Next {
        let mut outcome = self.outcome();
        if outcome.stopped {
            return Next::End;
        }
        let next = self.intake.take();
        if let Next::Row(row) = &next {
            outcome.last_sent = Some(row.number());
        }
        next
    }

    fn note(&self, number: u64, bytes: usize, result: Result<Option<Response>, EngineError>) {
        let mut outcome = self.outcome();
        match result {
            Ok(response) => {
                outcome.succeeded += 1;
                if let (Some(results), Some(response)) = (&mut outcome.results, response) {
                    results.push((number, response));
                }
                drop(outcome);
                self.progress.as_ref().inspect(|progress| progress.succeeded(number, bytes));
            }
            Err(error) => {
                outcome.failed.push((number, error));
                let before = self.failures.fetch_add(1, Ordering::Relaxed);
                outcome.stopped = before >= self.max_failures;
                self.progress.as_ref().inspect(|progress| progress.failed());
            }
        }
    }
}

impl<S> Window<S> {
    fn outcome(&self) -> MutexGuard<'_, BulkOutcome> {
        self.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits. Returns false if the bulk was stopped meanwhile.
    async fn nap(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if self.outcome().stopped {
                return false;
            }
            tokio::time::sleep(left.min(NAP)).await;
        }
        true
    }

    /// Has the control look at an answer.
    fn learn(
        &self,
        control: &Mutex<Control>,
        began: Instant,
        result: &Result<Option<Response>, EngineError>,
    ) {
        let mut control = control.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match result {
            Ok(_) => control.on_success(began.elapsed(), self.occupied.load(Ordering::Relaxed)),
            Err(error) if error.may_pass() => control.on_overload(Instant::now()),
            Err(_) => return,
        }
        let limit = control.limit();
        drop(control);
        let before = self.limit.swap(limit, Ordering::Relaxed);
        if limit != before {
            self.tell_limit(limit);
        }
        if limit > before {
            // There is room for more slots.
            self.intake.bell.notify_one();
        }
    }

    fn tell_limit(&self, limit: usize) {
        self.progress.as_ref().inspect(|progress| progress.set_window(limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::RowNumbers;
    use crate::error::ErrorKind;
    use turbocql_codec::RowBuffer;

    struct Silent;

    impl BulkEvents for Silent {
        fn wants_more(&self) {}
        fn done(self: Box<Self>, _: BulkOutcome) {}
    }

    fn arena(rows: u8) -> RowBuffer {
        let mut buffer = RowBuffer::new();
        for row in 0..rows {
            buffer.push_value(&[row]);
            buffer.finish_row();
        }
        buffer
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn limits(max_failures: usize) -> Limits {
        Limits {
            concurrency: 4,
            max_failures,
            failures: Arc::default(),
            pace: Pace::default(),
            patience: Duration::ZERO,
            progress: None,
        }
    }

    fn failure() -> EngineError {
        EngineError::new(ErrorKind::Server, "no")
    }

    #[test]
    fn the_window_is_kept_full_and_no_fuller() {
        let intake = Arc::new(Intake::new());
        intake.push(arena(10), RowNumbers::From(100));
        intake.push(arena(3), RowNumbers::Each(vec![200, 202, 204]));
        intake.finish();
        let open = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let counts = Arc::clone(&open);
        let outcome = block_on(send_all(intake, &Silent, limits(0), false, move |_| {
            let counts = Arc::clone(&counts);
            async move {
                let now = counts.0.fetch_add(1, Ordering::Relaxed) + 1;
                counts.1.fetch_max(now, Ordering::Relaxed);
                tokio::task::yield_now().await;
                counts.0.fetch_sub(1, Ordering::Relaxed);
                Ok(None)
            }
        }));
        assert_eq!((outcome.succeeded, outcome.last_sent), (13, Some(204)));
        assert_eq!((open.0.load(Ordering::Relaxed), open.1.load(Ordering::Relaxed)), (0, 4));
    }

    #[test]
    fn too_many_failures_stop_it_and_what_is_in_flight_is_awaited() {
        let intake = Arc::new(Intake::new());
        intake.push(arena(100), RowNumbers::From(0));
        intake.finish();
        let outcome = block_on(send_all(intake, &Silent, limits(1), false, |row| async move {
            // Row 5 fails, and so do all rows from 20 on.
            let cell = row.row().unwrap().bytes()[4];
            tokio::task::yield_now().await;
            if cell == 5 || cell >= 20 { Err(failure()) } else { Ok(None) }
        }));
        assert!(outcome.stopped);
        let last = outcome.last_sent.unwrap();
        assert!((20..24).contains(&last), "{last}");
        assert_eq!((outcome.succeeded, outcome.failed[0].0), (19, 5));
        assert_eq!(outcome.failed.len() as u64, 1 + last - 19);
    }

    #[test]
    fn it_waits_for_rows_that_come_late() {
        let intake = Arc::new(Intake::new());
        let outcome = block_on(async {
            let sending =
                send_all(Arc::clone(&intake), &Silent, limits(0), false, |_| async { Ok(None) });
            let handing_in = async {
                for first in [0, 10] {
                    tokio::task::yield_now().await;
                    intake.push(arena(10), RowNumbers::From(first));
                }
                tokio::task::yield_now().await;
                intake.finish();
            };
            futures::join!(sending, handing_in).0
        });
        assert_eq!((outcome.succeeded, outcome.stopped), (20, false));
    }

    /// An error that may pass.
    fn late() -> EngineError {
        EngineError::new(ErrorKind::Timeout, "late")
    }

    #[test]
    fn rows_that_fail_for_a_while_are_sent_again() {
        let intake = Arc::new(Intake::new());
        intake.push(arena(20), RowNumbers::From(50));
        intake.finish();
        let progress = Arc::new(Progress::new(true));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let limits = Limits {
            patience: Duration::from_secs(20),
            progress: Some(Arc::clone(&progress)),
            ..limits(0)
        };
        let outcome = timed(send_all(intake, &Silent, limits, false, move |row| {
            let number = row.number();
            let mut log = log.lock().unwrap();
            log.push(number);
            let nth = log.iter().filter(|&&it| it == number).count();
            async move { if number % 5 == 0 && nth < 3 { Err(late()) } else { Ok(None) } }
        }));
        assert_eq!((outcome.succeeded, outcome.failed.len()), (20, 0));
        assert_eq!(seen.lock().unwrap().len(), 20 + 4 * 2);
        assert_eq!(progress.acknowledged(), [(50, 70)]);
        let now = progress.snapshot();
        assert_eq!((now.succeeded, now.retried, now.in_flight, now.window), (20, 8, 0, 4));
    }

    #[test]
    fn patience_ends_and_so_do_pauses_of_a_bulk_that_is_stopped() {
        let intake = Arc::new(Intake::new());
        intake.push(arena(3), RowNumbers::From(0));
        intake.finish();
        let began = std::time::Instant::now();
        let limits = Limits { patience: Duration::from_secs(600), ..limits(0) };
        let outcome = timed(send_all(intake, &Silent, limits, false, |row| {
            // Row 2 fails for good, while the others wait to be sent again.
            let number = row.number();
            async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(if number == 2 { failure_for_good() } else { late() })
            }
        }));
        assert!(began.elapsed() < Duration::from_secs(20));
        assert_eq!((outcome.failed.len(), outcome.stopped), (3, true));

        let intake = Arc::new(Intake::new());
        intake.push(arena(1), RowNumbers::From(0));
        intake.finish();
        let limits = Limits { patience: Duration::from_millis(400), ..super::tests::limits(0) };
        let outcome = timed(send_all(intake, &Silent, limits, false, |_| async { Err(late()) }));
        assert_eq!(outcome.failed[0].1.message, "late");
    }

    fn failure_for_good() -> EngineError {
        EngineError::new(ErrorKind::Encode, "no")
    }

    #[test]
    fn rates_hold_rows_back() {
        let intake = Arc::new(Intake::new());
        intake.push(arena(60), RowNumbers::From(0));
        intake.finish();
        let pace = Pace { rows_per_s: Some(100.0), ..Pace::default() };
        let began = std::time::Instant::now();
        let limits = Limits { pace, ..limits(0) };
        let outcome = timed(send_all(intake, &Silent, limits, false, |_| async { Ok(None) }));
        // Ten at once, and fifty in half a second.
        assert!(began.elapsed() >= Duration::from_millis(450));
        assert_eq!(outcome.succeeded, 60);
    }

    fn timed<T>(future: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(future)
    }
}
