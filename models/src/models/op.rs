//! Models of `OpState`, the state of an operation, and of `LoopQueue`, the completion queue of an
//! event loop. A completion is delivered exactly once, to a thread, a greenlet or an event
//! loop, and a permit is released once.

use loom::thread;

use super::Event;
use crate::gate::Gate;
use crate::interleaved;
use crate::op::awaiting::OpAwait;
use crate::op::bridge::{Asking, LoopQueue, counts_change};
use crate::op::execution::{Execution, Origin, Row};
use crate::op::{Arrival, Next, OpState, Step, wait, wait_in_hub};
use crate::stand_ins::python::{Py, PyAny, PyErr, PyResult, Python};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};
use crate::{EngineError, Prepared, RequestOptions, Response, RowBuffer, Runtime, Session};

/// The last step of an operation. It counts the arrivals that it handles.
#[derive(Clone, Default)]
struct Last(Arc<AtomicUsize>);

impl Last {
    fn handled(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Step for Last {
    fn arrived(
        self: Box<Self>,
        _: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        self.0.fetch_add(1, Ordering::AcqRel);
        arrival.map(|_| Next::Done(Py(Arc::new(PyAny)))).map_err(|_| PyErr)
    }
}

/// The first of two steps. It sets an event. The I/O thread waits for the event before it makes the
/// second completion.
struct First(Last, Arc<Event>);

impl Step for First {
    fn arrived(
        self: Box<Self>,
        _: Python<'_>,
        _: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        self.1.set();
        Ok(Next::Again(Box::new(self.0)))
    }
}

/// Makes an operation that holds the only permit of its gate.
fn operation() -> (Arc<OpState>, Last, Arc<Gate>) {
    let (last, gate) = (Last::default(), Gate::new(1, 100));
    let op = OpState::new(Box::new(last.clone()));
    op.hold(gate.try_enter().unwrap());
    (op, last, gate)
}

fn answer(op: &Arc<OpState>) -> thread::JoinHandle<()> {
    let op = op.clone();
    thread::spawn(move || op.arrive(Ok(Arrival::Response(Response))))
}

#[test]
fn a_thread_waits() {
    interleaved(|| {
        let (op, last, gate) = operation();
        let io = answer(&op);
        assert!(wait(&op).is_ok());
        io.join().unwrap();
        assert_eq!(last.handled(), 1);
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
        assert!(op.outcome().is_err(), "the result is taken");
    });
}

#[test]
fn a_thread_waits_for_two_completions() {
    interleaved(|| {
        let (last, more) = (Last::default(), Arc::<Event>::default());
        let op = OpState::new(Box::new(First(last.clone(), more.clone())));
        let io = thread::spawn({
            let op = op.clone();
            move || {
                op.arrive(Ok(Arrival::Prepared(Vec::new())));
                more.wait();
                op.arrive(Ok(Arrival::Response(Response)));
            }
        });
        assert!(wait(&op).is_ok());
        io.join().unwrap();
        assert_eq!(last.handled(), 1);
    });
}

#[test]
fn a_greenlet_waits() {
    interleaved(|| {
        let (op, last, gate) = operation();
        let io = answer(&op);
        assert!(wait_in_hub(&op).is_ok());
        io.join().unwrap();
        assert_eq!(last.handled(), 1);
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
    });
}

/// Another thread abandons the operation while a greenlet waits for it.
#[test]
fn a_greenlet_waits_for_an_abandoned_operation() {
    interleaved(|| {
        let (op, last, gate) = operation();
        let other = thread::spawn({
            let op = op.clone();
            move || op.abandon()
        });
        assert!(wait_in_hub(&op).is_err());
        other.join().unwrap();
        assert_eq!(last.handled(), 0);
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
    });
}

#[test]
fn an_event_loop_waits() {
    interleaved(|| {
        let (op, last, gate) = operation();
        let io = answer(&op);
        let (queue, task) = (LoopQueue::watched(), Arc::<OpAwait>::default());
        op.await_by(&queue, Py(task.clone()));
        while task.finished() == 0 {
            queue.round();
        }
        assert!(op.outcome().is_ok());
        io.join().unwrap();
        queue.handle();
        assert_eq!((task.finished(), last.handled()), (1, 1));
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
    });
}

#[test]
fn an_event_loop_waits_for_two() {
    interleaved(|| {
        let (ops, lasts): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let last = Last::default();
                (OpState::new(Box::new(last.clone())), last)
            })
            .unzip();
        let (queue, tasks) = (LoopQueue::watched(), [(); 2].map(|()| Arc::<OpAwait>::default()));
        for (op, task) in ops.iter().zip(&tasks) {
            op.await_by(&queue, Py(task.clone()));
        }
        let io = thread::spawn(move || {
            ops.iter().for_each(|op| op.arrive(Ok(Arrival::Response(Response))));
        });
        while tasks.iter().any(|task| task.finished() == 0) {
            queue.round();
        }
        io.join().unwrap();
        queue.handle();
        assert!(tasks.iter().all(|task| task.finished() == 1));
        assert!(lasts.iter().all(|last| last.handled() == 1));
    });
}

#[test]
fn an_event_loop_waits_for_two_completions() {
    interleaved(|| {
        let (last, more) = (Last::default(), Arc::<Event>::default());
        let op = OpState::new(Box::new(First(last.clone(), more.clone())));
        let io = thread::spawn({
            let op = op.clone();
            move || {
                op.arrive(Ok(Arrival::Prepared(Vec::new())));
                more.wait();
                op.arrive(Ok(Arrival::Response(Response)));
            }
        });
        let (queue, task) = (LoopQueue::watched(), Arc::<OpAwait>::default());
        op.await_by(&queue, Py(task.clone()));
        while task.finished() == 0 {
            queue.round();
        }
        io.join().unwrap();
        queue.handle();
        assert_eq!((task.finished(), last.handled()), (1, 1));
    });
}

