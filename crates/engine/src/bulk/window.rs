//! The window: limits how many requests of a bulk (`execute_many`) are in flight.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::intake::{Intake, Next, RequestRows};
use super::outage::Outages;
use super::pace::{Control, Pace, Rates};
use super::partition::SendMode;
use super::progress::{Progress, RetryGuard};
use super::suspects::{Suspect, Suspects};
use super::written_table::Claim;
use super::{BulkEvents, BulkOutcome};
use crate::error::EngineError;
use crate::terms::Response;

/// The limits of a bulk.
pub(super) struct Limits {
    /// The maximum number of requests in flight.
    pub(super) concurrency: usize,
    pub(super) max_failures: usize,
    /// The number of failed rows. Rows that failed before they reached the bulk are counted too.
    pub(super) failures: Arc<AtomicUsize>,
    pub(super) pace: Pace,
    /// For how long a row is sent again after transient errors ([`EngineError::may_pass`]).
    pub(super) patience: Duration,
    /// Whether rows that may have been written may be sent again.
    pub(super) is_repeatable: bool,
    pub(super) progress: Option<Arc<Progress>>,
    /// The value becomes true when the session is being closed. Then no row waits to be sent again.
    pub(super) draining: Option<watch::Receiver<bool>>,
}

/// Answers the window's questions about rows and errors. The window itself has no session.
pub(super) trait Judge: Send + Sync {
    /// Returns a future that waits until no other request writes the rows, and then claims them
    /// (see [`Claim`]). Returns `None` if claims are not needed.
    fn claim(&self, rows: &RequestRows) -> Option<BoxFuture<'static, Claim>>;

    /// The replicas of the first row's partition, sorted so that they can be compared.
    fn replicas(&self, rows: &RequestRows) -> Vec<[u8; 16]>;

    /// If a value of the first row explains the server's error, returns an error that names the
    /// value.
    fn blame(&self, rows: &RequestRows, error: &EngineError) -> Option<EngineError>;

    /// How many times a row is tried if the row itself may cause its errors, and if other rows
    /// succeed on the same replicas.
    fn tries(&self) -> usize {
        3
    }

    /// Returns a future that says whether the replicas of the first row answer a read.
    fn probe(&self, rows: &RequestRows) -> BoxFuture<'static, bool>;
}

/// The state that the slots of a window share (see [`send_all`]).
struct Window<S> {
    intake: Arc<Intake>,
    send: S,
    judge: Arc<dyn Judge>,
    suspects: Suspects,
    max_failures: usize,
    failures: Arc<AtomicUsize>,
    outcome: Mutex<BulkOutcome>,
    /// The maximum number of occupied slots. `occupied` is the current number of occupied slots.
    limit: AtomicUsize,
    occupied: AtomicUsize,
    /// The number of rows that wait, without a slot, to be tried again.
    aside: AtomicUsize,
    /// Adapts `limit`. The field is `None` if the limit is fixed.
    control: Option<Mutex<Control>>,
    rates: Option<Rates>,
    patience: Duration,
    is_repeatable: bool,
    progress: Option<Arc<Progress>>,
    draining: Option<watch::Receiver<bool>>,
    outages: Outages,
}

/// The pauses before a row is sent again: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// If no other row succeeds on the same replicas, a row that may itself cause its errors gets this
/// many more tries than [`Judge::tries`]. If the replicas then answer a read, the row fails.
const SUSPECT_EXTRA_TRIES: usize = 2;
/// How many rows of a failed batch are sent at a time, each in a request of its own.
const ONE_BY_ONE_IN_FLIGHT: usize = 16;
/// The maximum number of rows that wait without a slot.
const MAX_ASIDE: usize = 256;
/// The interval at which a waiting row checks whether the bulk was stopped.
const NAP: Duration = Duration::from_millis(200);

