//! Converts the ScyllaDB driver's errors of requests to [`EngineError`].

use std::io::ErrorKind as ErrorKindIo;
use std::time::Duration;

use scylla::errors::{
    BadKeyspaceName, BadQuery, BrokenConnectionError, BrokenConnectionErrorKind,
    ConnectionPoolError, DbError, ExecutionError, FrameHeaderParseError, PrepareError,
    RequestAttemptError, SchemaAgreementError, SerializationError, UseKeyspaceError,
};

use super::connect::{connection_error, metadata_error};
use super::server::{may_have_applied, server_error};
use super::{EngineError, ErrorKind};
use crate::error::attempts::Attempts;
use crate::error::effect::Effect;

/// The message for a statement whose meaning has changed since it was prepared.
pub(crate) const MEANS_OTHERWISE: &str = "the statement had to be prepared again, and its meaning \
    has changed: it has another id, or its values have other types; prepare it anew";

/// Whether an attempt that failed with `error` may still have been applied.
pub(crate) fn attempt_may_have_applied(error: &RequestAttemptError, effect: Effect) -> bool {
    match error {
        _ if effect == Effect::Reads => false,
        // The request was never sent, or the server refused it because it no longer had the
        // prepared statement.
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::UnableToAllocStreamId
        | RequestAttemptError::RepreparedIdChanged { .. }
        | RequestAttemptError::RepreparedIdMissingInBatch => false,
        RequestAttemptError::DbError(error, reason) => may_have_applied(error, reason, effect),
        // The request was sent, but the answer was lost or could not be decoded.
        RequestAttemptError::BrokenConnectionError(_)
        | RequestAttemptError::BodyExtensionsParseError(_)
        | RequestAttemptError::CqlResultParseError(_)
        | RequestAttemptError::CqlErrorParseError(_)
        | RequestAttemptError::UnexpectedResponse(_)
        | RequestAttemptError::NonfinishedPagingState => true,
        _ => true,
    }
}

/// Whether the error is a server's answer about the request itself. The error `Unprepared` is no
/// such answer.
pub(crate) fn is_answer(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::DbError(DbError::Unprepared { .. }, _) => false,
        RequestAttemptError::DbError(..) => true,
        _ => false,
    }
}

/// Describes the failure of one attempt.
pub(crate) fn attempt_failure(error: &RequestAttemptError) -> String {
    let message = attempt_error("", error, None).message;
    message.strip_prefix(": ").map(str::to_owned).unwrap_or(message)
}

/// The error for a request that the ScyllaDB driver gave up.
///
/// The driver reports its last failure. This failure may be about a connection, although a server
/// has answered an earlier attempt with an error. Then the server's error is reported instead,
/// because it says more than the failure of a connection. But if the last attempt may have been
/// applied, the last failure is reported: the server's error could say that nothing was applied.
pub(crate) fn executing(doing: &str, error: &ExecutionError, attempts: &Attempts) -> EngineError {
    let failure = execution_failure(doing, error, attempts);
    let about_connections = matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Broken);
    let doubtful = match error {
        ExecutionError::LastAttemptError(error) => {
            attempt_may_have_applied(error, attempts.effect())
        }
        _ => false,
    };
    let (node, failure) = match attempts.answer() {
        Some((node, answer)) if about_connections && !doubtful && !attempts.succeeded() => {
            let last = failure.message.strip_prefix(doing).unwrap_or(&failure.message);
            let mut better = attempt_error(doing, &answer, None);
            better.message.push_str(&format!("; and then{last}"));
            (Some(node), better)
        }
        Some((node, answer)) if about_connections || failure.kind == ErrorKind::Timeout => {
            let before = attempt_failure(&answer);
            let message = format!("{}; before, {node} answered: {before}", failure.message);
            (attempts.node(), EngineError { message, ..failure })
        }
        _ => (attempts.node(), failure),
    };
    EngineError {
        attempts: Some(attempts.count()),
        coordinator: node.map(|node| node.to_string().into()),
        may_have_applied: failure.may_have_applied || attempts.may_have_applied(),
        history: attempts.history(),
        ..failure
    }
}

