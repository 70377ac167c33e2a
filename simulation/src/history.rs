//! What the program did and saw, and what must be true of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use turbocql_engine::{EngineError, ErrorKind};

use crate::cluster::Effect;
use crate::faults::Outage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A write. `is_idempotent` is what the program declared.
    Write {
        is_idempotent: bool,
    },
    Claim,
    Read,
    /// `USE` on all connections.
    UseKeyspace,
    /// The nodes and the keyspaces are read again.
    Refresh,
    /// The nodes are asked for their schema versions until these agree.
    Agreement,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Done,
    Written,
    /// Whether the claim was applied, and the value that is there otherwise.
    Claimed(Option<i64>),
    Read(Option<i64>),
    Failed(Box<EngineError>),
}

/// A call of the program.
#[derive(Clone)]
pub struct Call {
    pub action: Action,
    pub key: i64,
    /// The value that is written. No two calls have the same.
    pub value: i64,
    pub began: Instant,
    pub limit: Duration,
    /// When it ended, and how.
    pub ended: Option<(Instant, Outcome)>,
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

/// How much later than its deadline a call may end.
const LATE: Duration = Duration::from_millis(100);

/// How long after the beginning of an outage calls may fail because of it: the watch has noticed the
/// node, and calls that were sent to it before have ended.
const NOTICED: Duration = Duration::from_secs(12);

/// Returns a sentence for each call that failed although the node that is out was known to be, and
/// the others are healthy.
pub fn needless_failures(calls: &[Call], outages: &[Outage]) -> Vec<String> {
    let mut needless = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        let Some((ended, Outcome::Failed(_))) = &call.ended else { continue };
        let in_outage =
            |outage: &&Outage| call.began > outage.began + NOTICED && *ended < outage.ended;
        if let Some(outage) = outages.iter().find(in_outage) {
            let after = call.began - outage.began;
            needless.push(format!(
                "call {number}, {call:?}: failed {after:?} into an outage of one node"
            ));
        }
    }
    needless
}

/// Returns a sentence for each call that breaks a promise.
pub fn violations(calls: &[Call], effects: &BTreeMap<i64, Effect>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut keys: BTreeMap<i64, Vec<&Call>> = BTreeMap::new();
    let mut claims: BTreeMap<i64, Vec<&Call>> = BTreeMap::new();
    for (number, call) in calls.iter().enumerate() {
        let mut report = |what: &str| broken.push(format!("call {number}, {call:?}: {what}"));
        let effect = effects.get(&call.value).copied().unwrap_or_default();
        let Some((ended, outcome)) = &call.ended else {
            report("never ended");
            continue;
        };
        if *ended > call.began + call.limit + LATE {
            report("ended after its deadline");
        }
        let (is_write, is_idempotent) = match call.action {
            Action::Write { is_idempotent } => (true, is_idempotent),
            Action::Claim => (true, false),
            Action::Read | Action::UseKeyspace | Action::Refresh | Action::Agreement => {
                (false, true)
            }
        };
        if !is_idempotent && effect.requests > 1 {
            report(&format!("was sent {} times, and is not idempotent", effect.requests));
        }
        match outcome {
            Outcome::Failed(error) => {
                if is_write && !error.may_have_applied && effect.requests > 0 {
                    report("may_have_applied is false, but it was applied");
                }
                let usual = matches!(
                    error.kind,
                    ErrorKind::Timeout
                        | ErrorKind::Server
                        | ErrorKind::Broken
                        | ErrorKind::Unavailable
                );
                if !usual {
                    report("failed with an error of another kind than faults cause");
                }
            }
            Outcome::Written if effect.requests == 0 => report("is acknowledged, but not applied"),
            Outcome::Claimed(None) if effect.requests == 0 => {
                report("is said to have won, but the server has another value");
            }
            Outcome::Done | Outcome::Written | Outcome::Claimed(_) | Outcome::Read(_) => {}
        }
        let by_key = if call.action == Action::Claim { &mut claims } else { &mut keys };
        by_key.entry(call.key).or_default().push(call);
    }
    claims.values().for_each(|calls| check_claims(calls, &mut broken));
    keys.values().for_each(|calls| check_reads(calls, effects, &mut broken));
    broken
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
/// was acknowledged before the read began.
fn check_reads(calls: &[&Call], effects: &BTreeMap<i64, Effect>, broken: &mut Vec<String>) {
    let writes = || calls.iter().filter(|call| matches!(call.action, Action::Write { .. }));
    let times = |value: i64| effects.get(&value).map_or((i64::MIN, i64::MIN), |of| of.times);
    for read in calls {
        let Some((_, Outcome::Read(value))) = &read.ended else { continue };
        if let Some(value) = value
            && !writes().any(|write| write.value == *value)
        {
            broken.push(format!("{read:?} returned a value that nobody wrote to its key"));
        }
        let read_time = value.map_or(i64::MIN, |value| times(value).1);
        for write in writes() {
            if let Some((ended, Outcome::Written)) = &write.ended
                && *ended < read.began
                && times(write.value).0 > read_time
            {
                broken.push(format!("{read:?} missed the acknowledged {write:?}"));
                break;
            }
        }
    }
}
