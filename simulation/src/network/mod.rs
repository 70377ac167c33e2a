//! A simulated network: addresses that accept connections, and links that faults change.
//!
//! A link carries all traffic in one direction between the client and one host. The bytes of a
//! connection keep their order. Bytes on a cut link wait and arrive after the cut has ended,
//! because TCP would also send them again until they arrive.

mod pipe;
mod stream;

pub use stream::Stream;

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

use self::pipe::Pipe;
use crate::random::Random;

/// The direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    ToHost,
    ToClient,
}

pub const BOTH: [Direction; 2] = [Direction::ToHost, Direction::ToClient];

/// How bytes travel over a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// Whether no byte arrives.
    pub is_cut: bool,
    /// The additional time that bytes take to arrive.
    pub delay: Duration,
    /// If set, at most this many bytes arrive at a time, and this pause follows before the next
    /// bytes.
    pub drip: Option<(usize, Duration)>,
}

/// The host's end of a new connection, and the source port, if the client has chosen one.
pub type Incoming = (Stream, Option<u16>);

#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Notified when a link has changed.
    changed: Notify,
}

struct State {
    random: Random,
    listeners: BTreeMap<SocketAddr, mpsc::UnboundedSender<Incoming>>,
    links: BTreeMap<(IpAddr, Direction), Link>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    waiting: Vec<Waker>,
    harmed: Vec<Harmed>,
}

/// A connection that is frozen, or that is to be reset after further bytes.
struct Harmed {
    id: u64,
    host: IpAddr,
    since: Instant,
    /// When the client closed it.
    closed: Option<Instant>,
}

struct Connection {
    host: IpAddr,
    pipes: [Arc<Mutex<Pipe>>; 2],
}

