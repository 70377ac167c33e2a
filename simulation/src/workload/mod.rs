//! The program that uses the session. It has workers that make calls, and a task that checks the
//! session's view of the nodes.

mod requests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use turbocql_engine::{EngineError, Prepared, Runtime, Session};

use crate::cluster::{BURST, Cluster, LAST_KEY};
use crate::faults::{Burst, Fault, Happened, LONGEST_PAUSE, Log};
use crate::history::{Action, BATCH, Call, Outcome, given_up, is_because_of_use, is_given_up};
use crate::random::Random;
use crate::trace::Trace;
use requests::{PAGES, SETTLED};

/// The time limit of a request.
pub const LIMIT: Duration = Duration::from_secs(4);

/// The number of rows of a bulk, which is the engine's part of `execute_many`.
const ROWS: i64 = 16;
/// How long a bulk retries a row whose requests fail.
const PATIENCE: Duration = Duration::from_secs(10);

/// Within this time, the other nodes tell the session that a node has another address or another
/// host id.
const TOLD: Duration = Duration::from_secs(10);

/// After this many calls, further claims use new keys.
const CLAIMED_FOR: usize = 200;

#[derive(Clone)]
pub struct Program(Arc<Inner>);

struct Inner {
    session: Session,
    runtime: Runtime,
    cluster: Cluster,
    log: Log,
    trace: Trace,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    /// The next value to write.
    value: i64,
    prepared: HashMap<String, Arc<Prepared>>,
    keyspace: Keyspace,
    /// From this time on, all connections use one keyspace again. It is set when a `USE` fails.
    use_failed: Option<Instant>,
    /// Whether the program is creating a table. It creates one table at a time, because the nodes
    /// may not agree on the schema while other tables are created.
    is_creating: bool,
    /// A sentence for each killed node to which the session did not connect in time, and for each
    /// call or row that ended twice.
    broken: Vec<String>,
}

/// The keyspace that the program has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Keyspace {
    /// The index of the keyspace; `None` before the first `USE` and during each `USE`.
    chosen: Option<usize>,
    /// Changes with each `USE`.
    number: u64,
    is_changing: bool,
    /// From this time on, all connections use the keyspace. After a `USE` that failed, some
    /// connections change to it only later.
    settled: Option<Instant>,
}

