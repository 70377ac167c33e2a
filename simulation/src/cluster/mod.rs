//! A cluster of CQL servers: a model with tokens, replicas, write times and prepared statements.
//!
//! A node serves connections with tasks. A kill of the node ends the tasks; a pause suspends them,
//! as SIGSTOP suspends a process. A node keeps its rows in both cases. A coordinator learns about
//! changes of the other nodes late, as by gossip.

mod changes;
mod ledger;
mod scylla;
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

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use turbocql_codec::token::murmur3;

use crate::network::Network;
use crate::random::Random;
use crate::trace::Trace;

use self::ledger::Ledger;
pub use self::scylla::{Arrival, SHARD_AWARE_PORT};
use self::scylla::{NO_SHARD, Scylla};
pub use self::statements::{
    BURST, CLAIM, CREATE, KEYSPACE, KEYSPACES, READ, REMADE, REORDERED, SCAN, WRITE, literal_write,
};
pub use self::store::LAST_KEY;
use self::wire::Type;

pub const PORT: u16 = 9042;
/// The number of replicas of a row.
pub const REPLICAS: usize = 3;
const TOKENS: usize = 8;
/// The number of threads with which a node, or each of its shards, works on requests.
const THREADS: usize = 32;
/// When a node is down or up again, the other nodes notice it within this time.
const GOSSIP: Duration = Duration::from_secs(8);
/// All nodes learn of a schema change within this time.
pub const SCHEMA_SPREAD: Duration = Duration::from_secs(2);
/// If a client prepares one text at one node this many times within a second, that is a defect of
/// the client.
const MOST_PREPARATIONS: u32 = 200;
/// If a client sends one batch this many times with statements that a node does not know, that is a
/// defect of the client: it must send the texts of the statements, or the batch to another node.
const MOST_REFUSED_BATCHES: u32 = 30;

pub const USER: &str = "app";
pub const PASSWORD: &str = "secret";

/// A value with its write time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    pub time: i64,
    pub value: i64,
}

/// How often and when a value was written on the servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effect {
    /// The number of requests with this value that a coordinator has carried out, at least in part.
    pub requests: u32,
    /// The first and the last write time of these requests.
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

/// What a node refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A request, because the node was overloaded.
    Overloaded,
    /// A prepared statement that the node did not know.
    Unprepared,
    Login,
}

/// An answer with which a node refused something.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    pub at: Instant,
    pub node: usize,
    pub what: Refused,
}

#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    network: Network,
    trace: Trace,
    has_logins: bool,
    state: Mutex<State>,
}

struct State {
    random: Random,
    nodes: Vec<Node>,
    /// For each key of the table `claims`, the value that was written first.
    claims: BTreeMap<i64, i64>,
    effects: BTreeMap<i64, Effect>,
    ledger: Ledger,
    /// The last write time that a coordinator has chosen, in microseconds.
    last_time: i64,
    /// The latest version of the schema.
    schema: u64,
    /// For each created table, the version of the schema with which it was created.
    tables: BTreeMap<i64, u64>,
    /// The type of the column `v` of the table `remade`, and when the table was last made.
    remade: (Type, Instant),
    /// Values that were written to the table `remade` with a type that its column `v` did not have.
    /// With each value is the time of the last creation of the table before the write.
    misfits: Vec<(i64, Instant)>,
    /// The number of times that a client prepared a text at a node in one second of the run. The
    /// key is the node, the text and the second.
    preparations: BTreeMap<(usize, String, u64), u32>,
    /// The number of times that a batch had a statement that the node did not know. The key is the
    /// first value of the batch.
    refused_batches: BTreeMap<i64, u32>,
    refusals: Vec<Refusal>,
    arrivals: Vec<Arrival>,
    /// The settings and the tablets of a cluster of ScyllaDB. A cluster of Cassandra has `None`.
    scylla: Option<Scylla>,
    /// The tables that another client has made, each with the time when it was made.
    made: Vec<(String, Instant)>,
    began: Instant,
    /// A sentence for each time that the client did something that no client may do.
    defects: Vec<String>,
}

