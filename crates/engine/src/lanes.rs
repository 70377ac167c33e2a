//! Requests one after another through the same few futures.
//!
//! The future of a request is some kilobytes large. A lane is a task that has room for one of them
//! and keeps it: a request costs no allocation of that size, and no new task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use futures::task::AtomicWaker;
use turbocql_codec::RowBuffer;

use crate::attempts::Attempts;
use crate::error::EngineError;
use crate::session::{Response, Session};
use crate::statement::{Prepared, RequestOptions};

/// A request and whoever wants to know its answer.
pub trait Sending: Send + Sync {
    fn request(&self) -> Request<'_>;

    fn ticket(&self) -> &Ticket;

    /// Called on the I/O thread, once; unless the request is cancelled. `None` when there will be no
    /// answer, because the runtime ended or the engine panicked.
    fn answered(self: Arc<Self>, answer: Option<Result<Response, EngineError>>);
}

/// What [`Session::execute`] takes.
pub struct Request<'a> {
    pub session: &'a Session,
    pub prepared: &'a Arc<Prepared>,
    pub row: &'a RowBuffer,
    pub options: &'a RequestOptions,
}

/// By which a request can be cancelled.
#[derive(Debug, Default)]
pub struct Ticket {
    cancelled: AtomicBool,
    lane: AtomicWaker,
}

impl Ticket {
    /// Drops the request as soon as the I/O thread gets to it; no effect once it is answered.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.lane.wake();
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// A request that is to be answered, come what may.
pub(crate) struct Job(Option<Arc<dyn Sending>>);

impl Job {
    pub(crate) fn new(sending: Arc<dyn Sending>) -> Job {
        Job(Some(sending))
    }

    async fn run(mut self, attempts: &mut Arc<Attempts>) {
        let Some(sending) = &self.0 else { return };
        let answer = {
            let (ticket, Request { session, prepared, row, options }) =
                (sending.ticket(), sending.request());
            let mut answer = pin!(session.execute_noting(prepared, row, options, None, attempts));
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
        // A cancelled one is nobody's any more.
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

/// Lanes that wait for work. More than these are not kept.
const IDLE: usize = 512;

/// The lanes of a runtime.
#[derive(Default)]
pub(crate) struct Lanes {
    idle: Mutex<Vec<Arc<Seat>>>,
}

/// Where a waiting lane finds its next request.
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

    /// Gives a request to a lane that waits; gives it back when there is none.
    pub(crate) fn hand(&self, job: Job) -> Option<Job> {
        let Some(seat) = self.idle().pop() else { return Some(job) };
        *seat.job() = Some(job);
        seat.lane.wake();
        None
    }

    /// Lets go of the lanes that wait, which have ended with their runtime.
    pub(crate) fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }

    /// Whether a lane is to wait.
    fn keep(&self, seat: &Arc<Seat>) -> bool {
        let mut idle = self.idle();
        let keep = idle.len() < IDLE;
        if keep {
            idle.push(Arc::clone(seat));
        }
        keep
    }

    /// A new lane, which begins with this request and calls `ended` after each.
    pub(crate) async fn lane(&self, first: Job, ended: impl Fn()) {
        let seat = Arc::<Seat>::default();
        let mut attempts = Attempts::idle();
        let mut job = first;
        loop {
            let counted = OnDrop(&ended);
            job.run(&mut attempts).await;
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

/// Also when a request panics, or the runtime ends under it.
struct OnDrop<'a, F: Fn()>(&'a F);

impl<F: Fn()> Drop for OnDrop<'_, F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
