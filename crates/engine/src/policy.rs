//! When a request is sent again.

use std::sync::{Arc, LazyLock};

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{
    DefaultRetryPolicy, DowngradingConsistencyRetryPolicy, FallthroughRetryPolicy, RequestInfo,
    RetryDecision, RetryPolicy, RetrySession,
};

use crate::effect::Effect;
use crate::error::attempt_may_have_applied;

/// Which of the engine's policies decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// On another node, or the same, where that may help.
    Default,
    /// Never.
    Fallthrough,
    /// With a lower consistency, where that may help.
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

    /// The policy for statements that work in stages, which need more care.
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

/// One of the engine's policies, minus every retry of what may have been applied and was not
/// declared idempotent.
///
/// The default policy asks about idempotence before most retries, but not before all: a
/// `ReadTimeout` is retried regardless, and it may come from the read in a conditional update,
/// whose proposal another round may yet carry out. `Unavailable`, which it also retries, is no
/// certainty for a statement that works in stages.
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
    /// How often the server did not know the statement, although it had just been prepared again.
    forgotten: usize,
}

/// A server whose cache of statements is full may forget a new one at once. Nothing has been
/// applied then, and preparing it once more helps, mostly at the first attempt.
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
