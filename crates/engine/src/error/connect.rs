//! Converts the ScyllaDB driver's errors of connections to [`EngineError`].

use std::time::Duration;

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, MetadataError,
    NewSessionError, TranslationError,
};

use super::request::{keyspace_error, pool_error, why_broken};
use super::server::server_error;
use super::{EngineError, ErrorKind};

/// The error if no contact point answered. `reasons` has each contact point and why it did not
/// answer.
pub(crate) fn unreachable(reasons: &[(String, String)], elapsed: Duration) -> EngineError {
    let reasons: Vec<String> = reasons.iter().map(|(at, why)| format!("{at}: {why}")).collect();
    let message = format!(
        "connecting: no contact point could be reached after {elapsed:.1?}: {}",
        reasons.join("; ")
    );
    EngineError::new(ErrorKind::Connect, message)
}

/// The error if the ScyllaDB driver could not open a session. `contact_points` are the contact
/// points that were passed to the driver. `silent` has the contact points that did not answer
/// turbocql's own probes, with the reasons.
pub(crate) fn connecting(
    error: &NewSessionError,
    contact_points: &[String],
    silent: &[(String, String)],
) -> EngineError {
    let doing = format!("connecting to {}", contact_points.join(", "));
    let failure = match error {
        NewSessionError::FailedToResolveAnyHostname(names) => EngineError::new(
            ErrorKind::Connect,
            format!("{doing}: no address is known for {}", names.join(", ")),
        ),
        NewSessionError::EmptyKnownNodesList => {
            EngineError::new(ErrorKind::Config, format!("{doing}: no contact points"))
        }
        // This is the error of the control connection, on which the ScyllaDB driver reads the
        // cluster's state. That connection has no pool, despite the variant's name.
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
            ConnectionPoolError::Broken { last_connection_error },
        )) => connection_error(&doing, last_connection_error),
        NewSessionError::MetadataError(error) => metadata_error(&doing, error),
        NewSessionError::UseKeyspaceError(error) => keyspace_error(&doing, error),
        NewSessionError::IllegalConfig(why) => {
            EngineError::new(ErrorKind::Config, format!("{doing}: {why}"))
        }
        unknown => EngineError::new(ErrorKind::Internal, format!("{doing}: {unknown}")),
    };
    // Before a session is open, each of these three kinds of errors means that connecting failed.
    let kind = match failure.kind {
        ErrorKind::Unavailable | ErrorKind::Broken | ErrorKind::Timeout => ErrorKind::Connect,
        kind => kind,
    };
    let silent: String = silent.iter().map(|(at, why)| format!("; {at}: {why}")).collect();
    EngineError { kind, message: failure.message.clone() + &silent, ..failure }
}

pub(crate) fn metadata_error(doing: &str, error: &MetadataError) -> EngineError {
    match error {
        MetadataError::ConnectionPoolError(error) => pool_error(doing, error),
        // In these cases, the ScyllaDB driver could not interpret the server's metadata.
        MetadataError::FetchError(_)
        | MetadataError::Peers(_)
        | MetadataError::Keyspaces(_)
        | MetadataError::Udts(_)
        | MetadataError::Tables(_)
        | MetadataError::ClientRoutes(_) => {
            EngineError::new(ErrorKind::Decode, format!("{doing}: {error}"))
        }
        unknown => EngineError::new(ErrorKind::Internal, format!("{doing}: {unknown}")),
    }
}

/// The error for a connection that could not be made, or that broke.
pub(super) fn connection_error(doing: &str, error: &ConnectionError) -> EngineError {
    let (kind, description) = match error {
        ConnectionError::ConnectTimeout => (ErrorKind::Connect, "no answer in time".to_owned()),
        ConnectionError::IoError(error) => (ErrorKind::Connect, error.to_string()),
        ConnectionError::NoSourcePortForShard(shard) => {
            (ErrorKind::Connect, format!("no free source port for shard {shard}"))
        }
        // The address translator probed the node, and the node did not answer.
        ConnectionError::TranslationError(TranslationError::IoError(error)) => {
            (ErrorKind::Connect, error.to_string())
        }
        ConnectionError::TranslationError(error) => (ErrorKind::Config, error.to_string()),
        ConnectionError::BrokenConnection(error) => {
            (ErrorKind::Broken, format!("the connection broke: {}", why_broken(error)))
        }
        ConnectionError::ConnectionSetupRequestError(error) => {
            return setup_error(doing, &error.request_kind.to_string(), error.get_error());
        }
        ConnectionError::UseKeyspaceError(error) => {
            return keyspace_error(&format!("{doing}: using the session's keyspace"), error);
        }
        unknown => (ErrorKind::Connect, unknown.to_string()),
    };
    EngineError::new(kind, format!("{doing}: {description}"))
}

