//! The calls that the program (the simulated user of the session) has made, with their outcomes,
//! and the checks of these calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use turbocql_engine::{EngineError, ErrorKind};

use crate::cluster::{Effect, LAST_KEY};
use crate::faults::{Fault, Happened};

/// The number of writes in a batch.
pub const BATCH: i64 = 3;

/// Whether the batch that begins with this value is a logged one.
pub fn is_logged(value: i64) -> bool {
    value % 2 == 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A write. `is_idempotent` is the value of the option with which the program sends it.
    Write {
        is_idempotent: bool,
    },
    /// A batch of writes to [`BATCH`] keys.
    Batch {
        is_idempotent: bool,
    },
    /// The write of one row of a bulk, which is the engine's part of `execute_many`.
    Row,
    /// A conditional write (`IF NOT EXISTS`).
    Claim,
    Read,
    /// A read of all rows, in pages.
    Scan,
    /// One of many simultaneous reads from a node that has a fault.
    Burst,
    /// A write to a table that is now and then made again with other types.
    Remade,
    /// A `USE` on all connections. If `gives_up` is set, the program stops waiting for it after
    /// this time.
    UseKeyspace {
        gives_up: Option<Duration>,
    },
    /// A read of an unqualified table name, in the keyspace that is in use.
    Keyspace,
    /// The session reads the nodes and the keyspaces again.
    Refresh,
    /// The session asks the nodes for their schema versions until all are equal.
    Agreement,
    /// Makes a table.
    Create,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Done,
    Written,
    /// `None` if the claim was applied. Otherwise, the value that the key already had.
    Claimed(Option<i64>),
    Read(Option<i64>),
    /// Keys and values.
    Scanned(Vec<(i64, i64)>),
    /// The keyspace that was read, and the keyspace that the program had chosen. The latter is
    /// `None` if connections might still use different keyspaces.
    Keyspace {
        of_answer: Option<usize>,
        chosen: Option<usize>,
    },
    /// The healthy nodes that did not know the table when its creation had ended.
    Created {
        unaware: Vec<usize>,
    },
    Failed(Box<EngineError>),
}

/// A call of the program.
#[derive(Clone)]
pub struct Call {
    pub action: Action,
    pub key: i64,
    /// The value that the call writes, or the first of the values. No two calls write the same
    /// value.
    pub value: i64,
    pub began: Instant,
    pub limit: Duration,
    /// When the call ended, and with which outcome.
    pub ended: Option<(Instant, Outcome)>,
}

impl Call {
    /// Returns the keys and the values that the call writes.
    fn writes(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let count = match self.action {
            Action::Write { .. } | Action::Row => 1,
            Action::Batch { .. } => BATCH,
            _ => 0,
        };
        let (key, value) = (self.key, self.value);
        (0..count).map(move |index| ((key + index) % (LAST_KEY + 1), value + index))
    }

    /// Returns the values of the call for which the cluster counts requests (see `Effect`).
    fn effects(&self) -> Vec<i64> {
        match self.action {
            Action::Claim | Action::Create => vec![self.value],
            _ => self.writes().map(|(_, value)| value).collect(),
        }
    }

    /// If the program gave up the call, and it is not a `USE`, returns when that happened.
    pub fn was_given_up(&self) -> Option<Instant> {
        let ended = self.ended.as_ref()?.0;
        self.error().is_some_and(is_given_up).then_some(ended)
    }

    /// If the call is a `USE` that failed or was given up, returns when that happened.
    pub fn given_up(&self) -> Option<Instant> {
        match (self.action, &self.ended) {
            (Action::UseKeyspace { .. }, Some((ended, Outcome::Failed(_)))) => Some(*ended),
            _ => None,
        }
    }

    /// Whether the call is a request that may be repeated, and succeeded after more than this time.
    pub fn is_slow(&self, limit: Duration) -> bool {
        let is_request = matches!(
            self.action,
            Action::Read | Action::Write { .. } | Action::Batch { .. } if self.is_repeatable()
        );
        let took = self.ended.as_ref().map(|(ended, _)| *ended - self.began);
        is_request && self.error().is_none() && took.is_some_and(|took| took > limit)
    }

    fn is_repeatable(&self) -> bool {
        !matches!(
            self.action,
            Action::Claim
                | Action::Create
                | Action::Write { is_idempotent: false }
                | Action::Batch { is_idempotent: false }
        )
    }

