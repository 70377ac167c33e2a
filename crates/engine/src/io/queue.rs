//! The queue of work for the I/O thread. This module decides when the I/O thread is woken, and when
//! the I/O thread wakes event loops.
//!
//! Waking a thread takes a system call. So submissions that follow each other closely (a burst) may
//! wait, to share one wake. The completions that one read of a socket yields share one wake too.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures::future::{AbortHandle, abortable};
use tokio::sync::Notify;

use crate::io::lanes::{Job, Lanes, Sending};
use crate::io::runtime::Runtime;

pub(crate) enum Work {
    Task(Pin<Box<dyn Future<Output = ()> + Send>>),
    Request(Job),
}

/// The state that submitting threads share with the I/O thread.
pub(crate) struct Shared {
    /// Work that is submitted and not yet begun.
    queue: Mutex<Vec<Work>>,
    lanes: Lanes,
    /// Whether `queue` has entries. This flag is read without locking `queue`.
    waiting: AtomicBool,
    /// Notified when [`Shared::serve`] must check the queue, or when the runtime is closed.
    changed: Notify,
    /// Whether the I/O thread must be woken to check the queue. While the thread works, it checks
    /// the queue by itself. In a runtime with several threads, the field is always true.
    asleep: AtomicBool,
    several: bool,
    closed: AtomicBool,
    in_flight: AtomicUsize,
    /// The time until which submissions may be held back (see [`Runtime::hold`]), in nanoseconds
    /// since `began`. The field is 0 until the I/O thread first wakes a consumer ([`Wake`]).
    hold_until: AtomicU64,
    began: Instant,
}

/// Wakes code outside this crate that takes completions, such as an event loop. One wake may
/// announce any number of completions.
pub trait Wake: Send + Sync {
    fn wake(&self);
}

thread_local! {
    /// The consumers that the I/O thread wakes when it has run all tasks that are ready now. The
    /// value is `None` except on the I/O thread of a runtime that has one thread.
    static BURST_WAKES: RefCell<Option<Arc<BurstWakes>>> = const { RefCell::new(None) };
}

/// The consumers of the completions that arise while tokio runs the tasks that are ready.
#[derive(Default)]
struct BurstWakes {
    of: Mutex<Vec<Arc<dyn Wake>>>,
    changed: Notify,
}

impl BurstWakes {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn Wake>>> {
        self.of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Wakes the collected consumers whenever there are any. This task runs last in tokio's ready
    /// queue, so one socket read causes one wake.
    ///
    /// When [`LOOK`] has passed after the wakes, the task checks the queue once for submissions
    /// that another thread has held back and not released.
    async fn wake_all(self: Arc<Self>, shared: Arc<Shared>) {
        let mut consumers = Vec::new();
        let mut look = pin!(tokio::time::sleep(Duration::ZERO));
        let mut armed = false;
        loop {
            tokio::select! {
                biased;
                () = self.changed.notified() => {
                    std::mem::swap(&mut *self.lock(), &mut consumers);
                    shared.begin_hold();
                    for consumer in consumers.drain(..) {
                        consumer.wake();
                    }
                    if !armed {
                        armed = true;
                        look.as_mut().reset(tokio::time::Instant::now() + LOOK);
                    }
                }
                () = &mut look, if armed => {
                    // If answers were handed over after the timer was set, threads may still hold
                    // back submissions. In that case the check is put off by another `LOOK`.
                    armed = shared.may_hold();
                    if armed {
                        look.as_mut().reset(tokio::time::Instant::now() + LOOK);
                    } else {
                        shared.wake_serve_if_waiting();
                    }
                }
            }
        }
    }
}

/// Calls `consumer.wake()`. On the I/O thread of a runtime that has one thread, the call is made
/// after all tasks that are ready have run, because they may yield more completions. On any other
/// thread the call is made at once.
pub fn wake_soon(consumer: Arc<dyn Wake>) {
    let now = BURST_WAKES.with_borrow(|burst| {
        let Some(burst) = burst else { return Some(consumer) };
        burst.lock().push(consumer);
        burst.changed.notify_one();
        None
    });
    if let Some(consumer) = now {
        consumer.wake();
    }
}

/// Aborts a submitted task.
pub struct TaskHandle(AbortHandle);

impl TaskHandle {
    /// Makes the I/O thread drop the future when it next runs the task. A finished task is not
    /// affected.
    pub fn abort(&self) {
        self.0.abort();
    }
}

impl Runtime {
    /// Starts `future` on the I/O thread. After a shutdown the future is dropped at once, unpolled.
    ///
    /// If the future panics, it is dropped, and other tasks are not affected. Code that waits for
    /// the result must notice that the future was dropped: for example, it can wait on a channel
    /// whose sender the future holds.
    pub fn submit(&self, future: impl Future<Output = ()> + Send + 'static) -> TaskHandle {
        let shared = self.shared();
        let (future, abort) = abortable(future);
        let counted = InFlight::begin(shared);
        self.push(Work::Task(Box::pin(async move {
            // The future is dropped before `counted`, whether it has finished or was aborted.
            let _ = future.await;
            drop(counted);
        })));
        TaskHandle(abort)
    }

