//! Records the attempts of one request, for its error, for the session's counters and for events.

mod ended;

#[cfg(edited_crates)]
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

#[cfg(edited_crates)]
use bytes::Bytes;
use scylla::errors::{RequestAttemptError, RequestError};
use scylla::observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId};
use scylla::policies::retry::RetryDecision;
#[cfg(edited_crates)]
use scylla::routing::Shard;

use crate::error::effect::Effect;
use crate::error::{attempt_failure, attempt_may_have_applied, is_answer, shown};
use crate::telemetry::attempt::CountedAttempt;
use crate::telemetry::counters::{RequestKind, Telemetry};
use crate::telemetry::events::Origin;
use crate::terms::payload::{CustomPayload, Entries, Payloads};

/// Listens to the attempts of one request.
///
/// The ScyllaDB driver's errors name neither the node nor the number of attempts. They report only
/// the failure of the last attempt. But an earlier attempt may have been applied, and the failure
/// of an earlier attempt may explain more than the last failure.
#[derive(Debug)]
pub(crate) struct Attempts {
    effect: Effect,
    kind: RequestKind,
    /// The telemetry that counts the request. The field is `None` if the request is not counted.
    telemetry: Option<Arc<Telemetry>>,
    started: Instant,
    /// Whether the request has ended and was counted. Also true if the request is not counted.
    has_ended: AtomicBool,
    seen: Mutex<Seen>,
    /// Set if the request has the option `custom_payload`.
    payloads: OnceLock<Box<Payloads>>,
    /// Set if the request is reported when it is canceled.
    subject: OnceLock<Box<Canceled>>,
}

/// What is reported about a request that is canceled.
#[derive(Debug)]
struct Canceled {
    origin: Origin,
    statement: String,
    keyspace: Option<String>,
    table: Option<String>,
}

#[derive(Debug, Default)]
struct Seen {
    count: u32,
    /// The number of attempts that began because others were slow.
    speculative: usize,
    /// The node of the last attempt.
    node: Option<SocketAddr>,
    /// One of the attempts that have begun and not ended.
    open: Option<Begun>,
    /// The other open attempts. There are none unless a slow request was sent again (speculative
    /// execution).
    also_open: Vec<Begun>,
    /// The attempt that has succeeded.
    succeeded: Option<Succeeded>,
    /// Whether an attempt failed with an error, but may have been applied nevertheless.
    uncertain: bool,
    failed: Vec<Tried>,
    /// The last error with which a server answered.
    answer: Option<Box<(SocketAddr, RequestAttemptError)>>,
}

#[derive(Clone, Copy, Debug)]
struct Succeeded {
    node: SocketAddr,
    shard: Option<u32>,
    began: Duration,
    ended: Duration,
}

#[derive(Debug)]
struct Begun {
    id: usize,
    node: SocketAddr,
    /// The shard to which the attempt was sent, if the node is one of ScyllaDB.
    shard: Option<u32>,
    /// The time from the beginning of the request to the beginning of the attempt.
    after: Duration,
    counted: Option<CountedAttempt>,
}

/// An attempt that has failed, or has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    pub node: SocketAddr,
    /// The shard to which the attempt was sent, if the node is one of ScyllaDB.
    pub shard: Option<u32>,
    /// The failure. The field is `None` if the attempt has not ended.
    pub answer: Option<String>,
    /// The time from the beginning of the request to the beginning of the attempt.
    pub began: Duration,
    /// The time from the beginning of the request to the end of the attempt.
    pub ended: Option<Duration>,
}

impl Attempts {
    pub(crate) fn new(effect: Effect) -> Arc<Attempts> {
        Arc::new(Attempts {
            effect,
            kind: RequestKind::Read,
            telemetry: None,
            started: Instant::now(),
            has_ended: AtomicBool::new(true),
            seen: Mutex::default(),
            payloads: OnceLock::new(),
            subject: OnceLock::new(),
        })
    }

    /// Returns the `Attempts` of a request that `telemetry` counts.
    pub(crate) fn counted(
        telemetry: &Arc<Telemetry>,
        effect: Effect,
        kind: RequestKind,
    ) -> Arc<Attempts> {
        let mut attempts = Attempts::new(effect);
        Attempts::reset(&mut attempts, telemetry, effect, kind);
        attempts
    }

    /// Returns the `Attempts` of a request that has not begun yet.
    pub(crate) fn idle() -> Arc<Attempts> {
        Attempts::new(Effect::Reads)
    }

