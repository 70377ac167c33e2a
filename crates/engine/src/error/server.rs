//! Converts the server's errors to [`EngineError`], and decides whether a request that failed with
//! such an error may have been applied.

use scylla::errors::{DbError, OperationType};
use scylla::statement::Consistency as TheirConsistency;

use super::{Detail, EngineError, ErrorKind};
use crate::error::effect::Effect;
use crate::terms::Consistency;

/// The error of a server that answered with `error` and the message `reason`.
pub(super) fn server_error(doing: &str, error: &DbError, reason: &str) -> EngineError {
    let (code, name, details) = describe(error);
    let kind = match error {
        DbError::AuthenticationError => ErrorKind::Authentication,
        _ => ErrorKind::Server,
    };
    let mut message = format!("{doing}: {name}");
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    let fields = details.iter().map(|(name, value)| (name, value.to_string()));
    let fields = fields.filter(|(_, value)| !value.is_empty());
    let fields: Vec<String> = fields.map(|(name, value)| format!("{name} {value}")).collect();
    if !fields.is_empty() {
        message.push_str(&format!(" ({})", fields.join(", ")));
    }
    let reason = Some(reason.into());
    EngineError { code, details, reason, ..EngineError::new(kind, message) }
}

/// Returns the code, the name and the fields of an error.
fn describe(error: &DbError) -> (Option<i32>, &'static str, Vec<(&'static str, Detail)>) {
    let level = |consistency: &TheirConsistency| {
        let name = Consistency::from(*consistency).name();
        ("consistency", Detail::Text(name.to_owned()))
    };
    let int = |name, value: &i32| (name, Detail::Int(i64::from(*value)));
    let text = |name, value: &str| (name, Detail::Text(value.to_owned()));
    let (code, name, details) = match error {
        DbError::ServerError => (0x0000, "server error", vec![]),
        DbError::ProtocolError => (0x000a, "protocol error", vec![]),
        DbError::AuthenticationError => (0x0100, "authentication failed", vec![]),
        DbError::Unavailable { consistency, required, alive } => (
            0x1000,
            "not enough replicas alive",
            vec![level(consistency), int("required", required), int("alive", alive)],
        ),
        DbError::Overloaded => (0x1001, "the coordinator is overloaded", vec![]),
        DbError::IsBootstrapping => (0x1002, "the coordinator is bootstrapping", vec![]),
        DbError::TruncateError => (0x1003, "truncating failed", vec![]),
        DbError::WriteTimeout { consistency, received, required, write_type } => (
            0x1100,
            "write timeout",
            vec![
                level(consistency),
                int("received", received),
                int("required", required),
                text("write_type", write_type.as_str()),
            ],
        ),
        DbError::ReadTimeout { consistency, received, required, data_present } => (
            0x1200,
            "read timeout",
            vec![
                level(consistency),
                int("received", received),
                int("required", required),
                ("data_present", Detail::Bool(*data_present)),
            ],
        ),
        DbError::ReadFailure { consistency, received, required, numfailures, data_present } => (
            0x1300,
            "read failure",
            vec![
                level(consistency),
                int("received", received),
                int("required", required),
                int("failures", numfailures),
                ("data_present", Detail::Bool(*data_present)),
            ],
        ),
        DbError::FunctionFailure { keyspace, function, arg_types } => (
            0x1400,
            "a function failed",
            vec![
                text("keyspace", keyspace),
                text("function", function),
                ("arg_types", Detail::Texts(arg_types.clone())),
            ],
        ),
        DbError::WriteFailure { consistency, received, required, numfailures, write_type } => (
            0x1500,
            "write failure",
            vec![
                level(consistency),
                int("received", received),
                int("required", required),
                int("failures", numfailures),
                text("write_type", write_type.as_str()),
            ],
        ),
        DbError::SyntaxError => (0x2000, "syntax error", vec![]),
        DbError::Unauthorized => (0x2100, "not authorized", vec![]),
        DbError::Invalid => (0x2200, "invalid request", vec![]),
        DbError::ConfigError => (0x2300, "configuration error", vec![]),
        DbError::AlreadyExists { keyspace, table } => {
            (0x2400, "already exists", vec![text("keyspace", keyspace), text("table", table)])
        }
        DbError::Unprepared { statement_id } => {
            let id: String = statement_id.iter().map(|byte| format!("{byte:02x}")).collect();
            (0x2500, "not prepared", vec![("statement_id", Detail::Text(id))])
        }
        DbError::RateLimitReached { op_type, rejected_by_coordinator } => {
            let operation = match op_type {
                OperationType::Read => "READ".to_owned(),
                OperationType::Write => "WRITE".to_owned(),
                OperationType::Other(n) => n.to_string(),
            };
            let details = vec![
                ("op_type", Detail::Text(operation)),
                ("rejected_by_coordinator", Detail::Bool(*rejected_by_coordinator)),
            ];
            // The code of this error is negotiated per connection, and the ScyllaDB driver does not
            // expose the code.
            return (None, "rate limit reached", details);
        }
        DbError::Other(code) => (*code, "an error of an unknown kind", vec![]),
        // Later releases of the ScyllaDB driver may have more kinds.
        unknown => return (None, "an error", vec![("error", Detail::Text(unknown.to_string()))]),
    };
    (Some(code), name, details)
}