    /// Queues a request, which is sent from the I/O thread.
    pub fn send(&self, sending: Arc<dyn Sending>) {
        self.shared().in_flight.fetch_add(1, Ordering::AcqRel);
        self.push(Work::Request(Job::new(sending)));
    }

    fn push(&self, work: Work) {
        let shared = self.shared();
        let mut queue = shared.queue();
        // `closed` is read under the lock, because the I/O thread empties the queue one last time
        // after `closed` is set.
        if shared.closed.load(Ordering::Acquire) {
            drop(queue);
            shared.refuse(work);
            return;
        }
        queue.push(work);
        shared.waiting.store(true, Ordering::SeqCst);
        drop(queue);
        let rings =
            HELD.with_borrow_mut(|held| held.as_mut().is_none_or(|held| !held.keep(shared)));
        if rings {
            shared.wake_if_asleep();
        }
    }

    /// Holds back this thread's submissions until [`Runtime::release`]. If the I/O thread has
    /// handed over answers within the last 500 us, only every 32nd of these submissions wakes it.
    /// Such an I/O thread checks the queue by itself, 1 ms after it has handed over answers. So no
    /// submission waits for long, even if this thread blocks before it calls `release`.
    pub fn hold() {
        HELD.with_borrow_mut(|held| {
            held.get_or_insert_default();
        });
    }

    /// Ends a [`Runtime::hold`]: wakes the I/O thread if submissions to it were held back.
    pub fn release() {
        if let Some(Held { of: Some(shared), .. }) = HELD.take() {
            shared.wake_if_asleep();
        }
    }