/// Keeps slots busy with the requests that `send` makes from rows, until there are no more rows,
/// too many have failed, or the bulk is stopped. There are up to `concurrency` slots or, if the
/// pace is adaptive, as many as [`Control`] allows.
///
/// A slot is a tokio task that sends one request after another, while there are rows. A single task
/// for all requests would cost more: it would exhaust tokio's budget for a task, and then poll its
/// requests in vain. Also, it could not spread over several threads.
pub(super) async fn send_all<S, F>(
    intake: Arc<Intake>,
    events: &dyn BulkEvents,
    limits: Limits,
    keep_results: bool,
    judge: Arc<dyn Judge>,
    send: S,
) -> BulkOutcome
where
    S: Fn(RequestRows) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Option<Response>, EngineError>> + Send + 'static,
{
    let Limits { concurrency, max_failures, failures, pace, .. } = limits;
    let Limits { patience, is_repeatable, progress, draining, .. } = limits;
    let results = keep_results.then(Vec::new);
    let outcome = Mutex::new(BulkOutcome { results, ..BulkOutcome::default() });
    let control = pace.adaptive.then(|| Control::new(concurrency));
    let limit = control.as_ref().map_or(concurrency.max(1), Control::limit);
    let window = Arc::new(Window {
        intake,
        send,
        judge,
        suspects: Suspects::default(),
        max_failures,
        failures,
        outcome,
        limit: AtomicUsize::new(limit),
        occupied: AtomicUsize::new(0),
        aside: AtomicUsize::new(0),
        control: control.map(Mutex::new),
        rates: Rates::of(&pace),
        patience,
        is_repeatable,
        progress,
        draining,
        outages: Outages::new(),
    });
    window.tell_limit(limit);
    // If this future is dropped, the set aborts all slots.
    let mut slots = JoinSet::new();
    loop {
        let mut input_is_open = true;
        while input_is_open && window.has_room() {
            match window.take() {
                Next::Rows(rows) => {
                    window.occupied.fetch_add(1, Ordering::Relaxed);
                    slots.spawn(Arc::clone(&window).occupy(rows));
                }
                Next::Nothing => break,
                Next::End => input_is_open = false,
            }
        }
        (0..window.intake.arenas_to_request()).for_each(|_| events.wants_more());
        tokio::select! {
            biased;
            Some(ended) = slots.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
            () = window.intake.changed.notified(), if input_is_open => {}
            else => return std::mem::take(&mut *window.outcome()),
        }
    }
}

