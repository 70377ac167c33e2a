//! Retry policies: when a request is sent again.

use std::sync::{Arc, LazyLock};

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{
    DefaultRetryPolicy, DowngradingConsistencyRetryPolicy, FallthroughRetryPolicy, RequestInfo,
    RetryDecision, RetryPolicy, RetrySession,
};

use crate::effect::Effect;
use crate::error::attempt_may_have_applied;

/// Selects one of the ScyllaDB driver's retry policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Retries on another node, or on the same one, where that may help.
    Default,
    /// Never retries.
    Fallthrough,
    /// Retries with a lower consistency, where that may help.
    Downgrading,
}

impl Retry {
    fn session(self) -> Box<dyn RetrySession> {
        match self {
            Retry::Default => DefaultRetryPolicy::new().new_session(),
            Retry::Fallthrough => FallthroughRetryPolicy::new().new_session(),
            Retry::Downgrading => DowngradingConsistencyRetryPolicy::new().new_session(),
        }
    }

    /// The policy for statements that the server carries out in stages ([`Effect::Staged`]).
    pub(crate) fn staged(self) -> Arc<dyn RetryPolicy> {
        type Policy = LazyLock<Arc<dyn RetryPolicy>>;
        fn made(retry: Retry) -> Arc<dyn RetryPolicy> {
            Arc::new(CarefulRetry { effect: Effect::Staged, retry })
        }
        static DEFAULT: Policy = LazyLock::new(|| made(Retry::Default));
        static FALLTHROUGH: Policy = LazyLock::new(|| made(Retry::Fallthrough));
        static DOWNGRADING: Policy = LazyLock::new(|| made(Retry::Downgrading));
        match self {
            Retry::Default => Arc::clone(&DEFAULT),
            Retry::Fallthrough => Arc::clone(&FALLTHROUGH),
            Retry::Downgrading => Arc::clone(&DOWNGRADING),
        }
    }
}

/// Wraps one of the ScyllaDB driver's policies. A request that may have been applied and is not
/// declared idempotent is not retried.
///
/// The driver's default policy checks idempotence before most retries, but not before all. It
/// retries a `ReadTimeout` without this check, although the error may come from the read in a
/// conditional update. A later Paxos round may still carry out that update's proposal. The
/// default policy also retries `Unavailable`. For a statement that the server carries out in
/// stages, this error does not prove that nothing was applied.
#[derive(Debug)]
pub(crate) struct CarefulRetry {
    pub(crate) effect: Effect,
    pub(crate) retry: Retry,
}

impl RetryPolicy for CarefulRetry {
    fn new_session(&self) -> Box<dyn RetrySession> {
        let policy = self.retry.session();
        Box::new(CarefulSession { effect: self.effect, policy, forgotten: 0 })
    }
}

struct CarefulSession {
    effect: Effect,
    policy: Box<dyn RetrySession>,
    /// How often the server did not know the statement although it had just been prepared again.
    forgotten: usize,
}

/// The maximum number of retries after `Unprepared`. A server whose cache of statements is full may
/// evict a new statement at once. A request that fails with `Unprepared` has not been applied.
/// Preparing the statement again helps, mostly at the first attempt.
const MOST_FORGOTTEN: usize = 20;

impl RetrySession for CarefulSession {
    fn decide_should_retry(&mut self, request: RequestInfo) -> RetryDecision {
        if let RequestAttemptError::DbError(DbError::Unprepared { .. }, _) = request.error
            && self.forgotten < MOST_FORGOTTEN
        {
            self.forgotten += 1;
            return RetryDecision::RetrySameTarget(None);
        }
        if !request.is_idempotent && attempt_may_have_applied(request.error, self.effect) {
            return RetryDecision::DontRetry;
        }
        self.policy.decide_should_retry(request)
    }

    fn reset(&mut self) {
        self.policy.reset();
        self.forgotten = 0;
    }
}