fn execution_failure(doing: &str, error: &ExecutionError, attempts: &Attempts) -> EngineError {
    let writes = attempts.effect() != Effect::Reads;
    match error {
        ExecutionError::BadQuery(bad) => bad_query(doing, bad),
        ExecutionError::EmptyPlan => no_nodes(
            doing,
            "no node can be asked: the profile's datacenter or allow-list excludes every node",
        ),
        ExecutionError::PrepareError(error) => prepare_error(doing, error),
        ExecutionError::ConnectionPoolError(error) => pool_error(doing, error),
        ExecutionError::LastAttemptError(error) => attempt_error(doing, error, Some(attempts)),
        ExecutionError::RequestTimeout(limit) => deadline(doing, *limit, Some(attempts)),
        // In the next three cases, the server has carried out the request. A later step of the
        // ScyllaDB driver failed.
        ExecutionError::UseKeyspaceError(error) => keyspace_error(doing, error),
        ExecutionError::SchemaAgreementError(error) => {
            EngineError { may_have_applied: writes, ..agreement_error(doing, error) }
        }
        ExecutionError::MetadataError(error) => {
            let doing = format!("{doing}: done, but reading the new schema failed");
            EngineError { may_have_applied: writes, ..metadata_error(&doing, error) }
        }
        unknown => EngineError {
            may_have_applied: writes,
            ..EngineError::new(ErrorKind::Internal, format!("{doing}: {unknown}"))
        },
    }
}

/// The error for a statement that could not be prepared. Preparing changes nothing.
pub(crate) fn preparing(error: &PrepareError) -> EngineError {
    prepare_error("preparing", error)
}

/// The error for values that could not be encoded.
pub(crate) fn encoding(doing: &str, error: &SerializationError) -> EngineError {
    let text = error.to_string();
    let text = text.strip_prefix("SerializationError: ").unwrap_or(&text);
    EngineError::new(ErrorKind::Encode, format!("{doing}: {text}"))
}

/// The error if the client's own deadline passed.
pub(crate) fn deadline(doing: &str, limit: Duration, attempts: Option<&Attempts>) -> EngineError {
    let limit = rounded(limit);
    let mut message =
        format!("{doing}: no response within {limit:?}, the client's own deadline (timeout_s)");
    match attempts.and_then(|a| a.node().map(|node| (a.count(), node))) {
        Some((1, node)) => message.push_str(&format!("; asked {node}")),
        Some((count, node)) => message.push_str(&format!("; {count} attempts, the last at {node}")),
        None if attempts.is_some() => message.push_str("; it was never sent"),
        None => {}
    }
    EngineError::new(ErrorKind::Timeout, message)
}

/// Rounds a limit to milliseconds for a message. The limit may be the rest of a longer limit, and
/// then has meaningless fractions of a millisecond.
pub(crate) fn rounded(limit: Duration) -> Duration {
    const MILLI: u128 = 1_000_000;
    match u64::try_from((limit.as_nanos() + MILLI / 2) / MILLI) {
        Ok(millis) if millis > 0 => Duration::from_millis(millis),
        _ => limit,
    }
}

fn no_nodes(doing: &str, why: &str) -> EngineError {
    EngineError::new(ErrorKind::Unavailable, format!("{doing}: {why}"))
}

fn bad_query(doing: &str, bad: &BadQuery) -> EngineError {
    match bad {
        BadQuery::SerializationError(error) => encoding(doing, error),
        BadQuery::PartitionKeyExtraction => EngineError::new(
            ErrorKind::Encode,
            format!("{doing}: the values do not contain the partition key"),
        ),
        BadQuery::ValuesTooLongForKey(length, most) => EngineError::new(
            ErrorKind::Encode,
            format!("{doing}: a partition key of {length} bytes; at most {most} are allowed"),
        ),
        BadQuery::TooManyQueriesInBatchStatement(count) => EngineError::new(
            ErrorKind::Encode,
            format!("{doing}: a batch of {count} statements; at most 65535 are allowed"),
        ),
        unknown => EngineError::new(ErrorKind::Encode, format!("{doing}: {unknown}")),
    }
}

fn prepare_error(doing: &str, error: &PrepareError) -> EngineError {
    match error {
        PrepareError::ConnectionPoolError(error) => pool_error(doing, error),
        PrepareError::AllAttemptsFailed { first_attempt } => {
            attempt_error(doing, first_attempt, None)
        }
        PrepareError::PreparedStatementIdsMismatch => EngineError::new(
            ErrorKind::Internal,
            format!("{doing}: the nodes disagree about the statement's id"),
        ),
        unknown => EngineError::new(ErrorKind::Internal, format!("{doing}: {unknown}")),
    }
}