    /// Called at the end of a round (an iteration) of an event loop, if the round began with
    /// [`Runtime::hold`]. If work was submitted in the round, calls [`Runtime::release`] and
    /// returns false.
    ///
    /// If nothing was submitted, the tasks of the round may have made other tasks ready, through a
    /// semaphore or a queue. Those other tasks may submit work in the next round. So the first call
    /// returns true, and the caller must call again after the next round. The second call releases
    /// even if nothing was submitted.
    pub fn end_round() -> bool {
        let must_repeat = HELD.with_borrow_mut(|held| held.as_mut().is_some_and(Held::waits));
        if !must_repeat {
            Runtime::release();
        }
        must_repeat
    }
}

impl Shared {
    pub(crate) fn new(several: bool) -> Shared {
        Shared {
            queue: Mutex::default(),
            lanes: Lanes::default(),
            waiting: AtomicBool::new(false),
            changed: Notify::new(),
            asleep: AtomicBool::new(several),
            several,
            closed: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            hold_until: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    /// The number of tasks and requests that are submitted and not finished.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Refuses further submissions. The I/O thread ends when it is next woken.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Called when the runtime has ended.
    pub(crate) fn end(&self) {
        self.lanes.clear();
    }

    fn queue(&self) -> MutexGuard<'_, Vec<Work>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Wakes the I/O thread to check the queue, unless that thread will check it by itself.
    fn wake_if_asleep(&self) {
        if self.several || self.asleep.swap(false, Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    fn nanoseconds(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn begin_hold(&self) {
        let until = self.nanoseconds() + HOLD.as_nanos() as u64;
        self.hold_until.store(until, Ordering::SeqCst);
    }

    /// Whether the I/O thread will soon check the queue by itself.
    fn may_hold(&self) -> bool {
        self.nanoseconds() < self.hold_until.load(Ordering::SeqCst)
    }

    /// Called before the I/O thread parks: from here on, it must be woken to check the queue. If
    /// the queue has entries, the thread does not park.
    pub(crate) fn before_park(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        self.wake_serve_if_waiting();
    }

    /// Called after the I/O thread was parked: from here on, it checks the queue by itself.
    pub(crate) fn after_unpark(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Wakes [`Shared::serve`] if submissions wait in the queue. Called on the I/O thread itself.
    fn wake_serve_if_waiting(&self) {
        if self.waiting.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    pub(crate) async fn live(self: Arc<Self>) {
        if !self.several {
            let burst = Arc::<BurstWakes>::default();
            BURST_WAKES.set(Some(Arc::clone(&burst)));
            tokio::spawn(burst.wake_all(Arc::clone(&self)));
        }
        // `serve` is a task of its own: if `before_park` wakes it, tokio runs it instead of parking
        // the thread.
        let _ = tokio::spawn(self.serve()).await;
        if let Some(burst) = BURST_WAKES.take() {
            let pending = std::mem::take(&mut *burst.lock());
            pending.iter().for_each(|consumer| consumer.wake());
        }
    }

    /// Begins submitted work, until the runtime is closed.
    async fn serve(self: Arc<Self>) {
        let mut burst = Vec::new();
        while !self.closed.load(Ordering::Acquire) {
            self.changed.notified().await;
            let mut queue = self.queue();
            self.waiting.store(false, Ordering::SeqCst);
            std::mem::swap(&mut *queue, &mut burst);
            drop(queue);
            for work in burst.drain(..) {
                // A panic in a task does not affect other tasks.
                match work {
                    Work::Task(task) => drop(tokio::spawn(task)),
                    Work::Request(job) => {
                        if let Some(job) = self.lanes.hand(job) {
                            tokio::spawn(Arc::clone(&self).lane(job));
                        }
                    }
                }
            }
        }
        let never_begun = std::mem::take(&mut *self.queue());
        never_begun.into_iter().for_each(|work| self.refuse(work));
    }

    async fn lane(self: Arc<Self>, first: Job) {
        self.lanes.lane(first, || self.ended()).await;
    }

    fn refuse(&self, work: Work) {
        let request = matches!(work, Work::Request(_));
        drop(work);
        if request {
            self.ended();
        }
    }

    /// Called when a task or a request is no longer in flight.
    fn ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        // An I/O thread that is always busy never parks, so it checks the queue here too.
        if !self.several {
            self.wake_serve_if_waiting();
        }
    }
}

thread_local! {
    /// The submissions of this thread since [`Runtime::hold`]. The value is `None` if no hold is in
    /// force.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Submissions for which an I/O thread has not been woken yet.
#[derive(Default)]
struct Held {
    of: Option<Arc<Shared>>,
    submissions: usize,
    /// Whether a round has passed without a submission.
    waited: bool,
}

/// Every 32nd submission of a burst wakes the I/O thread. The other submissions may wait for the
/// end of the burst.
const MAX_HELD: usize = 32;

/// The I/O thread need not be woken for this long after it has handed over answers.
const HOLD: Duration = Duration::from_micros(500);
/// This long after it has handed over answers, the I/O thread checks the queue for submissions that
/// did not wake it.
const LOOK: Duration = Duration::from_millis(1);

impl Held {
    /// Whether to wait one more round for the first submission. The result is true at most once.
    fn waits(&mut self) -> bool {
        self.submissions == 0 && !std::mem::replace(&mut self.waited, true)
    }

    /// Counts a submission. Returns whether it may wait for [`Runtime::release`].
    fn keep(&mut self, shared: &Arc<Shared>) -> bool {
        self.submissions += 1;
        if self.submissions.is_multiple_of(MAX_HELD) || !shared.may_hold() {
            return false;
        }
        match &self.of {
            None => self.of = Some(Arc::clone(shared)),
            Some(of) => return Arc::ptr_eq(of, shared),
        }
        true
    }
}

/// Counts a task as in flight until the guard is dropped, however the task ends.
struct InFlight(Arc<Shared>);

impl InFlight {
    fn begin(shared: &Arc<Shared>) -> InFlight {
        shared.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight(Arc::clone(shared))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.ended();
    }
}
