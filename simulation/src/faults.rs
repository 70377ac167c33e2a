//! The faults of a run: which faults happen, when, to which node, and for how long.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::network::{BOTH, Direction, Network};
use crate::random::Random;
use crate::trace::Trace;

/// Faults begin only within this time from the beginning of a run. In a run with a long outage, the
/// time is longer by the outage.
pub const FAULTY: Duration = Duration::from_secs(90);

/// The shortest time from the beginning of a fault until the keepalive closes a silent connection.
/// It is a little less than the keepalive's timeout, because this timeout begins when a keepalive
/// is sent, which may be just before the fault.
const CLOSED_IN_SILENCE: Duration = Duration::from_secs(9);

/// The longest time from the start of a node until the session is connected to it again, if the node
/// was down for less than [`SOON_TRIED`]. It is the sum of the longest pause between two of the
/// first attempts to connect, with jitter, and the time for opening a connection.
pub const RECONNECTED: Duration = Duration::from_millis(2500);
/// During an outage of at least this length, the pauses between attempts to connect become longer
/// than [`RECONNECTED`].
pub const SOON_TRIED: Duration = Duration::from_secs(20);
/// The longest pause between two attempts to connect, with jitter.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(12);

/// A number of requests that is larger than the number of streams of a connection, 32,768.
const MORE_THAN_STREAMS: usize = 33_500;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    Pause,
    /// The node's process is paused while the node has many requests. The program (see `workload`)
    /// gives up some of these requests.
    PauseUnderLoad(Burst),
    /// No answer arrives from the node. Meanwhile, the program sends more requests to it than a
    /// connection has streams.
    CutUnderLoad(Burst),
    /// Answers arrive a few bytes at a time. So the answers to keepalives wait for half a minute
    /// behind other answers.
    DripUnderLoad(Burst),
    Kill,
    PowerLoss,
    /// The node starts again at another address.
    Move,
    /// The node is killed, and a new node starts with its address.
    Replace,
    /// The node's connections are reset, and its logins are answered with this error.
    RefuseLogins(i32),
    /// The link is cut in one direction, or in both.
    Cut(&'static [Direction]),
    Reset,
    /// One connection of the node becomes half-open, so nothing arrives on it any more. For an even
    /// number this is the control connection, if the node has it.
    Freeze(usize),
    ResetInFrame(usize),
    Slow(Duration),
    Drip(usize, Duration),
    ForgetStatements,
    FillCache,
    /// A table is dropped and made again with other types.
    RemakeTable,
    Overload,
    /// One shard of a node of ScyllaDB stops.
    HangShard(u16),
    /// A node of ScyllaDB is killed, and starts with this number of shards.
    Reshard(u16),
    /// All nodes start again at other addresses.
    MoveAll,
}

/// Requests that the program sends to one node at the same time.
#[derive(Clone, Copy, PartialEq)]
pub struct Burst {
    pub node: usize,
    pub requests: usize,
    pub limit: Duration,
}

/// Without the node, because the trace counts nodes from 1 and names the node of a fault anyway.
impl fmt::Debug for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests, each with a limit of {:?}", self.requests, self.limit)
    }
}

impl Fault {
    /// Whether calls must succeed during the fault, because the other nodes can answer them.
    fn is_survived(self) -> bool {
        use Fault::*;
        match self {
            Pause | PauseUnderLoad(_) | CutUnderLoad(_) | Kill | PowerLoss => true,
            Move | Replace | HangShard(_) | Reshard(_) => true,
            RefuseLogins(_) | Cut(_) | ForgetStatements | FillCache | RemakeTable => true,
            Reset | Freeze(_) | ResetInFrame(_) | DripUnderLoad(_) | Slow(_) | Drip(..)
            | Overload | MoveAll => false,
        }
    }

