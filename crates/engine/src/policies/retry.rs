//! Retry policies. They decide when a request is sent again.

use std::sync::{Arc, LazyLock};

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{
    DefaultRetryPolicy, DowngradingConsistencyRetryPolicy, FallthroughRetryPolicy, RequestInfo,
    RetryDecision, RetryPolicy, RetrySession,
};

use crate::error::attempt_may_have_applied;
use crate::error::effect::Effect;

/// Selects one of the ScyllaDB driver's retry policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Retries on another node, or on the same node, if a retry may help.
    Default,
    /// Never retries.
    Fallthrough,
    /// Retries with a lower consistency, if that may help.
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

    /// The policy for statements with this effect. Profiles contain the policy for
    /// [`Effect::Writes`].
    pub(crate) fn careful(self, effect: Effect) -> Arc<dyn RetryPolicy> {
        static DEFAULT: LazyLock<ByEffect> = LazyLock::new(|| ByEffect::new(Retry::Default));
        static FALLTHROUGH: LazyLock<ByEffect> =
            LazyLock::new(|| ByEffect::new(Retry::Fallthrough));
        static DOWNGRADING: LazyLock<ByEffect> =
            LazyLock::new(|| ByEffect::new(Retry::Downgrading));
        let policies = match self {
            Retry::Default => &DEFAULT,
            Retry::Fallthrough => &FALLTHROUGH,
            Retry::Downgrading => &DOWNGRADING,
        };
        Arc::clone(match effect {
            Effect::Reads => &policies.reads,
            Effect::Writes => &policies.writes,
            Effect::Logged => &policies.logged,
            Effect::Staged => &policies.staged,
        })
    }
}

/// The policies of one [`Retry`]. All requests share them.
struct ByEffect {
    reads: Arc<dyn RetryPolicy>,
    writes: Arc<dyn RetryPolicy>,
    logged: Arc<dyn RetryPolicy>,
    staged: Arc<dyn RetryPolicy>,
}

impl ByEffect {
    fn new(retry: Retry) -> ByEffect {
        let policy = |effect| Arc::new(CarefulRetry { effect, retry });
        ByEffect {
            reads: policy(Effect::Reads),
            writes: policy(Effect::Writes),
            logged: policy(Effect::Logged),
            staged: policy(Effect::Staged),
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
struct CarefulRetry {
    effect: Effect,
    retry: Retry,
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
    /// The number of times that a server did not know the statement just after preparing it.
    forgotten: usize,
}

/// The maximum number of retries after `Unprepared`. A server whose cache of statements is full may
/// evict a new statement at once. A request that fails with `Unprepared` has not been applied.
/// Preparing the statement again helps, mostly at the first attempt.
const MAX_FORGOTTEN: usize = 20;

/// Each time that this many further `Unprepared` answers have arrived, the request is sent to
/// another node, because the cache of the node that gave them may stay full.
const FORGETS: usize = 5;

impl RetrySession for CarefulSession {
    fn decide_should_retry(&mut self, request: RequestInfo) -> RetryDecision {
        if let RequestAttemptError::DbError(DbError::Unprepared { .. }, _) = request.error
            && self.forgotten < MAX_FORGOTTEN
        {
            self.forgotten += 1;
            return if self.forgotten.is_multiple_of(FORGETS) {
                RetryDecision::RetryNextTarget(None)
            } else {
                RetryDecision::RetrySameTarget(None)
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_of_its_kind_and_effect() {
        for retry in [Retry::Default, Retry::Fallthrough, Retry::Downgrading] {
            for effect in [Effect::Reads, Effect::Writes, Effect::Logged, Effect::Staged] {
                let expected = format!("{:?}", CarefulRetry { effect, retry });
                assert_eq!(format!("{:?}", retry.careful(effect)), expected);
            }
        }
    }
}
