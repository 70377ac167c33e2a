//! The counters of a session, which are always on.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::telemetry::events::{Event, Events};
use crate::telemetry::histogram::{Histogram, HistogramCounts};
use crate::telemetry::metrics::{KindMetrics, NodeMetrics, Timeouts, Totals};

/// The kinds of requests that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Read,
    Write,
    /// A write under a condition.
    Conditional,
    Batch,
    /// `CREATE`, `ALTER`, `DROP` and `USE`.
    Schema,
}

impl RequestKind {
    pub const ALL: [RequestKind; 5] = [
        RequestKind::Read,
        RequestKind::Write,
        RequestKind::Conditional,
        RequestKind::Batch,
        RequestKind::Schema,
    ];

    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Read => "read",
            RequestKind::Write => "write",
            RequestKind::Conditional => "conditional",
            RequestKind::Batch => "batch",
            RequestKind::Schema => "schema",
        }
    }
}

/// The part of a call in which its deadline passed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimeoutPhase {
    /// The call waited until other requests of the session ended, because the bound on requests in
    /// flight was reached.
    Queue,
    /// The call's statement was being prepared.
    Prepare,
    /// The request was sent, and its answer had not arrived.
    Answer,
    /// The answer had arrived, but the ScyllaDB driver's steps after the answer had not ended (see
    /// `to_the_end` in `request/limit.rs`).
    Agreement,
}

/// Counts the requests of one kind.
#[derive(Debug, Default)]
struct KindCounters {
    ended: AtomicU64,
    failed: AtomicU64,
    latency: Histogram,
}

/// The counters of one node.
#[derive(Debug, Default)]
pub(crate) struct NodeCounters {
    pub(crate) attempts: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    pub(crate) in_flight: AtomicI64,
    pub(crate) connections: AtomicI64,
    pub(crate) opened: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Whether a connection was lost or refused, and none was opened since.
    #[cfg(edited_crates)]
    pub(crate) is_failing: AtomicBool,
    /// Whether `is_failing` is true only because of a control connection.
    #[cfg(edited_crates)]
    pub(crate) fails_control: AtomicBool,
    /// Whether the node has left the cluster, or has another address now. The counters of such a
    /// node are reported only while a connection or a request refers to it.
    pub(crate) has_left: AtomicBool,
    /// Whether the node refused the session's credentials, and no connection to it was opened
    /// since.
    #[cfg(edited_crates)]
    pub(crate) refuses_credentials: AtomicBool,
    #[cfg(edited_crates)]
    pub(crate) traffic: Arc<scylla::Traffic>,
    /// The latencies of successful attempts, by kind. Most nodes get attempts of few kinds, so
    /// each histogram is allocated at its first use.
    latencies: [OnceLock<Box<Histogram>>; RequestKind::ALL.len()],
}

impl NodeCounters {
    pub(crate) fn latency(&self, kind: RequestKind) -> &Histogram {
        self.latencies[kind as usize].get_or_init(Box::default)
    }

    /// Notes that a connection was lost or refused. Returns whether the node was failing before.
    #[cfg(edited_crates)]
    pub(crate) fn fails(&self, control: bool) -> bool {
        let repeated = self.is_failing.swap(true, Ordering::Relaxed);
        if !control {
            self.fails_control.store(false, Ordering::Relaxed);
        } else if !repeated {
            self.fails_control.store(true, Ordering::Relaxed);
        }
        repeated
    }

    fn is_forgotten(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
            && self.connections.load(Ordering::Relaxed) <= 0
            && self.in_flight.load(Ordering::Relaxed) <= 0
    }

