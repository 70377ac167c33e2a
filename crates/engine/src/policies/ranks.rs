//! Makes load balancing policies try nodes in the order of their ranks, which `Session::rank` sets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::RequestAttemptError;
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::routing::Shard;
use uuid::Uuid;

/// The rank of each node, by host id. Nodes of a lower rank are tried first. `None` excludes a
/// node.
type ByHost = HashMap<Uuid, Option<u32>>;

/// The ranks of a session's nodes. Without ranks, all policies keep their order.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    /// Whether there are ranks. Read for each request, without the lock.
    are_set: AtomicBool,
    by_host: RwLock<ByHost>,
}

impl Ranks {
    pub(crate) fn set(&self, ranks: Option<ByHost>) {
        let mut by_host = self.by_host.write().unwrap_or_else(PoisonError::into_inner);
        self.are_set.store(ranks.is_some(), Ordering::Relaxed);
        *by_host = ranks.unwrap_or_default();
    }

    /// Whether the ranks exclude all of `hosts`, the nodes of the cluster.
    pub(crate) fn exclude_all(&self, hosts: impl IntoIterator<Item = Uuid>) -> bool {
        self.are_set.load(Ordering::Relaxed)
            && hosts.into_iter().all(|host| self.of(host).is_none())
    }

    /// The rank of a node. A node without a rank is new, and comes last.
    fn of(&self, host: Uuid) -> Option<u32> {
        let by_host = self.by_host.read().unwrap_or_else(PoisonError::into_inner);
        by_host.get(&host).copied().unwrap_or(Some(u32::MAX))
    }
}

/// Orders the nodes of the wrapped `policy` by their ranks. Nodes of one rank keep the order of
/// that policy.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) ranks: Arc<Ranks>,
    pub(crate) policy: Arc<dyn LoadBalancingPolicy>,
}

impl Ranked {
    fn are_set(&self) -> bool {
        self.ranks.are_set.load(Ordering::Relaxed)
    }
}

impl LoadBalancingPolicy for Ranked {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let picked = self.policy.pick(request, cluster);
        if !self.are_set() {
            return picked;
        }
        let others = self.policy.fallback(request, cluster);
        let ranked = picked
            .into_iter()
            .chain(others)
            .filter_map(|target| Some((self.ranks.of(target.0.host_id)?, target)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, target)| target)
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        let plan = self.policy.fallback(request, cluster);
        if !self.are_set() {
            return plan;
        }
        let mut ranked: Vec<_> =
            plan.filter_map(|target| Some((self.ranks.of(target.0.host_id)?, target))).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        Box::new(ranked.into_iter().map(|(_, target)| target))
    }

    fn on_request_success(&self, request: &RoutingInfo, latency: Duration, node: NodeRef<'_>) {
        self.policy.on_request_success(request, latency, node);
    }

    fn on_request_failure(
        &self,
        request: &RoutingInfo,
        latency: Duration,
        node: NodeRef<'_>,
        error: &RequestAttemptError,
    ) {
        self.policy.on_request_failure(request, latency, node, error);
    }

    fn name(&self) -> String {
        format!("ranked, {}", self.policy.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_a_rank_comes_last_and_is_not_excluded() {
        let (ranks, hosts) = (Ranks::default(), [1, 2].map(Uuid::from_u128));
        assert_eq!(ranks.of(hosts[0]), Some(u32::MAX));
        assert!(!ranks.exclude_all(hosts));
        ranks.set(Some(HashMap::from([(hosts[0], None)])));
        assert_eq!((ranks.of(hosts[0]), ranks.of(hosts[1])), (None, Some(u32::MAX)));
        assert!(ranks.exclude_all([hosts[0]]) && !ranks.exclude_all(hosts));
        ranks.set(None);
        assert!(!ranks.exclude_all([hosts[0]]));
    }
}
