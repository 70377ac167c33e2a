//! The window: the requests of a bulk that are in flight, limited in number.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::task::JoinSet;

use super::intake::{Intake, Next, Taken};
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
}

/// The state that the slots of a window share.
struct Window<S> {
    intake: Arc<Intake>,
    send: S,
    max_failures: usize,
    failures: Arc<AtomicUsize>,
    outcome: Mutex<BulkOutcome>,
}

/// Keeps `concurrency` slots busy with the requests that `send` makes from rows, until there are no
/// more rows or too many have failed.
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
    let Limits { concurrency, max_failures, failures } = limits;
    let results = keep_results.then(Vec::new);
    let outcome = Mutex::new(BulkOutcome { results, ..BulkOutcome::default() });
    let window = Arc::new(Window { intake, send, max_failures, failures, outcome });
    // Dropped with this future, which drops every request.
    let mut slots = JoinSet::new();
    loop {
        let mut more = true;
        while more && slots.len() < concurrency.max(1) {
            match window.take() {
                Next::Row(row) => {
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
            let number = row.number();
            let result = (self.send)(row).await;
            self.note(number, result);
            match self.take() {
                Next::Row(next) => row = next,
                Next::Nothing | Next::End => return,
            }
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

    fn note(&self, number: u64, result: Result<Option<Response>, EngineError>) {
        let mut outcome = self.outcome();
        match result {
            Ok(response) => {
                outcome.succeeded += 1;
                if let (Some(results), Some(response)) = (&mut outcome.results, response) {
                    results.push((number, response));
                }
            }
            Err(error) => {
                outcome.failed.push((number, error));
                let before = self.failures.fetch_add(1, Ordering::Relaxed);
                outcome.stopped = before >= self.max_failures;
            }
        }
    }
}

impl<S> Window<S> {
    fn outcome(&self) -> MutexGuard<'_, BulkOutcome> {
        self.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        Limits { concurrency: 4, max_failures, failures: Arc::default() }
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
}
