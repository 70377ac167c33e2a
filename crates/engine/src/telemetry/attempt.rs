//! Counts attempts. Each time that a request is sent to a node is one attempt.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::telemetry::counters::{NodeCounters, RequestKind};

/// An attempt that has begun. It counts as in flight until it is dropped. If neither
/// [`CountedAttempt::succeeded`] nor [`CountedAttempt::failed`] was called by then, it counts as
/// abandoned.
#[derive(Debug)]
pub(crate) struct CountedAttempt {
    node: Arc<NodeCounters>,
    ended: bool,
}

impl CountedAttempt {
    pub(crate) fn begin(node: Arc<NodeCounters>) -> CountedAttempt {
        node.attempts.fetch_add(1, Ordering::Relaxed);
        node.in_flight.fetch_add(1, Ordering::Relaxed);
        CountedAttempt { node, ended: false }
    }

    pub(crate) fn succeeded(mut self, kind: RequestKind, took: Duration) {
        self.ended = true;
        self.node.latency(kind).add(took);
    }

    pub(crate) fn failed(mut self) {
        self.ended = true;
        self.node.failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for CountedAttempt {
    fn drop(&mut self) {
        self.node.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.ended {
            self.node.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}
