//! A bulk (`execute_many`) executes one statement with many rows, and keeps several requests in
//! flight.

mod intake;
mod outage;
mod pace;
mod partition;
mod progress;
mod request;
mod suspects;
mod window;
mod written_table;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use turbocql_codec::RowBuffer;

use self::intake::{Intake, RequestRows};
pub use self::pace::Pace;
use self::partition::Batcher;
pub use self::partition::Batches;
pub use self::progress::{Progress, Snapshot};
use self::request::{Reporting, Request, readable};
use self::written_table::{Claim, Claims, hash_of, part_of};
pub use self::written_table::{ListRead, Lists, Time, Times, WrittenTable};
use crate::error::EngineError;
use crate::io::queue::TaskHandle;
use crate::io::runtime::Runtime;
use crate::session::Session;
use crate::statement::{Prepared, RequestOptions};
use crate::terms::Response;

/// The statement of a bulk, its options and its limits.
pub struct BulkPlan {
    pub prepared: Arc<Prepared>,
    pub options: RequestOptions,
    /// The maximum number of requests in flight.
    pub concurrency: usize,
    /// When more rows than this have failed, no further row is sent.
    pub max_failures: usize,
    /// The number of failed rows, including rows that failed before they reached the bulk.
    pub failures: Arc<AtomicUsize>,
    /// Whether responses are kept. If so, a response that is not the last page of its result is an
    /// error.
    pub keep_results: bool,
    pub pace: Pace,
    /// How rows of one partition are put into unlogged batches. The field is ignored if responses
    /// are kept, or if `WrittenTable::batches` returns false.
    pub batches: Option<Batches>,
    /// For how long a row is sent again after transient errors ([`EngineError::may_pass`]), if its
    /// request is declared idempotent or was not carried out. A row that is sent again counts as
    /// neither failed nor succeeded.
    pub patience: Duration,
    pub progress: Option<Arc<Progress>>,
    pub table: WrittenTable,
}

/// The caller's numbers of the rows in an arena (a buffer of encoded rows). A row that could not be
/// encoded is not in the arena, so the numbers may have gaps.
#[derive(Clone, Debug)]
pub enum RowNumbers {
    /// Consecutive numbers, beginning with this one.
    From(u64),
    /// One number for each row of the arena.
    Each(Vec<u64>),
}

/// The caller's callbacks, called on the I/O thread. If a bulk is aborted, its `BulkEvents` object
/// is dropped without a call of [`completed`](BulkEvents::completed).
pub trait BulkEvents: Send + Sync {
    /// Called when there is room for one more arena. Up to two arenas are kept: one whose rows are
    /// being sent, and one to follow it.
    fn wants_more(&self);

    /// Called when every row that was sent has succeeded or failed, and no further row will be
    /// sent. Responses are not examined: a conditional update that was not applied counts as
    /// succeeded.
    fn completed(self: Box<Self>, outcome: BulkOutcome);
}

#[derive(Clone, Debug, Default)]
pub struct BulkOutcome {
    pub succeeded: u64,
    /// The numbers and errors of failed rows, in the order in which they failed.
    pub failed: Vec<(u64, EngineError)>,
    /// Whether too many rows failed, or the bulk was stopped. Then no further row was sent.
    pub stopped: bool,
    /// The greatest row number among the rows that were taken to be sent. Without batches, rows are
    /// taken in the order in which they were handed in.
    pub last_sent: Option<u64>,
    /// Row numbers and responses, in the order of the responses' arrival. The field is `None`
    /// unless responses are kept.
    pub results: Option<Vec<(u64, Response)>>,
}

