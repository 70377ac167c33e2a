//! Checks the simulated servers by themselves: what a coordinator has acknowledged, later reads of
//! any coordinator must return. So a mistake of the servers is told apart from one of the engine.

use std::collections::BTreeMap;

use super::Written;

#[derive(Default)]
pub(super) struct Ledger {
    /// For each key, the newest write that a majority of its replicas has acknowledged.
    acknowledged: BTreeMap<i64, Written>,
    /// A sentence for each mistake of the servers.
    mistakes: Vec<String>,
}

impl Ledger {
    /// Notes that a coordinator acknowledges a write which a majority of the replicas has stored.
    pub(super) fn acknowledge(&mut self, key: i64, written: Written) {
        let newest = self.acknowledged.entry(key).or_insert(written);
        *newest = written.max(*newest);
    }

    /// Returns the newest acknowledged write of a key.
    pub(super) fn newest(&self, key: i64) -> Option<Written> {
        self.acknowledged.get(&key).copied()
    }

    /// Checks the result of a read by a majority. `before` is the newest write that was
    /// acknowledged before the read.
    pub(super) fn check_read(
        &mut self,
        key: i64,
        before: Option<Written>,
        latest: Option<Written>,
    ) {
        if let Some(before) = before
            && latest < Some(before)
        {
            self.mistakes.push(format!(
                "the servers: a read of key {key} returned {latest:?} after {before:?} was \
                 acknowledged"
            ));
        }
    }

    pub(super) fn mistakes(&self) -> Vec<String> {
        self.mistakes.clone()
    }
}
