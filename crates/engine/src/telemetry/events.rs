//! The events of a session. They wait in a bounded queue until [`Events::take`] is called.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The maximum number of events that wait. Further events are dropped and counted.
const CAPACITY: usize = 4096;

/// The maximum number of slow requests that are reported in a second.
const SLOW_PER_SECOND: u32 = 20;

/// An argument of [`Events::want`]. With it, requests are reported that were sent more than once,
/// that failed, or that were canceled.
pub const UNUSUAL: u8 = 1;
/// An argument of [`Events::want`]. With it, all requests are reported.
pub const EVERY: u8 = 2;

/// An event of a session.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: &'static str,
    pub at: SystemTime,
    /// The name of the thread on which the event happened.
    pub thread: String,
    pub node: Option<SocketAddr>,
    pub fields: Vec<(&'static str, Field)>,
    pub origin: Option<Origin>,
}

/// The value of a field of an event.
#[derive(Clone, Debug)]
pub enum Field {
    Bool(bool),
    Int(i64),
    Seconds(f64),
    Text(String),
    Attempts(Vec<AttemptTimes>),
}

/// An attempt of a request, with times in seconds since the request was sent.
#[derive(Clone, Debug)]
pub struct AttemptTimes {
    pub node: SocketAddr,
    /// The shard of ScyllaDB that the attempt was sent to.
    pub shard: Option<u32>,
    pub began: f64,
    pub ended: Option<f64>,
    pub error: Option<String>,
}

/// The caller's own description of the call that a request belongs to. This crate only passes it
/// on.
#[derive(Clone)]
pub struct Origin(pub Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Origin")
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Origin) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Event {
    pub(crate) fn new(name: &'static str, node: Option<SocketAddr>) -> Event {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let at = SystemTime::now();
        Event { name, at, thread, node, fields: Vec::new(), origin: None }
    }

    /// Whether streams of cluster events include the event. They include the events about nodes and
    /// about the schema. But they do not include the events in which one node reports that another
    /// node is up or down.
    pub(crate) fn is_of_cluster(&self) -> bool {
        const REPORTED: [&str; 2] = ["node reported up", "node reported down"];
        (self.name.starts_with("node ") && !REPORTED.contains(&self.name))
            || self.name == "schema changed"
    }

    pub(crate) fn text(mut self, name: &'static str, value: impl Into<String>) -> Event {
        self.fields.push((name, Field::Text(value.into())));
        self
    }

    pub(crate) fn flag(mut self, name: &'static str, value: bool) -> Event {
        self.fields.push((name, Field::Bool(value)));
        self
    }

    pub(crate) fn int(mut self, name: &'static str, value: usize) -> Event {
        self.fields.push((name, Field::Int(i64::try_from(value).unwrap_or(i64::MAX))));
        self
    }

    pub(crate) fn seconds(mut self, name: &'static str, value: Duration) -> Event {
        self.fields.push((name, Field::Seconds(value.as_secs_f64())));
        self
    }
}

/// The queue of events.
#[derive(Debug)]
pub struct Events {
    state: Mutex<State>,
    changed: Condvar,
    dropped: AtomicU64,
    /// Which requests are reported besides slow ones: 0, [`UNUSUAL`], [`EVERY`] or their sum.
    wanted: AtomicU8,
    /// Requests that take at least this long are reported.
    slow: Option<Duration>,
    /// The id of the process that opened the session.
    process: u32,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Event>,
    is_closed: bool,
    /// The beginning of the last period of one second in which slow requests were counted, and
    /// their number in that period.
    slow_in: Option<(Instant, u32)>,
    /// The number of slow requests that were left out since a slow request was last reported.
    slow_left_out: u32,
}

