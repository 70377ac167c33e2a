//! Bulks: executes one statement with many rows, through a window of requests that is kept full.

mod intake;
mod outage;
mod pace;
mod partition;
mod progress;
mod suspects;
mod window;
mod written_table;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use scylla::statement::batch::{Batch, BatchType};
use turbocql_codec::{Cell, RowBuffer, RowRef};

use self::intake::{Intake, RequestRows};
pub use self::pace::Pace;
use self::partition::Batcher;
pub use self::partition::Batches;
pub use self::progress::{Progress, Snapshot};
use self::written_table::{
    Claim, Claims, ListState, WrittenList, changed, compare, hash_of, part_of, time_of,
};
pub use self::written_table::{ListRead, Lists, Time, Times, WrittenTable};
use crate::error::attempts::Attempts;
use crate::error::{EngineError, ErrorKind};
use crate::io::queue::TaskHandle;
use crate::io::runtime::Runtime;
use crate::request::subject::{Subject, Text};
use crate::session::{Session, delay_before_conditional_write, failed, unreadable};
use crate::statement::seam::{BatchRows, response};
use crate::statement::{Prepared, RequestOptions};
use crate::terms::Consistency;
use crate::terms::Response;

/// The statement of a bulk, its options and its limits.
pub struct BulkPlan {
    pub prepared: Arc<Prepared>,
    pub options: RequestOptions,
    /// The maximum number of requests in flight.
    pub concurrency: usize,
    /// When more rows than this have failed, no further row is sent.
    pub max_failures: usize,
    /// The number of failed rows. Rows that failed before they were handed in count too.
    pub failures: Arc<AtomicUsize>,
    /// Whether responses are kept. If so, a response with a further page is an error.
    pub keep_results: bool,
    pub pace: Pace,
    /// How rows of one partition are put into unlogged batches. The field is ignored if responses
    /// are kept, or if `WrittenTable::batches` is false.
    pub batches: Option<Batches>,
    /// How long a row is sent again after errors that may pass, if its request is declared
    /// idempotent or was not carried out. A row that is sent again counts as neither failed nor
    /// succeeded.
    pub patience: Duration,
    pub progress: Option<Arc<Progress>>,
    pub table: WrittenTable,
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
/// a call of [`completed`](BulkEvents::completed).
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
    /// The greatest number of a row that was taken to be sent. Without batches, rows are taken in
    /// the order in which they were handed in.
    pub last_sent: Option<u64>,
    /// Row numbers and responses, in the order of the responses' arrival. The field is `None`
    /// unless responses are kept.
    pub results: Option<Vec<(u64, Response)>>,
}

/// Sends the rows of arenas that are handed in one after another, through a window of requests.
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
            let BulkPlan { prepared, mut options, concurrency, max_failures, failures, .. } = plan;
            let BulkPlan { keep_results, pace, progress, table, .. } = plan;
            let is_repeatable = options.idempotent == Some(true);
            let patience = plan.patience;
            if table.lists.is_some() {
                // Only the window may send a row with lists again, with another write time.
                options.idempotent = Some(false);
            }
            // Two nodes may choose the same write time for two rows with one key. The stored row
            // would then be a mixture of these two rows.
            let mixes = table.lists.is_some() || session.nodes().len() > 1;
            let claims = (mixes && !table.key.is_empty()).then(Arc::<Claims>::default);
            let request =
                Arc::new(Request { session, prepared, options, keep_results, table, claims });
            let judge = Judge(Arc::clone(&request));
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

/// The parts that the requests of all rows share.
struct Request {
    session: Session,
    prepared: Arc<Prepared>,
    options: RequestOptions,
    keep_results: bool,
    table: WrittenTable,
    /// Set if two requests must not write one row at the same time.
    claims: Option<Arc<Claims>>,
}