pub(super) fn pool_error(doing: &str, error: &ConnectionPoolError) -> EngineError {
    match error {
        ConnectionPoolError::Broken { last_connection_error } => {
            let why = connection_error(doing, last_connection_error);
            let kind = match why.kind {
                ErrorKind::Authentication => ErrorKind::Authentication,
                _ => ErrorKind::Unavailable,
            };
            let message = why.message.strip_prefix(doing).unwrap_or(&why.message);
            let message = format!("{doing}: no working connection to any node asked{message}");
            EngineError { kind, message, ..why }
        }
        ConnectionPoolError::Initializing => no_nodes(doing, "connections are still being made"),
        ConnectionPoolError::NodeDisabledByHostFilter => {
            no_nodes(doing, "every node is excluded by the host filter")
        }
        unknown => no_nodes(doing, &unknown.to_string()),
    }
}

/// The error of one attempt. `attempts` is set if the attempt is for the caller's request, and not
/// for a request that the driver makes by itself.
pub(super) fn attempt_error(
    doing: &str,
    error: &RequestAttemptError,
    attempts: Option<&Attempts>,
) -> EngineError {
    let (kind, description) = match error {
        RequestAttemptError::SerializationError(error) => return encoding(doing, error),
        RequestAttemptError::CqlRequestSerialization(error) => {
            (ErrorKind::Encode, error.to_string())
        }
        RequestAttemptError::UnableToAllocStreamId => (
            ErrorKind::Unavailable,
            "every stream of the connection is taken: too many requests in flight".to_owned(),
        ),
        RequestAttemptError::BrokenConnectionError(error) => {
            let to = attempts.and_then(Attempts::node).map(|node| format!(" to {node}"));
            let after = attempts.map(|a| format!(" after {:.1?}", a.elapsed()));
            let (to, after) = (to.unwrap_or_default(), after.unwrap_or_default());
            (ErrorKind::Broken, format!("the connection{to} broke{after}: {}", why_broken(error)))
        }
        RequestAttemptError::BodyExtensionsParseError(error) => {
            (ErrorKind::Decode, error.to_string())
        }
        RequestAttemptError::CqlResultParseError(error) => (ErrorKind::Decode, error.to_string()),
        RequestAttemptError::CqlErrorParseError(error) => (ErrorKind::Decode, error.to_string()),
        RequestAttemptError::DbError(error, reason) => return server_error(doing, error, reason),
        RequestAttemptError::UnexpectedResponse(kind) => {
            (ErrorKind::Decode, format!("the server sent an unexpected answer, {kind}"))
        }
        RequestAttemptError::RepreparedIdChanged { .. } => {
            (ErrorKind::Server, MEANS_OTHERWISE.to_owned())
        }
        RequestAttemptError::RepreparedIdMissingInBatch => {
            (ErrorKind::Internal, "a statement prepared again is not part of the batch".to_owned())
        }
        RequestAttemptError::NonfinishedPagingState => {
            (ErrorKind::Decode, "the server sent only one page although paging was off".to_owned())
        }
        unknown => (ErrorKind::Internal, unknown.to_string()),
    };
    EngineError::new(kind, format!("{doing}: {description}"))
}

pub(crate) fn why_broken(error: &BrokenConnectionError) -> String {
    match error.downcast_ref::<BrokenConnectionErrorKind>() {
        // The variant's own text takes three lines to say the same.
        Some(BrokenConnectionErrorKind::ChannelError) => "closed by the other side".to_owned(),
        Some(BrokenConnectionErrorKind::FrameHeaderParseError(
            FrameHeaderParseError::HeaderIoError(error),
        )) if error.kind() == ErrorKindIo::UnexpectedEof => "closed by the other side".to_owned(),
        Some(
            BrokenConnectionErrorKind::FrameHeaderParseError(FrameHeaderParseError::HeaderIoError(
                error,
            ))
            | BrokenConnectionErrorKind::WriteError(error),
        ) => error.to_string(),
        Some(kind) => kind.to_string(),
        None => error.to_string(),
    }
}

pub(super) fn keyspace_error(doing: &str, error: &UseKeyspaceError) -> EngineError {
    match error {
        UseKeyspaceError::BadKeyspaceName(bad) => bad_keyspace_name(doing, bad),
        UseKeyspaceError::RequestError(error) => attempt_error(doing, error, None),
        UseKeyspaceError::KeyspaceNameMismatch {
            expected_keyspace_name_lowercase: expected,
            result_keyspace_name_lowercase: got,
        } => EngineError::new(
            ErrorKind::Internal,
            format!("{doing}: asked for keyspace \"{expected}\", the server switched to \"{got}\""),
        ),
        UseKeyspaceError::RequestTimeout(limit) => deadline(doing, *limit, None),
        unknown => EngineError::new(ErrorKind::Internal, format!("{doing}: {unknown}")),
    }
}

