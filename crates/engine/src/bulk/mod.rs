//! Bulks: one statement executed with many rows, through a window of requests that is kept full.

mod intake;
mod pace;
mod partition;
mod progress;
mod window;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use scylla::statement::batch::{Batch, BatchType};
use turbocql_codec::RowBuffer;

use self::intake::{Intake, Taken};
pub use self::pace::Pace;
use self::partition::Batcher;
pub use self::partition::Batches;
pub use self::progress::{Progress, Snapshot};
use crate::answer::{Said, Text};
use crate::attempts::Attempts;
use crate::error::{EngineError, ErrorKind};
use crate::queue::TaskHandle;
use crate::runtime::Runtime;
use crate::seam::BatchRows;
use crate::session::{Response, Session};
use crate::statement::{Prepared, RequestOptions};

/// The statement of a bulk, its options and its limits.
pub struct BulkPlan {
    pub prepared: Arc<Prepared>,
    pub options: RequestOptions,
    /// The maximum number of requests in flight.
    pub concurrency: usize,
    /// After more failures than this, no further row is sent.
    pub max_failures: usize,
    /// The number of failed rows. Rows that failed before they were handed in count too.
    pub failures: Arc<AtomicUsize>,
    /// Whether responses are kept. If so, no response may have a further page.
    pub keep_results: bool,
    pub pace: Pace,
    /// Whether rows of one partition go in unlogged batches. Not with responses that are kept.
    pub batches: Option<Batches>,
    /// For so long a row that failed with an error that may pass is sent again, if its request is
    /// declared idempotent. Until then it is neither failed nor succeeded.
    pub patience: Duration,
    pub progress: Option<Arc<Progress>>,
}

/// The caller's numbers of the rows in an arena. A row that could not be encoded is left out, so
/// the numbers may have gaps.
#[derive(Clone, Debug)]
pub enum RowNumbers {
    /// Consecutive numbers, beginning with this one.
    From(u64),
    /// One number for each row of the arena.
    Each(Vec<u64>),
}

/// The caller's callbacks, called on the I/O thread. If a bulk is aborted, they are dropped without
/// a call of [`done`](BulkEvents::done).
pub trait BulkEvents: Send + Sync {
    /// Called when there is room for one more arena. Two arenas are kept at a time: one whose rows
    /// are being sent, and one to follow it.
    fn wants_more(&self);

    /// Called when every row that was sent has succeeded or failed, and no further row will be
    /// sent. Responses are not examined: a conditional update that was not applied counts as
    /// succeeded.
    fn done(self: Box<Self>, outcome: BulkOutcome);
}

#[derive(Clone, Debug, Default)]
pub struct BulkOutcome {
    pub succeeded: u64,
    /// The numbers and errors of failed rows, in the order in which they failed.
    pub failed: Vec<(u64, EngineError)>,
    /// Whether there were too many failures, so that the remaining rows were not sent.
    pub stopped: bool,
    /// The greatest number of a row that was sent. Without batches, rows are sent in the order in
    /// which they were handed in.
    pub last_sent: Option<u64>,
    /// Row numbers and responses, in the order of the responses' arrival. `None` unless responses
    /// are kept.
    pub results: Option<Vec<(u64, Response)>>,
}

/// A window of requests over arenas that are handed in one after another.
pub struct Bulk {
    intake: Arc<Intake>,
    task: TaskHandle,
}

impl Bulk {
    pub fn start(
        runtime: &Runtime,
        session: Session,
        plan: BulkPlan,
        events: Box<dyn BulkEvents>,
    ) -> Bulk {
        let batches = plan.batches.clone().filter(|_| !plan.keep_results);
        let key = plan.prepared.partition_key();
        let batcher = batches.and_then(|batches| Batcher::new(batches, key));
        let intake = Arc::new(Intake::new(batcher));
        let taking = Arc::clone(&intake);
        let task = runtime.submit(async move {
            let BulkPlan { prepared, options, concurrency, max_failures, failures, .. } = plan;
            let BulkPlan { keep_results, pace, progress, .. } = plan;
            let is_repeatable = options.idempotent == Some(true);
            let patience = if is_repeatable { plan.patience } else { Duration::ZERO };
            let request = Arc::new(Request { session, prepared, options, keep_results });
            let send = move |rows| Arc::clone(&request).send(rows);
            let limits =
                window::Limits { concurrency, max_failures, failures, pace, patience, progress };
            let sending = window::send_all(taking, &*events, limits, keep_results, send);
            let outcome = sending.await;
            events.done(outcome);
        });
        Bulk { intake, task }
    }