#[test]
fn an_operation_is_abandoned() {
    interleaved(|| {
        let (op, last, gate) = operation();
        let (queue, task) = (LoopQueue::watched(), Arc::<OpAwait>::default());
        op.await_by(&queue, Py(task.clone()));
        let io = answer(&op);
        op.abandon();
        io.join().unwrap();
        queue.handle();
        assert_eq!((task.finished(), last.handled()), (0, 0));
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
        assert!(op.outcome().is_err());
    });
}

/// The event loop is closed, and releases its queue, while the answer arrives.
#[test]
fn an_event_loop_goes() {
    interleaved(|| {
        let (op, last, gate) = operation();
        let (queue, task) = (LoopQueue::watched(), Arc::<OpAwait>::default());
        op.await_by(&queue, Py(task.clone()));
        let io = thread::spawn({
            let op = op.clone();
            move || {
                op.arrive(Ok(Arrival::Response(Response)));
                counts_change();
            }
        });
        counts_change();
        drop(queue);
        io.join().unwrap();
        assert_eq!((task.finished(), last.handled()), (0, 0));
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
        assert_eq!(Arc::strong_count(&last.0), 1, "the operation was never abandoned");
    });
}

/// The session and the runtime of a request. It sets its event when it is dropped, which happens
/// when nothing refers to the operation any more.
struct From(Session, Runtime, Arc<Event>);

impl Origin for From {
    fn engine(&self) -> &Session {
        &self.0
    }

    fn runtime(&self) -> &Runtime {
        &self.1
    }
}

impl Drop for From {
    fn drop(&mut self) {
        self.2.set();
    }
}

/// Executes a request through the I/O thread's queue and a lane. If `answered` is true, the server
/// answers at once, otherwise never. Returns an event that is set when the operation is freed.
fn executed(runtime: &Runtime, op: &Arc<OpState>, answered: bool) -> Arc<Event> {
    let freed = Arc::<Event>::default();
    let session = Session::default();
    if answered {
        session.answer();
    }
    op.execute(Execution {
        session: Arc::new(From(session, runtime.clone(), freed.clone())),
        prepared: Arc::new(Prepared),
        row: Row::Own(RowBuffer),
        options: RequestOptions,
        began: None,
    });
    freed
}

#[test]
fn a_thread_waits_for_the_engine() {
    interleaved(|| {
        let (runtime, (op, last, gate)) = (Runtime::start(false, true), operation());
        drop(executed(&runtime, &op, true));
        assert!(wait(&op).is_ok());
        runtime.shutdown();
        assert_eq!((last.handled(), runtime.in_flight()), (1, 0));
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
    });
}

#[test]
fn an_abandoned_request_ends() {
    interleaved(|| {
        let (runtime, (op, last, gate)) = (Runtime::start(false, true), operation());
        let freed = executed(&runtime, &op, false);
        op.abandon();
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
        drop(op);
        freed.wait();
        runtime.shutdown();
        assert_eq!((last.handled(), runtime.in_flight()), (0, 0));
    });
}

/// A step that sends the request of an operation when the operation is admitted.
struct Sends(Last, Runtime, Arc<Mutex<Option<Arc<Event>>>>);

impl Step for Sends {
    fn arrived(
        self: Box<Self>,
        _: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        if let Ok(Arrival::Admitted(permit)) = arrival {
            op.hold(permit);
        }
        *self.2.lock().unwrap() = Some(executed(&self.1, op, false));
        Ok(Next::Again(Box::new(self.0)))
    }
}

/// Another thread abandons the operation while a step sends its request.
#[test]
fn a_request_is_abandoned_while_it_is_sent() {
    interleaved(|| {
        let (runtime, last, gate) =
            (Runtime::start(false, true), Last::default(), Gate::new(1, 100));
        let sent = Arc::<Mutex<Option<Arc<Event>>>>::default();
        let op = OpState::new(Box::new(Sends(last.clone(), runtime.clone(), sent.clone())));
        op.arrive(Ok(Arrival::Admitted(gate.try_enter().unwrap())));
        let other = thread::spawn({
            let op = op.clone();
            move || op.abandon()
        });
        op.advance(Python::attached());
        other.join().unwrap();
        drop(op);
        let freed = sent.lock().unwrap().take();
        freed.into_iter().for_each(|freed| freed.wait());
        runtime.shutdown();
        assert_eq!((last.handled(), runtime.in_flight()), (0, 0));
        assert_eq!(gate.admitted(), (0, 0), "the permit is not given up");
    });
}

/// A notifier is a Python thread that wakes an event loop which has no eventfd. Here it is asked
/// twice.
#[test]
fn a_notifier_is_asked_twice() {
    interleaved(|| {
        let (asking, asked) = (Asking::default(), Arc::new(AtomicUsize::new(0)));
        let both = Arc::<Event>::default();
        let notifies = thread::spawn({
            let (asking, asked, both) = (asking.clone(), asked.clone(), both.clone());
            move || {
                while asking.next() {
                    if asked.load(Ordering::Acquire) == 2 {
                        both.set();
                    }
                }
            }
        });
        for _ in 0..2 {
            asked.fetch_add(1, Ordering::AcqRel);
            asking.ask();
        }
        both.wait();
        asking.end();
        notifies.join().unwrap();
    });
}