impl<S, F> Window<S>
where
    S: Fn(RequestRows) -> F,
    F: Future<Output = Result<Option<Response>, EngineError>>,
{
    async fn occupy(self: Arc<Self>, mut rows: RequestRows) {
        loop {
            let retry_rows = rows.for_retry();
            let result = self.send_patiently(rows, false).await;
            match result {
                // A single row may be the cause, so each row is sent in a request of its own.
                Err(error)
                    if retry_rows.len() > 1
                        && (!error.may_pass() || self.is_repeatable && error.may_be_of_row()) =>
                {
                    self.send_one_by_one(&retry_rows, error.may_have_applied).await;
                }
                result => self.note(&retry_rows, result),
            }
            if self.occupied.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed) {
                break;
            }
            match self.take() {
                Next::Rows(next) => rows = next,
                Next::Nothing | Next::End => break,
            }
        }
        self.occupied.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sends each row of a batch in a request of its own, a few at a time, with retries. `applied`
    /// says whether the batch may have been applied.
    async fn send_one_by_one(&self, rows: &RequestRows, applied: bool) {
        let rows_one_by_one = futures::stream::iter(rows.one_by_one());
        let send = |row: RequestRows| async move {
            if self.outcome().stopped {
                return;
            }
            let retry_rows = row.for_retry();
            let result = self.send_patiently(row, applied).await;
            self.note(&retry_rows, result);
        };
        rows_one_by_one.for_each_concurrent(ONE_BY_ONE_IN_FLIGHT, send).await;
    }

    /// Sends a request, and sends it again after transient errors, until `patience` is over. In the
    /// returned error, `may_have_applied` is set if any attempt may have been applied, or if
    /// `applied` says that an earlier request, a batch, may have applied the rows.
    async fn send_patiently(
        &self,
        rows: RequestRows,
        mut applied: bool,
    ) -> Result<Option<Response>, EngineError> {
        let mut result = self.send_until_answered(rows, &mut applied).await;
        if let Err(error) = &mut result {
            error.may_have_applied |= applied;
        }
        result
    }

    async fn send_until_answered(
        &self,
        mut rows: RequestRows,
        applied: &mut bool,
    ) -> Result<Option<Response>, EngineError> {
        let (mut since, mut pause, mut tries) = (None, PAUSES.0, 0);
        let mut retry_guard = RetryGuard::new(self.progress.as_deref());
        let mut suspect: Option<Arc<Suspect>> = None;
        let mut was_limited = false;
        let (count, batched) = (rows.len(), rows.is_batched());
        let claim = match self.judge.claim(&rows) {
            Some(claim) => Some(claim.await),
            None => None,
        };
        if let Some(claim) = &claim {
            rows = rows.with_last(&claim.last);
        }
        loop {
            if let Some(rates) = &self.rates {
                rates.pass(count, rows.bytes()).await;
            }
            let retry_rows = rows.for_retry();
            let learns = self.control.is_some() || self.intake.batcher.is_some();
            let began = learns.then(Instant::now);
            self.progress.as_ref().inspect(|progress| progress.sent());
            let result = (self.send)(rows).await;
            self.progress.as_ref().inspect(|progress| progress.answered());
            if let Some(began) = began {
                self.learn(began, count, batched, &result);
            }
            let error = match result {
                Ok(response) => {
                    self.outages.end(was_limited);
                    self.suspects.others_succeeded(|| self.judge.replicas(&retry_rows));
                    return Ok(response);
                }
                Err(error) => error,
            };
            if count == 1
                && let Some(error) = self.judge.blame(&retry_rows, &error)
            {
                return Err(error);
            }
            *applied |= error.may_have_applied;
            let may_repeat = self.is_repeatable || !error.may_have_applied;
            if self.patience.is_zero() || !error.may_pass() || !may_repeat {
                return Err(error);
            }
            if error.may_be_of_row() {
                // After this error, the caller sends each row in a request of its own.
                if count > 1 {
                    return Err(error);
                }
                tries += 1;
                let suspect = suspect
                    .get_or_insert_with(|| self.suspects.add(self.judge.replicas(&retry_rows)));
                if tries >= self.judge.tries() && suspect.others_succeeded() {
                    return Err(error);
                }
                // There may be no other rows on these replicas, so a read probes them.
                if tries == self.judge.tries() + SUSPECT_EXTRA_TRIES
                    && self.judge.probe(&retry_rows).await
                {
                    return Err(error);
                }
            }
            was_limited |= error.is_rate_limited();
            let since = *since.get_or_insert_with(|| self.outages.since(&error));
            if since.elapsed() + pause > self.patience {
                return Err(error);
            }
            retry_guard.note(count, &error);
            let is_own = error.may_be_of_row() || error.is_unavailable();
            let waits_aside = is_own && self.leave();
            let goes_on = self.nap(pause).await;
            if waits_aside {
                self.come_back();
            }
            if !goes_on {
                return Err(error);
            }
            // The pauses of rows differ, because rows sent together might fail together again.
            pause = (pause * 2 - pause / 4 * (retry_rows.index() % 3) as u32).min(PAUSES.1);
            self.progress.as_ref().inspect(|progress| progress.sent_again(count));
            rows = retry_rows;
        }
    }

    fn take(&self) -> Next {
        let mut outcome = self.outcome();
        outcome.stopped |= self.progress.as_ref().is_some_and(|progress| progress.is_stopped());
        if outcome.stopped {
            return Next::End;
        }
        let next = self.intake.take();
        if let Next::Rows(rows) = &next {
            let last = rows.rows().map(|(number, _)| number).max();
            outcome.last_sent = outcome.last_sent.max(last);
        }
        next
    }

    fn note(&self, rows: &RequestRows, result: Result<Option<Response>, EngineError>) {
        let mut outcome = self.outcome();
        match result {
            Ok(response) => {
                outcome.succeeded += rows.len() as u64;
                if let (Some(results), Some(response)) = (&mut outcome.results, response)
                    && let Some((number, _)) = rows.rows().next()
                {
                    results.push((number, response));
                }
                drop(outcome);
                self.progress.as_ref().inspect(|progress| progress.succeeded(rows.rows()));
            }
            Err(error) => {
                let before = self.failures.fetch_add(rows.len(), Ordering::Relaxed);
                outcome.stopped = before + rows.len() > self.max_failures;
                let failed = rows.rows().map(|(number, _)| (number, error.clone()));
                outcome.failed.extend(failed);
                self.progress.as_ref().inspect(|progress| progress.failed(rows.len()));
            }
        }
    }
}