impl Network {
    pub fn new(random: Random) -> Network {
        let state = State {
            random,
            listeners: BTreeMap::new(),
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            next: 0,
            waiting: Vec::new(),
            harmed: Vec::new(),
        };
        Network(Arc::new(Inner { state: Mutex::new(state), changed: Notify::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections to an address, until the receiver is dropped.
    pub fn listen(&self, at: SocketAddr) -> mpsc::UnboundedReceiver<Incoming> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock().listeners.insert(at, sender);
        receiver
    }

    pub fn link(&self, host: IpAddr, direction: Direction) -> Link {
        self.lock().links.get(&(host, direction)).copied().unwrap_or_default()
    }

    /// Changes a link. A new delay affects only bytes that are sent later. All other changes also
    /// affect bytes that are already on the way.
    pub fn change(&self, host: IpAddr, direction: Direction, change: impl FnOnce(&mut Link)) {
        let mut state = self.lock();
        change(state.links.entry((host, direction)).or_default());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        self.0.changed.notify_waiters();
    }

    /// Returns a random time after which bytes arrive. `Stream` makes the time longer if the bytes
    /// would otherwise overtake earlier bytes of their connection.
    fn travel_time(&self, host: IpAddr, direction: Direction) -> Duration {
        let mut state = self.lock();
        let usual = Duration::from_micros(state.random.within(100..1500));
        usual + state.links.get(&(host, direction)).map_or(Duration::ZERO, |link| link.delay)
    }

    /// Connects to an address. `source_port` is set if the client chooses the source port.
    pub async fn connect(
        &self,
        at: SocketAddr,
        source_port: Option<u16>,
    ) -> std::io::Result<Stream> {
        for direction in BOTH {
            loop {
                let changed = self.0.changed.notified();
                if !self.link(at.ip(), direction).is_cut {
                    break;
                }
                changed.await;
            }
            sleep(self.travel_time(at.ip(), direction)).await;
        }
        let mut state = self.lock();
        let refused = || Error::from(ErrorKind::ConnectionRefused);
        let listener = state.listeners.get(&at).cloned().ok_or_else(refused)?;
        let pipes = BOTH.map(|_| Arc::<Mutex<Pipe>>::default());
        let id = state.next;
        state.next += 1;
        state.connections.insert(id, Connection { host: at.ip(), pipes: pipes.clone() });
        drop(state);
        let [to_host, to_client] = pipes;
        let theirs = Stream::new(
            self.clone(),
            at.ip(),
            (Direction::ToHost, Arc::clone(&to_host)),
            (Direction::ToClient, Arc::clone(&to_client)),
            None,
        );
        let ours = Stream::new(
            self.clone(),
            at.ip(),
            (Direction::ToClient, to_client),
            (Direction::ToHost, to_host),
            Some(id),
        );
        listener.send((theirs, source_port)).map_err(|_| refused())?;
        Ok(ours)
    }

    /// Resets all connections with a host. If `after` is set, each connection is reset when this
    /// many more bytes have arrived at the client. This is probably in the middle of a frame.
    pub fn reset(&self, host: IpAddr, after: Option<usize>) {
        let mut state = self.lock();
        let of_host: Vec<_> = state
            .connections
            .iter()
            .filter(|(_, connection)| connection.host == host)
            .map(|(id, connection)| (*id, connection.pipes.clone()))
            .collect();
        if after.is_some() {
            of_host.iter().for_each(|(id, _)| state.note_harm(*id, host));
        }
        drop(state);
        for (_, pair) in of_host {
            match after {
                None => pair.iter().for_each(|pipe| pipe::lock(pipe).reset()),
                Some(bytes) => pipe::lock(&pair[1]).reset_after = Some(bytes),
            }
        }
    }

    /// Freezes one of the connections with a host: nothing arrives on it any more, in either
    /// direction. If `which` is even and the host has the control connection, freezes that one.
    pub fn freeze(&self, host: IpAddr, which: usize) {
        let mut state = self.lock();
        let of_host: Vec<_> =
            state.connections.iter().filter(|(_, connection)| connection.host == host).collect();
        if !of_host.is_empty() {
            let is_control = |of: &(&u64, &Connection)| pipe::lock(&of.1.pipes[0]).is_control;
            let control = of_host.iter().position(is_control).filter(|_| which.is_multiple_of(2));
            let (id, frozen) = of_host[control.unwrap_or(which % of_host.len())];
            frozen.pipes.iter().for_each(|pipe| pipe::lock(pipe).is_frozen = true);
            let id = *id;
            state.note_harm(id, host);
        }
    }

    /// Returns when the client had closed all connections with a host that were frozen at this
    /// time, or that were then to be reset after further bytes. Returns `None` if one is left.
    pub fn harmed_until(&self, host: IpAddr, since: Instant) -> Option<Instant> {
        let state = self.lock();
        let harmed = state.harmed.iter().filter(|of| of.host == host && of.since == since);
        harmed.map(|of| of.closed).try_fold(since, |last, closed| Some(last.max(closed?)))
    }

    /// Ends all listeners of a host. Connections to it are then refused.
    pub fn refuse(&self, host: IpAddr) {
        self.lock().listeners.retain(|at, _| at.ip() != host);
    }

    /// Whether the client has a connection to a host.
    pub fn is_open_to(&self, host: IpAddr) -> bool {
        self.lock().connections.values().any(|connection| connection.host == host)
    }

    /// Returns the number of connections that the client has not closed.
    pub fn open_connections(&self) -> usize {
        self.lock().connections.len()
    }

    fn closed(&self, id: u64) {
        let mut state = self.lock();
        state.connections.remove(&id);
        let harmed = state.harmed.iter_mut().filter(|of| of.id == id);
        harmed.for_each(|of| of.closed = Some(Instant::now()));
    }

    fn wake_at_change(&self, waker: Waker) {
        self.lock().waiting.push(waker);
    }
}

impl State {
    fn note_harm(&mut self, id: u64, host: IpAddr) {
        self.harmed.push(Harmed { id, host, since: Instant::now(), closed: None });
    }
}

/// Bytes, and the time at which they arrive.
struct Arriving {
    at: Instant,
    bytes: bytes::Bytes,
}