impl Events {
    pub(crate) fn new(slow: Option<Duration>) -> Arc<Events> {
        Arc::new(Events {
            state: Mutex::default(),
            changed: Condvar::new(),
            dropped: AtomicU64::new(0),
            wanted: AtomicU8::new(0),
            slow,
            process: std::process::id(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets which requests are reported besides slow ones: 0, [`UNUSUAL`], [`EVERY`] or their sum.
    pub fn want(&self, wanted: u8) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Whether any requests may be reported: slow ones, unusual ones, or all.
    pub fn wants_requests(&self) -> bool {
        self.slow.is_some() || self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Whether all requests are reported.
    pub(crate) fn wants_every(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) & EVERY != 0
    }

    /// Decides whether a request that took `took` is reported. If so, returns the name of its
    /// event, and how many slow requests were left out since a slow request was last reported.
    pub(crate) fn wants(&self, took: Duration, is_unusual: bool) -> Option<(&'static str, u32)> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if self.slow.is_some_and(|slow| took >= slow)
            && let Some(left_out) = self.admits_slow()
        {
            return Some(("slow request", left_out));
        }
        let is_wanted = wanted & EVERY != 0 || wanted & UNUSUAL != 0 && is_unusual;
        is_wanted.then_some(("request", 0))
    }

    /// Counts one more slow request. Returns how many slow requests were left out before it.
    /// Returns `None` if this request is left out too, because there are too many in this second.
    fn admits_slow(&self) -> Option<u32> {
        let mut state = self.state();
        let now = Instant::now();
        let count = match &mut state.slow_in {
            Some((since, count)) if now.duration_since(*since) < Duration::from_secs(1) => {
                *count += 1;
                *count
            }
            other => {
                *other = Some((now, 1));
                1
            }
        };
        if count > SLOW_PER_SECOND {
            state.slow_left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut state.slow_left_out))
    }

    pub(crate) fn push(&self, event: Event) {
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        if state.waiting.len() >= CAPACITY {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.waiting.push_back(event);
        drop(state);
        self.changed.notify_one();
    }

    /// The number of events that were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Takes all events from the queue. If the queue is empty, waits for the next event, for
    /// `limit` at most. Returns `None` if the queue is empty and [`Events::close`] was called.
    pub fn take(&self, limit: Duration) -> Option<Vec<Event>> {
        let mut state = self.state();
        if state.waiting.is_empty() && !state.is_closed && !limit.is_zero() {
            let waited = self.changed.wait_timeout(state, limit);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.waiting.is_empty() && state.is_closed {
            return None;
        }
        Some(state.waiting.drain(..).collect())
    }

    /// Refuses further events. Events that already wait can still be taken.
    pub fn close(&self) {
        // In a forked child process, a thread that does not exist there may hold the lock.
        if std::process::id() != self.process {
            return;
        }
        self.state().is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn events_wait_until_they_are_taken_and_too_many_are_counted() {
        let events = Events::new(None);
        for _ in 0..CAPACITY + 3 {
            events.push(Event::new("node up", None));
        }
        assert_eq!(events.take(NOW).unwrap().len(), CAPACITY);
        assert_eq!(events.dropped(), 3);
        assert!(events.take(NOW).unwrap().is_empty());
        events.push(Event::new("node down", None).text("reason", "none"));
        events.close();
        events.push(Event::new("node up", None));
        assert_eq!(events.take(NOW).unwrap()[0].name, "node down");
        assert!(events.take(Duration::from_secs(60)).is_none());
    }

    #[test]
    fn slow_requests_are_sampled() {
        let events = Events::new(Some(Duration::from_secs(1)));
        let admitted: Vec<_> = (0..SLOW_PER_SECOND + 5).map(|_| events.admits_slow()).collect();
        assert_eq!(admitted.iter().flatten().count(), SLOW_PER_SECOND as usize);
        events.state().slow_in = None;
        assert_eq!(events.admits_slow(), Some(5));
        assert_eq!(events.admits_slow(), Some(0));
    }

    #[test]
    fn requests_are_reported_as_wanted() {
        let events = Events::new(Some(Duration::from_secs(1)));
        assert_eq!(events.wants(Duration::from_secs(2), false), Some(("slow request", 0)));
        assert_eq!(events.wants(NOW, true), None);
        events.want(UNUSUAL);
        assert_eq!(events.wants(NOW, true), Some(("request", 0)));
        assert_eq!(events.wants(NOW, false), None);
        events.want(EVERY);
        assert_eq!(events.wants(NOW, false), Some(("request", 0)));
        // A request that is not reported as a slow request is still reported as an ordinary
        // request.
        let names: Vec<_> = (0..100).filter_map(|_| events.wants(Duration::MAX, false)).collect();
        assert_eq!(names.len(), 100);
        assert_eq!(names[99], ("request", 0));
    }
}
