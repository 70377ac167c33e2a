//! What the program did and saw, and what must be true of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use turbocql_engine::{EngineError, ErrorKind};

use crate::cluster::{Effect, LAST_KEY, SCHEMA_SPREAD};
use crate::faults::Happened;

/// The number of writes in a batch.
pub const BATCH: i64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A write. `is_idempotent` is what the program declared.
    Write {
        is_idempotent: bool,
    },
    /// A batch of writes to [`BATCH`] keys.
    Batch {
        is_idempotent: bool,
    },
    /// A row of many that are written together.
    Row,
    Claim,
    Read,
    /// A read of all rows, in pages.
    Scan,
    /// A read that many of its kind accompany, from a node that stops.
    Burst,
    /// A write to a table that is now and then made again with other types.
    Remade,
    /// `USE` on all connections. The program gives some up after this time.
    UseKeyspace {
        gives_up: Option<Duration>,
    },
    /// A read of a table that is in the keyspace in use.
    Keyspace,
    /// The nodes and the keyspaces are read again.
    Refresh,
    /// The nodes are asked for their schema versions until these agree.
    Agreement,
    /// Makes a table.
    Create,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Done,
    Written,
    /// Whether the claim was applied, and the value that is there otherwise.
    Claimed(Option<i64>),
    Read(Option<i64>),
    /// Keys and values.
    Scanned(Vec<(i64, i64)>),
    /// The keyspace that answered, and the one that the program has chosen, if no change of it was
    /// under way.
    Keyspace {
        of_answer: Option<usize>,
        chosen: Option<usize>,
    },
    /// The nodes that did not know the table after its creation, though nothing was wrong with them.
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
    /// The value that is written, or the first of several. No two calls have the same.
    pub value: i64,
    pub began: Instant,
    pub limit: Duration,
    /// When it ended, and how.
    pub ended: Option<(Instant, Outcome)>,
}

impl Call {
    /// The keys and the values that it writes.
    fn writes(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let count = match self.action {
            Action::Write { .. } | Action::Row => 1,
            Action::Batch { .. } => BATCH,
            _ => 0,
        };
        let (key, value) = (self.key, self.value);
        (0..count).map(move |index| ((key + index) % (LAST_KEY + 1), value + index))
    }

    /// The values that the servers count.
    fn effects(&self) -> Vec<i64> {
        match self.action {
            Action::Claim | Action::Create => vec![self.value],
            _ => self.writes().map(|(_, value)| value).collect(),
        }
    }

