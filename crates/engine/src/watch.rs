//! Notices nodes that have fallen silent, and sends requests to the other nodes.
//!
//! A node that hangs (a paused process, a disk that does not answer, a host without power) keeps its
//! connections open. Without the watch, requests are sent to it until the keepalive closes them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures::future::join_all;
use scylla::cluster::{ClusterState, Node, NodeRef};
use scylla::errors::RequestAttemptError;
use scylla::policies::load_balancing::{
    FallbackPlan, LoadBalancingPolicy, NodeIdentifier, RoutingInfo, SingleTargetLoadBalancingPolicy,
};
use scylla::routing::Shard;
use scylla::statement::unprepared::Statement;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use uuid::Uuid;

use crate::connect::Doors;
use crate::effect::Effect;
use crate::policy::Retry;
use crate::session::Inner;

/// The watch measures time in ticks, which do not pass while this process itself is paused.
const TICK: Duration = Duration::from_millis(100);

/// For how many ticks a node may leave requests unanswered before it is asked for a sign of life.
const PATIENCE: u64 = 2;

/// The least number of ticks between two such questions to a node that has answered the last one.
const ASKED: u64 = 10;

/// Without requests, all nodes are asked after this time.
const IDLE: Duration = Duration::from_secs(5);

/// After how many ticks without waiting requests the watch stops counting ticks.
const QUIET: u64 = 20;

/// The time limit of a request that the watch sends.
const PROBE: Duration = Duration::from_secs(1);

/// A silent node is asked again after 2 ticks, then after twice as many each time, up to this.
const SLOWEST: u64 = 20;

/// A question that took this much longer than its time limit says nothing about the node: this
/// process was paused.
const PAUSED: Duration = Duration::from_millis(300);

/// The watch of a session.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    nodes: RwLock<HashMap<Uuid, Arc<Watched>>>,
    /// The number of silent nodes.
    silent: AtomicUsize,
    tick: AtomicU64,
    /// Whether ticks are counted.
    active: AtomicBool,
    wake: Notify,
    /// Held while it is decided whether one more node may be silent.
    deciding: Mutex<()>,
    /// The requests that the watch has sent, and those that have failed.
    pub(crate) probes: AtomicU64,
    pub(crate) failed_probes: AtomicU64,
}

/// What the watch knows about a node.
#[derive(Debug, Default)]
struct Watched {
    /// The tick at which a request was sent to the node, if no answer has come since: that of the
    /// oldest such request. Otherwise 0.
    waiting: AtomicU64,
    silent: AtomicBool,
    /// Whether the node is being asked for a sign of life.
    asking: AtomicBool,
    /// The tick at which it may be asked again.
    ask_at: AtomicU64,
    /// How often it has not answered since it fell silent.
    missed: AtomicU64,
}

impl Watched {
    fn answered(&self) {
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.waiting.store(0, Ordering::Relaxed);
        }
    }
}

/// The right to ask a node for a sign of life. Only one task has it.
struct Asking(Arc<Watched>);

impl Asking {
    fn begin(watched: Arc<Watched>) -> Option<Asking> {
        if watched.asking.swap(true, Ordering::AcqRel) { None } else { Some(Asking(watched)) }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.store(false, Ordering::Release);
    }
}

impl Watch {
    /// Calls `work` for the node with this host id.
    fn with<T>(&self, host_id: Uuid, work: impl FnOnce(&Watched) -> T) -> T {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = nodes.get(&host_id) {
            return work(watched);
        }
        drop(nodes);
        work(&self.watched(host_id))
    }

    fn watched(&self, host_id: Uuid) -> Arc<Watched> {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(nodes.entry(host_id).or_default())
    }

    pub(crate) fn is_silent(&self, node: NodeRef<'_>) -> bool {
        self.with(node.host_id, |watched| watched.silent.load(Ordering::Relaxed))
    }

    /// Called when a request is about to be sent to a node.
    fn begun(&self, watched: &Watched) {
        if watched.waiting.load(Ordering::Relaxed) == 0 {
            let now = self.tick.load(Ordering::Relaxed).max(1);
            watched.waiting.store(now, Ordering::Relaxed);
            // With the fence in `count_ticks`: either this request finds that no ticks are counted,
            // or it is found before they are no longer counted.
            fence(Ordering::SeqCst);
            if !self.active.load(Ordering::Relaxed) && !self.active.swap(true, Ordering::AcqRel) {
                self.wake.notify_one();
            }
        }
    }