struct Node {
    host_id: u64,
    ip: IpAddr,
    /// The host id and the address that clients were last told.
    announced: (u64, IpAddr),
    tokens: Vec<i64>,
    /// The number of shards; one in a cluster of Cassandra.
    shards: u16,
    /// The number of connections so far. If the client does not choose a connection's shard, the
    /// shards take turns.
    dealt: u16,
    /// The shard that hangs, or `None` if no shard hangs.
    hung_shard: watch::Sender<Option<u16>>,
    /// The free threads of each shard.
    threads: BTreeMap<u16, Arc<Semaphore>>,
    /// The version of the schema that the node knows.
    schema: u64,
    /// Whether the process runs and is not paused.
    runs: watch::Sender<bool>,
    is_alive: bool,
    /// Whether the other nodes consider this node up.
    is_known_up: bool,
    /// Changes with each kill, pause and start, so that outdated gossip is dropped.
    epoch: u64,
    rows: BTreeMap<i64, Written>,
    /// Writes that other nodes keep until this node is back.
    hints: Vec<(i64, Written)>,
    /// Maps the ids of prepared statements to their texts.
    prepared: BTreeMap<Vec<u8>, String>,
    is_overloaded: bool,
    /// Whether the node keeps no new prepared statement, as if its cache were full of other
    /// statements.
    is_cache_full: bool,
    /// If set, the code of the error with which logins are answered.
    refuses_logins: Option<i32>,
    subscribers: Vec<mpsc::UnboundedSender<Vec<u8>>>,
    tasks: JoinSet<()>,
}

impl Cluster {
    /// Starts a cluster of `nodes` nodes. If `of_scylla` is a generator, its random numbers decide
    /// whether this is a cluster of ScyllaDB. If it is `None`, this is a cluster of Cassandra.
    pub fn start(
        nodes: usize,
        network: Network,
        trace: Trace,
        mut random: Random,
        of_scylla: Option<Random>,
    ) -> Cluster {
        let has_logins = random.percent(50);
        let mut nodes: Vec<Node> = (0..nodes)
            .map(|node| (node as u64 + 1, Ipv4Addr::new(10, 0, 0, node as u8 + 1).into()))
            .map(|(host_id, ip)| Node {
                host_id,
                ip,
                announced: (host_id, ip),
                schema: 0,
                shards: 1,
                dealt: 0,
                hung_shard: watch::Sender::new(None),
                threads: BTreeMap::new(),
                tokens: (0..TOKENS).map(|_| random.draw() as i64).collect(),
                runs: watch::Sender::new(true),
                is_alive: false,
                is_known_up: true,
                epoch: 0,
                rows: BTreeMap::new(),
                hints: Vec::new(),
                prepared: BTreeMap::new(),
                is_overloaded: false,
                is_cache_full: false,
                refuses_logins: None,
                subscribers: Vec::new(),
                tasks: JoinSet::new(),
            })
            .collect();
        let scylla = of_scylla.and_then(|mut random| Scylla::draw(&mut nodes, &mut random));
        let state = State {
            random,
            nodes,
            claims: BTreeMap::new(),
            effects: BTreeMap::new(),
            ledger: Ledger::default(),
            last_time: 0,
            schema: 0,
            tables: BTreeMap::new(),
            remade: (Type::Bigint, Instant::now()),
            misfits: Vec::new(),
            preparations: BTreeMap::new(),
            refused_batches: BTreeMap::new(),
            refusals: Vec::new(),
            arrivals: Vec::new(),
            scylla,
            made: Vec::new(),
            began: Instant::now(),
            defects: Vec::new(),
        };
        let state = Mutex::new(state);
        let cluster = Cluster(Arc::new(Inner { network, trace, has_logins, state }));
        (0..cluster.size()).for_each(|node| cluster.accept(node));
        cluster
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn size(&self) -> usize {
        self.lock().nodes.len()
    }

    /// Whether clients have to log in.
    pub fn has_logins(&self) -> bool {
        self.0.has_logins
    }

    pub fn is_scylla(&self) -> bool {
        self.lock().scylla.is_some()
    }

    pub fn ip(&self, node: usize) -> IpAddr {
        self.lock().nodes[node].ip
    }

    /// Returns the address of a node.
    pub fn address(&self, node: usize) -> SocketAddr {
        SocketAddr::new(self.ip(node), PORT)
    }

    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// Returns how often and when each value was written on the servers.
    pub fn effects(&self) -> BTreeMap<i64, Effect> {
        self.lock().effects.clone()
    }

    /// Returns a sentence for each mistake that the servers made by themselves. These sentences
    /// begin with "the servers: ".
    pub fn mistakes(&self) -> Vec<String> {
        self.lock().ledger.mistakes()
    }

    /// Returns the answers with which nodes refused something.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.lock().refusals.clone()
    }

    fn accept(&self, node: usize) {
        let mut ports = vec![PORT];
        let mut state = self.lock();
        state.nodes[node].is_alive = true;
        if state.scylla.as_ref().is_some_and(|scylla| scylla.has_shard_aware_port) {
            ports.push(SHARD_AWARE_PORT);
        }
        drop(state);
        for port in ports {
            let mut connections = self.network().listen(SocketAddr::new(self.ip(node), port));
            let cluster = self.clone();
            self.spawn(node, async move {
                while let Some((stream, source_port)) = connections.recv().await {
                    let source_port = source_port.filter(|_| port == SHARD_AWARE_PORT);
                    let shard = cluster.deal_shard(node, source_port);
                    let connection = serve::serve(cluster.clone(), (node, shard), stream);
                    cluster.spawn(node, connection);
                }
            });
        }
    }

