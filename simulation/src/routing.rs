//! Checks that EXECUTE requests are sent to a replica, and to the right shard of the replica.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::Arrival;
use crate::faults::Happened;
use crate::observed::Sample;

/// For this time after the arrival of a misrouted request, other requests for the same tablet may
/// also be misrouted. The answer to the first request says where the tablet is, but this answer may
/// not have reached the client yet.
const LEARNED: Duration = Duration::from_millis(300);

/// The program does not learn what an answer says if it gives up the call within this time before or
/// after the request's arrival.
const GIVEN_UP: Duration = Duration::from_millis(60);

/// How long the session may lack connections to some shards after a fault, or after a `USE` that
/// has closed connections.
const SETTLED: Duration = Duration::from_secs(8);

/// The facts about a run that decide whether the session had a reason to misroute a request.
pub struct Story<'a> {
    pub arrivals: &'a [Arrival],
    pub samples: &'a [Sample],
    pub faults: &'a [Happened],
    /// When a `USE` failed or was given up.
    pub closed_by_use: &'a [Instant],
    /// When the program gave up calls.
    pub given_up: &'a [Instant],
}

/// Whether the program may have given up the call whose request arrived at this time.
fn is_given_up(arrived: Instant, given_up: &[Instant]) -> bool {
    given_up.iter().any(|at| *at <= arrived + GIVEN_UP && arrived <= *at + GIVEN_UP)
}

impl Story<'_> {
    /// Whether nothing disturbed the session's connections from the time `SETTLED` before `from`
    /// until `until`. This means: the session was connected to all nodes, no fault had an effect,
    /// and no `USE` closed connections.
    fn is_quiet(&self, from: Instant, until: Instant) -> bool {
        let Some(from) = from.checked_sub(SETTLED) else { return false };
        let is_near = |fault: &Happened| {
            fault.began <= until
                && (fault.ended.is_none_or(|ended| ended >= from) || fault.lingers(from, until))
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

/// Returns a sentence for each request that was sent to a wrong node or shard, although the session
/// must have known the right one.
pub fn misrouted(story: &Story<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    // Maps each table and tablet to the time when the tablet changed last, and to the time when the
    // first misrouted request after the change arrived. The answer to this request tells the client
    // about the change.
    let mut learned: BTreeMap<(&str, usize), (Instant, Instant)> = BTreeMap::new();
    for arrival in story.arrivals.iter().filter(|arrival| arrival.is_misrouted) {
        let since = match arrival.tablet {
            None => arrival.at,
            Some((tablet, changed)) => {
                let lesson =
                    learned.entry((arrival.table, tablet)).or_insert((changed, arrival.at));
                if lesson.0 != changed || is_given_up(lesson.1, story.given_up) {
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

/// Returns a sentence for each request since `began` that was sent to a wrong node or shard.
/// Ignores the first misrouted requests for each tablet, because only their answers tell the
/// session where the tablet is. From `began` on, the session must have connections to all shards.
pub fn misrouted_since(began: Instant, arrivals: &[Arrival], given_up: &[Instant]) -> Vec<String> {
    let mut learned: BTreeMap<(&str, usize), Instant> = BTreeMap::new();
    let wrong = arrivals.iter().filter(|arrival| arrival.at >= began && arrival.is_misrouted);
    let after = wrong.filter(|arrival| match arrival.tablet {
        None => true,
        Some((tablet, _)) => {
            let learned_at = learned.entry((arrival.table, tablet)).or_insert(arrival.at);
            if is_given_up(*learned_at, given_up) {
                *learned_at = arrival.at;
            }
            arrival.at > *learned_at + LEARNED
        }
    });
    after.map(|arrival| format!("after all faults, {arrival:?} was not at a replica")).collect()
}