    /// Resets `this` for the next request. Makes a new object if the previous request still refers
    /// to `this`.
    pub(crate) fn reset(
        this: &mut Arc<Attempts>,
        telemetry: &Arc<Telemetry>,
        effect: Effect,
        kind: RequestKind,
    ) {
        let attempts = match Arc::get_mut(this) {
            Some(attempts) => attempts,
            None => {
                *this = Attempts::new(effect);
                let Some(attempts) = Arc::get_mut(this) else { return };
                attempts
            }
        };
        attempts.close();
        attempts.effect = effect;
        attempts.kind = kind;
        if !attempts.telemetry.as_ref().is_some_and(|counting| Arc::ptr_eq(counting, telemetry)) {
            attempts.telemetry = Some(Arc::clone(telemetry));
        }
        attempts.started = Instant::now();
        attempts.has_ended = AtomicBool::new(false);
        attempts.payloads.take();
        attempts.subject.take();
        *attempts.seen.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()) = Seen::default();
    }

    pub(crate) fn count(&self) -> u32 {
        self.seen().count
    }

    /// The node of the last attempt.
    pub(crate) fn node(&self) -> Option<SocketAddr> {
        self.seen().node
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn effect(&self) -> Effect {
        self.effect
    }

    /// Whether an attempt has succeeded. If so, an error of the request comes from a step of the
    /// driver after the answer.
    pub(crate) fn succeeded(&self) -> bool {
        self.seen().succeeded.is_some()
    }

    /// Whether any attempt may have been applied. An attempt that has not ended counts as one that
    /// may have been applied.
    pub(crate) fn may_have_applied(&self) -> bool {
        let seen = self.seen();
        self.effect != Effect::Reads
            && (seen.uncertain || seen.succeeded.is_some() || seen.open.is_some())
    }

    /// Records what is reported if the request is canceled. Does nothing without an `origin`,
    /// because then a canceled request is not described.
    pub(crate) fn describe(
        &self,
        origin: Option<&Origin>,
        statement: &str,
        keyspace: Option<&str>,
        table: Option<&str>,
    ) {
        let Some(origin) = origin else { return };
        self.subject.get_or_init(|| {
            Box::new(Canceled {
                origin: origin.clone(),
                statement: shown(statement),
                keyspace: keyspace.map(str::to_owned),
                table: table.map(str::to_owned),
            })
        });
    }

    /// Sets the custom payload to send with the request, and makes this object keep the payload of
    /// the response.
    pub(crate) fn carry(&self, payload: &Arc<CustomPayload>) {
        self.payloads.get_or_init(|| Box::new(Payloads::new(Arc::clone(payload))));
    }

    /// The custom payload of the response, if the request has the option `custom_payload`.
    pub(crate) fn received_payload(&self) -> Option<Box<Entries>> {
        self.payloads.get()?.take_received()
    }

    /// The last error with which a server answered, and the address of that server.
    pub(crate) fn answer(&self) -> Option<(SocketAddr, RequestAttemptError)> {
        self.seen().answer.as_deref().cloned()
    }

    /// The attempts that have failed or have not ended, in the order of their beginning.
    pub(crate) fn history(&self) -> Box<[Tried]> {
        let seen = self.seen();
        let open = seen.open.iter().chain(&seen.also_open).map(|begun| Tried {
            node: begun.node,
            shard: begun.shard,
            answer: None,
            began: begun.after,
            ended: None,
        });
        let mut history: Vec<Tried> = seen.failed.iter().cloned().chain(open).collect();
        history.sort_by_key(|tried| tried.began);
        history.into()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        self.close();
    }
}

impl Seen {
    /// Returns the open attempt with this id.
    #[cfg(edited_crates)]
    fn begun(&mut self, id: AttemptId) -> Option<&mut Begun> {
        self.open.iter_mut().chain(&mut self.also_open).find(|begun| begun.id == id.0)
    }

    /// Removes an attempt from the open attempts, and returns it.
    fn end(&mut self, id: AttemptId) -> Option<Begun> {
        if self.open.as_ref().is_some_and(|begun| begun.id == id.0) {
            return std::mem::replace(&mut self.open, self.also_open.pop());
        }
        let at = self.also_open.iter().position(|begun| begun.id == id.0)?;
        Some(self.also_open.remove(at))
    }
}

impl HistoryListener for Attempts {
    fn log_request_start(&self) -> RequestId {
        RequestId(0)
    }

    fn log_request_success(&self, _: RequestId) {}

