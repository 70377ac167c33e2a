//! Many rows through one statement: a window of requests, kept full.

mod intake;
mod window;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use turbocql_codec::RowBuffer;

use self::intake::{Intake, Taken};
use crate::attempts::Attempts;
use crate::error::{EngineError, ErrorKind, executing};
use crate::runtime::{Runtime, TaskHandle};
use crate::session::{Response, Session};
use crate::statement::{Prepared, RequestOptions};

/// What is to be done with every row.
pub struct BulkPlan {
    pub prepared: Arc<Prepared>,
    pub options: RequestOptions,
    /// Requests in flight at the same time, at most.
    pub concurrency: usize,
    /// After more failures than this nothing further is sent.
    pub max_failures: usize,
    /// Rows that have failed, here or before they came here.
    pub failures: Arc<AtomicUsize>,
    /// Whether answers are kept: then none may have a further page.
    pub keep_results: bool,
}

/// Which rows of the caller's an arena holds. A row that could not be encoded is left out, so the
/// numbers may have gaps.
#[derive(Clone, Debug)]
pub enum RowNumbers {
    /// Consecutive, from this one on.
    From(u64),
    /// One for each row of the arena.
    Each(Vec<u64>),
}

/// What the caller is told, on the I/O thread. When a bulk is aborted, the events are dropped
/// without [`done`](BulkEvents::done).
pub trait BulkEvents: Send + Sync {
    /// There is room for one more arena. Two are wanted at a time: one being sent, and one ready
    /// to follow it.
    fn wants_more(&self);

    /// Every row has been answered, or given up. What a statement answered with is not kept: a
    /// conditional update that was not applied has succeeded here.
    fn done(self: Box<Self>, outcome: BulkOutcome);
}

#[derive(Clone, Debug, Default)]
pub struct BulkOutcome {
    pub succeeded: u64,
    /// Row numbers, in the order in which they failed.
    pub failed: Vec<(u64, EngineError)>,
    /// There were too many failures, and the rest was not sent.
    pub stopped: bool,
    /// The number of the last row sent. Rows are sent in the order in which they were handed in:
    /// none after it was.
    pub last_sent: Option<u64>,
    /// What the rows were answered with, in the order in which they were; where that is kept.
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
        let intake = Arc::new(Intake::new());
        let taking = Arc::clone(&intake);
        let task = runtime.submit(async move {
            let BulkPlan { prepared, options, concurrency, max_failures, failures, keep_results } =
                plan;
            let request = Arc::new(Request { session, prepared, options, keep_results });
            let send = move |row| Arc::clone(&request).send(row);
            let limits = window::Limits { concurrency, max_failures, failures };
            let sending = window::send_all(taking, &*events, limits, keep_results, send);
            let outcome = sending.await;
            events.done(outcome);
        });
        Bulk { intake, task }
    }

    /// Hands in rows. Never blocks: to keep memory bounded, hand in one or two arenas to begin
    /// with and then one for each [`wants_more`](BulkEvents::wants_more).
    pub fn push(&self, rows: RowBuffer, numbers: RowNumbers) {
        self.intake.push(rows, numbers);
    }

    /// Arenas handed in whose last row has not been sent.
    pub fn backlog(&self) -> usize {
        self.intake.backlog()
    }

    /// Nothing more will be handed in.
    pub fn finish(&self) {
        self.intake.finish();
    }

    /// Gives up on everything, in flight or not; there will be no outcome.
    pub fn abort(&self) {
        self.task.abort();
    }
}

impl Drop for Bulk {
    /// A bulk that is let go before its end was announced would wait for ever.
    fn drop(&mut self) {
        if !self.intake.is_finished() {
            self.abort();
        }
    }
}

/// What every row is sent with.
struct Request {
    session: Session,
    prepared: Arc<Prepared>,
    options: RequestOptions,
    keep_results: bool,
}

impl Request {
    async fn send(self: Arc<Self>, row: Taken) -> Result<Option<Response>, EngineError> {
        let mut attempts = Attempts::idle();
        let Some(values) = row.row() else {
            return Err(EngineError::new(ErrorKind::Internal, "executing: the row is gone"));
        };
        let profiles = self.session.profiles();
        let bound = self.prepared.bind(values, &self.options, profiles, &mut attempts)?;
        drop(row);
        let answer = self.session.engine().execute_bound_unpaged(&bound).await;
        let result = answer.map_err(|error| executing("executing", &error, &attempts))?;
        if !self.keep_results {
            return Ok(None);
        }
        crate::seam::response(result, None, &self.prepared.recent).map(Some)
    }
}