/// The beginnings of error messages. With such a message, Cassandra and ScyllaDB refuse a request
/// before they handle it, because too many requests are in flight.
const NOT_ADMITTED: [&str; 3] = [
    "Request breached ",
    "Server is in overloaded state. Cannot accept more requests",
    "too many in-flight requests",
];

/// Whether a server that answers with `error` and the message `reason` may still have carried out
/// the request.
pub(super) fn may_have_applied(error: &DbError, reason: &str, effect: Effect) -> bool {
    match error {
        _ if effect == Effect::Reads => false,
        // The server refuses the request before anything is done.
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::AuthenticationError
        | DbError::Unauthorized
        | DbError::ConfigError
        | DbError::ProtocolError
        | DbError::Unprepared { .. }
        | DbError::IsBootstrapping => false,
        // If a replica refuses the write, other replicas may still have applied it.
        DbError::RateLimitReached { rejected_by_coordinator, .. } => !rejected_by_coordinator,
        // The functions of a write are evaluated while the write is built, before it is applied.
        DbError::FunctionFailure { .. } => false,
        // The server refuses a stage before that stage begins, but an earlier stage may have been
        // applied.
        DbError::Unavailable { .. } => effect == Effect::Staged,
        // With a text of [`NOT_ADMITTED`], nothing was applied. With any other text, `Overloaded`
        // means that the coordinator has too many hints (writes that it keeps for nodes that do not
        // answer). The coordinator handles a write to a table with views as a logged batch, and may
        // refuse the write after the batch has been logged.
        DbError::Overloaded => !NOT_ADMITTED.iter().any(|words| reason.starts_with(words)),
        DbError::WriteTimeout { .. }
        | DbError::WriteFailure { .. }
        // The next two may come from the read in a conditional update.
        | DbError::ReadTimeout { .. }
        | DbError::ReadFailure { .. }
        | DbError::TruncateError
        | DbError::ServerError
        | DbError::Other(_) => true,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::WriteType;

    #[test]
    fn the_error_of_a_write_timeout_has_all_fields() {
        let error = DbError::WriteTimeout {
            consistency: TheirConsistency::LocalQuorum,
            received: 1,
            required: 2,
            write_type: WriteType::Cas,
        };
        let error = server_error("executing", &error, "Operation timed out");
        assert_eq!(
            error.message,
            "executing: write timeout: Operation timed out \
             (consistency LOCAL_QUORUM, received 1, required 2, write_type CAS)"
        );
        assert_eq!(error.code, Some(0x1100));
        assert_eq!(error.details[3], ("write_type", Detail::Text("CAS".into())));
    }

    #[test]
    fn a_rate_limit_is_a_transient_error() {
        let limited = DbError::RateLimitReached {
            op_type: OperationType::Read,
            rejected_by_coordinator: false,
        };
        let error = server_error("executing", &limited, "");
        assert!(error.is_rate_limited() && error.may_pass() && !error.may_be_of_row());
        let unknown_code = server_error("executing", &DbError::Other(0x1_0000), "");
        assert!(!unknown_code.is_rate_limited() && !unknown_code.may_pass());
    }

    #[test]
    fn may_have_applied_depends_on_the_effect() {
        let unavailable =
            DbError::Unavailable { consistency: TheirConsistency::One, required: 1, alive: 0 };
        let limited = |rejected_by_coordinator| DbError::RateLimitReached {
            op_type: OperationType::Write,
            rejected_by_coordinator,
        };
        for (error, by_effect) in [
            (&unavailable, [false, false, false, true]),
            (&DbError::Overloaded, [false, true, true, true]),
            (&limited(true), [false, false, false, false]),
            (&limited(false), [false, true, true, true]),
            (&DbError::ServerError, [false, true, true, true]),
            (&DbError::Other(0x1700), [false, true, true, true]),
            (&DbError::Invalid, [false, false, false, false]),
        ] {
            let effects = [Effect::Reads, Effect::Writes, Effect::Logged, Effect::Staged];
            let results = effects.map(|effect| may_have_applied(error, "Too many", effect));
            assert_eq!(results, by_effect, "{error}");
        }
        for (reason, doubt) in
            [("Too many in flight hints: 9", true), ("Request breached a", false)]
        {
            assert_eq!(may_have_applied(&DbError::Overloaded, reason, Effect::Logged), doubt);
        }
    }
}