/// Sends the rows of arenas, which the caller hands in one after another.
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
        let batches = plan.batches.clone().filter(|_| !plan.keep_results && plan.table.batches());
        let key = plan.prepared.partition_key();
        let batcher = batches.and_then(|batches| Batcher::new(batches, key));
        let intake = Arc::new(Intake::new(batcher));
        let (taking, draining) = (Arc::clone(&intake), runtime.draining());
        let task = runtime.submit(async move {
            let began = Instant::now();
            let BulkPlan { prepared, mut options, concurrency, max_failures, failures, .. } = plan;
            let BulkPlan { keep_results, pace, progress, table, .. } = plan;
            let is_repeatable = options.idempotent == Some(true);
            let patience = plan.patience;
            if table.lists.is_some() {
                // The ScyllaDB driver must not retry a row with lists. Only `window.rs` retries it,
                // with a later write time.
                options.idempotent = Some(false);
            }
            // A claim keeps other requests from writing rows with the same key at the same time.
            // Claims are needed in two cases. With lists, the write of a row depends on the earlier
            // writes of its key ([`Times`]). With several nodes, two nodes may choose the same
            // write time for two rows with the same key, and the stored row would then be a mixture
            // of the two.
            let mixes = table.lists.is_some() || session.nodes().len() > 1;
            let claims = (mixes && !table.key.is_empty()).then(Arc::<Claims>::default);
            let request =
                Arc::new(Request { session, prepared, options, keep_results, table, claims });
            let judge = Judge(Arc::clone(&request));
            let reporting = Reporting {
                request: Arc::clone(&request),
                began,
                progress: progress.clone(),
                has_ended: false,
            };
            let send = move |rows| Arc::clone(&request).send(rows);
            let limits = window::Limits {
                concurrency,
                max_failures,
                failures,
                pace,
                patience,
                is_repeatable,
                progress,
                draining: Some(draining),
            };
            let sending =
                window::send_all(taking, &*events, limits, keep_results, Arc::new(judge), send);
            let outcome = sending.await;
            reporting.ended(&outcome);
            events.completed(outcome);
        });
        Bulk { intake, task }
    }

    /// Hands in an arena of rows without blocking. To keep memory bounded, hand in one or two
    /// arenas at first, and then one for each [`wants_more`](BulkEvents::wants_more).
    pub fn push(&self, rows: RowBuffer, numbers: RowNumbers) {
        self.intake.push(rows, numbers);
    }

    /// The number of arenas that are kept. An arena is kept until the bulk looks for a row after
    /// the arena's last row.
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
    /// Aborts the bulk if [`Bulk::finish`] was not called. Without the abort, the bulk's task would
    /// wait for further rows for ever.
    fn drop(&mut self) {
        if !self.intake.is_finished() {
            self.abort();
        }
    }
}

/// Answers the questions that `window.rs` asks about rows. Uses the session and the statement.
struct Judge(Arc<Request>);

impl window::Judge for Judge {
    fn claim(&self, rows: &RequestRows) -> Option<BoxFuture<'static, Claim>> {
        let claims = Arc::clone(self.0.claims.as_ref()?);
        let rows_of_request = (0..rows.len()).filter_map(|nth| rows.row(nth));
        let keys = rows_of_request.map(|row| hash_of(row, &self.0.table.key)).collect();
        Some(Box::pin(async move { claims.claim(keys).await }))
    }

    fn replicas(&self, rows: &RequestRows) -> Vec<[u8; 16]> {
        let Request { session, prepared, .. } = &*self.0;
        let token = rows.row(0).and_then(|row| prepared.token(row));
        let (Some(token), Some(keyspace), Some(table)) =
            (token, prepared.keyspace(), prepared.table())
        else {
            return Vec::new();
        };
        let replicas = session.replicas(keyspace, table, token);
        let mut hosts: Vec<[u8; 16]> = replicas.into_iter().map(|(host, _)| host).collect();
        hosts.sort_unstable();
        hosts
    }

    fn blame(&self, rows: &RequestRows, error: &EngineError) -> Option<EngineError> {
        let Request { session, prepared, .. } = &*self.0;
        WrittenTable::blame(prepared.markers(), rows.row(0)?, error, session.hides())
    }

    /// A row gets 8 tries instead of 3 if vectors have an index: the index may refuse a row that
    /// overwrites another row, and accept the same row later.
    fn tries(&self) -> usize {
        if self.0.table.has_indexes { 8 } else { 3 }
    }

    fn probe(&self, rows: &RequestRows) -> BoxFuture<'static, bool> {
        let request = Arc::clone(&self.0);
        let row = request.table.probe.as_ref().zip(rows.row(0));
        let row = row.map(|((_, key), row)| part_of(row, key));
        Box::pin(async move {
            let (Some((text, _)), Some(row)) = (&request.table.probe, row) else { return false };
            let (session, began) = (&request.session, Instant::now());
            let options = RequestOptions {
                timestamp: None,
                consistency: readable(request.options.consistency),
                idempotent: None,
                ..request.options.clone()
            };
            let Ok(prepared) = session.prepare(text, &options, began).await else { return false };
            session.execute(&prepared, &row, &options, None).await.is_ok()
        })
    }
}
