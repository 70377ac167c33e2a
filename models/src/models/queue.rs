//! Models of `Shared`, the queue of the I/O thread. A task or request that another thread submits
//! is begun, even if the I/O thread is about to park. A submission during a shutdown is begun or
//! refused. No wake of an event loop is lost.

use std::task::Poll;

use loom::thread;

use super::{Asked, Event};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::{Duration, pass_by};
use crate::{Runtime, Wake, interleaved, wake_soon};

/// Submits a task, and returns an event that is set when the task runs.
fn submit(runtime: &Runtime) -> Arc<Event> {
    let begun = Arc::<Event>::default();
    let begins = begun.clone();
    drop(runtime.submit(async move { begins.set() }));
    begun
}

fn ends_with_nothing_in_flight(runtime: &Runtime) {
    runtime.shutdown();
    assert_eq!(runtime.in_flight(), 0, "in flight after the end");
}

#[test]
fn a_submission_is_begun() {
    interleaved(|| {
        let runtime = Runtime::start(false, true);
        submit(&runtime).wait();
        ends_with_nothing_in_flight(&runtime);
    });
}

#[test]
fn a_submission_to_several_threads_is_begun() {
    interleaved(|| {
        let runtime = Runtime::start(true, true);
        submit(&runtime).wait();
        ends_with_nothing_in_flight(&runtime);
    });
}

#[test]
fn submissions_of_two_threads_are_begun() {
    interleaved(|| {
        let runtime = Runtime::start(false, true);
        let other = thread::spawn({
            let runtime = runtime.clone();
            move || submit(&runtime).wait()
        });
        submit(&runtime).wait();
        other.join().unwrap();
        ends_with_nothing_in_flight(&runtime);
    });
}

#[test]
fn a_request_is_answered() {
    interleaved(|| {
        let (runtime, asked) = (Runtime::start(false, true), Asked::quick());
        runtime.send(asked.clone());
        asked.answered.wait();
        ends_with_nothing_in_flight(&runtime);
        assert_eq!((asked.answers(), asked.failed()), (1, 0));
    });
}

/// A request is begun and answered, or begun and dropped by the shutdown, or refused. In each case
/// it gets exactly one answer.
#[test]
fn a_submission_at_the_close_is_answered_once() {
    interleaved(|| {
        let (runtime, asked) = (Runtime::start(false, true), Asked::quick());
        let other = thread::spawn({
            let (runtime, asked) = (runtime.clone(), asked.clone());
            move || runtime.send(asked)
        });
        runtime.shutdown();
        other.join().unwrap();
        assert_eq!(asked.answers(), 1, "neither begun nor refused");
        assert_eq!(runtime.in_flight(), 0, "in flight after the end");
    });
}

#[test]
fn a_submission_after_the_close_is_refused() {
    interleaved(|| {
        let (runtime, asked) = (Runtime::start(false, true), Asked::quick());
        runtime.shutdown();
        runtime.send(asked.clone());
        assert_eq!((asked.answers(), asked.failed()), (1, 1));
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// An event loop that counts its wakes.
#[derive(Default)]
struct Loop {
    wakes: AtomicUsize,
    woken: Event,
}

impl Wake for Loop {
    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::AcqRel);
        self.woken.set();
    }
}

/// Starts a runtime whose I/O thread has just passed an answer to an event loop.
fn after_an_answer(time_passes: bool) -> Runtime {
    let (runtime, event_loop) = (Runtime::start(false, time_passes), Arc::<Loop>::default());
    let wakes_it = event_loop.clone();
    drop(runtime.submit(async move { wake_soon(wakes_it) }));
    event_loop.woken.wait();
    runtime
}

/// This thread holds back its submission (`Runtime::hold`), and does not release it before the task
/// has run. So the I/O thread must find the submission by itself.
#[test]
fn a_held_submission_is_begun_without_release() {
    interleaved(|| {
        let runtime = after_an_answer(true);
        Runtime::hold();
        submit(&runtime).wait();
        Runtime::release();
        ends_with_nothing_in_flight(&runtime);
    });
}

/// No timer fires here, so only the release can make the I/O thread look at the submission.
#[test]
fn a_release_wakes_the_thread() {
    interleaved(|| {
        let runtime = after_an_answer(false);
        Runtime::hold();
        let begun = submit(&runtime);
        Runtime::release();
        begun.wait();
        ends_with_nothing_in_flight(&runtime);
    });
}

/// The second answer is passed on 0.8 ms after the first. The first answer starts a timer of 1 ms
/// for a look at submissions that are held back (`Runtime::hold`). When the timer fires, threads
/// may still hold back submissions because of the second answer. A later look must find them.
#[test]
fn the_look_is_put_off_by_a_later_answer() {
    interleaved(|| {
        let runtime = Runtime::start(false, true);
        let (first, second) = (Arc::<Loop>::default(), Arc::<Loop>::default());
        let wakes_it = second.clone();
        drop(runtime.submit(async move {
            wake_soon(first);
            others_run().await;
            pass_by(Duration::from_micros(800));
            wake_soon(wakes_it);
        }));
        second.woken.wait();
        Runtime::hold();
        submit(&runtime).wait();
        Runtime::release();
        ends_with_nothing_in_flight(&runtime);
    });
}

/// Lets the other tasks of the thread run.
async fn others_run() {
    let mut again = true;
    std::future::poll_fn(|context| {
        if !std::mem::take(&mut again) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// If an operation completes just before the runtime ends, its event loop is still woken.
#[test]
fn a_wake_at_the_close_is_made() {
    interleaved(|| {
        let (runtime, event_loop) = (Runtime::start(false, true), Arc::<Loop>::default());
        let begun = Arc::new(AtomicUsize::new(0));
        let (wakes_it, begins) = (event_loop.clone(), begun.clone());
        drop(runtime.submit(async move {
            begins.fetch_add(1, Ordering::AcqRel);
            wake_soon(wakes_it);
        }));
        ends_with_nothing_in_flight(&runtime);
        let (begun, wakes) =
            (begun.load(Ordering::Acquire), event_loop.wakes.load(Ordering::Acquire));
        assert_eq!(begun, wakes, "completions and wakes");
    });
}
