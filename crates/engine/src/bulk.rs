//! Many rows through one statement: a window of requests, kept full.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use turbocql_codec::RowBuffer;

use crate::error::{EngineError, executing};
use crate::runtime::{Runtime, TaskHandle};
use crate::session::Session;
use crate::statement::{Prepared, RequestOptions};

/// Arenas that may wait without the caller being asked to hold back: one being sent, one ready.
const BACKLOG: usize = 2;

/// What is to be done with every row.
pub struct BulkPlan {
    pub prepared: Arc<Prepared>,
    pub options: RequestOptions,
    /// Requests in flight at the same time, at most.
    pub concurrency: usize,
    /// After more failures than this nothing further is sent.
    pub max_failures: usize,
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
    /// Fewer than two arenas wait: time for another.
    fn wants_more(&self);

    /// Every row has been answered, or given up.
    fn done(self: Box<Self>, outcome: BulkOutcome);
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BulkOutcome {
    pub succeeded: u64,
    /// Row numbers, in the order in which they failed.
    pub failed: Vec<(u64, EngineError)>,
    /// There were too many failures, and the rest was not sent.
    pub stopped: bool,
    /// The number of the last row sent. Rows are sent in the order in which they were handed in:
    /// none after it was.
    pub last_sent: Option<u64>,
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
        let intake = Arc::new(Intake { waiting: Mutex::default(), bell: Notify::new() });
        let task = runtime.submit({
            let intake = Arc::clone(&intake);
            async move {
                let outcome = send_all(&session, &plan, &intake, &*events).await;
                events.done(outcome);
            }
        });
        Bulk { intake, task }
    }

    /// Hands in rows. Never blocks: to keep memory bounded, wait for
    /// [`wants_more`](BulkEvents::wants_more) when two arenas are [waiting](Bulk::backlog).
    pub fn push(&self, rows: RowBuffer, numbers: RowNumbers) {
        let mut waiting = self.intake.waiting();
        waiting.arenas.push_back(Arena { rows, numbers });
        waiting.backlog += 1;
        drop(waiting);
        self.intake.bell.notify_one();
    }

    /// Arenas handed in whose last row has not been sent.
    pub fn backlog(&self) -> usize {
        self.intake.waiting().backlog
    }

    /// Nothing more will be handed in.
    pub fn finish(&self) {
        self.intake.waiting().finished = true;
        self.intake.bell.notify_one();
    }

    /// Gives up on everything, in flight or not; there will be no outcome.
    pub fn abort(&self) {
        self.task.abort();
    }
}

struct Intake {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Default)]
struct Waiting {
    arenas: VecDeque<Arena>,
    /// Those, and the one being sent.
    backlog: usize,
    finished: bool,
}

struct Arena {
    rows: RowBuffer,
    numbers: RowNumbers,
}

impl Arena {
    fn number(&self, index: usize) -> u64 {
        match &self.numbers {
            RowNumbers::From(first) => first + index as u64,
            // A missing number would be the caller's mistake; the position is the best guess.
            RowNumbers::Each(numbers) => numbers.get(index).copied().unwrap_or(index as u64),
        }
    }
}

impl Intake {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The arena being sent, and how far.
struct Cursor<'a> {
    intake: &'a Intake,
    events: &'a dyn BulkEvents,
    arena: Option<Arena>,
    next: usize,
}

enum Step {
    /// The index of the next row in the arena.
    Row(usize),
    /// Nothing now, but more may come.
    Wait,
    End,
}

impl Cursor<'_> {
    fn step(&mut self) -> Step {
        loop {
            if let Some(arena) = &self.arena {
                if self.next < arena.rows.len() {
                    self.next += 1;
                    return Step::Row(self.next - 1);
                }
                self.arena = None;
                let backlog = {
                    let mut waiting = self.intake.waiting();
                    waiting.backlog -= 1;
                    waiting.backlog
                };
                if backlog < BACKLOG {
                    self.events.wants_more();
                }
            }
            let mut waiting = self.intake.waiting();
            match waiting.arenas.pop_front() {
                Some(arena) => (self.arena, self.next) = (Some(arena), 0),
                None if waiting.finished => return Step::End,
                None => return Step::Wait,
            }
        }
    }
}

async fn send_all(
    session: &Session,
    plan: &BulkPlan,
    intake: &Intake,
    events: &dyn BulkEvents,
) -> BulkOutcome {
    let mut outcome = BulkOutcome::default();
    let mut cursor = Cursor { intake, events, arena: None, next: 0 };
    let mut window = FuturesUnordered::new();
    let concurrency = plan.concurrency.max(1);
    loop {
        let mut last = Step::Wait;
        while window.len() < concurrency && !outcome.stopped {
            last = cursor.step();
            let Step::Row(index) = last else { break };
            let Some(arena) = &cursor.arena else { break };
            let Some(row) = arena.rows.row(index) else { break };
            let number = arena.number(index);
            outcome.last_sent = Some(number);
            match plan.prepared.bind(row, &plan.options) {
                Ok((bound, attempts)) => window.push(async move {
                    let answer = session.engine().execute_bound_unpaged(&bound).await;
                    let answer = answer.map_err(|e| executing("executing", &e, &attempts));
                    (number, answer.map(drop))
                }),
                Err(error) => outcome.note(number, Err(error), plan.max_failures),
            }
        }
        if window.is_empty() {
            if outcome.stopped || matches!(last, Step::End) {
                break;
            }
            intake.bell.notified().await;
            continue;
        }
        let full = window.len() >= concurrency || outcome.stopped || matches!(last, Step::End);
        tokio::select! {
            biased;
            Some((number, result)) = window.next() => {
                outcome.note(number, result, plan.max_failures);
            }
            () = intake.bell.notified(), if !full => {}
        }
    }
    outcome
}

impl BulkOutcome {
    fn note(&mut self, number: u64, result: Result<(), EngineError>, max_failures: usize) {
        match result {
            Ok(()) => self.succeeded += 1,
            Err(error) => {
                self.failed.push((number, error));
                self.stopped = self.failed.len() > max_failures;
            }
        }
    }
}