    fn log_request_error(&self, _: RequestId, _: &RequestError) {}

    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        if let Some(telemetry) = &self.telemetry {
            telemetry.speculative.fetch_add(1, Ordering::Relaxed);
        }
        self.seen().speculative += 1;
        SpeculativeId(0)
    }

    fn log_attempt_start(
        &self,
        _: RequestId,
        _: Option<SpeculativeId>,
        node: SocketAddr,
    ) -> AttemptId {
        let counted = self.telemetry.as_ref().map(|telemetry| telemetry.node(node));
        let counted = counted.map(CountedAttempt::begin);
        let mut seen = self.seen();
        // The first attempt begins with the request, so the clock need not be read.
        let after = if seen.count == 0 { Duration::ZERO } else { self.elapsed() };
        let id = seen.count as usize;
        let begun = Begun { id, node, shard: None, after, counted };
        seen.count += 1;
        seen.node = Some(node);
        match seen.open {
            None => seen.open = Some(begun),
            Some(_) => seen.also_open.push(begun),
        }
        AttemptId(id)
    }

    fn log_attempt_success(&self, id: AttemptId) {
        let ended = self.elapsed();
        let mut seen = self.seen();
        let Some(Begun { node, shard, after, counted, .. }) = seen.end(id) else { return };
        seen.succeeded = Some(Succeeded { node, shard, began: after, ended });
        if let Some(counted) = counted {
            counted.succeeded(self.kind, ended.saturating_sub(after));
        }
    }

    fn log_attempt_error(
        &self,
        id: AttemptId,
        error: &RequestAttemptError,
        decision: &RetryDecision,
    ) {
        let is_retried = matches!(
            decision,
            RetryDecision::RetrySameTarget(_) | RetryDecision::RetryNextTarget(_)
        );
        if let Some(telemetry) = self.telemetry.as_ref().filter(|_| is_retried) {
            telemetry.retries.fetch_add(1, Ordering::Relaxed);
        }
        let uncertain = attempt_may_have_applied(error, self.effect);
        let ended = self.elapsed();
        let mut seen = self.seen();
        seen.uncertain |= uncertain;
        let Some(Begun { node, shard, after, counted, .. }) = seen.end(id) else { return };
        if let Some(counted) = counted {
            counted.failed();
        }
        let answer = Some(attempt_failure(error));
        seen.failed.push(Tried { node, shard, answer, began: after, ended: Some(ended) });
        if is_answer(error) {
            seen.answer = Some(Box::new((node, error.clone())));
        }
    }

    #[cfg(edited_crates)]
    fn log_attempt_shard(&self, id: AttemptId, shard: Shard) {
        if let Some(begun) = self.seen().begun(id) {
            begun.shard = Some(shard);
        }
    }

    #[cfg(edited_crates)]
    fn custom_payload(&self) -> Option<&[u8]> {
        self.payloads.get()?.sent.encoded()
    }

    #[cfg(edited_crates)]
    fn log_custom_payload(&self, payload: Option<&HashMap<String, Bytes>>) {
        if let Some(payloads) = self.payloads.get() {
            let entries = payload.map(|payload| {
                payload.iter().map(|(name, value)| (name.clone(), value.to_vec())).collect()
            });
            payloads.receive(entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::DbError;

    fn fail(attempts: &Attempts, error: DbError) {
        let node = "127.0.0.1:9042".parse().unwrap();
        let id = attempts.log_attempt_start(RequestId(0), None, node);
        let error = RequestAttemptError::DbError(error, String::new());
        attempts.log_attempt_error(id, &error, &RetryDecision::DontRetry);
    }

    #[test]
    fn a_later_refusal_does_not_undo_an_attempt_that_may_have_applied() {
        let attempts = Attempts::new(Effect::Writes);
        assert!(!attempts.may_have_applied());
        fail(&attempts, DbError::ServerError);
        fail(&attempts, DbError::IsBootstrapping);
        assert!(attempts.may_have_applied());
        assert_eq!(attempts.count(), 2);
    }

    #[test]
    fn an_open_attempt_may_have_applied_unless_it_reads() {
        for (effect, doubt) in [(Effect::Writes, true), (Effect::Reads, false)] {
            let attempts = Attempts::new(effect);
            let node: SocketAddr = "127.0.0.1:9042".parse().unwrap();
            let id = attempts.log_attempt_start(RequestId(0), None, node);
            assert_eq!(attempts.may_have_applied(), doubt);
            assert_eq!(attempts.node(), Some(node));
            let error = RequestAttemptError::UnableToAllocStreamId;
            attempts.log_attempt_error(id, &error, &RetryDecision::DontRetry);
            assert!(!attempts.may_have_applied());
        }
    }

    #[test]
    fn an_attempt_beside_a_refused_one_may_have_applied() {
        let attempts = Attempts::new(Effect::Writes);
        let nodes = ["127.0.0.1:1", "127.0.0.2:1"].map(|n| n.parse().unwrap());
        let ids = nodes.map(|node| attempts.log_attempt_start(RequestId(0), None, node));
        for (id, doubt) in ids.into_iter().zip([true, false]) {
            let error = RequestAttemptError::DbError(DbError::IsBootstrapping, String::new());
            attempts.log_attempt_error(id, &error, &RetryDecision::DontRetry);
            assert_eq!(attempts.may_have_applied(), doubt);
        }
    }

    #[test]
    fn the_history_has_all_attempts_in_the_order_of_their_beginning() {
        let attempts = Attempts::new(Effect::Reads);
        let nodes = ["127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"].map(|n| n.parse().unwrap());
        let ids = nodes.map(|node| attempts.log_attempt_start(RequestId(0), None, node));
        let error = RequestAttemptError::DbError(DbError::Overloaded, "busy".into());
        attempts.log_attempt_error(ids[1], &error, &RetryDecision::DontRetry);
        let history = attempts.history();
        assert_eq!(history.iter().map(|tried| tried.node).collect::<Vec<_>>(), nodes);
        assert_eq!(history[1].answer.as_deref(), Some("the coordinator is overloaded: busy"));
        assert!(history[1].ended >= Some(history[1].began));
        assert_eq!((history[0].ended, &history[2].answer), (None, &None));
        assert_eq!(attempts.answer().unwrap().0, nodes[1]);
        attempts.log_attempt_success(ids[2]);
        assert!(attempts.succeeded());
        assert_eq!(attempts.history().len(), 2);
    }
}
