//! Execution profiles: settings of requests, as data and in the ScyllaDB driver's form.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::cluster::metadata::Peer;
use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::RequestAttemptError;
use scylla::policies::host_filter::HostFilter;
use scylla::policies::load_balancing::{
    DefaultPolicy, FallbackPlan, LatencyAwarenessBuilder, LoadBalancingPolicy, RoutingInfo,
};
use scylla::policies::speculative_execution::{
    PercentileSpeculativeExecutionPolicy, SimpleSpeculativeExecutionPolicy,
    SpeculativeExecutionPolicy,
};
use scylla::routing::Shard;

use crate::error::effect::Effect;
use crate::policies::near::{Near, Rerouted, only};
use crate::policies::ranks::{Ranked, Ranks};
use crate::policies::retry::Retry;
use crate::policies::silence::{AvoidSilent, Silence};
use crate::telemetry::counters::Telemetry;
use crate::terms::{Consistency, SerialConsistency};

/// The settings of a request, unless its own options override them.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub consistency: Consistency,
    pub serial_consistency: Option<SerialConsistency>,
    /// The time limit of a request, for all its attempts together. `None` means no limit.
    pub timeout: Option<Duration>,
    pub retry: Retry,
    /// Decides when a slow idempotent request is sent to one more node.
    pub speculation: Option<Speculation>,
    pub balancing: Balancing,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            consistency: Consistency::LocalQuorum,
            serial_consistency: Some(SerialConsistency::LocalSerial),
            timeout: Some(Duration::from_secs(10)),
            retry: Retry::Default,
            speculation: None,
            balancing: Balancing::default(),
        }
    }
}

/// Decides when a request is sent to one more node before the first node has answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Speculation {
    /// The request is sent again after `delay`, and after each further `delay`, up to `attempts`
    /// times.
    Constant { delay: Duration, attempts: usize },
    /// The delay is this percentile of the latencies of the session's requests.
    Percentile { percentile: f64, attempts: usize },
}

impl Speculation {
    fn policy(&self) -> Arc<dyn SpeculativeExecutionPolicy> {
        match *self {
            Speculation::Constant { delay, attempts } => {
                Arc::new(SimpleSpeculativeExecutionPolicy {
                    max_retry_count: attempts,
                    retry_interval: delay,
                })
            }
            Speculation::Percentile { percentile, attempts } => {
                Arc::new(PercentileSpeculativeExecutionPolicy {
                    max_retry_count: attempts,
                    percentile,
                })
            }
        }
    }
}

/// How the node for a request is selected.
#[derive(Clone, Debug, PartialEq)]
pub struct Balancing {
    pub datacenter: Option<String>,
    /// The preferred rack of `datacenter`.
    pub rack: Option<String>,
    pub token_aware: bool,
    /// Whether nodes of other datacenters are tried after the nodes of `datacenter`.
    pub datacenter_failover: bool,
    pub shuffle_replicas: bool,
    pub latency: Option<Latency>,
    /// The only nodes that requests go to. An empty list allows all nodes.
    pub allowed: Vec<Allowed>,
    /// Whether nodes that have fallen silent are tried last.
    pub avoid_silent: bool,
}

impl Default for Balancing {
    fn default() -> Balancing {
        Balancing {
            datacenter: None,
            rack: None,
            token_aware: true,
            datacenter_failover: false,
            shuffle_replicas: true,
            latency: None,
            allowed: Vec::new(),
            avoid_silent: true,
        }
    }
}

/// Decides when a node is too slow to be tried first.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// A node is too slow if its latency is more than this many times the latency of the fastest
    /// node.
    pub exclusion_threshold: f64,
    /// How long a node may count as slow after its last measurement. Then it is tried again.
    pub retry_period: Duration,
    pub update_rate: Duration,
    pub minimum_measurements: usize,
    /// How fast the weight of old measurements decreases.
    pub scale: Duration,
}