    fn metrics(&self) -> NodeMetrics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        #[cfg(edited_crates)]
        let (sent, received) = (count(&self.traffic.sent), count(&self.traffic.received));
        #[cfg(not(edited_crates))]
        let (sent, received) = (0, 0);
        let latencies = RequestKind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind, self.latencies[kind as usize].get()?.counts())));
        NodeMetrics {
            attempts: count(&self.attempts),
            failed: count(&self.failed),
            abandoned: count(&self.abandoned),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            opened: count(&self.opened),
            refused: count(&self.refused),
            lost: count(&self.lost),
            sent_bytes: sent,
            received_bytes: received,
            latencies: latencies.collect(),
        }
    }
}

/// The counters and the events of a session.
#[derive(Debug)]
pub struct Telemetry {
    began: Instant,
    kinds: [KindCounters; RequestKind::ALL.len()],
    /// The errors of calls, by their kind and code.
    errors: Mutex<HashMap<(&'static str, Option<i32>), u64>>,
    timeouts: [AtomicU64; 4],
    canceled: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) speculative: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) pages: AtomicU64,
    pub(crate) prepared: AtomicU64,
    pub(crate) prepared_again: AtomicU64,
    /// The number of times that a statement was found in the cache of prepared statements.
    pub cache_hits: AtomicU64,
    /// The nodes, sorted by address. A search in a sorted list of addresses costs less than a hash.
    nodes: RwLock<Vec<(SocketAddr, Arc<NodeCounters>)>>,
    pub events: Arc<Events>,
    /// The events of nodes and of the schema, for streams of cluster events.
    pub cluster_events: Arc<Events>,
    is_open: AtomicBool,
}

impl Telemetry {
    pub(crate) fn new(slow_request: Option<Duration>) -> Arc<Telemetry> {
        Arc::new(Telemetry {
            began: Instant::now(),
            kinds: Default::default(),
            errors: Mutex::default(),
            timeouts: Default::default(),
            canceled: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            speculative: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
            prepared_again: AtomicU64::new(0),
            cache_hits: AtomicU64::new(0),
            nodes: RwLock::default(),
            events: Events::new(slow_request),
            cluster_events: Events::new(None),
            is_open: AtomicBool::new(false),
        })
    }

    /// The counters of the node that is reached at this address.
    pub(crate) fn node(&self, at: SocketAddr) -> Arc<NodeCounters> {
        if let Some(node) = self.known_node(at) {
            return node;
        }
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        match nodes.binary_search_by(|(other, _)| other.cmp(&at)) {
            Ok(nth) => Arc::clone(&nodes[nth].1),
            Err(nth) => {
                let node = Arc::<NodeCounters>::default();
                nodes.insert(nth, (at, Arc::clone(&node)));
                node
            }
        }
    }