impl Request {
    async fn send(self: Arc<Self>, mut rows: RequestRows) -> Result<Option<Response>, EngineError> {
        let (session, options) = (&self.session, &self.options);
        let began = Instant::now();
        let (position, text) = (session.gate().join_queue(), self.prepared.text());
        let mut permit = session.admitted(position, text, options, began).await?;
        rows.admitted();
        permit.weigh(rows.bytes());
        let counted = self.counted(&rows);
        if rows.len() > 1 {
            return self.send_batch(rows, counted, began).await;
        }
        let mut attempts = Attempts::idle();
        let gone = || EngineError::new(ErrorKind::Internal, "executing: the row is gone");
        let values = rows.row(0).ok_or_else(gone)?;
        let adjusted_row;
        let (values, time) =
            match self.adjusted_to_stored_lists(values, rows.attempt(), began).await? {
                Some(Sent { row, time }) => {
                    adjusted_row = row;
                    (adjusted_row.row(0).ok_or_else(gone)?, time)
                }
                None => (values, counted),
            };
        let mut bound = self.prepared.bind(values, options, session.profiles(), &mut attempts)?;
        drop(rows);
        if time.is_some() {
            bound.set_timestamp(time);
        }
        let time_left = session.time_left("executing", options, began)?;
        if let Some(time_left) = time_left {
            bound.set_request_timeout(Some(time_left.remaining));
        }
        if self.prepared.has_condition {
            let routes = session.profiles().routes(options.profile.as_deref());
            bound.set_load_balancing_policy(Some(routes.conditional()));
            delay_before_conditional_write(session).await;
        }
        let answer = session.engine().execute_bound_unpaged(&bound).await;
        self.prepared.note(&answer);
        let subject = Subject { doing: "executing", text: Text::One(text), time_left, options };
        let result = answer.map_err(|error| failed(session, &subject, error, &attempts))?;
        if !self.keep_results {
            return Ok(None);
        }
        let response = response(result, None, &self.prepared.recent);
        response.map(Some).map_err(|error| unreadable(session, &subject, error, &attempts))
    }

    /// Returns the write time of a request's rows if the times are [`Times::Counted`].
    fn counted(&self, rows: &RequestRows) -> Option<i64> {
        let Some(Lists { times: Times::Counted(first), .. }) = &self.table.lists else {
            return None;
        };
        let number = rows.rows().map(|(number, _)| number).max()?;
        Some(rows.time_from(first.saturating_add(number as i64)))
    }

    /// If the program has chosen the write time, reads the stored lists, and returns the row to
    /// send. In that row, lists that are stored already are unset. The row's time is increased
    /// until no different list is stored with that time.
    async fn adjusted_to_stored_lists(
        &self,
        row: RowRef<'_>,
        attempt: i64,
        began: Instant,
    ) -> Result<Option<Sent>, EngineError> {
        let Some(Lists { times: Times::Chosen { time, reads }, .. }) = &self.table.lists else {
            return Ok(None);
        };
        let Some(first) = time_of(*time, row) else { return Ok(None) };
        let options = RequestOptions { timestamp: None, ..self.options.clone() };
        let options = RequestOptions { consistency: readable(options.consistency), ..options };
        let row_cells: Vec<Cell<'_>> = row.cells().collect();
        let (mut unset, mut lists) = (Vec::new(), Vec::<WrittenList<'_>>::new());
        for read in reads {
            let is_set = |marker: usize| !matches!(row_cells.get(marker), Some(Cell::Unset) | None);
            if !read.lists.iter().any(|&marker| is_set(marker)) {
                continue;
            }
            let key = part_of(row, &read.key);
            let time_left = self.session.time_left("reading lists", &options, began)?;
            let options = RequestOptions {
                timeout: time_left.map(|time_left| Some(time_left.remaining)).or(options.timeout),
                ..options.clone()
            };
            let response = self.session.execute(&read.prepared, &key, &options, None).await?;
            let Some(page) = response.page.filter(|page| page.row_count > 0) else { continue };
            let unreadable =
                |_| EngineError::new(ErrorKind::Decode, "reading lists: not the bytes of lists");
            let mut cells = page.cells().map_err(unreadable)?;
            for &marker in &read.lists {
                let stored = cells.next_cell().map_err(unreadable)?.map(<[u8]>::to_vec);
                let times = cells.next_cell().map_err(unreadable)?.map(<[u8]>::to_vec);
                let written = match row_cells.get(marker) {
                    Some(Cell::Value(bytes)) => Some(*bytes),
                    Some(Cell::Null) => None,
                    Some(Cell::Unset) | None => continue,
                };
                lists.push(WrittenList { marker, written, stored, times });
            }
        }
        // An earlier attempt may still be carried out, so each attempt begins with a later time.
        let mut time_now = first.saturating_add(attempt);
        'times: loop {
            unset.clear();
            for list in &lists {
                let (stored, times) = (list.stored.as_deref(), list.times.as_deref());
                match compare(list.written, time_now, stored, times) {
                    Some(ListState::Free) => {}
                    Some(ListState::Same) => unset.push(list.marker),
                    Some(ListState::Conflict) if time_now < i64::MAX => {
                        time_now += 1;
                        continue 'times;
                    }
                    Some(ListState::Conflict) | None => {
                        let name =
                            self.prepared.markers().get(list.marker).map(|column| &*column.name);
                        let message = format!(
                            "column \"{}\": expected a write time that is left for a list, got \
                             {time_now}",
                            name.unwrap_or_default()
                        );
                        return Err(EngineError::new(ErrorKind::Encode, message));
                    }
                }
            }
            break;
        }
        Ok(Some(match *time {
            Time::Constant(_) => Sent { row: changed(row, &unset, None), time: Some(time_now) },
            Time::Marker(marker) => {
                Sent { row: changed(row, &unset, Some((marker, time_now))), time: None }
            }
        }))
    }

