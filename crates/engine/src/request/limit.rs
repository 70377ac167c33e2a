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
pub(crate) struct Rest {
    /// The limit of the whole call, which errors name.
    pub(crate) whole: Duration,
    pub(crate) left: Duration,
}

impl Rest {
    /// The rest of `whole`, for a call that began at `began`. Fails if nothing is left.
    pub(crate) fn of(doing: &str, whole: Duration, began: Instant) -> Result<Rest, EngineError> {
        let left = whole.saturating_sub(began.elapsed());
        if left.is_zero() {
            let attempts = Attempts::idle();
            return Err(deadline(doing, whole, Some(&attempts)));
        }
        Ok(Rest { whole, left })
    }
}

/// The bound of the steps after the server's answer to a change of the schema: the rest of the
/// limit that the caller gave. Without one, the ScyllaDB driver's own limit of an agreement applies.
pub(crate) fn of_steps(options: &RequestOptions, rest: Option<Rest>) -> Option<Duration> {
    let given = options.timeout.flatten()?;
    Some(rest.map_or(given, |rest| rest.left))
}

/// What a session knows for its errors.
pub(crate) trait Knows {
    /// Whether errors quote no values.
    fn hides(&self) -> bool;

    /// The nodes that do not answer, as the end of a message.
    fn not_answering(&self) -> String;
}

/// Runs a request that has further steps after the server's answer: after a change of the schema,
/// the nodes are to agree on it; after a `USE`, all connections are to use the keyspace. The
/// ScyllaDB driver applies the time limit of a request only up to the answer.
pub(crate) async fn to_the_end<T>(
    subject: &Subject<'_>,
    limit: Option<Duration>,
    session: &impl Knows,
    attempts: &Attempts,
    work: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let Some(limit) = limit else { return work.await };
    if let Ok(done) = tokio::time::timeout(limit, work).await {
        return done;
    }
    let (doing, whole) = (subject.doing, rounded(subject.rest.map_or(limit, |rest| rest.whole)));
    let error = if attempts.succeeded() {
        let message = format!(
            "{doing}: done, but not all nodes have followed within {whole:?}, the client's own \
             deadline (timeout_s)"
        );
        EngineError::new(ErrorKind::Timeout, message)
    } else {
        deadline(doing, whole, Some(attempts))
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
            rest: None,
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
        let whole = Duration::from_millis(1);
        let began = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let error = Rest::of("executing", whole, began).unwrap_err();
        assert!(error.message.ends_with("it was never sent"), "{error}");
        assert!(
            Rest::of("executing", Duration::from_secs(9), began).unwrap().left
                <= Duration::from_secs(8)
        );
    }
}
