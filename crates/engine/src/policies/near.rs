//! Routes requests to the replicas of a given token, to one node, or to the replicas in the order
//! of the ring.

use std::sync::Arc;
use std::time::Duration;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::RequestAttemptError;
use scylla::frame::response::result::TableSpec;
use scylla::policies::load_balancing::{
    FallbackPlan, LoadBalancingPolicy, NodeIdentifier, RoutingInfo, SingleTargetLoadBalancingPolicy,
};
use scylla::routing::{Shard, Token};
use uuid::Uuid;

/// The nodes that a request goes to, if its values do not determine them.
#[derive(Clone, Debug, PartialEq)]
pub enum Near {
    /// The request goes first to the replicas of a token of a table. Requests for a token range use
    /// this variant.
    Token { keyspace: Arc<str>, table: Arc<str>, token: i64 },
    /// The request goes only to the node with this host id and, if `shard` is set, to this shard.
    Node { host_id: [u8; 16], shard: Option<u32> },
}

/// The policy for requests to one node.
pub(crate) fn only(host_id: [u8; 16], shard: Option<u32>) -> Arc<dyn LoadBalancingPolicy> {
    SingleTargetLoadBalancingPolicy::new(NodeIdentifier::HostId(Uuid::from_bytes(host_id)), shard)
}

/// Presents each request to the wrapped policy as a request of another kind. So the policy orders
/// the nodes as it does for requests of the other kind.
#[derive(Debug)]
pub(crate) struct Rerouted {
    kind: Kind,
    policy: Arc<dyn LoadBalancingPolicy>,
}

#[derive(Debug)]
enum Kind {
    /// A request for a row with this token in this table.
    Token(TableSpec<'static>, Token),
    /// A conditional statement.
    Conditional,
}

impl Rerouted {
    pub(crate) fn near(
        (keyspace, table): (&str, &str),
        token: i64,
        policy: Arc<dyn LoadBalancingPolicy>,
    ) -> Rerouted {
        let table = TableSpec::owned(keyspace.to_owned(), table.to_owned());
        Rerouted { kind: Kind::Token(table, Token::new(token)), policy }
    }

    /// The policy for conditional statements: the replicas in the order of the ring. Conditional
    /// statements of a partition conflict less if all clients send them to the same replica. The
    /// ScyllaDB driver uses this order only for statements that the server has marked as
    /// conditional. Cassandra marks no statements, and in a cluster of several releases of ScyllaDB
    /// the mark depends on which node prepares a statement first. So this policy marks every
    /// statement that it gets.
    pub(crate) fn conditional(policy: Arc<dyn LoadBalancingPolicy>) -> Rerouted {
        Rerouted { kind: Kind::Conditional, policy }
    }

    fn routed<'a>(&'a self, request: &'a RoutingInfo<'_>) -> RoutingInfo<'a> {
        let mut routed: RoutingInfo<'a> = request.clone();
        match &self.kind {
            Kind::Token(table, token) => {
                routed.token = Some(*token);
                routed.table = Some(table);
            }
            Kind::Conditional => routed.is_confirmed_lwt = true,
        }
        routed
    }
}

/// Returns the same node, with the lifetime of the cluster's state instead of the request's.
/// Returns `None` if the cluster does not have the node any more.
fn with_cluster_lifetime<'a>(
    cluster: &'a ClusterState,
    (node, shard): (NodeRef<'_>, Option<Shard>),
) -> Option<(NodeRef<'a>, Option<Shard>)> {
    cluster.get_node_by_host_id(node.host_id).map(|same_node| (same_node, shard))
}

impl LoadBalancingPolicy for Rerouted {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let routed = self.routed(request);
        with_cluster_lifetime(cluster, self.policy.pick(&routed, cluster)?)
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        let routed = self.routed(request);
        let plan: Vec<_> = self
            .policy
            .fallback(&routed, cluster)
            .filter_map(|node| with_cluster_lifetime(cluster, node))
            .collect();
        Box::new(plan.into_iter())
    }

    fn on_request_success(&self, request: &RoutingInfo, latency: Duration, node: NodeRef<'_>) {
        self.policy.on_request_success(&self.routed(request), latency, node);
    }

    fn on_request_failure(
        &self,
        request: &RoutingInfo,
        latency: Duration,
        node: NodeRef<'_>,
        error: &RequestAttemptError,
    ) {
        self.policy.on_request_failure(&self.routed(request), latency, node, error);
    }

    fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Token(..) => "near a token",
            Kind::Conditional => "in the order of the ring",
        };
        format!("{kind}, by {}", self.policy.name())
    }
}
