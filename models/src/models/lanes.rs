//! Models of `Lanes`, tasks that run one request after another, and of `Ticket`, which cancels a
//! request. They check that a request that is passed to a waiting lane is answered, and that a
//! cancelled request is answered once or dropped, and its lane takes the next request. With several
//! I/O threads, a request may come from another thread than the lane's. So in the models,
//! `Lanes::hand`, which passes a request to a lane, always runs on another thread than the lane.

use std::pin::pin;
use std::task::Poll;

use loom::future::block_on;
use loom::thread::{self, JoinHandle};

use super::{Asked, Event};
use crate::interleaved;
use crate::lanes::Sending as _;
use crate::lanes::{Job, Lanes};
use crate::sync::{Arc, Notify};

/// A lane on a separate thread. No runtime ends it, so it runs until [`Lane::stop`].
struct Lane {
    thread: JoinHandle<()>,
    stop: Arc<Notify>,
    /// Set when a request of the lane has ended.
    ended: Arc<Event>,
}

impl Lane {
    fn start(lanes: &Arc<Lanes>, job: Job) -> Lane {
        let (stop, ended) = (Arc::<Notify>::default(), Arc::<Event>::default());
        let thread = thread::spawn({
            let (lanes, stop, ended) = (lanes.clone(), stop.clone(), ended.clone());
            move || {
                block_on(async {
                    let mut stop = pin!(stop.notified());
                    let mut lane = pin!(lanes.lane(job, || ended.set()));
                    std::future::poll_fn(|context| match lane.as_mut().poll(context) {
                        Poll::Ready(()) => Poll::Ready(()),
                        Poll::Pending => stop.as_mut().poll(context),
                    })
                    .await;
                });
            }
        });
        Lane { thread, stop, ended }
    }

    fn stop(self) {
        self.stop.notify_one();
        self.thread.join().unwrap();
    }
}

/// Passes a request to a waiting lane or starts a lane, like `Shared::serve`. Returns a new lane.
fn serve(lanes: &Arc<Lanes>, asked: &Arc<Asked>) -> Option<Lane> {
    lanes.hand(Job::new(asked.clone())).map(|job| Lane::start(lanes, job))
}

#[test]
fn a_handed_request_is_answered() {
    interleaved(|| {
        let (lanes, first, second) = (Arc::<Lanes>::default(), Asked::quick(), Asked::quick());
        let lane = Lane::start(&lanes, Job::new(first.clone()));
        let other = serve(&lanes, &second);
        first.answered.wait();
        second.answered.wait();
        lane.stop();
        other.into_iter().for_each(Lane::stop);
        lanes.clear();
        assert_eq!((first.answers(), first.failed()), (1, 0));
        assert_eq!((second.answers(), second.failed()), (1, 0));
    });
}

#[test]
fn two_requests_are_handed_at_once() {
    interleaved(|| {
        let (lanes, first) = (Arc::<Lanes>::default(), Asked::quick());
        let lane = Lane::start(&lanes, Job::new(first.clone()));
        let hand = {
            let lanes = lanes.clone();
            move || {
                let asked = Asked::quick();
                let handed = lanes.hand(Job::new(asked.clone())).is_none();
                asked.answered.wait();
                assert!(!handed || asked.failed() == 0, "handed, and dropped without an answer");
            }
        };
        let other = thread::spawn(hand.clone());
        hand();
        other.join().unwrap();
        first.answered.wait();
        lane.stop();
        lanes.clear();
    });
}

/// Cancels a request, and then gives the lane another one. If `answered` is true, the server
/// answers the cancelled request too.
fn cancelled(answered: bool) {
    interleaved(move || {
        let (lanes, first, second) = (Arc::<Lanes>::default(), Asked::new(), Asked::quick());
        let lane = Lane::start(&lanes, Job::new(first.clone()));
        let server = answered.then(|| {
            let first = first.clone();
            thread::spawn(move || first.session.answer())
        });
        first.ticket().cancel();
        lane.ended.wait();
        server.into_iter().for_each(|server| server.join().unwrap());
        assert_eq!(first.failed(), 0, "a cancelled request has no receiver");
        assert!(first.answers() <= usize::from(answered));
        let other = serve(&lanes, &second);
        second.answered.wait();
        lane.stop();
        other.into_iter().for_each(Lane::stop);
        lanes.clear();
        assert_eq!((second.answers(), second.failed()), (1, 0));
    });
}

#[test]
fn a_cancelled_request_frees_its_lane() {
    cancelled(false);
}

#[test]
fn a_cancel_and_an_answer() {
    cancelled(true);
}
