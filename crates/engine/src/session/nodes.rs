//! The cluster's nodes, replicas and traces, and the session's metrics, as plain data.

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use scylla::errors::{SchemaAgreementError, TracingError};
use scylla::routing::Token;

use crate::error::{EngineError, ErrorKind, deadline, metadata};
use crate::request::limit::Knows;
use crate::request::subject::few;
use crate::session::Session;
use crate::telemetry::metrics::{NodeMetrics, Totals};

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub host_id: [u8; 16],
    /// The address at which the session connects to the node.
    pub address: SocketAddr,
    pub datacenter: Option<String>,
    pub rack: Option<String>,
    /// Whether a connection to the node is open.
    pub connected: bool,
    /// Whether the session's watch over silent nodes has marked the node as silent.
    pub silent: bool,
    /// Whether connections to the node are allowed.
    pub enabled: bool,
    /// The number of shards of a ScyllaDB node. The field is `None` for other nodes, and for a node
    /// to which no connection has been opened yet.
    pub shards: Option<u16>,
    /// The names of ScyllaDB's protocol extensions that an open connection to the node has
    /// negotiated. The list is empty in a build without the edits of the ScyllaDB driver's crates.
    pub extensions: Vec<&'static str>,
    /// The node's tokens in ascending order.
    pub tokens: Vec<i64>,
}

/// The trace of a request, as the server recorded it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub client: Option<IpAddr>,
    pub command: Option<String>,
    pub coordinator: Option<IpAddr>,
    pub duration_us: Option<i32>,
    pub parameters: HashMap<String, String>,
    pub request: Option<String>,
    /// The beginning of the request, in milliseconds since the epoch.
    pub started_at: Option<i64>,
    pub events: Vec<TraceEvent>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    pub id: [u8; 16],
    pub activity: Option<String>,
    pub source: Option<IpAddr>,
    pub source_elapsed_us: Option<i32>,
    pub thread: Option<String>,
}

/// The figures of a session.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub totals: Totals,
    /// The figures by address. There is an entry for each node of the cluster, and for each other
    /// address at which a connection was tried.
    pub nodes: Vec<(SocketAddr, NodeMetrics)>,
    /// The number of requests in flight, and the number of bytes of their values.
    pub in_flight: (usize, usize),
    /// The number of requests that wait because the session is full.
    pub waiting: usize,
    pub connection_timeouts: u64,
}

#[cfg(edited_crates)]
fn extensions(node: &scylla::cluster::Node) -> Vec<&'static str> {
    let Some(features) = node.protocol_features() else { return Vec::new() };
    let tablets_v2 = features.tablets_v2_supported;
    let all = [
        ("SCYLLA_LWT_ADD_METADATA_MARK", features.lwt_optimization_meta_bit_mask.is_some()),
        ("SCYLLA_RATE_LIMIT_ERROR", features.rate_limit_error.is_some()),
        ("SCYLLA_USE_METADATA_ID", features.scylla_metadata_id_supported),
        // A connection enables only one of the two versions of tablet routing.
        ("TABLETS_ROUTING_V1", features.tablets_v1_supported && !tablets_v2),
        ("TABLETS_ROUTING_V2_EXPERIMENTAL", tablets_v2),
    ];
    all.into_iter().filter(|(_, is_in_force)| *is_in_force).map(|(name, _)| name).collect()
}

#[cfg(not(edited_crates))]
fn extensions(_: &scylla::cluster::Node) -> Vec<&'static str> {
    Vec::new()
}

pub(super) fn nodes(session: &Session) -> Vec<Node> {
    let cluster = session.engine().get_cluster_state();
    let mut tokens: HashMap<[u8; 16], Vec<i64>> = HashMap::new();
    for (token, node) in cluster.replica_locator().ring().iter() {
        tokens.entry(node.host_id.into_bytes()).or_default().push(token.value());
    }
    let nodes = cluster.get_nodes_info().iter().map(|node| {
        let host_id = node.host_id.into_bytes();
        Node {
            host_id,
            address: SocketAddr::new(node.address.ip(), node.address.port()),
            datacenter: node.datacenter.clone(),
            rack: node.rack.clone(),
            connected: node.is_connected(),
            silent: session.silence().is_silent(node),
            enabled: node.is_enabled(),
            shards: node.sharder().map(|sharder| sharder.nr_shards.get()),
            extensions: extensions(node),
            tokens: tokens.remove(&host_id).unwrap_or_default(),
        }
    });
    let mut nodes: Vec<Node> = nodes.collect();
    nodes.sort_by_key(|node| node.address);
    nodes
}