    /// When a `USE` failed or was given up.
    pub fn given_up(&self) -> Option<Instant> {
        match (self.action, &self.ended) {
            (Action::UseKeyspace { .. }, Some((ended, Outcome::Failed(_)))) => Some(*ended),
            _ => None,
        }
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

    /// The error with which it ended.
    fn error(&self) -> Option<&EngineError> {
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

/// Whether a `USE` has closed the call's connection, as it does if it is given up.
pub fn is_because_of_use(error: &EngineError) -> bool {
    error.message.contains("a USE on this connection")
}

/// How much later than its deadline a call may end.
const LATE: Duration = Duration::from_millis(100);

/// Within this time after its start, a node is connected again.
const CONNECTED_AGAIN: Duration = Duration::from_millis(2500);

/// How long after the beginning of an outage calls may fail because of it: the watch has noticed the
/// node, and calls that were sent to it before have ended.
const NOTICED: Duration = Duration::from_secs(12);

/// Returns a sentence for each call that failed although the node that is out was known to be, and
/// the others are healthy. No two faults may have happened at the same time.
///
/// `made` are the times at which another client made a table. The nodes agree on a schema two seconds
/// after the last change, so an agreement beside two changes may take as long as the limit of a call.
pub fn needless_failures(calls: &[Call], faults: &[Happened], made: &[Instant]) -> Vec<String> {
    let mut needless = Vec::new();
    let given_up: Vec<Instant> = calls.iter().filter_map(Call::given_up).collect();
    for (number, call) in calls.iter().enumerate() {
        let Some((ended, Outcome::Failed(error))) = &call.ended else { continue };
        let is_given_up = matches!(call.action, Action::UseKeyspace { gives_up: Some(_) });
        if is_given_up || is_because_of_use(error) {
            continue;
        }
        let waits_for_schema = matches!(call.action, Action::Create | Action::Agreement);
        if waits_for_schema && made.iter().any(|at| *at + SCHEMA_SPREAD > call.began && at < ended)
        {
            continue;
        }
        // With the connections to the other nodes closed, only the node that is out is left.
        if given_up.iter().any(|at| closes_connections(*at, call.began, *ended)) {
            continue;
        }
        if faults.iter().any(|fault| fault.lingers(call.began)) {
            continue;
        }
        let in_outage = |fault: &&Happened| {
            fault.is_survived()
                && call.began > fault.began + NOTICED
                && fault.ended.is_none_or(|end| *ended < end)
        };
        if let Some(outage) = faults.iter().find(in_outage) {
            let after = call.began - outage.began;
            needless.push(format!(
                "call {number}, {call:?}: failed {after:?} into an outage of one node"
            ));
        }
    }
    needless
}

/// Whether a `USE` that was given up at a time may have closed connections between two others.
fn closes_connections(given_up: Instant, from: Instant, until: Instant) -> bool {
    given_up + Duration::from_secs(1) >= from && given_up <= until
}

/// Returns a sentence for each call that breaks a promise.
pub fn violations(
    calls: &[Call],
    effects: &BTreeMap<i64, Effect>,
    faults: &[Happened],
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
    broken
}

/// A call fails with the errors that faults cause. It loses its connection only if a fault has
/// closed connections.
fn check_error(
    call: &Call,
    error: &EngineError,
    ended: Instant,
    faults: &[Happened],
    given_up: &[Instant],
    report: &mut impl FnMut(&str),
) {
    match error.kind {
        // A `USE` ends a connection that has not answered the one before, or refuses it.
        ErrorKind::Broken if is_because_of_use(error) => {}
        ErrorKind::Broken => {
            // A `USE` that is given up, by the program or by its deadline, closes connections.
            let given_up = given_up.iter().any(|at| closes_connections(*at, call.began, ended));
            if !given_up && !faults.iter().any(|fault| fault.may_close(call.began, ended)) {
                report("lost its connection, though no fault has closed one");
            }
        }
        ErrorKind::Timeout | ErrorKind::Server | ErrorKind::Unavailable => {}
        ErrorKind::Authentication if faults.iter().any(Happened::refuses_logins) => {}
        _ => report("failed with an error of another kind than faults cause"),
    }
}

/// A key is claimed once.
fn check_claims(calls: &[&Call], broken: &mut Vec<String>) {
    let won = |call: &&&Call| matches!(call.ended, Some((_, Outcome::Claimed(None))));
    let winners: Vec<_> = calls.iter().filter(won).collect();
    if winners.len() > 1 {
        broken.push(format!("two calls have won the same condition: {winners:?}"));
    }
}

/// A read returns a value of its key that was written, and none that is older than one whose write
/// was acknowledged before the read began. A scan has each key once.
fn check_reads(calls: &[Call], effects: &BTreeMap<i64, Effect>, broken: &mut Vec<String>) {
    // By key: the values, and when their writes were acknowledged.
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

/// Returns the calls of a burst that failed although the node that had stopped went on in time.
pub fn failed_bursts(calls: &[Call], limit: Duration, faults: &[Happened]) -> usize {
    let bursts = calls.iter().filter(|call| call.action == Action::Burst && call.limit >= limit);
    let failed = bursts.filter(|call| {
        let Some(error) = call.error() else { return false };
        // A fault that ended just before may have closed the connection, which is made again.
        let since = call.began - CONNECTED_AGAIN;
        let is_being_connected = error.kind == ErrorKind::Unavailable
            && faults.iter().any(|fault| fault.may_close(since, call.began));
        // A `USE` that was given up has closed the connection.
        let is_half_open = faults.iter().any(|fault| fault.lingers(call.began));
        !is_being_connected && !is_half_open && !is_because_of_use(error)
    });
    failed.count()
}

/// Returns a sentence for each value that was written with a type that its table did not have when
/// the call began.
///
/// A node that knows a statement carries it out, whatever types its values were encoded for. So a
/// request that was under way when the table was made again proves nothing. Neither does a call
/// after a preparation was under way: a node out of reach carries it out when it is back. Nor does
/// one of two calls at the same time: the other may have prepared the statement just before.
pub fn misfits(calls: &[Call], misfits: &[(i64, Instant)], faults: &[Happened]) -> Vec<String> {
    let mut broken = Vec::new();
    for (value, made) in misfits {
        let was_out = faults.iter().any(|fault| {
            fault.holds_frames() && fault.began < *made && fault.ended.is_none_or(|end| end > *made)
        });
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
        let call = call.filter(|call| call.began > *made && !was_out && !has_company(call));
        if let Some(call) = call {
            broken.push(format!("{call:?} was written with a type that the table does not have"));
        }
    }
    broken
}