    /// Returns the time from the beginning of the fault until it closes connections, or `None` if
    /// it closes no connection.
    fn closes_after(self) -> Option<Duration> {
        use Fault::*;
        match self {
            Kill | PowerLoss | Move | MoveAll | Replace | Reshard(_) | RefuseLogins(_) | Reset
            | Freeze(_) | ResetInFrame(_) => Some(Duration::ZERO),
            Pause | PauseUnderLoad(_) | CutUnderLoad(_) | Cut(_) | HangShard(_) => {
                Some(CLOSED_IN_SILENCE)
            }
            Slow(_) | Drip(..) | DripUnderLoad(_) => None,
            ForgetStatements | FillCache | RemakeTable | Overload => None,
        }
    }
}

/// A fault that has happened.
#[derive(Clone, Copy, Debug)]
pub struct Happened {
    pub node: usize,
    /// The node's address when the fault began.
    pub at: SocketAddr,
    pub fault: Fault,
    pub began: Instant,
    pub ended: Option<Instant>,
    /// When the client had closed all connections that are frozen, or that are to be reset after
    /// further bytes. `None` if one is left.
    pub cleared: Option<Instant>,
}

impl Happened {
    /// Whether the fault may have closed a connection between two times.
    pub fn may_close(&self, from: Instant, until: Instant) -> bool {
        let Some(after) = self.fault.closes_after() else { return false };
        // `ResetInFrame` resets a connection only after further bytes have arrived, and a frozen
        // connection stays open until the keepalive closes it.
        let last = match self.fault {
            Fault::ResetInFrame(_) | Fault::Freeze(_) => self.cleared,
            _ => self.ended,
        };
        // For this time after its end, a fault may still close a connection.
        let late = Duration::from_secs(2);
        self.began + after <= until && last.is_none_or(|last| from <= last + late)
    }

    /// Returns the longest time from the fault's end until the session is connected to the node
    /// again.
    pub fn connected_again_within(&self) -> Duration {
        match self.ended {
            Some(ended) if ended - self.began < SOON_TRIED => RECONNECTED,
            _ => LONGEST_PAUSE,
        }
    }

    pub fn is_survived(&self) -> bool {
        self.fault.is_survived()
    }

    /// Whether the node's answers take longer during the fault.
    pub fn is_slow(&self) -> bool {
        use Fault::*;
        match self.fault {
            Slow(_) | Drip(..) | DripUnderLoad(_) => true,
            Pause | PauseUnderLoad(_) | CutUnderLoad(_) | Cut(_) | Kill | PowerLoss => false,
            Move | MoveAll | Replace | Freeze(_) | Reset | ResetInFrame(_) => false,
            ForgetStatements | FillCache | RemakeTable | Overload | RefuseLogins(_) => false,
            HangShard(_) | Reshard(_) => false,
        }
    }

    pub fn refuses_logins(&self) -> bool {
        matches!(self.fault, Fault::RefuseLogins(_))
    }

    /// Whether calls may fail between `from` and `until` because of connections on which no answers
    /// arrive. Such a fault stops the answers on one connection or of one shard. Even if the fault
    /// has ended, calls may fail until the keepalive closes these connections.
    pub fn lingers(&self, from: Instant, until: Instant) -> bool {
        use Fault::*;
        let lasts = match self.fault {
            Freeze(_) | HangShard(_) => Duration::from_secs(25),
            Pause | PauseUnderLoad(_) | CutUnderLoad(_) | DripUnderLoad(_) | Cut(_) => {
                return false;
            }
            Kill | PowerLoss | Move | MoveAll | Replace | Reset | ResetInFrame(_) => return false,
            ForgetStatements | FillCache | RemakeTable | Overload => return false,
            RefuseLogins(_) | Slow(_) | Drip(..) | Reshard(_) => return false,
        };
        self.began <= until && from < self.began + lasts
    }

