//! The time limit of a call, from its beginning to its result.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::error::attempts::Attempts;
use crate::error::{EngineError, ErrorKind, deadline, rounded};
use crate::request::subject::Subject;
use crate::statement::RequestOptions;

/// The part of a call's time limit that is left after an earlier part of the call, such as the
/// preparation of its statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLeft {
    /// The limit of the whole call, which errors name.
    pub(crate) limit: Duration,
    pub(crate) remaining: Duration,
}

impl TimeLeft {
    /// Returns the rest of `limit` for a call that began at `began`. Fails if `limit` has passed.
    pub(crate) fn of(
        doing: &str,
        limit: Duration,
        began: Instant,
    ) -> Result<TimeLeft, EngineError> {
        let remaining = limit.saturating_sub(began.elapsed());
        if remaining.is_zero() {
            let attempts = Attempts::idle();
            return Err(deadline(doing, limit, Some(&attempts)));
        }
        Ok(TimeLeft { limit, remaining })
    }
}

/// Returns the time limit of a schema change: the part of the caller's limit that is left. This
/// limit also covers the driver's steps after the server's answer. Returns `None` if the caller has
/// set no limit. Then the driver's own limit for schema agreement applies.
pub(crate) fn limit_of_steps(
    options: &RequestOptions,
    time_left: Option<TimeLeft>,
) -> Option<Duration> {
    let call_limit = options.timeout.flatten()?;
    Some(time_left.map_or(call_limit, |time_left| time_left.remaining))
}

/// What errors of requests say about their session.
pub(crate) trait Knows {
    /// Whether values are left out of errors.
    fn hides(&self) -> bool;

    /// The nodes that do not answer, as the end of a message. The text is empty if all nodes
    /// answer.
    fn not_answering(&self) -> String;
}

/// Runs a request, and the ScyllaDB driver's steps after the server's answer, within the limit.
/// After a schema change, the nodes must agree on the schema. After a `USE`, all connections must
/// use the keyspace. The ScyllaDB driver applies a request's time limit only until the answer.
pub(crate) async fn to_the_end<T>(
    subject: &Subject<'_>,
    limit: Option<Duration>,
    session: &impl Knows,
    attempts: &Attempts,
    work: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let Some(limit) = limit else { return work.await };
    if let Ok(result) = tokio::time::timeout(limit, work).await {
        return result;
    }
    let (doing, limit) =
        (subject.doing, rounded(subject.time_left.map_or(limit, |time_left| time_left.limit)));
    let error = if attempts.succeeded() {
        let message = format!(
            "{doing}: done, but not all nodes have followed within {limit:?}, the client's own \
             deadline (timeout_s)"
        );
        EngineError::new(ErrorKind::Timeout, message)
    } else {
        deadline(doing, limit, Some(attempts))
    };
    let error = EngineError {
        message: error.message + &session.not_answering(),
        attempts: Some(attempts.count()),
        coordinator: attempts.node().map(|node| node.to_string().into()),
        may_have_applied: attempts.succeeded() || attempts.may_have_applied(),
        history: attempts.history(),
        ..error
    };
    Err(subject.text.of(error, session.hides()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::effect::Effect;
    use crate::request::subject::Text;
    use scylla::observability::history::{HistoryListener, RequestId};

    struct Two;

    impl Knows for Two {
        fn hides(&self) -> bool {
            false
        }

        fn not_answering(&self) -> String {
            "; not answering: the second".to_owned()
        }
    }

    fn run(attempts: &Attempts, limit: Duration, work: Duration) -> Result<(), EngineError> {
        let work = async {
            tokio::time::sleep(work).await;
            Ok(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let options = RequestOptions::default();
        let subject = Subject {
            doing: "executing",
            text: Text::One("USE ks"),
            time_left: None,
            options: &options,
        };
        runtime.block_on(to_the_end(&subject, Some(limit), &Two, attempts, work))
    }

    #[test]
    fn a_step_after_the_answer_is_within_the_limit() {
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
        let attempts = Attempts::new(Effect::Writes);
        assert_eq!(run(&attempts, long, short), Ok(()));
        let node = "127.0.0.1:9042".parse().unwrap();
        let id = attempts.log_attempt_start(RequestId(0), None, node);
        let error = run(&attempts, short, long).unwrap_err();
        assert!(error.message.contains("no response within 20ms"), "{error}");
        assert!(
            error.message.ends_with("; not answering: the second; statement: USE ks"),
            "{error}"
        );
        attempts.log_attempt_success(id);
        let error = run(&attempts, short, long).unwrap_err();
        assert!(error.message.contains("done, but not all nodes have followed"), "{error}");
        assert_eq!((error.kind, error.may_have_applied), (ErrorKind::Timeout, true));
        assert_eq!(error.coordinator.as_deref(), Some("127.0.0.1:9042"));
    }

    #[test]
    fn nothing_is_left_of_a_limit_that_has_passed() {
        let limit = Duration::from_millis(1);
        let began = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let error = TimeLeft::of("executing", limit, began).unwrap_err();
        assert!(error.message.ends_with("it was never sent"), "{error}");
        assert!(
            TimeLeft::of("executing", Duration::from_secs(9), began).unwrap().remaining
                <= Duration::from_secs(8)
        );
    }
}
