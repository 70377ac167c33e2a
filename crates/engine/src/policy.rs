//! When a request is sent again.

use scylla::policies::retry::{
    DefaultRetryPolicy, RequestInfo, RetryDecision, RetryPolicy, RetrySession,
};

use crate::effect::Effect;
use crate::error::attempt_may_have_applied;

/// The engine's default policy, minus every retry of what may have been applied and was not
/// declared idempotent.
///
/// The default policy asks about idempotence before most retries, but not before all: a
/// `ReadTimeout` is retried regardless, and it may come from the read in a conditional update,
/// whose proposal another round may yet carry out. `Unavailable`, which it also retries, is no
/// certainty for a statement that works in stages.
#[derive(Debug)]
pub(crate) struct CarefulRetry {
    pub(crate) effect: Effect,
}

impl RetryPolicy for CarefulRetry {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(CarefulSession {
            effect: self.effect,
            default: DefaultRetryPolicy::new().new_session(),
        })
    }
}

struct CarefulSession {
    effect: Effect,
    default: Box<dyn RetrySession>,
}

impl RetrySession for CarefulSession {
    fn decide_should_retry(&mut self, request: RequestInfo) -> RetryDecision {
        if !request.is_idempotent && attempt_may_have_applied(request.error, self.effect) {
            return RetryDecision::DontRetry;
        }
        self.default.decide_should_retry(request)
    }

    fn reset(&mut self) {
        self.default.reset();
    }
}