    /// Returns the error with which the call ended, if it failed.
    pub fn error(&self) -> Option<&EngineError> {
        match &self.ended {
            Some((_, Outcome::Failed(error))) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} key {} value {}", self.action, self.key, self.value)?;
        match &self.ended {
            None => write!(f, ", no end"),
            Some((ended, outcome)) => {
                write!(f, ", after {:.3?}: ", *ended - self.began)?;
                match outcome {
                    Outcome::Failed(error) => write!(f, "{:?}: {error}", error.kind),
                    other => write!(f, "{other:?}"),
                }
            }
        }
    }
}

/// Whether a call failed because a `USE` that was given up has closed its connection.
pub fn is_because_of_use(error: &EngineError) -> bool {
    error.message.contains("a USE on this connection")
}

/// The longest time by which a call may miss its deadline.
const LATE: Duration = Duration::from_millis(5);

/// The error of a call that the program gave up. The engine does not say whether it was applied.
pub fn given_up() -> EngineError {
    let mut error = EngineError::new(ErrorKind::Timeout, "the program gave up the call");
    error.may_have_applied = true;
    error
}

pub fn is_given_up(error: &EngineError) -> bool {
    error.message == given_up().message
}

/// Whether a `USE` may have closed connections between `from` and `until`, if it was given up at
/// the time `given_up`.
pub fn closes_connections(given_up: Instant, from: Instant, until: Instant) -> bool {
    given_up + Duration::from_secs(1) >= from && given_up <= until
}

/// Returns a sentence for each promise of the engine that a call breaks. For example, a call ends
/// by its deadline, and a write that is not idempotent is carried out at most once.
pub fn violations(
    calls: &[Call],
    effects: &BTreeMap<i64, Effect>,
    faults: &[Happened],
    has_client_times: bool,
) -> Vec<String> {
    let mut broken = Vec::new();
    let mut claims: BTreeMap<i64, Vec<&Call>> = BTreeMap::new();
    let given_up: Vec<Instant> = calls.iter().filter_map(Call::given_up).collect();
    for (number, call) in calls.iter().enumerate() {
        let mut report = |what: &str| broken.push(format!("call {number}, {call:?}: {what}"));
        let Some((ended, outcome)) = &call.ended else {
            report("never ended");
            continue;
        };
        if *ended > call.began + call.limit + LATE {
            report("ended after its deadline");
        }
        let of = |value: &i64| effects.get(value).map_or(0, |effect| effect.requests);
        let requests: Vec<u32> = call.effects().iter().map(of).collect();
        if !call.is_repeatable() && requests.iter().any(|count| *count > 1) {
            report(&format!("was carried out {requests:?} times, and is not idempotent"));
        }
        match outcome {
            Outcome::Failed(error) => {
                if !error.may_have_applied && requests.iter().any(|count| *count > 0) {
                    report("may_have_applied is false, but it was applied");
                }
                if error.may_have_applied && is_surely_unapplied(call, error, &requests) {
                    report("may_have_applied is true, but it cannot have been applied");
                }
                check_error(call, error, *ended, faults, &given_up, &mut report);
            }
            Outcome::Written if requests.contains(&0) => {
                report("is acknowledged, but not applied");
            }
            Outcome::Claimed(None) if requests == [0] => {
                report("is said to have won, but the server has another value");
            }
            Outcome::Keyspace { of_answer, chosen: Some(chosen) }
                if *of_answer != Some(*chosen) =>
            {
                report("was answered in another keyspace than the one in use");
            }
            Outcome::Created { unaware } if !unaware.is_empty() => {
                report("has ended although nodes did not know the table");
            }
            _ => {}
        }
        if call.action == Action::Claim {
            claims.entry(call.key).or_default().push(call);
        }
    }
    claims.values().for_each(|calls| check_claims(calls, &mut broken));
    check_reads(calls, effects, &mut broken);
    if has_client_times {
        check_write_times(calls, effects, &mut broken);
    }
    broken
}

/// Checks the write times that the client has chosen: a write that began after another write of its
/// key was acknowledged must have a later time.
fn check_write_times(calls: &[Call], effects: &BTreeMap<i64, Effect>, broken: &mut Vec<String>) {
    // Maps each key to its acknowledged writes: when each was acknowledged, and its last time.
    let mut acknowledged: BTreeMap<i64, Vec<(Instant, i64)>> = BTreeMap::new();
    for call in calls {
        let Some((ended, Outcome::Written)) = &call.ended else { continue };
        for (key, value) in call.writes() {
            if let Some(effect) = effects.get(&value) {
                acknowledged.entry(key).or_default().push((*ended, effect.times.1));
            }
        }
    }
    for call in calls {
        for (key, value) in call.writes() {
            let Some(effect) = effects.get(&value) else { continue };
            let earlier = acknowledged.get(&key).map_or(&[][..], Vec::as_slice);
            let before = earlier.iter().filter(|(ended, _)| *ended < call.began);
            if before.map(|(_, time)| *time).max() >= Some(effect.times.0) {
                broken.push(format!("{call:?} has an older write time than an earlier write"));
            }
        }
    }
}

