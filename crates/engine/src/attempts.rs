//! The attempts of one request, recorded only for its error.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scylla::errors::{RequestAttemptError, RequestError};
use scylla::observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId};
use scylla::policies::retry::RetryDecision;

use crate::effect::Effect;
use crate::error::attempt_may_have_applied;

/// Listens to the attempts of one request.
///
/// The ScyllaDB driver's errors name neither the node nor the number of attempts. They report only
/// the failure of the last attempt, but an earlier attempt may have been applied.
#[derive(Debug)]
pub(crate) struct Attempts {
    effect: Effect,
    started: Instant,
    seen: Mutex<Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    count: u32,
    node: Option<SocketAddr>,
    /// The number of attempts that have begun and not ended. It is more than 1 if a slow request
    /// was sent again.
    open: u32,
    /// Whether an attempt failed with an error after which it may have been applied.
    uncertain: bool,
}

impl Attempts {
    pub(crate) fn new(effect: Effect) -> Arc<Attempts> {
        Arc::new(Attempts { effect, started: Instant::now(), seen: Mutex::default() })
    }

    /// Makes the object for a request that has not begun yet.
    pub(crate) fn idle() -> Arc<Attempts> {
        Attempts::new(Effect::Reads)
    }

    /// Resets `this` for the next request. Makes a new object if the previous request still refers
    /// to `this`.
    pub(crate) fn again(this: &mut Arc<Attempts>, effect: Effect) {
        match Arc::get_mut(this) {
            Some(attempts) => {
                *attempts = Attempts { effect, started: Instant::now(), seen: Mutex::default() };
            }
            None => *this = Attempts::new(effect),
        }
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

    /// Whether any attempt may have been applied: a failed one, or one that has not ended.
    pub(crate) fn may_have_applied(&self) -> bool {
        let seen = self.seen();
        self.effect != Effect::Reads && (seen.uncertain || seen.open > 0)
    }

    fn seen(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }
}

impl HistoryListener for Attempts {
    fn log_request_start(&self) -> RequestId {
        RequestId(0)
    }

    fn log_request_success(&self, _: RequestId) {}

    fn log_request_error(&self, _: RequestId, _: &RequestError) {}

    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        SpeculativeId(0)
    }

    fn log_attempt_start(
        &self,
        _: RequestId,
        _: Option<SpeculativeId>,
        node: SocketAddr,
    ) -> AttemptId {
        self.note(|seen| {
            seen.count += 1;
            seen.node = Some(node);
            seen.open += 1;
        });
        AttemptId(0)
    }

    fn log_attempt_success(&self, _: AttemptId) {
        self.note(|seen| seen.open = seen.open.saturating_sub(1));
    }

    fn log_attempt_error(&self, _: AttemptId, error: &RequestAttemptError, _: &RetryDecision) {
        let uncertain = attempt_may_have_applied(error, self.effect);
        self.note(|seen| {
            seen.open = seen.open.saturating_sub(1);
            seen.uncertain |= uncertain;
        });
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
    fn an_early_doubt_outlives_later_certainty() {
        let attempts = Attempts::new(Effect::Writes);
        assert!(!attempts.may_have_applied());
        fail(&attempts, DbError::ServerError);
        fail(&attempts, DbError::Overloaded);
        assert!(attempts.may_have_applied());
        assert_eq!(attempts.count(), 2);
    }

    #[test]
    fn an_attempt_under_way_is_a_doubt_unless_it_reads() {
        for (effect, doubt) in [(Effect::Writes, true), (Effect::Reads, false)] {
            let attempts = Attempts::new(effect);
            let node: SocketAddr = "127.0.0.1:9042".parse().unwrap();
            let id = attempts.log_attempt_start(RequestId(0), None, node);
            assert_eq!(attempts.may_have_applied(), doubt);
            assert_eq!(attempts.node(), Some(node));
            attempts.log_attempt_success(id);
            assert!(!attempts.may_have_applied());
        }
    }
}
