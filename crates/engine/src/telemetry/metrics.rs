//! The figures of a session at one time.

use std::time::Duration;

use crate::telemetry::counters::RequestKind;
use crate::telemetry::histogram::HistogramCounts;

/// The figures of the requests of one kind.
#[derive(Clone, Debug)]
pub struct KindMetrics {
    pub kind: RequestKind,
    pub requests: u64,
    pub failed: u64,
    pub latency: HistogramCounts,
}

/// How many deadlines passed in each part of a call (see `TimeoutPhase`).
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub queue: u64,
    pub prepare: u64,
    pub answer: u64,
    pub agreement: u64,
}

/// The figures of a session since it was opened.
#[derive(Clone, Debug)]
pub struct Totals {
    pub uptime: Duration,
    pub kinds: Vec<KindMetrics>,
    /// The errors of calls: the name of the error's kind, the error's code, and the number of times
    /// that it occurred.
    pub errors: Vec<((&'static str, Option<i32>), u64)>,
    pub timeouts: Timeouts,
    pub canceled: u64,
    pub retries: u64,
    pub speculative: u64,
    pub rows: u64,
    pub pages: u64,
    pub prepared: u64,
    pub prepared_again: u64,
    pub cache_hits: u64,
    pub dropped_events: u64,
}

/// The figures of a session for one node.
#[derive(Clone, Debug, Default)]
pub struct NodeMetrics {
    pub attempts: u64,
    pub failed: u64,
    pub abandoned: u64,
    pub in_flight: i64,
    pub connections: i64,
    pub opened: u64,
    pub refused: u64,
    pub lost: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub latencies: Vec<(RequestKind, HistogramCounts)>,
}