/// Whether the client knows that a failed call was not applied: it began no attempt, or its only
/// attempt was refused because too few replicas were up. After such an answer to a conditional write
/// or an unlogged batch, an earlier part of it may have been carried out.
fn is_surely_unapplied(call: &Call, error: &EngineError, requests: &[u32]) -> bool {
    let is_checked_first = match call.action {
        Action::Write { .. } => true,
        Action::Batch { .. } => is_logged(call.value),
        _ => false,
    };
    let is_refused = is_checked_first && error.code == Some(0x1000) && error.attempts == Some(1);
    // The error of a row or of a page may not count the attempts of earlier requests.
    let is_one_request = !matches!(call.action, Action::Row | Action::Scan | Action::Remade);
    is_one_request
        && requests.iter().all(|count| *count == 0)
        && (error.attempts == Some(0) || is_refused)
}

/// Checks that faults can cause an error of this kind. If the call failed because it lost its
/// connection, also checks that a fault or a `USE` has closed connections.
fn check_error(
    call: &Call,
    error: &EngineError,
    ended: Instant,
    faults: &[Happened],
    given_up: &[Instant],
    report: &mut impl FnMut(&str),
) {
    match error.kind {
        // If a connection has not answered an earlier `USE`, a new `USE` closes the connection.
        ErrorKind::Broken if is_because_of_use(error) => {}
        ErrorKind::Broken => {
            // A `USE` closes connections if the program gives it up or its deadline ends it.
            let given_up = given_up.iter().any(|at| closes_connections(*at, call.began, ended));
            if !given_up && !faults.iter().any(|fault| fault.may_close(call.began, ended)) {
                report("lost its connection, though no fault has closed one");
            }
        }
        ErrorKind::Server if !error.code.is_none_or(|code| is_sent(code, faults)) => {
            report("failed with an error code that no server sends");
        }
        ErrorKind::Timeout | ErrorKind::Server | ErrorKind::Unavailable => {}
        ErrorKind::Authentication if faults.iter().any(Happened::refuses_logins) => {}
        _ => report("failed with an error of another kind than faults cause"),
    }
}

/// Whether the servers answer with this error code on purpose: UNAVAILABLE, OVERLOADED, a timeout of
/// a write or a read, an error after a write was carried out, or a refused login.
fn is_sent(code: i32, faults: &[Happened]) -> bool {
    match code {
        0x1000 | 0x1001 | 0x1100 | 0x1200 => true,
        0x0000 | 0x1500 => faults.iter().any(|fault| fault.fault == Fault::Overload),
        0x0100 => faults.iter().any(Happened::refuses_logins),
        _ => false,
    }
}

/// Checks the calls that claim one key. At most one call may be the winner, which is the call whose
/// claim was applied. All other calls must have been answered with the same value. The call that
/// wrote this value must be the winner, or have failed with an error that says that it may have
/// applied.
fn check_claims(calls: &[&Call], broken: &mut Vec<String>) {
    let won = |call: &&&Call| matches!(call.ended, Some((_, Outcome::Claimed(None))));
    let winners: Vec<_> = calls.iter().filter(won).collect();
    if winners.len() > 1 {
        broken.push(format!("two calls have won the same condition: {winners:?}"));
    }
    let seen = calls.iter().filter_map(|call| match call.ended {
        Some((_, Outcome::Claimed(Some(value)))) => Some(value),
        _ => None,
    });
    let seen: BTreeSet<i64> = seen.chain(winners.iter().map(|winner| winner.value)).collect();
    if seen.len() > 1 {
        broken.push(format!("key {} was claimed with each of {seen:?}", calls[0].key));
    }
    for value in seen {
        let may_have_won = calls.iter().any(|call| {
            let is_loser = match &call.ended {
                Some((_, Outcome::Failed(error))) => !error.may_have_applied,
                Some((_, Outcome::Claimed(other))) => other.is_some(),
                _ => false,
            };
            call.value == value && !is_loser
        });
        if !may_have_won {
            broken.push(format!("value {value} claimed key {}, by no call", calls[0].key));
        }
    }
}