    fn answered(&self, node: NodeRef<'_>) {
        self.with(node.host_id, Watched::answered);
    }

    /// Whether one more of these nodes may be silent: at most half of those of its datacenter that
    /// requests may go to.
    fn may_be_silent(&self, node: &Node, nodes: &[Arc<Node>]) -> bool {
        let peers = || {
            let peers = nodes.iter().filter(|peer| peer.is_enabled());
            peers.filter(|peer| peer.datacenter == node.datacenter)
        };
        let silent = peers().filter(|peer| self.is_silent(peer)).count();
        (silent + 1) * 2 <= peers().count()
    }

    /// Watches the nodes of a session, until the session is dropped.
    pub(crate) async fn keep(self: Arc<Self>, session: Weak<Inner>, doors: Arc<Doors>) {
        loop {
            if timeout(IDLE, self.wake.notified()).await.is_err() {
                let Some(session) = session.upgrade() else { return };
                self.ask_all(&session, &doors).await;
                if self.silent.load(Ordering::Relaxed) == 0 {
                    continue;
                }
            }
            self.active.store(true, Ordering::Release);
            if !self.count_ticks(&session, &doors).await {
                return;
            }
        }
    }

    /// Counts ticks until no request has waited for a while. Returns false if the session is gone.
    async fn count_ticks(self: &Arc<Self>, session: &Weak<Inner>, doors: &Arc<Doors>) -> bool {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet = 0;
        while quiet < QUIET {
            ticks.tick().await;
            let now = self.tick.fetch_add(1, Ordering::Relaxed) + 1;
            let Some(session) = session.upgrade() else { return false };
            quiet = if self.check(now, &session, doors) { 0 } else { quiet + 1 };
        }
        self.active.store(false, Ordering::Release);
        fence(Ordering::SeqCst);
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        if nodes.values().any(|watched| watched.waiting.load(Ordering::Relaxed) != 0) {
            self.wake.notify_one();
        }
        true
    }

    /// Asks nodes that have left requests unanswered, or are silent, for a sign of life. Returns
    /// whether there are any such nodes, or requests that wait.
    fn check(self: &Arc<Self>, now: u64, session: &Arc<Inner>, doors: &Arc<Doors>) -> bool {
        let cluster = session.engine.get_cluster_state();
        let nodes = cluster.get_nodes_info();
        let (mut silent, mut waits) = (0, false);
        let several = nodes.len() > 1;
        for node in nodes.iter().filter(|node| node.is_enabled()) {
            let watched = self.watched(node.host_id);
            let is_silent = watched.silent.load(Ordering::Relaxed);
            silent += usize::from(is_silent);
            if !node.is_connected() {
                // The policy leaves it out by itself, and the pool connects again.
                watched.answered();
            }
            let since = watched.waiting.load(Ordering::Relaxed);
            waits |= since != 0;
            let unanswered = since != 0 && now.saturating_sub(since) >= PATIENCE;
            let due = now >= watched.ask_at.load(Ordering::Relaxed);
            // A node that is alone cannot be left out, but one that was left out may be alone since.
            if due
                && (is_silent || (several && unanswered))
                && let Some(asking) = Asking::begin(watched)
            {
                let (this, session) = (Arc::clone(self), Arc::clone(session));
                tokio::spawn(this.ask(Arc::clone(node), asking, session, Arc::clone(doors)));
            }
        }
        self.silent.store(silent, Ordering::Relaxed);
        self.forget(nodes);
        waits || silent > 0
    }

    /// Drops what is known about nodes that have left the cluster.
    fn forget(&self, nodes: &[Arc<Node>]) {
        let mut known = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() > nodes.len() {
            known.retain(|host_id, _| nodes.iter().any(|node| node.host_id == *host_id));
        }
    }

