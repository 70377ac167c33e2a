//! The models, and the requests and events that they share.

mod gate;
mod lanes;
mod op;
mod queue;
mod remaining;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::lanes::{Sending, Ticket};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex};
use crate::{EngineError, Prepared, Request, RequestOptions, Response, RowBuffer, Session};

/// An event that happens once. `wait` has no time limit, so loom reports a deadlock if the event
/// never happens.
#[derive(Default)]
struct Event {
    happened: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    fn set(&self) {
        *self.happened.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut happened = self.happened.lock().unwrap();
        while !*happened {
            happened = self.changed.wait(happened).unwrap();
        }
    }
}

/// A request that counts its answers.
struct Asked {
    session: Session,
    prepared: Arc<Prepared>,
    row: RowBuffer,
    options: RequestOptions,
    ticket: Ticket,
    /// The number of answers.
    answers: AtomicUsize,
    /// The number of answers that are `None`: the request was dropped before an answer arrived.
    failed: AtomicUsize,
    answered: Event,
}

impl Asked {
    /// Makes a request that the server answers when [`Session::answer`] is called.
    fn new() -> Arc<Asked> {
        Arc::new(Asked {
            session: Session::default(),
            prepared: Arc::new(Prepared),
            row: RowBuffer,
            options: RequestOptions,
            ticket: Ticket::default(),
            answers: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            answered: Event::default(),
        })
    }

    /// Makes a request that the server answers at once.
    fn quick() -> Arc<Asked> {
        let asked = Asked::new();
        asked.session.answer();
        asked
    }

    fn answers(&self) -> usize {
        self.answers.load(Ordering::Acquire)
    }

    fn failed(&self) -> usize {
        self.failed.load(Ordering::Acquire)
    }
}

impl Sending for Asked {
    fn request(&self) -> Request<'_> {
        let (session, prepared, row) = (&self.session, &self.prepared, &self.row);
        Request { session, prepared, row, options: &self.options, began: None }
    }

    fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    fn answered(self: Arc<Self>, answer: Option<Result<Response, EngineError>>) {
        if answer.is_none() {
            self.failed.fetch_add(1, Ordering::AcqRel);
        }
        let before = self.answers.fetch_add(1, Ordering::AcqRel);
        assert_eq!(before, 0, "answered twice");
        self.answered.set();
    }
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