/// Returns the kind of the error for a connection that could not be made, and the reason.
#[cfg(edited_crates)]
pub(crate) fn not_connected(error: &ConnectionError) -> (ErrorKind, String) {
    let EngineError { kind, mut message, reason, .. } = connection_error("", error);
    if let Some(reason) = reason {
        // The server's own text may contain the user's name, so it is removed.
        message = message.replace(&*reason, "");
    }
    (kind, message.trim_matches([':', ' ']).to_owned())
}

/// The error for a connection that was made, but failed at one of the requests that set it up.
fn setup_error(doing: &str, request: &str, error: &ConnectionSetupRequestErrorKind) -> EngineError {
    let (kind, description) = match error {
        ConnectionSetupRequestErrorKind::DbError(error, reason) => {
            return server_error(doing, error, reason);
        }
        ConnectionSetupRequestErrorKind::MissingAuthentication => (
            ErrorKind::Authentication,
            "the server wants a user and a password, and none are set".to_owned(),
        ),
        ConnectionSetupRequestErrorKind::StartAuthSessionError(why)
        | ConnectionSetupRequestErrorKind::AuthChallengeEvaluationError(why)
        | ConnectionSetupRequestErrorKind::AuthFinishError(why) => {
            (ErrorKind::Authentication, why.to_string())
        }
        ConnectionSetupRequestErrorKind::BrokenConnection(error) => {
            (ErrorKind::Broken, format!("the connection broke at {request}: {}", why_broken(error)))
        }
        ConnectionSetupRequestErrorKind::CqlRequestSerialization(error) => {
            (ErrorKind::Encode, format!("writing {request}: {error}"))
        }
        ConnectionSetupRequestErrorKind::UnableToAllocStreamId => {
            (ErrorKind::Internal, "no stream on a new connection".to_owned())
        }
        unreadable @ (ConnectionSetupRequestErrorKind::BodyExtensionsParseError(_)
        | ConnectionSetupRequestErrorKind::UnexpectedResponse(_)
        | ConnectionSetupRequestErrorKind::CqlSupportedParseError(_)
        | ConnectionSetupRequestErrorKind::CqlAuthenticateParseError(_)
        | ConnectionSetupRequestErrorKind::CqlAuthSuccessParseError(_)
        | ConnectionSetupRequestErrorKind::CqlAuthChallengeParseError(_)
        | ConnectionSetupRequestErrorKind::CqlErrorParseError(_)) => {
            (ErrorKind::Decode, format!("the answer to {request}: {unreadable}"))
        }
        unknown => (ErrorKind::Internal, format!("{request}: {unknown}")),
    };
    EngineError::new(kind, format!("{doing}: {description}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unreachable_are_listed_with_their_reasons() {
        let reasons = [("a:1".to_owned(), "refused".to_owned()), ("b:2".into(), "no name".into())];
        let failure = unreachable(&reasons, Duration::from_millis(1234));
        assert_eq!(
            failure.message,
            "connecting: no contact point could be reached after 1.2s: a:1: refused; b:2: no name"
        );
        assert_eq!(failure.kind, ErrorKind::Connect);
    }

    #[test]
    fn a_broken_control_connection_is_a_failed_connect() {
        let last_connection_error = ConnectionError::ConnectTimeout;
        let error = ConnectionPoolError::Broken { last_connection_error };
        let error = NewSessionError::MetadataError(error.into());
        let silent = [("b:2".to_owned(), "refused".to_owned())];
        let failure = connecting(&error, &["a:1".to_owned()], &silent);
        assert_eq!(failure.message, "connecting to a:1: no answer in time; b:2: refused");
        assert_eq!(failure.kind, ErrorKind::Connect);
    }
}
