//! Notices nodes that have fallen silent, so that requests are sent to the other nodes.
//!
//! A node that hangs (a paused process, a disk that does not answer, a host without power) keeps
//! its connections open. Without the watch, requests would be sent to such a node until the
//! keepalive closes its connections.

use std::net::SocketAddr;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use futures::future::join_all;
use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::unprepared::Statement;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::cluster::probe::Endpoints;
use crate::error::effect::Effect;
use crate::policies::retry::Retry;
use crate::policies::silence::{NodeSilence, Silence, TICK};
use crate::telemetry::counters::Telemetry;
use crate::telemetry::events::Event;

/// If requests to a node are unanswered for this many ticks ([`TICK`]), the watch probes the node.
const PATIENCE: u64 = 2;

/// After a node has answered a probe, the watch waits at least this many ticks before it probes the
/// node again, unless the answer was doubtful ([`Endpoints::is_doubtful`]).
const ASKED: u64 = 10;

/// After a node has refused the connection for a probe, the watch waits this many ticks before it
/// probes the node again.
const REFUSED: u64 = 50;

/// If no requests are sent for this time, the watch sends one request to each connected node.
const IDLE: Duration = Duration::from_secs(5);

/// After this many ticks without an unanswered request or a silent node, the watch stops counting
/// ticks.
const QUIET: u64 = 20;

/// The time limit of a request that the watch sends.
const PROBE: Duration = Duration::from_secs(1);

/// The watch probes a silent node again after 2 ticks. Each further pause is twice as long, up to
/// this many ticks.
const SLOWEST: u64 = 20;

/// A probe that took this much longer than its time limit says nothing about the node, because this
/// process itself was paused.
const PAUSED: Duration = Duration::from_millis(300);

/// The right to probe a node. Only one task at a time has it.
struct Asking(Arc<NodeSilence>);

impl Asking {
    fn begin(node: Arc<NodeSilence>) -> Option<Asking> {
        if node.asking.swap(true, Ordering::AcqRel) { None } else { Some(Asking(node)) }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.store(false, Ordering::Release);
    }
}

/// How many ticks the watch waits after an unanswered probe, if `missed` ones before it were not
/// answered either.
fn pause_after(missed: u64) -> u64 {
    (2 << missed.min(8)).min(SLOWEST)
}

/// A session of this crate, which has a session of the ScyllaDB driver.
pub(crate) trait Watched: Send + Sync {
    fn engine(&self) -> &Session;
}