    /// Whether the fault may delay the answers of all nodes, by a burst of requests.
    pub fn is_everywhere(&self) -> bool {
        use Fault::*;
        match self.fault {
            PauseUnderLoad(_) | CutUnderLoad(_) | DripUnderLoad(_) | MoveAll => true,
            Pause | Cut(_) | Kill | PowerLoss | Move | Replace | Freeze(_) | Reset => false,
            ForgetStatements | FillCache | RemakeTable | Overload | RefuseLogins(_) => false,
            ResetInFrame(_) | Slow(_) | Drip(..) | HangShard(_) | Reshard(_) => false,
        }
    }

    /// Whether the fault may make its node answer late, or not at all.
    pub fn may_silence(&self) -> bool {
        use Fault::*;
        match self.fault {
            ForgetStatements | FillCache | RemakeTable | Overload | Reset => false,
            RefuseLogins(_) => false,
            Pause | PauseUnderLoad(_) | CutUnderLoad(_) | DripUnderLoad(_) | Cut(_) => true,
            Kill | PowerLoss | Move | MoveAll | Replace | Freeze(_) | ResetInFrame(_) => true,
            Slow(_) | Drip(..) | HangShard(_) | Reshard(_) => true,
        }
    }

    /// Whether the fault may delay frames until it has ended.
    pub fn holds_frames(&self) -> bool {
        use Fault::*;
        match self.fault {
            Pause | PauseUnderLoad(_) | CutUnderLoad(_) | DripUnderLoad(_) | Cut(_) => true,
            Slow(_) | Drip(..) | HangShard(_) => true,
            Kill | PowerLoss | Move | MoveAll | Replace | Freeze(_) | Reset => false,
            ForgetStatements | FillCache | RemakeTable | Overload | RefuseLogins(_) => false,
            ResetInFrame(_) | Reshard(_) => false,
        }
    }
}

/// The faults that have happened, and a channel for the bursts that the program has to send.
#[derive(Clone)]
pub struct Log {
    faults: Arc<Mutex<Vec<Happened>>>,
    bursts: mpsc::UnboundedSender<Burst>,
}

