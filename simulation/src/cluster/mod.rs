//! A cluster of CQL servers: a model with tokens, replicas, write times and prepared statements.
//!
//! A node serves connections with tasks. A kill ends them; a pause stops them where they are, as a
//! stopped process. The rows of a node survive both. What a coordinator knows about the other nodes
//! it learns late, as by gossip.

mod serve;
mod statements;
mod store;
mod system_tables;
pub mod wire;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use turbocql_codec::token::murmur3;

use crate::network::Network;
use crate::random::Random;
use crate::trace::Trace;

pub use self::statements::{CLAIM, READ, WRITE};

pub const PORT: u16 = 9042;
/// The number of replicas of a row.
pub const REPLICAS: usize = 3;
const TOKENS: usize = 8;
/// How long the other nodes take to notice that a node is down or up.
const GOSSIP: Duration = Duration::from_secs(8);

/// A value with its write time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    pub time: i64,
    pub value: i64,
}

/// What happened to a value on the servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effect {
    /// The number of requests with this value that a coordinator carried out, in part at least.
    pub requests: u32,
    /// The first and the last of their write times.
    pub times: (i64, i64),
}

impl Effect {
    fn add(&mut self, time: i64) {
        self.times = if self.requests == 0 {
            (time, time)
        } else {
            (self.times.0.min(time), self.times.1.max(time))
        };
        self.requests += 1;
    }
}

#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    pub(crate) network: Network,
    trace: Trace,
    state: Mutex<State>,
}

struct State {
    random: Random,
    nodes: Vec<Node>,
    /// The first writer's value of each key that was written under a condition.
    claims: BTreeMap<i64, i64>,
    effects: BTreeMap<i64, Effect>,
    /// The last write time that a coordinator has chosen, in microseconds.
    last_time: i64,
}

struct Node {
    tokens: Vec<i64>,
    /// Whether the process runs and is not paused.
    runs: watch::Sender<bool>,
    is_alive: bool,
    /// Whether the other nodes know the node as up.
    is_known_up: bool,
    /// Changes with each kill and each start, so that late gossip is dropped.
    epoch: u64,
    rows: BTreeMap<i64, Written>,
    /// Writes that wait on other nodes until this one is back.
    hints: Vec<(i64, Written)>,
    /// The texts of the prepared statements, by id.
    prepared: BTreeMap<Vec<u8>, String>,
    is_overloaded: bool,
    subscribers: Vec<mpsc::UnboundedSender<Vec<u8>>>,
    tasks: JoinSet<()>,
}