/// The watch of a session: notices nodes that do not answer.
pub(crate) struct Watch {
    pub(crate) silence: Arc<Silence>,
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) session: Weak<dyn Watched>,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl Watch {
    /// Watches the nodes of the session until the session is dropped.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            if timeout(IDLE, self.silence.wake.notified()).await.is_err() {
                let Some(session) = self.session.upgrade() else { return };
                self.ask_all(&session).await;
                self.name_silent(session.engine().get_cluster_state().get_nodes_info());
                if self.silence.silent.load(Ordering::Relaxed) == 0 {
                    continue;
                }
            }
            self.silence.active.store(true, Ordering::Release);
            if !self.count_ticks().await {
                return;
            }
        }
    }

    /// Counts ticks. Stops after [`QUIET`] ticks in a row in which no request waited for an answer,
    /// and no node was silent. Returns false if the session is gone.
    async fn count_ticks(self: &Arc<Self>) -> bool {
        let silence = &self.silence;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet = 0;
        while quiet < QUIET {
            ticks.tick().await;
            let now = silence.tick.fetch_add(1, Ordering::Relaxed) + 1;
            let Some(session) = self.session.upgrade() else { return false };
            quiet = if self.check(now, &session) { 0 } else { quiet + 1 };
        }
        silence.active.store(false, Ordering::Release);
        fence(Ordering::SeqCst);
        let nodes = silence.nodes.read().unwrap_or_else(PoisonError::into_inner);
        if nodes.values().any(|node| node.waiting.load(Ordering::Relaxed) != 0) {
            silence.wake.notify_one();
        }
        true
    }

    /// Probes nodes that are silent or have left requests unanswered. Returns whether any node is
    /// silent or any request waits for an answer.
    fn check(self: &Arc<Self>, now: u64, session: &Arc<dyn Watched>) -> bool {
        let cluster = session.engine().get_cluster_state();
        let nodes = cluster.get_nodes_info();
        let (mut silent, mut waits) = (0, false);
        let several = nodes.len() > 1;
        for node in nodes.iter().filter(|node| node.is_enabled()) {
            let state = self.silence.node(node.host_id);
            let is_silent = state.silent.load(Ordering::Relaxed);
            silent += usize::from(is_silent);
            if !node.is_connected() {
                // The balancing policy already leaves out a node without connections, and the
                // node's pool reconnects.
                state.answered();
                state.reconnects.store(true, Ordering::Relaxed);
            } else if state.reconnects.swap(false, Ordering::Relaxed) {
                // The node's pool has connected again, so the node is probed at once, without the
                // pause that follows an unanswered probe.
                state.ask_at.store(now, Ordering::Relaxed);
            }
            let since = state.waiting.load(Ordering::Relaxed);
            waits |= since != 0;
            let unanswered = since != 0 && now.saturating_sub(since) >= PATIENCE;
            let due = now >= state.ask_at.load(Ordering::Relaxed);
            // A late answer may be the end of a hang. If this delay were taken as the node's normal
            // delay, the next hang would be noticed late. So the node is probed again.
            let is_doubtful =
                node.is_connected() && self.endpoints.is_doubtful(self.reached_at(node));
            // If a cluster has one node, requests cannot avoid it, so it is probed only while it is
            // silent.
            let is_asked = is_silent || (several && (unanswered || is_doubtful));
            // A node without connections receives no requests that could show its silence.
            let is_reached_for = several && !node.is_connected();
            if due
                && (is_asked || is_reached_for)
                && let Some(asking) = Asking::begin(state)
            {
                let this = Arc::clone(self);
                if is_asked {
                    tokio::spawn(this.ask(Arc::clone(node), asking, Arc::clone(session)));
                } else {
                    tokio::spawn(this.reach_for(self.reached_at(node), asking));
                }
            }
        }
        self.silence.silent.store(silent, Ordering::Relaxed);
        self.silence.forget(nodes);
        self.name_silent(nodes);
        silent > 0 || waits
    }

    /// Tells the ScyllaDB driver which nodes are silent. A node without connections in its pool
    /// also counts as silent if it did not answer its last probe: the driver's control connection
    /// is not in the pool, and may still lead to that node.
    #[cfg_attr(not(edited_crates), expect(clippy::unused_self, reason = "the edit is missing"))]
    fn name_silent(&self, nodes: &[Arc<Node>]) {
        #[cfg(not(edited_crates))]
        let _ = nodes;
        #[cfg(edited_crates)]
        {
            let unanswered = self.endpoints.silent();
            let nodes = nodes.iter().filter(|node| node.is_enabled());
            let nodes = nodes.map(|node| (node, self.reached_at(node)));
            let silent = nodes.filter(|(node, at)| {
                let is_out_of_reach = !node.is_connected() && unanswered.contains(at);
                is_out_of_reach || self.silence.node(node.host_id).silent.load(Ordering::Relaxed)
            });
            self.silence.known.set(silent.map(|(node, at)| (node.host_id, at)).collect());
        }
    }

    fn reached_at(&self, node: &Node) -> SocketAddr {
        self.endpoints.reached_at(SocketAddr::new(node.address.ip(), node.address.port()))
    }

    /// Probes a node on a separate connection, because on the session's connections the answer
    /// would wait behind the answers to other requests.
    async fn ask(self: Arc<Self>, node: Arc<Node>, asking: Asking, session: Arc<dyn Watched>) {
        let (silence, state) = (&self.silence, &asking.0);
        let at = self.reached_at(&node);
        let limit = self.endpoints.patience(at);
        let began = Instant::now();
        let alive = match timeout(limit, self.endpoints.probe(at)).await {
            // The node answers, or it refuses the connection. The node's pool handles a refusal.
            Ok(_) => true,
            Err(_) => began.elapsed() > limit + PAUSED,
        };
        let was_silent = state.silent.load(Ordering::Relaxed);
        // A connected node that was silent must also answer one request.
        let asked = Instant::now();
        let alive =
            alive && (!was_silent || !node.is_connected() || self.request(&node, &*session).await);
        let now = silence.tick.load(Ordering::Relaxed);
        if alive {
            state.answered();
            if was_silent {
                silence.returns(state, asked.elapsed());
                self.telemetry.report(Event::new("node answers again", Some(at)));
            }
            state.missed.store(0, Ordering::Relaxed);
            let pause = if self.endpoints.is_doubtful(at) { 0 } else { ASKED };
            state.ask_at.store(now + pause, Ordering::Relaxed);
        } else {
            let cluster = session.engine().get_cluster_state();
            let _deciding = silence.deciding.lock().unwrap_or_else(PoisonError::into_inner);
            if was_silent || silence.may_be_silent(&node, cluster.get_nodes_info()) {
                state.silent.store(true, Ordering::Relaxed);
                silence.silent.fetch_add(usize::from(!was_silent), Ordering::Relaxed);
                if !was_silent {
                    let event = Event::new("node silent", Some(at)).seconds("waited_s", limit);
                    self.telemetry.report(event);
                }
            }
            let pause = pause_after(state.missed.fetch_add(1, Ordering::Relaxed));
            state.ask_at.store(now + pause, Ordering::Relaxed);
        }
    }

    /// Probes a node without connections, and tells [`Endpoints`] if the node does not answer.
    async fn reach_for(self: Arc<Self>, at: SocketAddr, asking: Asking) {
        let state = &asking.0;
        let limit = self.endpoints.patience(at);
        let began = Instant::now();
        let pause = match timeout(limit, self.endpoints.probe(at)).await {
            Ok(answer) => {
                state.missed.store(0, Ordering::Relaxed);
                if answer.is_ok() { ASKED } else { REFUSED }
            }
            Err(_) if began.elapsed() > limit + PAUSED => ASKED,
            Err(_) => {
                self.endpoints.missed(at);
                pause_after(state.missed.fetch_add(1, Ordering::Relaxed))
            }
        };
        let now = self.silence.tick.load(Ordering::Relaxed);
        state.ask_at.store(now + pause, Ordering::Relaxed);
    }

    /// Sends a request to a node. Returns whether an answer or an error comes in time.
    async fn request(&self, node: &Arc<Node>, session: &dyn Watched) -> bool {
        let mut statement = Statement::new("SELECT key FROM system.local WHERE key = 'local'");
        let target = NodeIdentifier::Node(Arc::clone(node));
        let policy = SingleTargetLoadBalancingPolicy::new(target, None);
        statement.set_load_balancing_policy(Some(policy));
        statement.set_consistency(scylla::statement::Consistency::One);
        statement.set_retry_policy(Some(Retry::Fallthrough.careful(Effect::Reads)));
        timeout(PROBE, session.engine().query_unpaged(statement, ())).await.is_ok()
    }

    /// Sends one request to each connected node. If a node does not answer, it is probed in the
    /// same way as a node that has left other requests unanswered.
    async fn ask_all(self: &Arc<Self>, session: &Arc<dyn Watched>) {
        let cluster = session.engine().get_cluster_state();
        let nodes = cluster.get_nodes_info();
        // If there is no other node, requests cannot avoid a silent one.
        if nodes.len() < 2 {
            return;
        }
        let connected = nodes.iter().filter(|node| node.is_connected());
        join_all(connected.map(|node| async {
            let Some(asking) = Asking::begin(self.silence.node(node.host_id)) else { return };
            if !self.request(node, &**session).await {
                let (node, session) = (Arc::clone(node), Arc::clone(session));
                Arc::clone(self).ask(node, asking, session).await;
            }
        }))
        .await;
    }
}
