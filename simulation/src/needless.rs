//! Checks that calls succeed while the nodes that have no fault can answer them.

use std::time::Duration;

use tokio::time::Instant;
use turbocql_engine::ErrorKind;

use crate::cluster::SCHEMA_SPREAD;
use crate::faults::{Fault, Happened};
use crate::history::{Action, Call, Outcome, closes_connections, is_because_of_use, is_given_up};

/// Within this time from the beginning of an outage, calls that need no particular node may fail,
/// because the session notices the outage only then.
const NOTICED: Duration = Duration::from_secs(3);

/// The same time for calls that read or write rows: a coordinator may ask the node with the outage.
const DATA_NOTICED: Duration = Duration::from_secs(6);

/// For this time after an outage, coordinators may still consider the node down. So if the next
/// node has an outage meanwhile, a coordinator knows too few replicas for a read or a write.
const KNOWN_UP: Duration = Duration::from_secs(8);

/// From this time after the last fault on, all calls must succeed until the next fault.
const QUIET: Duration = Duration::from_secs(10);

/// Returns a sentence for each call that failed although the other nodes could answer it. The
/// faults must not overlap.
///
/// `made` are the times at which another client created a table. Until two seconds after the last
/// of these times, the nodes may not agree on a schema. So a call that waits for agreement may
/// reach its time limit meanwhile.
pub fn needless_failures(calls: &[Call], faults: &[Happened], made: &[Instant]) -> Vec<String> {
    let mut needless = Vec::new();
    let given_up: Vec<Instant> = calls.iter().filter_map(Call::given_up).collect();
    for (number, call) in calls.iter().enumerate() {
        let Some((ended, Outcome::Failed(error))) = &call.ended else { continue };
        let gave_up_use = matches!(call.action, Action::UseKeyspace { gives_up: Some(_) });
        if gave_up_use || is_because_of_use(error) || is_given_up(error) {
            continue;
        }
        let waits_for_schema = matches!(call.action, Action::Create | Action::Agreement);
        // A schema change of another client, or of another call, may last longer than this call.
        let is_changed = |other: &&Call| {
            let may_change = other.action == Action::Create && other.value != call.value;
            let lasts_until = other.ended.as_ref().map(|(ended, _)| *ended + SCHEMA_SPREAD);
            may_change && other.began < *ended && lasts_until.is_none_or(|until| until > call.began)
        };
        if waits_for_schema
            && (made.iter().any(|at| *at + SCHEMA_SPREAD > call.began && at < ended)
                || calls.iter().any(|other| is_changed(&other)))
        {
            continue;
        }
        // A `USE` that was given up may have closed the connections to the other nodes. Then the
        // session only has connections to the node with the outage, so calls may fail.
        if given_up.iter().any(|at| closes_connections(*at, call.began, *ended)) {
            continue;
        }
        if faults.iter().any(|fault| fault.lingers(call.began, *ended)) {
            continue;
        }
        if let Some(outage) = faults.iter().find(|of| is_noticed(of, call, *ended, faults)) {
            let after = call.began - outage.began;
            needless.push(format!(
                "call {number}, {call:?}: failed {after:?} into an outage of one node"
            ));
        } else if is_quiet(call.began, *ended, faults) {
            needless.push(format!("call {number}, {call:?}: failed though no node had a fault"));
        }
    }
    needless
}

/// Whether no fault, and no late effect of one, can explain a failure between two times. After all
/// nodes have moved, `relocation.rs` judges the calls instead.
fn is_quiet(from: Instant, until: Instant, faults: &[Happened]) -> bool {
    !faults.iter().any(|fault| {
        fault.began <= until
            && (fault.fault == Fault::MoveAll
                || fault.may_close(from, until)
                || fault.ended.is_none_or(|end| end + QUIET > from))
    })
}

/// Whether a call was made during an outage that the session, and the coordinators, had noticed.
fn is_noticed(outage: &Happened, call: &Call, ended: Instant, faults: &[Happened]) -> bool {
    let noticed = match call.action {
        Action::UseKeyspace { .. }
        | Action::Refresh
        | Action::Agreement
        | Action::Create
        | Action::Row => NOTICED,
        _ => DATA_NOTICED,
    };
    let is_known_down = |other: &Happened| {
        let is_recent = other.ended.is_none_or(|end| end + KNOWN_UP > call.began);
        other.node != outage.node && other.began < outage.began && is_recent
    };
    let reads_or_writes = noticed == DATA_NOTICED || call.action == Action::Row;
    outage.is_survived()
        && call.began > outage.began + noticed
        && outage.ended.is_none_or(|end| ended < end)
        && !(reads_or_writes && faults.iter().any(is_known_down))
}

/// Returns how many calls of bursts failed although the faults did not force them to fail. Ignores
/// calls with a time limit below `limit`, because their answers may arrive too late.
pub fn failed_bursts(
    calls: &[Call],
    limit: Duration,
    faults: &[Happened],
    opened: Instant,
) -> usize {
    let bursts = calls.iter().filter(|call| call.action == Action::Burst && call.limit >= limit);
    let failed = bursts.filter(|call| {
        let Some(error) = call.error() else { return false };
        // An earlier fault may have closed the connection to the node, or the session was opened
        // (at `opened`) during the fault. Then the session may still be opening a connection to the
        // node when the call begins.
        let is_being_connected = error.kind == ErrorKind::Unavailable
            && faults.iter().any(|fault| {
                let since = call.began - fault.connected_again_within();
                let is_not_yet = fault.began < opened && opened > since;
                is_not_yet || fault.may_close(since, call.began)
            });
        let ended = call.ended.as_ref().map_or(call.began + call.limit, |(ended, _)| *ended);
        // A fault that follows may close the connection on which the call waits.
        let is_closed = error.kind == ErrorKind::Broken
            && faults.iter().any(|fault| fault.may_close(call.began, ended));
        // A fault that follows may hold up the call's answer.
        let is_held_up = error.kind == ErrorKind::Timeout
            && faults.iter().any(|fault| {
                fault.holds_frames() && fault.began > call.began && fault.began < ended
            });
        // Requests on a half-open connection are lost until the keepalive closes the connection.
        let is_half_open = faults.iter().any(|fault| fault.lingers(call.began, ended));
        !is_being_connected
            && !is_closed
            && !is_held_up
            && !is_half_open
            && !is_because_of_use(error)
    });
    failed.count()
}