/// Matches a node by its IP address and, unless `port` is `None`, by its port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    pub ip: IpAddr,
    pub port: Option<u16>,
}

impl Allowed {
    pub(crate) fn is(self, address: SocketAddr) -> bool {
        self.ip == address.ip().to_canonical()
            && self.port.is_none_or(|port| port == address.port())
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

impl Balancing {
    /// Makes the policies for these settings. The caller must run on the tokio runtime, because
    /// latency awareness spawns a task.
    pub(crate) fn routes(&self, silence: &Arc<Silence>, ranks: &Arc<Ranks>) -> Routes {
        let mut builder = DefaultPolicy::builder()
            .token_aware(self.token_aware)
            .permit_dc_failover(self.datacenter_failover)
            .enable_shuffling_replicas(self.shuffle_replicas);
        builder = match (self.datacenter.clone(), self.rack.clone()) {
            (Some(datacenter), Some(rack)) => builder.prefer_datacenter_and_rack(datacenter, rack),
            (Some(datacenter), None) => builder.prefer_datacenter(datacenter),
            (None, _) => builder,
        };
        if let Some(latency) = &self.latency {
            builder = builder.latency_awareness(
                LatencyAwarenessBuilder::new()
                    .exclusion_threshold(latency.exclusion_threshold)
                    .retry_period(latency.retry_period)
                    .update_rate(latency.update_rate)
                    .minimum_measurements(latency.minimum_measurements)
                    .scale(latency.scale),
            );
        }
        let mut policy = builder.build();
        if !self.allowed.is_empty() {
            policy = Arc::new(AllowList { allowed: self.allowed.clone(), policy });
        }
        policy = Arc::new(Ranked { ranks: Arc::clone(ranks), policy });
        Routes::new(policy, self.avoid_silent.then(|| Arc::clone(silence)))
    }
}

/// The policies that decide in which order the nodes for a request are tried.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    policy: Arc<dyn LoadBalancingPolicy>,
    /// The field is `None` if silent nodes are not avoided.
    silence: Option<Arc<Silence>>,
    conditional: Arc<dyn LoadBalancingPolicy>,
}

impl Routes {
    fn new(policy: Arc<dyn LoadBalancingPolicy>, silence: Option<Arc<Silence>>) -> Routes {
        let conditional = Arc::new(Rerouted::conditional(Arc::clone(&policy)));
        let conditional = avoiding_silent(conditional, silence.as_ref());
        Routes { policy, silence, conditional }
    }

    fn policy(&self) -> Arc<dyn LoadBalancingPolicy> {
        self.avoiding_silent(Arc::clone(&self.policy))
    }

    /// The policy for requests that write under a condition.
    pub(crate) fn conditional(&self) -> Arc<dyn LoadBalancingPolicy> {
        Arc::clone(&self.conditional)
    }

    /// The policy for requests to `near`.
    pub(crate) fn near(&self, near: &Near) -> Arc<dyn LoadBalancingPolicy> {
        match near {
            Near::Token { keyspace, table, token } => {
                let policy = Arc::clone(&self.policy);
                self.avoiding_silent(Arc::new(Rerouted::near((keyspace, table), *token, policy)))
            }
            Near::Node { host_id, shard } => {
                let policy = only(*host_id, *shard);
                match &self.silence {
                    Some(silence) => Arc::new(AvoidSilent {
                        policy,
                        silence: Arc::clone(silence),
                        avoids: false,
                    }),
                    None => policy,
                }
            }
        }
    }

