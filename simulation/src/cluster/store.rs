//! Reads, writes and conditional writes, as a coordinator carries them out.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::wire::{error, required};
use super::{Cluster, State, Written};

const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_secs(5);

const SERIAL: u16 = 0x0009;

/// The greatest key that the program uses. The least is 0.
pub const LAST_KEY: i64 = 11;

/// The body of an ERROR.
pub type Failure = Vec<u8>;

/// The replicas of a request, and how many of them must answer.
pub(super) struct Replicas {
    all: Vec<usize>,
    /// The replicas that the coordinator considers up.
    up: Vec<usize>,
    required: usize,
}

impl Replicas {
    fn is_majority(&self) -> bool {
        self.required > self.all.len() / 2
    }
}

impl Cluster {
    pub(super) fn replicas(
        &self,
        node: usize,
        key: i64,
        consistency: u16,
    ) -> Result<Replicas, Failure> {
        let state = self.lock();
        let all = state.replicas(key);
        let is_up = |of: &usize| *of == node || state.nodes[*of].is_known_up;
        let up: Vec<usize> = all.iter().copied().filter(is_up).collect();
        let required = required(consistency, all.len());
        if up.len() >= required {
            return Ok(Replicas { all, up, required });
        }
        let mut more = consistency.to_be_bytes().to_vec();
        more.extend_from_slice(&(required as i32).to_be_bytes());
        more.extend_from_slice(&(up.len() as i32).to_be_bytes());
        Err(error(0x1000, "Cannot achieve consistency level", &more))
    }

    /// Sends a message to a replica, and returns its answer. Returns `None` if the replica is
    /// killed, or if it begins to work on the message only after the coordinator's deadline.
    async fn ask<T>(
        &self,
        replica: usize,
        key: i64,
        deadline: Instant,
        work: impl FnOnce(&mut State) -> T,
    ) -> Option<T> {
        tokio::time::sleep(self.duration(50..800)).await;
        let shard = self.lock().shard(replica, key);
        self.handle((replica, shard), Some(deadline)).await?;
        let answer = {
            let mut state = self.lock();
            if !state.nodes[replica].is_alive {
                return None;
            }
            work(&mut state)
        };
        tokio::time::sleep(self.duration(50..800)).await;
        Some(answer)
    }

    /// Writes a value to the replicas of its key.
    pub(super) async fn write(
        &self,
        node: usize,
        key: i64,
        value: i64,
        time: Option<i64>,
        consistency: u16,
    ) -> Result<(), Failure> {
        let replicas = self.replicas(node, key, consistency)?;
        let time = time.unwrap_or_else(|| self.next_time());
        let written = Written { time, value };
        let deadline = Instant::now() + WRITE_TIMEOUT;
        let (sender, mut answers) = mpsc::unbounded_channel();
        self.lock().effects.entry(value).or_default().add(time);
        for &replica in &replicas.all {
            if !replicas.up.contains(&replica) {
                self.lock().nodes[replica].hints.push((key, written));
                continue;
            }
            let (cluster, sender) = (self.clone(), sender.clone());
            tokio::spawn(async move {
                let answer =
                    cluster.ask(replica, key, deadline, |state| state.apply(replica, key, written));
                match answer.await {
                    Some(()) => drop(sender.send(())),
                    None => cluster.lock().nodes[replica].hints.push((key, written)),
                }
            });
        }
        drop(sender);
        let answered = self.enough(node, &mut answers, replicas.required, deadline).await;
        match answered {
            Ok(_) => {
                if replicas.is_majority() {
                    self.lock().ledger.acknowledge(key, written);
                }
                Ok(())
            }
            Err(answered) => Err(timed_out(
                0x1100,
                "Operation timed out",
                consistency,
                answered,
                replicas.required,
                |more| super::wire::put_text(more, "SIMPLE"),
            )),
        }
    }

    /// Waits for `required` answers. If fewer arrive before the deadline, returns their number as
    /// an error.
    async fn enough<T>(
        &self,
        node: usize,
        answers: &mut mpsc::UnboundedReceiver<T>,
        required: usize,
        deadline: Instant,
    ) -> Result<Vec<T>, usize> {
        let mut arrived = Vec::new();
        while arrived.len() < required {
            match timeout_at(deadline, answers.recv()).await {
                Ok(Some(answer)) => arrived.push(answer),
                Ok(None) => {
                    tokio::time::sleep_until(deadline).await;
                    break;
                }
                Err(_) => break,
            }
        }
        self.running(node).await;
        if arrived.len() < required { Err(arrived.len()) } else { Ok(arrived) }
    }

