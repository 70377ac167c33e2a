//! Records the session's events, and its metrics every 50 ms.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};
use turbocql_engine::{Event, Events, Field, Session};

use crate::trace::Trace;

/// The time between two samples.
pub const INTERVAL: Duration = Duration::from_millis(50);

const CLOSED: &str = "connection closed";

/// An event of the session.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub name: &'static str,
    pub node: Option<SocketAddr>,
    pub fields: Vec<(&'static str, Field)>,
}

impl Seen {
    /// Whether the field with this name is true.
    pub fn is(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, value)| *name == field && matches!(value, Field::Bool(true)))
    }

    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.iter().find_map(|(name, value)| match value {
            Field::Text(text) if *name == field => Some(text.as_str()),
            _ => None,
        })
    }
}

/// The metrics of a node at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub attempts: u64,
    pub failed: u64,
    pub abandoned: u64,
    pub in_flight: i64,
    pub connections: i64,
    pub refused: u64,
    pub lost: u64,
    /// Whether the session lists the node and is connected to it.
    pub is_connected: bool,
    pub is_silent: bool,
}

/// The metrics of all nodes at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    pub at: Instant,
    pub nodes: Vec<(SocketAddr, Figures)>,
    pub prepared_again: u64,
    pub dropped_events: u64,
    /// Whether the session lists all nodes, and all of them are connected and not silent.
    pub is_whole: bool,
}

impl Sample {
    pub fn node(&self, at: SocketAddr) -> Figures {
        let node = self.nodes.iter().find(|(of, _)| *of == at);
        node.map(|(_, figures)| *figures).unwrap_or_default()
    }
}

/// The events and the samples of a run.
#[derive(Clone, Default)]
pub struct Observed(Arc<Mutex<(Vec<Seen>, Vec<Sample>)>>);

impl Observed {
    fn lock(&self) -> MutexGuard<'_, (Vec<Seen>, Vec<Sample>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn events(&self) -> Vec<Seen> {
        self.lock().0.clone()
    }

    pub fn samples(&self) -> Vec<Sample> {
        self.lock().1.clone()
    }

    /// Records the session's events here and in the trace, until the session is dropped.
    pub async fn follow(self, events: Arc<Events>, trace: Trace) {
        while let Some(mut waiting) = events.take(Duration::ZERO) {
            // The ScyllaDB driver closes connections in the order of a hash map, and the hashes
            // depend on memory addresses. The events are sorted so that all runs of a seed are
            // equal.
            let are_closed =
                |a: &Event, b: &Event| a.name == CLOSED && b.name == CLOSED && a.at == b.at;
            waiting
                .chunk_by_mut(are_closed)
                .for_each(|chunk| chunk.sort_by_key(|event| event.node));
            let (now, real_now) = (Instant::now(), SystemTime::now());
            for Event { name, node, fields, at, .. } in waiting {
                let shown = node.map(|node| node.to_string()).unwrap_or_default();
                trace.line(|| format!("session: {name} {shown} {fields:?}"));
                let ago = real_now.duration_since(at).unwrap_or_default();
                self.lock().0.push(Seen { at: now - ago, name, node, fields });
            }
            sleep(INTERVAL).await;
        }
    }

    /// Records the session's metrics until the task is aborted.
    pub async fn sample(self, session: Session, nodes: usize) {
        loop {
            let metrics = session.metrics();
            let listed = session.nodes();
            let figures = metrics.nodes.iter().map(|(at, node)| {
                let listed = listed.iter().find(|listed| listed.address == *at);
                let figures = Figures {
                    attempts: node.attempts,
                    failed: node.failed,
                    abandoned: node.abandoned,
                    in_flight: node.in_flight,
                    connections: node.connections,
                    refused: node.refused,
                    lost: node.lost,
                    is_connected: listed.is_some_and(|listed| listed.connected),
                    is_silent: listed.is_some_and(|listed| listed.silent),
                };
                (*at, figures)
            });
            let sample = Sample {
                at: Instant::now(),
                nodes: figures.collect(),
                prepared_again: metrics.totals.prepared_again,
                dropped_events: metrics.totals.dropped_events,
                is_whole: listed.len() == nodes
                    && listed.iter().all(|node| node.connected && !node.silent),
            };
            self.lock().1.push(sample);
            sleep(INTERVAL).await;
        }
    }
}
