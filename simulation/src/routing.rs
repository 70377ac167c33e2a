//! Checks that prepared statements go to a replica, and to the replica's shard.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::Arrival;
use crate::faults::Happened;
use crate::observed::Sample;

/// How long after the answer to a request that was sent to the wrong place others may be sent there.
const LEARNED: Duration = Duration::from_millis(300);

/// How long after a fault, or after a `USE` that has closed connections, the session may lack
/// connections to some shards.
const SETTLED: Duration = Duration::from_secs(8);

/// What happened in a run.
pub struct Story<'a> {
    pub arrivals: &'a [Arrival],
    pub samples: &'a [Sample],
    pub faults: &'a [Happened],
    /// When a `USE` failed or was given up.
    pub closed_by_use: &'a [Instant],
}

impl Story<'_> {
    /// Whether the session had connections to all nodes between two times, and before.
    fn is_quiet(&self, from: Instant, until: Instant) -> bool {
        let Some(from) = from.checked_sub(SETTLED) else { return false };
        let is_near = |fault: &Happened| {
            fault.began <= until
                && (fault.ended.is_none_or(|ended| ended >= from) || fault.lingers(from))
        };
        let covers = self.samples.first().is_some_and(|sample| sample.at <= from);
        let mut during =
            self.samples.iter().filter(|sample| sample.at >= from && sample.at <= until);
        covers
            && !self.faults.iter().any(is_near)
            && !self.closed_by_use.iter().any(|at| *at >= from && *at <= until)
            && during.all(|sample| sample.is_whole)
    }
}

/// Returns a sentence for each request that was sent to a wrong node or shard, though the session
/// could know the right one.
pub fn misrouted(story: &Story<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    // By table and tablet: when the tablet has changed, and when the client was told.
    let mut learned: BTreeMap<(&str, usize), (Instant, Instant)> = BTreeMap::new();
    for arrival in story.arrivals.iter().filter(|arrival| arrival.is_misrouted) {
        let since = match arrival.tablet {
            None => arrival.at,
            Some((tablet, changed)) => {
                let lesson =
                    learned.entry((arrival.table, tablet)).or_insert((changed, arrival.at));
                if lesson.0 != changed {
                    *lesson = (changed, arrival.at);
                }
                if arrival.at <= lesson.1 + LEARNED {
                    continue;
                }
                lesson.1
            }
        };
        if story.is_quiet(since, arrival.at) {
            wrong.push(format!(
                "a request for key {} went to the wrong place: {arrival:?}",
                arrival.key
            ));
        }
    }
    wrong
}

/// Returns a sentence for each request since a time that was sent to a wrong node or shard, after
/// the first one for its tablet. The session has connections to all shards.
pub fn misrouted_since(began: Instant, arrivals: &[Arrival]) -> Vec<String> {
    let mut learned: BTreeMap<(&str, usize), Instant> = BTreeMap::new();
    let wrong = arrivals.iter().filter(|arrival| arrival.at >= began && arrival.is_misrouted);
    let after = wrong.filter(|arrival| match arrival.tablet {
        None => true,
        Some((tablet, _)) => {
            let learned_at = learned.entry((arrival.table, tablet)).or_insert(arrival.at);
            arrival.at > *learned_at + LEARNED
        }
    });
    after.map(|arrival| format!("after all faults, {arrival:?} was not at a replica")).collect()
}