    /// Returns the shard of a new connection. The connection's source port selects the shard, if it
    /// is given. Otherwise, the shards take turns.
    fn deal_shard(&self, node: usize, source_port: Option<u16>) -> u16 {
        let mut state = self.lock();
        let node = &mut state.nodes[node];
        node.dealt = node.dealt.wrapping_add(1);
        source_port.unwrap_or(node.dealt) % node.shards
    }

    /// Runs a task of a node's process. A kill of the node ends the task.
    fn spawn(&self, node: usize, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        let tasks = &mut state.nodes[node].tasks;
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Waits until the node's process is not paused.
    async fn running(&self, node: usize) {
        self.shard_running((node, NO_SHARD)).await;
    }

    /// Waits until the node's process is not paused and this shard does not hang.
    async fn shard_running(&self, (node, shard): (usize, u16)) {
        let (mut runs, mut hung_shard) = {
            let node = &self.lock().nodes[node];
            (node.runs.subscribe(), node.hung_shard.subscribe())
        };
        let _ = runs.wait_for(|runs| *runs).await;
        let _ = hung_shard.wait_for(|hung| *hung != Some(shard)).await;
    }

    /// Waits for `duration` as a task of the node's process. If the process is paused meanwhile,
    /// waits until it is resumed.
    async fn work(&self, at: (usize, u16), duration: Duration) {
        self.shard_running(at).await;
        sleep(duration).await;
        self.shard_running(at).await;
    }

    /// Waits for a free thread of the shard, behind earlier requests, and works on a request with
    /// it. If a thread becomes free only after the deadline, does no work and returns `None`.
    async fn handle(&self, at: (usize, u16), deadline: Option<Instant>) -> Option<()> {
        let threads = {
            let mut state = self.lock();
            let threads = state.nodes[at.0].threads.entry(at.1);
            Arc::clone(threads.or_insert_with(|| Arc::new(Semaphore::new(THREADS))))
        };
        let _thread = threads.acquire().await;
        self.shard_running(at).await;
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return None;
        }
        self.work(at, self.duration(20..400)).await;
        Some(())
    }

    fn duration(&self, microseconds: std::ops::Range<u64>) -> Duration {
        Duration::from_micros(self.lock().random.within(microseconds))
    }
}

impl State {
    /// Returns the replicas of a key, in the order of the ring.
    fn replicas(&self, key: i64) -> Vec<usize> {
        if let Some(replicas) = self.scylla.as_ref().and_then(|scylla| scylla.replicas(key)) {
            return replicas;
        }
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

    fn note_refusal(&mut self, node: usize, what: Refused) {
        self.refusals.push(Refusal { at: Instant::now(), node, what });
    }

    /// Whether the prepared statement with this id reads system tables. A node must have prepared
    /// it.
    fn is_system_read(&self, id: &[u8]) -> bool {
        let mut texts = self.preparations.keys().map(|(_, text, _)| text);
        texts
            .find(|text| statements::id(text) == id)
            .is_some_and(|text| statements::Kind::of(text) == Some(statements::Kind::System))
    }

    /// Counts that a client prepares a text at a node. If the client does so too often in one
    /// second, notes this as a defect.
    fn note_prepare(&mut self, node: usize, text: &str) {
        let second = self.began.elapsed().as_secs();
        let count = self.preparations.entry((node, text.to_owned(), second)).or_default();
        *count += 1;
        if *count == MOST_PREPARATIONS && text != BURST {
            let defect = format!("{count} preparations in a second: {text}");
            self.defects.push(defect);
        }
    }

    /// Notes that a node did not know a statement of the batch whose first value this is.
    fn note_refused_batch(&mut self, value: i64) {
        let count = self.refused_batches.entry(value).or_default();
        *count += 1;
        if *count == MOST_REFUSED_BATCHES {
            let defect = format!("the batch of value {value} had unknown statements {count} times");
            self.defects.push(defect);
        }
    }

    /// If the value's type is not the type of the column `v` of the table `remade`, notes the value
    /// in `misfits`. Stores no value in the table.
    fn write_remade(&mut self, value: &[u8]) {
        let text = value.strip_prefix(b"v").map(|digits| std::str::from_utf8(digits).unwrap());
        if text.is_some() != matches!(self.remade.0, Type::Text) {
            let number = match text {
                Some(digits) => digits.parse().unwrap(),
                None => i64::from_be_bytes(value.try_into().unwrap()),
            };
            self.misfits.push((number, self.remade.1));
        }
    }

    fn apply(&mut self, node: usize, key: i64, written: Written) {
        let node = self.scylla.as_ref().map_or(node, |scylla| scylla.heir(node, key));
        let stored = self.nodes[node].rows.entry(key).or_insert(written);
        *stored = written.max(*stored);
    }
}
