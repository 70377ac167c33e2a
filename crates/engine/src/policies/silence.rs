//! Records which nodes have fallen silent, and sends requests to the other nodes first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use scylla::cluster::{ClusterState, Node, NodeRef};
use scylla::errors::RequestAttemptError;
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::routing::Shard;
use tokio::sync::Notify;
use uuid::Uuid;

/// The maximum number of ticks ([`TICK`]) in which a node that answers again gets more and more
/// requests. Such a node may have a backlog: hints that other nodes have kept for it, and requests
/// from before its silence. Meanwhile the other nodes do its work, so a node without a backlog must
/// soon have its full share of requests.
const RETURNING: u64 = 20;

/// How long a returning node gets less than its full share of requests: this many times the
/// duration of the node's first request after its silence, but at most [`RETURNING`] ticks.
const DRAINS: u32 = 4;

/// The length of a tick. The watch over silent nodes counts ticks instead of reading a clock,
/// because no ticks pass while this process itself is paused.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// The state of a session's nodes. A node is silent, or returning (it answers again, and gets more
/// and more requests), or neither. The session's watch (`cluster/watch.rs`) updates the state.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    pub(crate) nodes: RwLock<HashMap<Uuid, Arc<NodeSilence>>>,
    /// The number of silent nodes.
    pub(crate) silent: AtomicUsize,
    pub(crate) tick: AtomicU64,
    /// The tick from which on no node is returning.
    returning_until: AtomicU64,
    /// Whether ticks are counted.
    pub(crate) active: AtomicBool,
    pub(crate) wake: Notify,
    /// Held while the watch decides whether one more node may be marked silent.
    pub(crate) deciding: Mutex<()>,
    /// The silent nodes, for requests that the ScyllaDB driver makes by itself: a `USE` on all
    /// connections, the check for schema agreement, and the requests of the control connection, on
    /// which the driver reads the cluster's state.
    #[cfg(edited_crates)]
    pub(crate) known: scylla::cluster::SilentNodes,
}

/// The state of one node.
#[derive(Debug, Default)]
pub(crate) struct NodeSilence {
    /// The tick at which the oldest request since the node's last answer was sent to the node. The
    /// field is 0 if no request was sent since that answer.
    pub(crate) waiting: AtomicU64,
    pub(crate) silent: AtomicBool,
    /// Whether the node is being probed.
    pub(crate) asking: AtomicBool,
    /// The tick at which the node may be probed again.
    pub(crate) ask_at: AtomicU64,
    /// Whether the node was not connected at the last tick.
    pub(crate) reconnects: AtomicBool,
    /// The number of probes in a row that the node has not answered.
    pub(crate) missed: AtomicU64,
    /// The tick at which a returning node has its full share of requests.
    returning_until: AtomicU64,
    /// The number of ticks in which the node's share grows.
    returning_for: AtomicU64,
    /// The number of requests for which the node was considered while it was returning.
    considered: AtomicU64,
}

impl NodeSilence {
    pub(crate) fn answered(&self) {
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.waiting.store(0, Ordering::Relaxed);
        }
    }
}

impl Silence {
    /// Called when a silent node answers again. `took` is the time from the watch's request to the
    /// node's answer.
    pub(crate) fn returns(&self, node: &NodeSilence, took: Duration) {
        let ticks = (took * DRAINS).as_nanos().div_ceil(TICK.as_nanos());
        let ticks = u64::try_from(ticks).map_or(RETURNING, |ticks| ticks.min(RETURNING));
        let until = self.tick.load(Ordering::Relaxed) + ticks;
        node.returning_for.store(ticks.max(1), Ordering::Relaxed);
        node.returning_until.store(until, Ordering::Relaxed);
        self.returning_until.fetch_max(until, Ordering::Relaxed);
        node.silent.store(false, Ordering::Relaxed);
    }

    /// Whether the next request goes to other nodes before `node`. This is always so while `node`
    /// is silent, and less and less often while `node` is returning.
    fn avoids(&self, node: &NodeSilence) -> bool {
        if node.silent.load(Ordering::Relaxed) {
            return true;
        }
        let until = node.returning_until.load(Ordering::Relaxed);
        let ticks_left = until.saturating_sub(self.tick.load(Ordering::Relaxed));
        let ticks = node.returning_for.load(Ordering::Relaxed).max(1);
        ticks_left > 0 && node.considered.fetch_add(1, Ordering::Relaxed) % ticks < ticks_left
    }

    /// Whether any node is silent or returning.
    fn avoids_any(&self) -> bool {
        self.silent.load(Ordering::Relaxed) > 0
            || self.returning_until.load(Ordering::Relaxed) > self.tick.load(Ordering::Relaxed)
    }

    /// Calls `work` with the state of the node with this host id.
    pub(crate) fn with<T>(&self, host_id: Uuid, work: impl FnOnce(&NodeSilence) -> T) -> T {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(&host_id) {
            return work(node);
        }
        drop(nodes);
        work(&self.node(host_id))
    }