    /// The counters of the node that is reached at this address, if it has any.
    pub(crate) fn known_node(&self, at: SocketAddr) -> Option<Arc<NodeCounters>> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let nth = nodes.binary_search_by(|(other, _)| other.cmp(&at)).ok()?;
        Some(Arc::clone(&nodes[nth].1))
    }

    /// Notes that the node at this address has left the cluster, or has another address now.
    /// Removes all counters that are no longer reported.
    #[cfg(edited_crates)]
    pub(crate) fn leaves(&self, at: SocketAddr) {
        if let Some(node) = self.known_node(at) {
            node.has_left.store(true, Ordering::Relaxed);
        }
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|(_, node)| !node.is_forgotten());
    }

    /// Notes that there is a control connection. A node whose earlier one failed, but that has other
    /// connections, does not fail any more.
    #[cfg(edited_crates)]
    pub(crate) fn has_control(&self) {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        for (_, node) in nodes.iter() {
            if node.connections.load(Ordering::Relaxed) > 0
                && node.fails_control.swap(false, Ordering::Relaxed)
            {
                node.is_failing.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Reports an event to the logs and, if it is about the cluster, to the streams of cluster
    /// events.
    pub(crate) fn report(&self, event: Event) {
        if self.cluster_events.wants_every() && event.is_of_cluster() {
            self.cluster_events.push(event.clone());
        }
        self.events.push(event);
    }

    /// Whether the session is open. Nodes that are found while it is being opened are not reported
    /// as new nodes.
    #[cfg(edited_crates)]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub(crate) fn opened(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Counts a request that has ended after `took`. `error` has the name and the code under which
    /// the request's error is counted.
    pub(crate) fn ended(
        &self,
        kind: RequestKind,
        took: Duration,
        error: Option<(&'static str, Option<i32>)>,
    ) {
        let counters = &self.kinds[kind as usize];
        counters.ended.fetch_add(1, Ordering::Relaxed);
        counters.latency.add(took);
        if let Some(error) = error {
            counters.failed.fetch_add(1, Ordering::Relaxed);
            self.failed(error);
        }
    }

    /// Counts an error of a call.
    pub(crate) fn failed(&self, error: (&'static str, Option<i32>)) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        *errors.entry(error).or_default() += 1;
    }

    pub(crate) fn timed_out(&self, phase: TimeoutPhase) {
        self.timeouts[phase as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn canceled(&self) {
        self.canceled.fetch_add(1, Ordering::Relaxed);
    }

    /// The figures of the session, and those of its nodes by address.
    pub(crate) fn totals(&self) -> (Totals, Vec<(SocketAddr, NodeMetrics)>) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let kinds = RequestKind::ALL.into_iter().map(|kind| {
            let counters = &self.kinds[kind as usize];
            let HistogramCounts { counts, sum_us } = counters.latency.counts();
            KindMetrics {
                kind,
                requests: count(&counters.ended),
                failed: count(&counters.failed),
                latency: HistogramCounts { counts, sum_us },
            }
        });
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = Totals {
            uptime: self.began.elapsed(),
            kinds: kinds.collect(),
            errors: errors.iter().map(|(&error, &count)| (error, count)).collect(),
            timeouts: Timeouts {
                queue: count(&self.timeouts[TimeoutPhase::Queue as usize]),
                prepare: count(&self.timeouts[TimeoutPhase::Prepare as usize]),
                answer: count(&self.timeouts[TimeoutPhase::Answer as usize]),
                agreement: count(&self.timeouts[TimeoutPhase::Agreement as usize]),
            },
            canceled: count(&self.canceled),
            retries: count(&self.retries),
            speculative: count(&self.speculative),
            rows: count(&self.rows),
            pages: count(&self.pages),
            prepared: count(&self.prepared),
            prepared_again: count(&self.prepared_again),
            cache_hits: count(&self.cache_hits),
            dropped_events: self.events.dropped(),
        };
        drop(errors);
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let nodes = nodes.iter().filter(|(_, node)| !node.is_forgotten());
        (totals, nodes.map(|(at, node)| (*at, node.metrics())).collect())
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.events.close();
        self.cluster_events.close();
    }
}

#[cfg(all(test, edited_crates))]
mod tests {
    use super::*;

    fn addresses() -> [SocketAddr; 2] {
        [SocketAddr::from(([127, 0, 0, 1], 9042)), SocketAddr::from(([127, 0, 0, 2], 9042))]
    }

    /// Another node gets the control connection, so the earlier node has no further opening that
    /// would end its failure.
    #[test]
    fn a_node_with_other_connections_fails_only_until_there_is_a_control_connection() {
        let [at, other] = addresses();
        let telemetry = Telemetry::new(None);
        let node = telemetry.node(at);
        node.connections.store(2, Ordering::Relaxed);
        assert!(!node.fails(true));
        telemetry.node(other);
        telemetry.has_control();
        assert!(!node.fails(false), "the loss was reported as a repetition");
    }

    #[test]
    fn a_node_without_a_connection_still_fails() {
        let [at, _] = addresses();
        let telemetry = Telemetry::new(None);
        let node = telemetry.node(at);
        assert!(!node.fails(true));
        telemetry.has_control();
        assert!(node.fails(true));
        node.connections.store(1, Ordering::Relaxed);
        assert!(node.fails(false));
        telemetry.has_control();
        assert!(node.fails(false), "another connection failed too");
    }
}
