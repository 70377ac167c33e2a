//! Runs requests on lanes: tokio tasks that each run one request after another.
//!
//! The future of a request is several kilobytes large. A lane has room for one such future, and
//! keeps it from request to request. So a request needs no allocation of that size, and no new
//! task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use futures::task::AtomicWaker;

use crate::error::EngineError;
use crate::error::attempts::Attempts;
use crate::session::{Request, execute};
use crate::terms::Response;

/// A request and the receiver of its answer.
pub trait Sending: Send + Sync {
    fn request(&self) -> Request<'_>;

    fn ticket(&self) -> &Ticket;

    /// Called once, unless the request is cancelled. `answer` is `None` if there will be no answer,
    /// because the runtime has ended or the request panicked. Called on the I/O thread, or, if the
    /// runtime has been shut down, on the thread that submits the request.
    fn answered(self: Arc<Self>, answer: Option<Result<Response, EngineError>>);
}

/// Cancels a request.
#[derive(Debug, Default)]
pub struct Ticket {
    cancelled: AtomicBool,
    lane: AtomicWaker,
}

impl Ticket {
    /// Makes the I/O thread drop the request when it next runs the lane. A request that is answered
    /// already is not affected.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.lane.wake();
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// A request. If it is dropped before its answer arrives, it is answered with `None`.
pub(crate) struct Job(Option<Arc<dyn Sending>>);

impl Job {
    pub(crate) fn new(sending: Arc<dyn Sending>) -> Job {
        Job(Some(sending))
    }

    async fn run(mut self, attempts: &mut Arc<Attempts>) {
        let Some(sending) = &self.0 else { return };
        let answer = {
            let (ticket, request) = (sending.ticket(), sending.request());
            let mut answer = pin!(execute(&request, None, attempts));
            poll_fn(|context| {
                if ticket.is_cancelled() {
                    return Poll::Ready(None);
                }
                if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                    return Poll::Ready(Some(answer));
                }
                ticket.lane.register(context.waker());
                if ticket.is_cancelled() { Poll::Ready(None) } else { Poll::Pending }
            })
            .await
        };
        // A cancelled request is not answered: it has no receiver any more.
        if let (Some(sending), Some(answer)) = (self.0.take(), answer) {
            sending.answered(Some(answer));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(sending) = self.0.take() {
            sending.answered(None);
        }
    }
}

/// The maximum number of lanes that wait for work. A lane ends after its request if this many lanes
/// are already waiting.
const IDLE: usize = 512;

/// The lanes of a runtime.
#[derive(Default)]
pub(crate) struct Lanes {
    idle: Mutex<Vec<Arc<Seat>>>,
}

/// The place from which a waiting lane takes its next request.
#[derive(Default)]
struct Seat {
    job: Mutex<Option<Job>>,
    lane: AtomicWaker,
}

impl Seat {
    fn job(&self) -> MutexGuard<'_, Option<Job>> {
        self.job.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Lanes {
    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Hands a request to a waiting lane. Returns the request if no lane waits.
    pub(crate) fn hand(&self, job: Job) -> Option<Job> {
        let Some(seat) = self.idle().pop() else { return Some(job) };
        *seat.job() = Some(job);
        seat.lane.wake();
        None
    }

    /// Drops the seats of the waiting lanes, which have ended with their runtime.
    pub(crate) fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    /// Adds a lane to the waiting lanes if these are fewer than [`IDLE`]. Returns whether the lane
    /// was added.
    fn keep(&self, seat: &Arc<Seat>) -> bool {
        let mut idle = self.idle();
        let keep = idle.len() < IDLE;
        if keep {
            idle.push(Arc::clone(seat));
        }
        keep
    }

    /// Runs a new lane, beginning with the request `first`. Calls `ended` after each request.
    pub(crate) async fn lane(&self, first: Job, ended: impl Fn()) {
        let seat = Arc::<Seat>::default();
        let mut attempts = Attempts::idle();
        let mut job = first;
        loop {
            let counted = OnDrop(&ended);
            job.run(&mut attempts).await;
            attempts.close();
            drop(counted);
            if !self.keep(&seat) {
                return;
            }
            job = poll_fn(|context| {
                if let Some(job) = seat.job().take() {
                    return Poll::Ready(job);
                }
                seat.lane.register(context.waker());
                seat.job().take().map_or(Poll::Pending, Poll::Ready)
            })
            .await;
        }
    }
}

/// Calls the function on drop, so that it also runs if a request panics or the runtime ends.
struct OnDrop<'a, F: Fn()>(&'a F);

impl<F: Fn()> Drop for OnDrop<'_, F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