impl Program {
    pub fn new(
        session: Session,
        runtime: Runtime,
        cluster: Cluster,
        log: Log,
        trace: Trace,
    ) -> Program {
        let state = Mutex::default();
        Program(Arc::new(Inner { session, runtime, cluster, log, trace, state }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn session(&self) -> &Session {
        &self.0.session
    }

    pub fn log(&self) -> &Log {
        &self.0.log
    }

    pub fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Returns when the program gave up calls, other than `USE`s.
    pub fn given_up(&self) -> Vec<Instant> {
        self.lock().calls.iter().filter_map(Call::was_given_up).collect()
    }

    /// Returns a sentence for each killed node that the session did not connect to in time.
    pub fn broken(&self) -> Vec<String> {
        self.lock().broken.clone()
    }

    /// Makes calls, one after another, until `until`.
    pub async fn run(self, mut random: Random, until: Instant) {
        while Instant::now() < until {
            sleep(Duration::from_millis(random.within(0..400))).await;
            self.call(&mut random).await;
        }
    }

    /// Sends bursts, each to its node, until the sender is dropped.
    pub async fn send_bursts(self, mut bursts: mpsc::UnboundedReceiver<Burst>) {
        while let Some(burst) = bursts.recv().await {
            // The node's fault has just begun, so answers that the node sent before may still be on
            // the way.
            sleep(Duration::from_millis(20)).await;
            for _ in 0..burst.requests {
                let program = self.clone();
                tokio::spawn(async move { program.burst(burst).await });
            }
        }
    }

    /// Checks that the session connects to nodes soon after they start again.
    pub async fn watch_nodes(self, until: Instant) {
        let mut checked = BTreeSet::new();
        while Instant::now() < until {
            sleep(Duration::from_millis(100)).await;
            let faults = self.0.log.faults();
            for number in 0..faults.len() {
                if !checked.contains(&number) && self.check_connected(&faults, number) {
                    checked.insert(number);
                }
            }
        }
    }

    /// Checks that the session is connected to a node after an outage. Returns false if it is too
    /// early to judge.
    fn check_connected(&self, faults: &[Happened], number: usize) -> bool {
        let fault = &faults[number];
        let Some(ended) = fault.ended else { return false };
        let newer = &faults[number + 1..];
        let is_alone = !newer.iter().any(|other| other.node == fault.node);
        // If the node was up only shortly between two faults, the session may have made no
        // attempt to connect meanwhile. Then the outage begins with the earlier fault.
        let mut began = fault.began;
        for other in faults[..number].iter().rev().filter(|of| of.node == fault.node) {
            if other.ended.is_some_and(|end| end + LONGEST_PAUSE > began) {
                began = other.began;
            }
        }
        let outage = Happened { began, ..*fault };
        let within = match fault.fault {
            Fault::Kill | Fault::PowerLoss | Fault::Reshard(_) => outage.connected_again_within(),
            // The session learns of the new node or address from the other nodes.
            Fault::Move | Fault::Replace => LONGEST_PAUSE + TOLD,
            _ => return true,
        };
        if ended.elapsed() < within {
            return false;
        }
        // A `USE` that has not ended yet, or has failed, may close connections.
        let has_used = {
            let state = self.lock();
            state.keyspace.is_changing
                || state.use_failed.is_some_and(|settled| settled > ended + SETTLED)
        };
        if is_alone && !has_used {
            let at = self.0.cluster.address(fault.node);
            let nodes = self.0.session.nodes();
            if nodes.iter().any(|node| node.address == at && !node.connected) {
                let late = ended.elapsed();
                let text = format!("{at} is not connected {late:.1?} after it started again");
                self.0.trace.line(|| text.clone());
                self.lock().broken.push(text);
            }
        }
        true
    }

    /// Makes one call of any kind. Returns whether it succeeded.
    ///
    /// A `USE` that the program gives up counts as a success.
    pub async fn call(&self, random: &mut Random) -> bool {
        let is_changing = self.lock().keyspace.is_changing;
        let action = match random.within(0..100) {
            0 if !is_changing => {
                let milliseconds = random.within(0..20);
                let gives_up = random.percent(30).then(|| Duration::from_millis(milliseconds));
                Action::UseKeyspace { gives_up }
            }
            1 => Action::Refresh,
            2 => Action::Agreement,
            3 if !self.lock().is_creating => Action::Create,
            4..7 if self.lock().keyspace.chosen.is_some() => Action::Keyspace,
            7..10 => Action::Scan,
            10 => Action::Row,
            11..15 => Action::Batch { is_idempotent: true },
            15..17 => Action::Batch { is_idempotent: false },
            17..20 => Action::Remade,
            number => match number % 10 {
                0..3 => Action::Write { is_idempotent: true },
                3..5 => Action::Write { is_idempotent: false },
                5..9 => Action::Read,
                _ => Action::Claim,
            },
        };
        let mut key = random.within(0..LAST_KEY as u64 + 1) as i64;
        if action == Action::Claim {
            // A claimed key stays claimed. New keys make sure that some claims are applied even
            // late in a run.
            key += (LAST_KEY + 1) * (self.lock().calls.len() / CLAIMED_FOR) as i64;
        }
        // Sometimes the variant is new. Then the text is also new, so the call must prepare it.
        let variant = if random.percent(2) { random.draw() } else { random.within(0..3) };
        let gives_up = matches!(action, Action::UseKeyspace { gives_up: Some(_) });
        self.make(action, key, variant).await || gives_up
    }

    /// Reads all keys. Returns whether all reads succeeded.
    pub async fn read_all(&self) -> bool {
        let mut all = true;
        for key in 0..=LAST_KEY {
            all &= self.make(Action::Read, key, 0).await;
        }
        all
    }

    fn begin(&self, action: Action, key: i64, limit: Duration) -> (usize, i64) {
        let mut state = self.lock();
        let value = state.value;
        state.value += if matches!(action, Action::Batch { .. }) { BATCH } else { 1 };
        let began = Instant::now();
        state.calls.push(Call { action, key, value, began, limit, ended: None });
        (state.calls.len() - 1, value)
    }

    /// Records the outcome of a call. Returns true if the call succeeded, if the program gave it up,
    /// or if it failed because of a `USE` that the program gave up.
    fn end(&self, number: usize, outcome: Result<Outcome, EngineError>) -> bool {
        let outcome = outcome.unwrap_or_else(|error| Outcome::Failed(Box::new(error)));
        let succeeded = match &outcome {
            Outcome::Failed(error) => is_because_of_use(error) || is_given_up(error),
            _ => true,
        };
        let mut state = self.lock();
        let call = &mut state.calls[number];
        self.0.trace.line(|| {
            let shown = match &outcome {
                Outcome::Failed(error) => {
                    format!("failed, may have applied: {}: {error}", error.may_have_applied)
                }
                other => format!("{other:?}"),
            };
            let Call { action, key, value, began, .. } = call;
            let took = began.elapsed();
            format!("call {number}: {action:?} key {key} value {value}, after {took:.1?}: {shown}")
        });
        let has_ended = call.ended.replace((Instant::now(), outcome)).is_some();
        if has_ended {
            state.broken.push(format!("call {number} ended twice"));
        }
        succeeded
    }

    async fn make(&self, action: Action, key: i64, variant: u64) -> bool {
        if action == Action::Row {
            return self.write_rows(key, variant).await;
        }
        let limit = match action {
            // A scan requests several pages, and each page has the time limit of a request.
            Action::Scan => LIMIT * (PAGES + 1),
            _ => LIMIT,
        };
        let (number, value) = self.begin(action, key, limit);
        let request = self.request(action, key, value, variant);
        let outcome = match gives_up(action, value) {
            None => request.await,
            // At this timeout, the future is dropped, as if its task were canceled.
            Some(after) => timeout(after, request).await.unwrap_or_else(|_| Err(given_up())),
        };
        self.end(number, outcome)
    }

    /// Adds a call that has just ended.
    fn add(&self, action: Action, began: Instant, outcome: Outcome) {
        let mut state = self.lock();
        let (limit, value) = (LIMIT * (PAGES + 1), state.value);
        state.value += 1;
        let ended = Some((Instant::now(), outcome));
        state.calls.push(Call { action, key: 0, value, began, limit, ended });
    }

    async fn burst(&self, burst: Burst) {
        let (number, _) = self.begin(Action::Burst, 0, burst.limit);
        let outcome = self.read_from(burst.node, burst.limit, BURST).await;
        self.end(number, outcome);
    }
}

/// Returns how long the program waits for a call, if it gives the call up before its time limit.
fn gives_up(action: Action, value: i64) -> Option<Duration> {
    let may_give_up = matches!(
        action,
        Action::Write { .. } | Action::Batch { .. } | Action::Read | Action::Scan | Action::Claim
    );
    let after = Duration::from_micros((value * 3_137 % 50_000) as u64);
    (may_give_up && value % 29 == 7).then_some(after)
}