impl Log {
    pub fn new() -> (Log, mpsc::UnboundedReceiver<Burst>) {
        let (bursts, receiver) = mpsc::unbounded_channel();
        (Log { faults: Arc::default(), bursts }, receiver)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Happened>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn faults(&self) -> Vec<Happened> {
        self.lock().clone()
    }

    /// Returns the faults, with the times at which connections that they harmed were closed.
    pub fn faults_in(&self, network: &Network) -> Vec<Happened> {
        let mut faults = self.faults();
        for fault in &mut faults {
            fault.cleared = network.harmed_until(fault.at.ip(), fault.began);
        }
        faults
    }

    pub fn add(&self, fault: Happened) {
        self.lock().push(fault);
    }

    /// Notes that all faults have ended.
    pub fn end_all(&self) {
        let now = Instant::now();
        self.lock().iter_mut().for_each(|fault| _ = fault.ended.get_or_insert(now));
    }

    /// Whether a node has a fault that has not ended, or that ended after `since`.
    pub fn is_faulty(&self, node: usize, since: Instant) -> bool {
        let has_ended = |fault: &Happened| fault.ended.is_some_and(|ended| ended < since);
        self.lock().iter().any(|fault| fault.node == node && !has_ended(fault))
    }

    /// Whether a burst of requests began after `since`. All nodes may then have a backlog.
    pub fn has_burst(&self, since: Instant) -> bool {
        use Fault::{CutUnderLoad, DripUnderLoad, PauseUnderLoad};
        self.lock().iter().any(|fault| {
            let is_burst =
                matches!(fault.fault, CutUnderLoad(_) | DripUnderLoad(_) | PauseUnderLoad(_));
            is_burst && fault.began >= since
        })
    }
}

/// Causes faults, one after another. If two tasks run this function, their faults never affect the
/// same node at the same time.
///
/// If `outage` is some, the first fault that takes a node out of reach lasts so long.
pub async fn cause(
    cluster: Cluster,
    mut random: Random,
    mut outage: Option<Duration>,
    trace: Trace,
    log: Log,
) {
    let until = Instant::now() + FAULTY + outage.unwrap_or_default();
    sleep(Duration::from_millis(random.within(0..4000))).await;
    while Instant::now() < until {
        let node = random.within(0..cluster.size() as u64) as usize;
        if log.is_faulty(node, Instant::now()) {
            sleep(Duration::from_millis(500)).await;
            continue;
        }
        let fault = draw(&mut random, node, cluster.shards(node));
        let lasts = Duration::from_millis(match (fault, random.within(0..3)) {
            (Fault::DripUnderLoad(_), _) => 40_000,
            (Fault::PauseUnderLoad(_) | Fault::CutUnderLoad(_), _) => random.within(1500..2500),
            (_, 0) => random.within(50..2000),
            (_, 1) => random.within(2000..10_000),
            (..) => random.within(10_000..40_000),
        });
        let is_outage =
            matches!(fault, Fault::Pause | Fault::Kill | Fault::PowerLoss | Fault::Cut(_));
        let lasts = outage.take_if(|_| is_outage).unwrap_or(lasts);
        let at = cluster.address(node);
        let happened =
            Happened { node, at, fault, began: Instant::now(), ended: None, cleared: None };
        let number = {
            let mut faults = log.lock();
            faults.push(happened);
            faults.len() - 1
        };
        begin(&cluster, node, fault);
        trace.line(|| format!("FAULT node {}: {fault:?} for {lasts:.1?}", node + 1));
        if let Fault::PauseUnderLoad(burst)
        | Fault::CutUnderLoad(burst)
        | Fault::DripUnderLoad(burst) = fault
        {
            let _ = log.bursts.send(burst);
        }
        sleep(lasts).await;
        end(&cluster, node, fault);
        log.lock()[number].ended = Some(Instant::now());
        trace.line(|| format!("FAULT node {}: {fault:?} ends", node + 1));
        sleep(Duration::from_millis(random.within(0..12_000))).await;
    }
}

/// Changes the schema now and then, as another client would.
pub async fn change_schema(cluster: Cluster, mut random: Random, trace: Trace, until: Instant) {
    while Instant::now() < until {
        sleep(Duration::from_millis(random.within(5_000..25_000))).await;
        let node = random.within(0..cluster.size() as u64) as usize;
        cluster.make_table(node);
        trace.line(|| format!("another client makes a table at node {}", node + 1));
    }
}

/// Moves tablets now and then, as a cluster does to balance its load.
pub async fn migrate_tablets(cluster: Cluster, mut random: Random, until: Instant) {
    while Instant::now() < until {
        sleep(Duration::from_millis(random.within(1_000..8_000))).await;
        cluster.migrate_tablet();
    }
}

fn draw(random: &mut Random, node: usize, shards: Option<u16>) -> Fault {
    if let Some(shards) = shards
        && random.percent(20)
    {
        return match random.percent(60) {
            true => Fault::HangShard(random.within(0..shards.into()) as u16),
            false => Fault::Reshard(random.within(1..5) as u16),
        };
    }
    match random.within(0..40) {
        0..7 => Fault::Pause,
        7 if random.percent(7) => {
            let limit = Duration::from_secs(10);
            Fault::CutUnderLoad(Burst { node, requests: MORE_THAN_STREAMS, limit })
        }
        7 if random.percent(20) => {
            let limit = Duration::from_secs(80);
            Fault::DripUnderLoad(Burst { node, requests: 1500, limit })
        }
        7 => {
            let limit = Duration::from_millis(300);
            Fault::PauseUnderLoad(Burst { node, requests: 1500, limit })
        }
        8..11 => Fault::Kill,
        11..14 => Fault::PowerLoss,
        14..16 => Fault::Move,
        16..18 => Fault::Replace,
        18..20 => Fault::RefuseLogins(*random.choose(&[0x0100, 0x1001])),
        20..22 => Fault::Cut(&BOTH),
        22..24 => Fault::Cut(&[Direction::ToHost]),
        24..26 => Fault::Cut(&[Direction::ToClient]),
        26 => Fault::Reset,
        27 => Fault::Freeze(random.within(0..8) as usize),
        28..30 => Fault::ResetInFrame(random.within(1..400) as usize),
        30 | 31 => Fault::Slow(Duration::from_millis(random.within(20..3000))),
        32 | 33 => {
            Fault::Drip(random.within(1..40) as usize, Duration::from_millis(random.within(1..20)))
        }
        34 => Fault::ForgetStatements,
        35 => Fault::FillCache,
        36 | 37 => Fault::RemakeTable,
        _ => Fault::Overload,
    }
}

fn begin(cluster: &Cluster, node: usize, fault: Fault) {
    let (network, host) = (cluster.network(), cluster.ip(node));
    match fault {
        Fault::Pause | Fault::PauseUnderLoad(_) => cluster.pause(node, true),
        Fault::Kill | Fault::Move | Fault::MoveAll | Fault::Replace | Fault::Reshard(_) => {
            cluster.kill(node, false);
        }
        Fault::HangShard(shard) => cluster.hang_shard(node, Some(shard)),
        Fault::PowerLoss => {
            BOTH.iter().for_each(|way| network.change(host, *way, |link| link.is_cut = true));
            cluster.kill(node, true);
        }
        Fault::RefuseLogins(code) => {
            cluster.refuse_logins(node, Some(code));
            network.reset(host, None);
        }
        Fault::CutUnderLoad(_) => {
            network.change(host, Direction::ToClient, |link| link.is_cut = true);
        }
        Fault::Cut(ways) => {
            ways.iter().for_each(|way| network.change(host, *way, |link| link.is_cut = true));
        }
        Fault::Reset => network.reset(host, None),
        Fault::Freeze(which) => network.freeze(host, which),
        Fault::ResetInFrame(bytes) => network.reset(host, Some(bytes)),
        Fault::Slow(delay) => {
            BOTH.iter().for_each(|way| network.change(host, *way, |link| link.delay = delay));
        }
        Fault::DripUnderLoad(_) => {
            let drip = Some((20, Duration::from_millis(10)));
            network.change(host, Direction::ToClient, |link| link.drip = drip);
        }
        Fault::Drip(bytes, pause) => {
            let drip = Some((bytes, pause));
            BOTH.iter().for_each(|way| network.change(host, *way, |link| link.drip = drip));
        }
        Fault::ForgetStatements => cluster.forget_statements(node),
        Fault::FillCache => cluster.fill_cache(node, true),
        Fault::RemakeTable => cluster.remake_table(),
        Fault::Overload => cluster.overload(node, true),
    }
}

fn end(cluster: &Cluster, node: usize, fault: Fault) {
    let (network, host) = (cluster.network(), cluster.ip(node));
    match fault {
        Fault::Pause | Fault::PauseUnderLoad(_) => cluster.pause(node, false),
        Fault::Kill | Fault::PowerLoss => cluster.restart(node),
        Fault::Move | Fault::MoveAll => cluster.restart_elsewhere(node),
        Fault::Replace => cluster.replace(node),
        Fault::Reshard(shards) => {
            cluster.reshard(node, shards);
            cluster.restart(node);
        }
        Fault::HangShard(_) => cluster.hang_shard(node, None),
        Fault::RefuseLogins(_) => cluster.refuse_logins(node, None),
        Fault::FillCache => cluster.fill_cache(node, false),
        Fault::Overload => cluster.overload(node, false),
        Fault::Cut(_)
        | Fault::CutUnderLoad(_)
        | Fault::Reset
        | Fault::Freeze(_)
        | Fault::ResetInFrame(_) => {}
        Fault::Slow(_)
        | Fault::Drip(..)
        | Fault::DripUnderLoad(_)
        | Fault::ForgetStatements
        | Fault::RemakeTable => {}
    }
    BOTH.iter().for_each(|way| network.change(host, *way, |link| *link = Default::default()));
}