    pub(crate) fn node(&self, host_id: Uuid) -> Arc<NodeSilence> {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(nodes.entry(host_id).or_default())
    }

    pub(crate) fn is_silent(&self, node: NodeRef<'_>) -> bool {
        self.with(node.host_id, |node| node.silent.load(Ordering::Relaxed))
    }

    /// Called when a request is about to be sent to a node.
    pub(crate) fn begun(&self, node: &NodeSilence) {
        if node.waiting.load(Ordering::Relaxed) == 0 {
            let now = self.tick.load(Ordering::Relaxed).max(1);
            node.waiting.store(now, Ordering::Relaxed);
            // The fence pairs with the fence in `Watch::count_ticks`: either this thread sees that
            // counting has stopped, or the watch sees this request and counts again.
            fence(Ordering::SeqCst);
            if !self.active.load(Ordering::Relaxed) && !self.active.swap(true, Ordering::AcqRel) {
                self.wake.notify_one();
            }
        }
    }

    pub(crate) fn answered(&self, node: NodeRef<'_>) {
        self.with(node.host_id, NodeSilence::answered);
    }

    /// Whether `node` may be marked silent. At most half of the enabled nodes of a datacenter may
    /// be silent.
    pub(crate) fn may_be_silent(&self, node: &Node, nodes: &[Arc<Node>]) -> bool {
        let peers = || {
            let peers = nodes.iter().filter(|peer| peer.is_enabled());
            peers.filter(|peer| peer.datacenter == node.datacenter)
        };
        let silent = peers().filter(|peer| self.is_silent(peer)).count();
        (silent + 1) * 2 <= peers().count()
    }

    /// Drops the state of nodes that have left the cluster.
    pub(crate) fn forget(&self, nodes: &[Arc<Node>]) {
        let mut states = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        if states.len() > nodes.len() {
            states.retain(|host_id, _| nodes.iter().any(|node| node.host_id == *host_id));
        }
    }
}

/// Keeps the order of the wrapped policy, but puts silent nodes last. For some of the requests,
/// puts returning nodes last too. Notes when a node has unanswered requests.
#[derive(Debug)]
pub(crate) struct AvoidSilent {
    pub(crate) policy: Arc<dyn LoadBalancingPolicy>,
    pub(crate) silence: Arc<Silence>,
    /// False for requests that only one node may receive.
    pub(crate) avoids: bool,
}

impl LoadBalancingPolicy for AvoidSilent {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let picked = self.policy.pick(request, cluster)?;
        self.silence.with(picked.0.host_id, |node| {
            // Without a picked node, the request goes to the first node of `fallback`.
            if self.avoids && self.silence.avoids(node) {
                return None;
            }
            self.silence.begun(node);
            Some(picked)
        })
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        let mut plan = self.policy.fallback(request, cluster);
        if self.avoids && self.silence.avoids_any() {
            let (avoided, others): (Vec<_>, Vec<_>) = plan.partition(|(node, _)| {
                self.silence.with(node.host_id, |of| self.silence.avoids(of))
            });
            plan = Box::new(others.into_iter().chain(avoided));
        }
        Box::new(plan.inspect(|(node, _)| {
            self.silence.with(node.host_id, |node| self.silence.begun(node));
        }))
    }

    fn on_request_success(&self, request: &RoutingInfo, latency: Duration, node: NodeRef<'_>) {
        self.silence.answered(node);
        self.policy.on_request_success(request, latency, node);
    }

    fn on_request_failure(
        &self,
        request: &RoutingInfo,
        latency: Duration,
        node: NodeRef<'_>,
        error: &RequestAttemptError,
    ) {
        self.silence.answered(node);
        self.policy.on_request_failure(request, latency, node, error);
    }

    fn name(&self) -> String {
        format!("avoid silent nodes, {}", self.policy.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returning_node_gets_more_and_more_requests() {
        let (silence, node) = (Silence::default(), NodeSilence::default());
        node.silent.store(true, Ordering::Relaxed);
        assert!(silence.avoids(&node));
        silence.returns(&node, TICK * RETURNING as u32);
        let mut shares = Vec::new();
        for _ in 0..=RETURNING {
            shares.push((0..RETURNING).filter(|_| !silence.avoids(&node)).count() as u64);
            silence.tick.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(shares, (0..=RETURNING).collect::<Vec<_>>());
        assert!(!silence.avoids_any());
    }

    #[test]
    fn a_node_that_answers_at_once_has_its_share_after_a_tick() {
        let (silence, node) = (Silence::default(), NodeSilence::default());
        node.silent.store(true, Ordering::Relaxed);
        silence.returns(&node, Duration::from_millis(5));
        assert!(silence.avoids(&node));
        silence.tick.fetch_add(1, Ordering::Relaxed);
        assert!(!silence.avoids(&node) && !silence.avoids_any());
    }
}
