//! When a request is sent again.

use std::sync::{Arc, LazyLock};

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
        Box::new(CarefulSession { effect: self.effect, policy: self.retry.session() })
    }
}

struct CarefulSession {
    effect: Effect,
    policy: Box<dyn RetrySession>,
}

impl RetrySession for CarefulSession {
    fn decide_should_retry(&mut self, request: RequestInfo) -> RetryDecision {
        if !request.is_idempotent && attempt_may_have_applied(request.error, self.effect) {
            return RetryDecision::DontRetry;
        }
        self.policy.decide_should_retry(request)
    }

    fn reset(&mut self) {
        self.policy.reset();
    }
}