    /// Asks a node for a sign of life on a connection of its own: on the others, the answer would
    /// wait behind their traffic.
    async fn ask(
        self: Arc<Self>,
        node: Arc<Node>,
        asking: Asking,
        session: Arc<Inner>,
        doors: Arc<Doors>,
    ) {
        let watched = &asking.0;
        let at = doors.reached_at(SocketAddr::new(node.address.ip(), node.address.port()));
        let limit = doors.patience(at);
        let began = Instant::now();
        let alive = match timeout(limit, doors.greet(at)).await {
            // A refused connection is the pool's business.
            Ok(_) => true,
            Err(_) => began.elapsed() > limit + PAUSED,
        };
        let was_silent = watched.silent.load(Ordering::Relaxed);
        // A node that was silent gets one request first.
        let alive =
            alive && (!was_silent || !node.is_connected() || self.probe(&node, &session).await);
        let now = self.tick.load(Ordering::Relaxed);
        if alive {
            watched.answered();
            watched.silent.store(false, Ordering::Relaxed);
            watched.missed.store(0, Ordering::Relaxed);
            watched.ask_at.store(now + ASKED, Ordering::Relaxed);
        } else {
            let cluster = session.engine.get_cluster_state();
            let _deciding = self.deciding.lock().unwrap_or_else(PoisonError::into_inner);
            if was_silent || self.may_be_silent(&node, cluster.get_nodes_info()) {
                watched.silent.store(true, Ordering::Relaxed);
                self.silent.fetch_add(usize::from(!was_silent), Ordering::Relaxed);
            }
            let missed = watched.missed.fetch_add(1, Ordering::Relaxed);
            let pause = (2 << missed.min(8)).min(SLOWEST);
            watched.ask_at.store(now + pause, Ordering::Relaxed);
        }
    }

    /// Sends a request to a node. Returns whether an answer comes in time.
    async fn probe(&self, node: &Arc<Node>, session: &Inner) -> bool {
        let mut statement = Statement::new("SELECT key FROM system.local WHERE key = 'local'");
        let target = NodeIdentifier::Node(Arc::clone(node));
        let policy = SingleTargetLoadBalancingPolicy::new(target, None);
        statement.set_load_balancing_policy(Some(policy));
        statement.set_consistency(scylla::statement::Consistency::One);
        statement.set_retry_policy(Some(Retry::Fallthrough.careful(Effect::Reads)));
        self.probes.fetch_add(1, Ordering::Relaxed);
        match timeout(PROBE, session.engine.query_unpaged(statement, ())).await {
            Ok(answer) => {
                self.failed_probes.fetch_add(u64::from(answer.is_err()), Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    /// Sends one request to each node. A node that does not answer is asked like one that has left
    /// requests unanswered.
    async fn ask_all(self: &Arc<Self>, session: &Arc<Inner>, doors: &Arc<Doors>) {
        let cluster = session.engine.get_cluster_state();
        let nodes = cluster.get_nodes_info();
        // A node that is alone cannot be left out.
        if nodes.len() < 2 {
            return;
        }
        let connected = nodes.iter().filter(|node| node.is_connected());
        join_all(connected.map(|node| async {
            let Some(asking) = Asking::begin(self.watched(node.host_id)) else { return };
            if !self.probe(node, session).await {
                let (node, session) = (Arc::clone(node), Arc::clone(session));
                Arc::clone(self).ask(node, asking, session, Arc::clone(doors)).await;
            }
        }))
        .await;
    }
}

/// Sends requests to the nodes that are not silent, in the order of the policy that it wraps. The
/// silent nodes come last.
#[derive(Debug)]
pub(crate) struct Attentive {
    pub(crate) policy: Arc<dyn LoadBalancingPolicy>,
    pub(crate) watch: Arc<Watch>,
}

impl LoadBalancingPolicy for Attentive {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let picked = self.policy.pick(request, cluster)?;
        self.watch.with(picked.0.host_id, |watched| {
            // Without a picked node, the request goes to the first node of `fallback`.
            if watched.silent.load(Ordering::Relaxed) {
                return None;
            }
            self.watch.begun(watched);
            Some(picked)
        })
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        let mut plan = self.policy.fallback(request, cluster);
        if self.watch.silent.load(Ordering::Relaxed) > 0 {
            let (silent, alive): (Vec<_>, Vec<_>) =
                plan.partition(|(node, _)| self.watch.is_silent(node));
            plan = Box::new(alive.into_iter().chain(silent));
        }
        Box::new(plan.inspect(|(node, _)| {
            self.watch.with(node.host_id, |watched| self.watch.begun(watched));
        }))
    }

    fn on_request_success(&self, request: &RoutingInfo, latency: Duration, node: NodeRef<'_>) {
        self.watch.answered(node);
        self.policy.on_request_success(request, latency, node);
    }

    fn on_request_failure(
        &self,
        request: &RoutingInfo,
        latency: Duration,
        node: NodeRef<'_>,
        error: &RequestAttemptError,
    ) {
        self.watch.answered(node);
        self.policy.on_request_failure(request, latency, node, error);
    }

    fn name(&self) -> String {
        format!("watch over {}", self.policy.name())
    }
}