    /// Sends rows of one partition as an unlogged batch, which is retried like a single write.
    async fn send_batch(
        &self,
        rows: RequestRows,
        time: Option<i64>,
        began: Instant,
    ) -> Result<Option<Response>, EngineError> {
        let (session, options, prepared) = (&self.session, &self.options, &self.prepared);
        prepared.check()?;
        let statements = (0..rows.len()).map(|_| prepared.handle().into()).collect();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        let attempts = Attempts::new(prepared.effect);
        options.apply(&mut batch, &attempts, session.profiles())?;
        if time.is_some() {
            batch.set_timestamp(time);
        }
        let doing = "executing rows of one partition in a batch";
        let time_left = session.time_left(doing, options, began)?;
        if let Some(time_left) = time_left {
            batch.set_request_timeout(Some(time_left.remaining));
        }
        let answer = if self.table.statics.is_empty() {
            session.engine().batch(&batch, BatchRows(rows)).await
        } else {
            session.engine().batch(&batch, BatchRows(self.with_statics_once(&rows))).await
        };
        prepared.note(&answer);
        let subject = Subject { doing, text: Text::One(prepared.text()), time_left, options };
        answer.map(|_| None).map_err(|error| failed(session, &subject, error, &attempts))
    }

    /// Returns the rows of a batch, with the values of static columns only in the first row. These
    /// values are equal in all rows. A static list in every row would be written several times with
    /// one write time.
    fn with_statics_once(&self, rows: &RequestRows) -> RowBuffer {
        let mut once = RowBuffer::with_capacity(rows.bytes(), rows.len());
        for (nth, row) in (0..rows.len()).filter_map(|nth| Some((nth, rows.row(nth)?))) {
            if nth == 0 {
                once.push_row(row);
            } else if let Some(row) = changed(row, &self.table.statics, None).row(0) {
                once.push_row(row);
            }
        }
        once
    }
}

/// A row to send. `time` is its write time, unless the row contains the write time.
struct Sent {
    row: RowBuffer,
    time: Option<i64>,
}

/// Returns a consistency for reads: `ANY`, which is only for writes, becomes `ONE`.
fn readable(consistency: Option<Consistency>) -> Option<Consistency> {
    consistency.map(
        |consistency| if consistency == Consistency::Any { Consistency::One } else { consistency },
    )
}

/// Answers the window's questions about rows with the session and the statement.
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

    /// A row gets more tries if vectors have an index: the index may refuse a row that overwrites
    /// another row, and accept it later.
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