fn bad_keyspace_name(doing: &str, bad: &BadKeyspaceName) -> EngineError {
    EngineError::new(ErrorKind::Config, format!("{doing}: {bad}"))
}

fn agreement_error(doing: &str, error: &SchemaAgreementError) -> EngineError {
    let doing = &format!("{doing}: done, but the nodes do not agree on the schema yet");
    match error {
        SchemaAgreementError::ConnectionPoolError(error) => pool_error(doing, error),
        SchemaAgreementError::PrepareError(error) => prepare_error(doing, error),
        SchemaAgreementError::RequestError(error) => attempt_error(doing, error, None),
        SchemaAgreementError::Timeout(limit) => {
            EngineError::new(ErrorKind::Timeout, format!("{doing}: gave up after {limit:?}"))
        }
        other => EngineError::new(ErrorKind::Unavailable, format!("{doing}: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::observability::history::{HistoryListener, RequestId};
    use scylla::policies::retry::RetryDecision;
    use scylla::statement::Consistency;

    #[test]
    fn a_deadline_says_whose_it_is_and_whether_anything_was_sent() {
        let attempts = Attempts::new(Effect::Writes);
        let error = ExecutionError::RequestTimeout(Duration::from_millis(1500));
        let failure = executing("executing", &error, &attempts);
        assert_eq!(
            failure.message,
            "executing: no response within 1.5s, the client's own deadline (timeout_s); it was never \
             sent"
        );
        assert_eq!((failure.kind, failure.may_have_applied), (ErrorKind::Timeout, false));
        assert_eq!(failure.attempts, Some(0));
    }

    #[test]
    fn a_broken_connection_may_have_applied() {
        let error = || {
            RequestAttemptError::BrokenConnectionError(
                BrokenConnectionErrorKind::ChannelError.into(),
            )
        };
        assert!(attempt_may_have_applied(&error(), Effect::Writes));
        assert!(!attempt_may_have_applied(&error(), Effect::Reads));
        let failure = attempt_error("executing", &error(), None);
        assert_eq!(failure.kind, ErrorKind::Broken);
        assert_eq!(failure.message, "executing: the connection broke: closed by the other side");
    }

    #[test]
    fn a_refusal_is_raised_unless_the_last_attempt_may_have_applied() {
        let broken = || {
            RequestAttemptError::BrokenConnectionError(
                BrokenConnectionErrorKind::ChannelError.into(),
            )
        };
        let refused = || {
            let refusal =
                DbError::Unavailable { consistency: Consistency::One, required: 1, alive: 0 };
            RequestAttemptError::DbError(refusal, "none alive".into())
        };
        for (effect, kind) in
            [(Effect::Reads, ErrorKind::Server), (Effect::Writes, ErrorKind::Broken)]
        {
            let attempts = Attempts::new(effect);
            for error in [refused(), broken()] {
                let node = "127.0.0.1:9042".parse().unwrap();
                let id = attempts.log_attempt_start(RequestId(0), None, node);
                attempts.log_attempt_error(id, &error, &RetryDecision::DontRetry);
            }
            let failure = executing("executing", &broken().into(), &attempts);
            assert_eq!((failure.kind, failure.may_have_applied), (kind, effect == Effect::Writes));
            assert!(failure.message.contains("the connection"), "{failure}");
            assert!(failure.message.contains("not enough replicas alive: none alive"), "{failure}");
        }
    }

    #[test]
    fn a_refusal_keeps_code_and_words() {
        let first_attempt = RequestAttemptError::DbError(DbError::SyntaxError, "line 1:0".into());
        let failure = preparing(&PrepareError::AllAttemptsFailed { first_attempt });
        assert_eq!(failure.message, "preparing: syntax error: line 1:0");
        assert_eq!((failure.kind, failure.code), (ErrorKind::Server, Some(0x2000)));
        assert!(!failure.may_have_applied);
    }

    #[test]
    fn a_schema_change_without_agreement_is_done() {
        let attempts = Attempts::new(Effect::Writes);
        let error = SchemaAgreementError::Timeout(Duration::from_secs(60)).into();
        let failure = executing("executing", &error, &attempts);
        assert_eq!((failure.kind, failure.may_have_applied), (ErrorKind::Timeout, true));
    }

    #[test]
    fn an_empty_pool_names_the_cause_once() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = ConnectionPoolError::Broken { last_connection_error: refused.into() };
        let failure = pool_error("executing", &error);
        assert_eq!(
            failure.message,
            "executing: no working connection to any node asked: connection refused"
        );
        assert_eq!(failure.kind, ErrorKind::Unavailable);
    }
}