    /// Reads the latest value of a key from its replicas, and repairs replicas with an older one.
    pub(super) async fn read(
        &self,
        node: usize,
        key: i64,
        consistency: u16,
    ) -> Result<Option<i64>, Failure> {
        let replicas = self.replicas(node, key, consistency)?;
        let before = self.lock().ledger.newest(key);
        let deadline = Instant::now() + READ_TIMEOUT;
        let (sender, mut answers) = mpsc::unbounded_channel();
        for &replica in &replicas.up {
            let (cluster, sender) = (self.clone(), sender.clone());
            tokio::spawn(async move {
                let read = cluster.ask(replica, key, deadline, |state| {
                    state.nodes[replica].rows.get(&key).copied()
                });
                if let Some(written) = read.await {
                    let _ = sender.send((replica, written));
                }
            });
        }
        drop(sender);
        let required = replicas.required;
        let late = |answered| {
            timed_out(0x1200, "Operation timed out", consistency, answered, required, |more| {
                more.push(0)
            })
        };
        let versions = self.enough(node, &mut answers, required, deadline).await.map_err(late)?;
        let latest = versions.iter().map(|(_, written)| *written).max().flatten();
        if let Some(latest) = latest {
            let behind = versions.iter().filter(|(_, written)| *written != Some(latest));
            let behind: Vec<usize> = behind.map(|(replica, _)| *replica).collect();
            let (sender, mut repaired) = mpsc::unbounded_channel();
            for &replica in &behind {
                let (cluster, sender) = (self.clone(), sender.clone());
                tokio::spawn(async move {
                    let repair = cluster
                        .ask(replica, key, deadline, |state| state.apply(replica, key, latest));
                    if repair.await.is_some() {
                        let _ = sender.send(());
                    }
                });
            }
            drop(sender);
            let repaired = self.enough(node, &mut repaired, behind.len(), deadline).await;
            repaired.map_err(|_| late(required - 1))?;
        }
        if replicas.is_majority() {
            self.lock().ledger.check_read(key, before, latest);
        }
        Ok(latest.map(|written| written.value))
    }

    /// Reads a page: at most `size` rows, in the order of their keys, with keys above `after`. Also
    /// returns the key after which the next page begins.
    pub(super) async fn page(
        &self,
        node: usize,
        after: i64,
        size: usize,
        consistency: u16,
    ) -> Result<(Vec<(i64, i64)>, Option<i64>), Failure> {
        let mut rows = Vec::new();
        for key in after + 1..=LAST_KEY {
            if rows.len() == size {
                return Ok((rows, Some(key - 1)));
            }
            let value = self.read(node, key, consistency).await?;
            rows.extend(value.map(|value| (key, value)));
        }
        Ok((rows, None))
    }

    /// Writes a value if its key has none. Returns `None` if the write was applied. Otherwise,
    /// returns the value that the key already has. All claims of a key are applied in one order, as
    /// with Paxos.
    pub(super) async fn claim(
        &self,
        node: usize,
        key: i64,
        value: i64,
    ) -> Result<Option<i64>, Failure> {
        let replicas = self.replicas(node, key, 0x0004)?;
        let deadline = Instant::now() + WRITE_TIMEOUT;
        for round in 0..2 {
            let (sender, mut answers) = mpsc::unbounded_channel();
            for &replica in &replicas.up {
                let (cluster, sender) = (self.clone(), sender.clone());
                tokio::spawn(async move {
                    if cluster.ask(replica, key, deadline, |_| ()).await.is_some() {
                        let _ = sender.send(());
                    }
                });
            }
            drop(sender);
            // The coordinator checks the replicas before each round. The claim may have been applied
            // when it finds too few.
            self.replicas(node, key, 0x0004)?;
            let answered = self.enough(node, &mut answers, replicas.required, deadline).await;
            answered.map_err(|answered| {
                let put = |more: &mut Vec<u8>| super::wire::put_text(more, "CAS");
                timed_out(0x1100, "CAS operation timed out", SERIAL, answered, 2, put)
            })?;
            if round == 0 {
                let mut state = self.lock();
                let winner = *state.claims.entry(key).or_insert(value);
                if winner != value {
                    return Ok(Some(winner));
                }
                state.effects.entry(value).or_default().add(0);
            }
        }
        Ok(None)
    }

    /// Returns a write time that no other write has.
    fn next_time(&self) -> i64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut state = self.lock();
        state.last_time = (now.unwrap_or_default().as_micros() as i64).max(state.last_time + 1);
        state.last_time
    }
}

/// Makes the error for a round of Paxos whose read timed out: enough replicas answered, but no
/// answer contained the row.
pub(super) fn lost_round() -> Failure {
    timed_out(0x1200, "Operation timed out", SERIAL, 2, 2, |more| more.push(0))
}

/// Makes the error for a conditional write whose last round failed on a replica.
pub(super) fn failed_round() -> Failure {
    timed_out(0x1500, "Operation failed", SERIAL, 1, 2, |more| {
        more.extend_from_slice(&1i32.to_be_bytes());
        super::wire::put_text(more, "CAS");
    })
}

fn timed_out(
    code: i32,
    message: &str,
    consistency: u16,
    answered: usize,
    required: usize,
    put: impl FnOnce(&mut Vec<u8>),
) -> Failure {
    let mut more = consistency.to_be_bytes().to_vec();
    more.extend_from_slice(&(answered as i32).to_be_bytes());
    more.extend_from_slice(&(required as i32).to_be_bytes());
    put(&mut more);
    error(code, message, &more)
}