/// The replicas of a token: the host id and the shard of each.
pub(super) fn replicas(
    session: &Session,
    keyspace: &str,
    table: &str,
    token: i64,
) -> Vec<([u8; 16], u32)> {
    let cluster = session.engine().get_cluster_state();
    let replicas = cluster.get_token_endpoints(keyspace, table, Token::new(token));
    replicas.into_iter().map(|(node, shard)| (node.host_id.into_bytes(), shard)).collect()
}

pub(super) fn cluster_name(session: &Session) -> String {
    session.engine().get_cluster_state().cluster_name().to_owned()
}

/// Reads the nodes and the keyspaces of the cluster again, within the timeout of the default
/// profile.
pub(super) async fn refresh(session: &Session) -> Result<(), EngineError> {
    let doing = "reading the cluster's state";
    let refreshed = bounded(session, doing, session.engine().refresh_metadata()).await?;
    refreshed.map_err(|error| metadata(doing, &error))
}

/// Awaits `work`, within the timeout of the default profile.
async fn bounded<T>(
    session: &Session,
    doing: &str,
    work: impl Future<Output = T>,
) -> Result<T, EngineError> {
    match session.profiles().default.timeout {
        None => Ok(work.await),
        Some(limit) => {
            let result = tokio::time::timeout(limit, work).await;
            result.map_err(|_| deadline(doing, limit, None))
        }
    }
}

/// Waits until all nodes that are up have the same schema, and returns the version of the schema.
pub(super) async fn agreement(
    session: &Session,
    limit: Option<Duration>,
) -> Result<[u8; 16], EngineError> {
    let doing = "waiting for the nodes to agree on the schema";
    let agreed = session.engine().await_schema_agreement();
    let agreed = match limit {
        None => agreed.await,
        Some(limit) => tokio::time::timeout(limit, agreed).await.map_err(|_| {
            let error = deadline(doing, limit, None);
            EngineError { message: error.message + &session.not_answering(), ..error }
        })?,
    };
    agreed.map(uuid::Uuid::into_bytes).map_err(|error| {
        let kind = match error {
            SchemaAgreementError::Timeout(_) => ErrorKind::Timeout,
            _ => ErrorKind::Unavailable,
        };
        EngineError::new(kind, format!("{doing}: {error}{}", session.not_answering()))
    })
}

impl Knows for Session {
    fn hides(&self) -> bool {
        Session::hides(self)
    }

    fn not_answering(&self) -> String {
        let cluster = self.engine().get_cluster_state();
        let nodes = cluster.get_nodes_info().iter().filter(|node| node.is_enabled());
        let mut faulty: Vec<(SocketAddr, &str)> = Vec::new();
        let mut count = 0;
        for node in nodes {
            count += 1;
            let address = SocketAddr::new(node.address.ip(), node.address.port());
            if !node.is_connected() {
                faulty.push((address, "down"));
            } else if self.silence().is_silent(node) {
                faulty.push((address, "silent"));
            }
        }
        if faulty.is_empty() {
            return String::new();
        }
        faulty.sort_unstable();
        let texts: Vec<String> =
            faulty.iter().map(|(address, state)| format!("{address} ({state})")).collect();
        format!("; not answering: {} of {count} nodes: {}", texts.len(), few(&texts, ", "))
    }
}

/// Returns the trace of a request, read within the timeout of the default profile. Returns `None`
/// if the server has no trace with this id.
pub(super) async fn trace(session: &Session, id: [u8; 16]) -> Result<Option<Trace>, EngineError> {
    let id = uuid::Uuid::from_bytes(id);
    let read = session.engine().get_tracing_info(&id);
    let trace = match bounded(session, "reading a trace", read).await? {
        Ok(trace) => trace,
        Err(TracingError::EmptyResults) => return Ok(None),
        Err(error) => {
            let message = format!("reading a trace: {error}");
            return Err(EngineError::new(ErrorKind::Server, message));
        }
    };
    let events = trace.events.into_iter().map(|event| TraceEvent {
        id: uuid::Uuid::from(event.event_id).into_bytes(),
        activity: event.activity,
        source: event.source,
        source_elapsed_us: event.source_elapsed,
        thread: event.thread,
    });
    Ok(Some(Trace {
        client: trace.client,
        command: trace.command,
        coordinator: trace.coordinator,
        duration_us: trace.duration,
        parameters: trace.parameters.unwrap_or_default(),
        request: trace.request,
        started_at: trace.started_at.map(|at| at.0),
        events: events.collect(),
    }))
}

pub(super) fn metrics(session: &Session) -> Metrics {
    let (totals, nodes) = session.telemetry().totals();
    Metrics {
        totals,
        nodes,
        in_flight: session.gate().admitted(),
        waiting: session.gate().waiting(),
        connection_timeouts: session.engine().get_metrics().get_connection_timeouts(),
    }
}