impl Cluster {
    /// Starts a cluster of this many nodes.
    pub fn start(nodes: usize, network: Network, trace: Trace, mut random: Random) -> Cluster {
        let nodes = (0..nodes)
            .map(|_| Node {
                tokens: (0..TOKENS).map(|_| random.draw() as i64).collect(),
                runs: watch::Sender::new(true),
                is_alive: false,
                is_known_up: true,
                epoch: 0,
                rows: BTreeMap::new(),
                hints: Vec::new(),
                prepared: BTreeMap::new(),
                is_overloaded: false,
                subscribers: Vec::new(),
                tasks: JoinSet::new(),
            })
            .collect();
        let state = State {
            random,
            nodes,
            claims: BTreeMap::new(),
            effects: BTreeMap::new(),
            last_time: 0,
        };
        let cluster = Cluster(Arc::new(Inner { network, trace, state: Mutex::new(state) }));
        (0..cluster.size()).for_each(|node| cluster.accept(node));
        cluster
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn size(&self) -> usize {
        self.lock().nodes.len()
    }

    /// The address of a node.
    pub fn ip(node: usize) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, node as u8 + 1).into()
    }

    pub fn address(node: usize) -> SocketAddr {
        SocketAddr::new(Cluster::ip(node), PORT)
    }

    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// What happened to each value on the servers.
    pub fn effects(&self) -> BTreeMap<i64, Effect> {
        self.lock().effects.clone()
    }

    fn accept(&self, node: usize) {
        let mut connections = self.network().listen(Cluster::address(node));
        let cluster = self.clone();
        self.lock().nodes[node].is_alive = true;
        self.spawn(node, async move {
            while let Some(stream) = connections.recv().await {
                let connection = serve::serve(cluster.clone(), node, stream);
                cluster.spawn(node, connection);
            }
        });
    }

    /// Runs a task of a node's process. A kill ends it.
    fn spawn(&self, node: usize, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        let tasks = &mut state.nodes[node].tasks;
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Waits until the node's process runs.
    async fn running(&self, node: usize) {
        let mut runs = self.lock().nodes[node].runs.subscribe();
        let _ = runs.wait_for(|runs| *runs).await;
    }

    /// Waits as a task of the node's process: a pause of the process ends in the middle.
    async fn work(&self, node: usize, duration: Duration) {
        self.running(node).await;
        sleep(duration).await;
        self.running(node).await;
    }

    fn duration(&self, microseconds: std::ops::Range<u64>) -> Duration {
        Duration::from_micros(self.lock().random.within(microseconds))
    }

    /// Stops a node's process where it is, or lets it go on.
    pub fn pause(&self, node: usize, is_paused: bool) {
        self.lock().nodes[node].runs.send_replace(!is_paused);
        self.gossip(node, !is_paused);
    }

    /// Ends a node's process. Its connections are reset, unless `in_silence`, as after a loss of
    /// power.
    pub fn kill(&self, node: usize, in_silence: bool) {
        let mut state = self.lock();
        let killed = &mut state.nodes[node];
        killed.is_alive = false;
        killed.prepared.clear();
        killed.subscribers.clear();
        let mut tasks = std::mem::take(&mut killed.tasks);
        drop(state);
        self.network().refuse(Cluster::ip(node));
        if !in_silence {
            self.network().reset(Cluster::ip(node), None);
        }
        tasks.abort_all();
        tokio::spawn(async move { while tasks.join_next().await.is_some() {} });
        self.gossip(node, false);
    }

    /// Starts a killed node again.
    pub fn restart(&self, node: usize) {
        self.accept(node);
        self.gossip(node, true);
    }

    /// Loses all prepared statements of a node, as its cache does when it is full.
    pub fn forget_statements(&self, node: usize) {
        self.lock().nodes[node].prepared.clear();
    }

    pub fn overload(&self, node: usize, is_overloaded: bool) {
        self.lock().nodes[node].is_overloaded = is_overloaded;
    }

    /// Tells the other nodes, late, that a node is up or down. They tell their clients.
    fn gossip(&self, node: usize, is_up: bool) {
        let mut state = self.lock();
        state.nodes[node].epoch += 1;
        let epoch = state.nodes[node].epoch;
        let late = GOSSIP.mul_f64(state.random.within(30..100) as f64 / 100.0);
        drop(state);
        let cluster = self.clone();
        tokio::spawn(async move {
            sleep(late).await;
            let mut state = cluster.lock();
            let status = &mut state.nodes[node];
            if status.epoch != epoch || status.is_known_up == is_up {
                return;
            }
            status.is_known_up = is_up;
            let hints = if is_up { std::mem::take(&mut status.hints) } else { Vec::new() };
            for (key, written) in hints {
                state.apply(node, key, written);
            }
            let event = serve::status_change(Cluster::address(node), is_up);
            for (at, other) in state.nodes.iter_mut().enumerate() {
                if at != node && other.is_alive && *other.runs.borrow() {
                    other.subscribers.retain(|to| to.send(event.clone()).is_ok());
                }
            }
            drop(state);
            let verb = if is_up { "up" } else { "down" };
            cluster.0.trace.line(|| format!("the nodes know that node {} is {verb}", node + 1));
        });
    }
}

impl State {
    /// The nodes that have a key, in the order of the ring.
    fn replicas(&self, key: i64) -> Vec<usize> {
        let token = murmur3(&key.to_be_bytes());
        let mut ring: Vec<(i64, usize)> = self
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(node, of)| of.tokens.iter().map(move |token| (*token, node)))
            .collect();
        ring.sort_unstable();
        let first = ring.partition_point(|(of, _)| *of < token);
        let mut replicas = Vec::new();
        for (_, node) in ring[first..].iter().chain(&ring[..first]) {
            if replicas.len() < REPLICAS && !replicas.contains(node) {
                replicas.push(*node);
            }
        }
        replicas
    }

    fn apply(&mut self, node: usize, key: i64, written: Written) {
        let stored = self.nodes[node].rows.entry(key).or_insert(written);
        *stored = written.max(*stored);
    }
}