/// Checks that each read returned a value that was written to its key. If a write was acknowledged
/// before the read began, the read must not return an older value. Also checks that no scan returns
/// a row twice.
fn check_reads(calls: &[Call], effects: &BTreeMap<i64, Effect>, broken: &mut Vec<String>) {
    // Maps each key to the written values, each with the time when its write was acknowledged.
    let mut writes: BTreeMap<i64, Vec<(i64, Option<Instant>)>> = BTreeMap::new();
    let mut reads: BTreeMap<i64, Vec<(&Call, Option<i64>)>> = BTreeMap::new();
    for call in calls {
        let acknowledged = match &call.ended {
            Some((ended, Outcome::Written)) => Some(*ended),
            _ => None,
        };
        for (key, value) in call.writes() {
            writes.entry(key).or_default().push((value, acknowledged));
        }
        match &call.ended {
            Some((_, Outcome::Read(value))) => {
                reads.entry(call.key).or_default().push((call, *value));
            }
            Some((_, Outcome::Scanned(rows))) => {
                let keys: BTreeSet<i64> = rows.iter().map(|(key, _)| *key).collect();
                if keys.len() < rows.len() {
                    broken.push(format!("{call:?} has a row twice"));
                }
                for key in 0..=LAST_KEY {
                    let row = rows.iter().find(|row| row.0 == key);
                    reads.entry(key).or_default().push((call, row.map(|row| row.1)));
                }
            }
            _ => {}
        }
    }
    let times = |value: i64| effects.get(&value).map_or((i64::MIN, i64::MIN), |of| of.times);
    for (key, reads) in reads {
        let writes = writes.get(&key).map_or(&[][..], Vec::as_slice);
        for (read, value) in reads {
            if let Some(value) = value
                && !writes.iter().any(|write| write.0 == value)
            {
                broken.push(format!("{read:?} returned a value that nobody wrote to key {key}"));
            }
            let read_time = value.map_or(i64::MIN, |value| times(value).1);
            let missed = writes.iter().find(|(value, acknowledged)| {
                acknowledged.is_some_and(|at| at < read.began) && times(*value).0 > read_time
            });
            if let Some((value, _)) = missed {
                broken.push(format!("{read:?} missed the acknowledged value {value} of {key}"));
            }
        }
    }
}

/// Returns a sentence for each call that wrote a value with a wrong type, which the table's column
/// no longer had when the call began.
///
/// A node that knows a prepared statement executes it, even if the client has encoded the values
/// for other types. So calls of these four kinds are ignored:
///
/// - A call that was in flight when the table was made again.
/// - A call after a fault that delayed frames while the table was made again. When the fault ends,
///   the node may carry out a PREPARE that was sent earlier.
/// - A call during a fault that delays frames. When the fault ends, the node may carry out an
///   attempt of the call that was abandoned. By then, the call has prepared the statement again.
/// - One of two simultaneous calls, because the other call may have prepared the statement just
///   before.
pub fn misfits(calls: &[Call], misfits: &[(i64, Instant)], faults: &[Happened]) -> Vec<String> {
    let mut broken = Vec::new();
    for (value, made) in misfits {
        let delays = |from: Instant, until: Instant| {
            faults.iter().any(|fault| {
                fault.holds_frames()
                    && fault.began < until
                    && fault.ended.is_none_or(|end| end > from)
            })
        };
        let was_out = |call: &&Call| {
            let ended = call.ended.as_ref().map_or(call.began + call.limit, |(ended, _)| *ended);
            delays(*made, *made) || delays(call.began, ended)
        };
        let call = calls.iter().find(|call| call.value == *value);
        let has_company = |call: &&Call| {
            let others = calls.iter().filter(|other| other.action == Action::Remade);
            let at_once = |other: &Call| {
                let began_before_its_end =
                    call.ended.as_ref().is_none_or(|(ended, _)| other.began <= *ended);
                let ended_after_its_beginning =
                    other.ended.as_ref().is_none_or(|(ended, _)| *ended >= call.began);
                began_before_its_end && ended_after_its_beginning
            };
            others.filter(|other| other.value != call.value).any(at_once)
        };
        let call = call.filter(|call| call.began > *made && !was_out(call) && !has_company(call));
        if let Some(call) = call {
            broken.push(format!("{call:?} was written with a type that the table does not have"));
        }
    }
    broken
}