impl<S> Window<S> {
    /// Whether one more slot may be occupied.
    fn has_room(&self) -> bool {
        self.occupied.load(Ordering::Relaxed) < self.limit.load(Ordering::Relaxed)
    }

    /// Frees the slot of a waiting row. Returns false, and frees nothing, if `MAX_ASIDE` rows
    /// already wait without a slot.
    fn leave(&self) -> bool {
        if self.aside.fetch_add(1, Ordering::Relaxed) >= MAX_ASIDE {
            self.aside.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.occupied.fetch_sub(1, Ordering::Relaxed);
        self.intake.changed.notify_one();
        true
    }

    /// Takes a slot again, even above the limit. This row must not wait for a slot, because the
    /// rows in all slots may wait until this row releases its claim.
    fn come_back(&self) {
        self.occupied.fetch_add(1, Ordering::Relaxed);
        self.aside.fetch_sub(1, Ordering::Relaxed);
    }

    fn outcome(&self) -> MutexGuard<'_, BulkOutcome> {
        self.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sleeps for `pause`. Returns false early if the bulk is stopped or the session is closing.
    async fn nap(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return true;
            }
            let is_stopped = self.progress.as_ref().is_some_and(|progress| progress.is_stopped());
            let drains = self.draining.as_ref().is_some_and(|draining| *draining.borrow());
            if is_stopped || drains || self.outcome().stopped {
                return false;
            }
            tokio::time::sleep(remaining.min(NAP)).await;
        }
    }

    /// Learns from the time and the result of an answer: adapts the limit, and compares batches
    /// with single rows.
    fn learn(
        &self,
        began: Instant,
        rows: usize,
        batched: bool,
        result: &Result<Option<Response>, EngineError>,
    ) {
        let (now, in_flight) = (Instant::now(), self.occupied.load(Ordering::Relaxed));
        let mode = match (&self.intake.batcher, result) {
            (Some(batcher), Ok(_)) => batcher.note(now, rows, in_flight, batched),
            _ => SendMode::Established,
        };
        let Some(control) = &self.control else { return };
        let mut control = control.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match (result, mode) {
            (Ok(_), SendMode::Established) => control.on_success(now - began, in_flight),
            // The latencies of single rows and of batches cannot be compared.
            (Ok(_), SendMode::OnTrial) => return,
            (Ok(_), SendMode::Adopted) => control.forget(),
            (Err(error), _) if error.may_pass() && !error.may_be_of_row() => {
                control.on_overload(now);
            }
            (Err(_), _) => return,
        }
        let limit = control.limit();
        drop(control);
        let before = self.limit.swap(limit, Ordering::Relaxed);
        if limit != before {
            self.tell_limit(limit);
        }
        if limit > before {
            // There is room for more slots, so `send_all` is woken to start them.
            self.intake.changed.notify_one();
        }
    }

    fn tell_limit(&self, limit: usize) {
        self.progress.as_ref().inspect(|progress| progress.set_window(limit));
    }
}

#[cfg(test)]
mod tests;