    fn avoiding_silent(
        &self,
        policy: Arc<dyn LoadBalancingPolicy>,
    ) -> Arc<dyn LoadBalancingPolicy> {
        avoiding_silent(policy, self.silence.as_ref())
    }
}

fn avoiding_silent(
    policy: Arc<dyn LoadBalancingPolicy>,
    silence: Option<&Arc<Silence>>,
) -> Arc<dyn LoadBalancingPolicy> {
    match silence {
        Some(silence) => {
            Arc::new(AvoidSilent { policy, silence: Arc::clone(silence), avoids: true })
        }
        None => policy,
    }
}

/// Sends requests only to the allowed nodes, in the order of the wrapped `policy`.
#[derive(Debug)]
struct AllowList {
    allowed: Vec<Allowed>,
    policy: Arc<dyn LoadBalancingPolicy>,
}

impl AllowList {
    fn is_allowed(&self, node: NodeRef<'_>) -> bool {
        let address = SocketAddr::new(node.address.ip(), node.address.port());
        self.allowed.iter().any(|allowed| allowed.is(address))
    }
}

impl LoadBalancingPolicy for AllowList {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        self.policy.pick(request, cluster).filter(|(node, _)| self.is_allowed(node))
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        let fallback = self.policy.fallback(request, cluster);
        Box::new(fallback.filter(|(node, _)| self.is_allowed(node)))
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
        format!("allow list over {}", self.policy.name())
    }
}

/// A host filter that allows connections to these nodes only.
pub(crate) struct OnlyThese(pub(crate) Vec<Allowed>);

impl HostFilter for OnlyThese {
    fn accept(&self, peer: &Peer) -> bool {
        let address = SocketAddr::new(peer.address.ip(), peer.address.port());
        self.0.iter().any(|allowed| allowed.is(address))
    }
}

impl Profile {
    /// The ScyllaDB driver's form of this profile.
    pub(crate) fn handle(&self, routes: &Routes) -> ExecutionProfileHandle {
        ExecutionProfile::builder()
            .consistency(self.consistency.into())
            .serial_consistency(self.serial_consistency.map(Into::into))
            .request_timeout(self.timeout)
            .retry_policy(self.retry.careful(Effect::Writes))
            .speculative_execution_policy(self.speculation.as_ref().map(Speculation::policy))
            .load_balancing_policy(routes.policy())
            .build()
            .into_handle()
    }
}

/// The profiles of a session.
#[derive(Debug)]
pub(crate) struct Profiles {
    pub(crate) default: Profile,
    routes: Routes,
    named: HashMap<String, Named>,
    pub(crate) ranks: Arc<Ranks>,
    /// Counts the requests of the session.
    pub(crate) telemetry: Arc<Telemetry>,
}

#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) profile: Profile,
    pub(crate) handle: ExecutionProfileHandle,
    routes: Routes,
}

impl Profiles {
    /// `routes` are the routes of the default profile. The caller must run on the tokio runtime
    /// (see [`Balancing::routes`]).
    pub(crate) fn new(
        default: Profile,
        routes: Routes,
        named: Vec<(String, Profile)>,
        silence: &Arc<Silence>,
        ranks: Arc<Ranks>,
        telemetry: Arc<Telemetry>,
    ) -> Profiles {
        let named = named.into_iter().map(|(name, profile)| {
            let routes = profile.balancing.routes(silence, &ranks);
            let handle = profile.handle(&routes);
            (name, Named { profile, handle, routes })
        });
        let named = named.collect();
        Profiles { default, routes, named, ranks, telemetry }
    }

    /// Whether any of the profiles avoids silent nodes.
    pub(crate) fn watches(&self) -> bool {
        let named = self.named.values().map(|named| &named.profile);
        named.chain([&self.default]).any(|profile| profile.balancing.avoid_silent)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Named> {
        self.named.get(name)
    }

    /// The names of the profiles, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.named.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The routes of the profile of this name, or of the default profile if `name` is `None` or
    /// unknown.
    pub(crate) fn routes(&self, name: Option<&str>) -> &Routes {
        name.and_then(|name| self.get(name)).map_or(&self.routes, |named| &named.routes)
    }

    /// The profile of this name, or the default profile if `name` is `None` or unknown.
    pub(crate) fn of(&self, name: Option<&str>) -> &Profile {
        name.and_then(|name| self.get(name)).map_or(&self.default, |named| &named.profile)
    }
}