    /// Hands in rows. Never blocks. To keep memory bounded, hand in one or two arenas at first, and
    /// then one for each [`wants_more`](BulkEvents::wants_more).
    pub fn push(&self, rows: RowBuffer, numbers: RowNumbers) {
        self.intake.push(rows, numbers);
    }

    /// The number of arenas handed in whose last row has not been sent.
    pub fn backlog(&self) -> usize {
        self.intake.backlog()
    }

    /// Announces that no further row will be handed in.
    pub fn finish(&self) {
        self.intake.finish();
    }

    /// Abandons all rows, in flight or not. There will be no outcome.
    pub fn abort(&self) {
        self.task.abort();
    }
}

impl Drop for Bulk {
    /// Aborts the bulk if [`Bulk::finish`] was not called. Otherwise its task would wait for
    /// further rows for ever.
    fn drop(&mut self) {
        if !self.intake.is_finished() {
            self.abort();
        }
    }
}

/// The parts that the requests of all rows share.
struct Request {
    session: Session,
    prepared: Arc<Prepared>,
    options: RequestOptions,
    keep_results: bool,
}

impl Request {
    async fn send(self: Arc<Self>, mut rows: Taken) -> Result<Option<Response>, EngineError> {
        let (session, options) = (&self.session, &self.options);
        let began = Instant::now();
        let (place, text) = (session.gate().line_up(), self.prepared.text());
        let mut permit = session.admitted(place, text, options, began).await?;
        rows.admitted();
        permit.weigh(rows.bytes());
        if rows.len() > 1 {
            return self.send_batch(rows, began).await;
        }
        let mut attempts = Attempts::idle();
        let Some(values) = rows.row(0) else {
            return Err(EngineError::new(ErrorKind::Internal, "executing: the row is gone"));
        };
        let mut bound = self.prepared.bind(values, options, session.profiles(), &mut attempts)?;
        drop(rows);
        let rest = session.rest("executing", options, began)?;
        if let Some(rest) = rest {
            bound.set_request_timeout(Some(rest.left));
        }
        let answer = session.engine().execute_bound_unpaged(&bound).await;
        self.prepared.note(&answer);
        let said = Said { doing: "executing", text: Text::One(text), rest, options };
        let result = answer.map_err(|error| session.failed(&said, error, &attempts))?;
        if !self.keep_results {
            return Ok(None);
        }
        let response = crate::seam::response(result, None, &self.prepared.recent);
        response.map(Some).map_err(|error| session.unreadable(&said, error, &attempts))
    }

    /// Sends rows of one partition as an unlogged batch: one write, with the retries of one.
    async fn send_batch(
        &self,
        rows: Taken,
        began: Instant,
    ) -> Result<Option<Response>, EngineError> {
        let (session, options, prepared) = (&self.session, &self.options, &self.prepared);
        prepared.check()?;
        let statements = (0..rows.len()).map(|_| prepared.handle().into()).collect();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        let attempts = Attempts::new(prepared.effect);
        options.apply(&mut batch, &attempts, session.profiles())?;
        let doing = "executing rows of one partition in a batch";
        let rest = session.rest(doing, options, began)?;
        if let Some(rest) = rest {
            batch.set_request_timeout(Some(rest.left));
        }
        let answer = session.engine().batch(&batch, BatchRows(rows)).await;
        prepared.note(&answer);
        let said = Said { doing, text: Text::One(prepared.text()), rest, options };
        answer.map(|_| None).map_err(|error| session.failed(&said, error, &attempts))
    }
}
