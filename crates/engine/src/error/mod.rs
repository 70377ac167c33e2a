//! The errors of the engine, in terms that need no knowledge of the ScyllaDB driver.

pub(crate) mod attempts;
mod connect;
pub(crate) mod effect;
mod request;
mod server;
mod shown;

use std::fmt;
use std::sync::Arc;

#[cfg(edited_crates)]
pub(crate) use self::connect::not_connected;
pub(crate) use self::connect::{connecting, metadata_error as metadata, unreachable};
pub(crate) use request::{
    attempt_failure, attempt_may_have_applied, deadline, encoding, executing, is_answer, preparing,
    rounded,
};

pub(crate) use request::MEANS_OTHERWISE;
#[cfg(edited_crates)]
pub(crate) use request::why_broken;
pub use shown::shown;
pub(crate) use shown::{has_secrets, without_literals, without_values};

use self::attempts::Tried;

/// An error: a message for people, and fields by which programs decide what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineError {
    pub kind: ErrorKind,
    /// The message. It names the action and, if they are known, the node, the elapsed time and the
    /// server's text.
    pub message: String,
    /// The CQL error code, if the server answered with an error and the ScyllaDB driver exposes its
    /// code.
    pub code: Option<i32>,
    /// `ip:port` of the node whose failure is reported. Usually this is the node of the last
    /// attempt.
    pub coordinator: Option<Box<str>>,
    /// The number of attempts that were begun.
    pub attempts: Option<u32>,
    /// Whether the server may have carried out the failed request, in whole or in part.
    pub may_have_applied: bool,
    /// The fields of the server's error, by the protocol's names.
    pub details: Vec<(&'static str, Detail)>,
    /// The attempts that failed or did not end, in the order of their beginning.
    pub history: Box<[Tried]>,
    /// The server's own text, which is part of the message.
    pub(crate) reason: Option<Arc<str>>,
}

/// The kinds of errors. Errors of different kinds have different remedies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The options contradict each other or are not valid.
    Config,
    /// Connecting to the cluster failed.
    Connect,
    /// The server requires credentials, or it refused those that were sent.
    Authentication,
    /// The client's own deadline passed.
    Timeout,
    /// The server answered with an error.
    Server,
    /// The connection broke while the request was in flight.
    Broken,
    /// There is no working connection to any node that the request could be sent to.
    Unavailable,
    /// The session has reached its limit on requests in flight.
    Full,
    /// The request could not be encoded.
    Encode,
    /// The response could not be decoded.
    Decode,
    /// The session is closed.
    Closed,
    /// This library, or a library that it uses, has a defect.
    Internal,
}

impl ErrorKind {
    /// The name of the kind in `turbocql.errors`.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Config => "config",
            ErrorKind::Connect => "connect",
            ErrorKind::Authentication => "authentication",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Server => "server",
            ErrorKind::Broken => "broken",
            ErrorKind::Unavailable => "no_hosts",
            ErrorKind::Full => "full",
            ErrorKind::Encode => "encode",
            ErrorKind::Decode => "decode",
            ErrorKind::Closed => "closed",
            ErrorKind::Internal => "internal",
        }
    }
}

/// The value of a field of a server's error.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    Int(i64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
}

impl EngineError {
    /// Whether the same request may succeed a little later: the cluster was too slow, too busy or
    /// partly out of reach. This does not mean that the request may safely be sent again.
    pub fn may_pass(&self) -> bool {
        match self.kind {
            ErrorKind::Timeout | ErrorKind::Broken | ErrorKind::Unavailable => true,
            // `CODES` has, in this order: server error, unavailable, overloaded, bootstrapping,
            // write timeout, read timeout, read failure, write failure.
            ErrorKind::Server => {
                const CODES: [i32; 8] =
                    [0x0000, 0x1000, 0x1001, 0x1002, 0x1100, 0x1200, 0x1300, 0x1500];
                self.is_rate_limited() || self.code.is_some_and(|code| CODES.contains(&code))
            }
            ErrorKind::Config
            | ErrorKind::Connect
            | ErrorKind::Authentication
            | ErrorKind::Full
            | ErrorKind::Encode
            | ErrorKind::Decode
            | ErrorKind::Closed
            | ErrorKind::Internal => false,
        }
    }

    /// Whether the row itself, and not the state of the cluster, may have caused the error. This
    /// may be so after a server error, and after a read or write failure on replicas.
    pub fn may_be_of_row(&self) -> bool {
        self.kind == ErrorKind::Server && matches!(self.code, Some(0x0000 | 0x1300 | 0x1500))
    }

    /// Whether ScyllaDB refused the request because of the partition's rate limit. The error has no
    /// `code`, because each connection negotiates the code.
    pub fn is_rate_limited(&self) -> bool {
        self.kind == ErrorKind::Server
            && self.code.is_none()
            && self.details.iter().any(|(name, _)| *name == "rejected_by_coordinator")
    }

    /// Returns the name and the code under which the error is counted. Usually these are the name
    /// of the error's kind and the error's `code`. Errors for rate limits have a name of their own
    /// and no code, because the code with which a node reports a rate limit differs from connection
    /// to connection.
    pub(crate) fn counted_as(&self) -> (&'static str, Option<i32>) {
        if self.is_rate_limited() { ("rate_limited", None) } else { (self.kind.name(), self.code) }
    }

    /// Whether the server has refused the request because too few replicas of the row are alive.
    pub fn is_unavailable(&self) -> bool {
        self.kind == ErrorKind::Server && self.code == Some(0x1000)
    }

    /// Returns the same error, with `reason` in front of its message.
    pub(crate) fn explained(self, reason: &str) -> EngineError {
        EngineError { message: format!("{reason}; {}", self.message), ..self }
    }

    /// A short description of the error: a part of its message.
    pub fn brief(&self) -> &str {
        let description =
            self.message.split_once(": ").map_or(&*self.message, |(_, description)| description);
        let end = description.find([':', ';', ',', '(']).unwrap_or(description.len());
        description[..end].trim_end()
    }

    pub fn new(kind: ErrorKind, message: impl Into<String>) -> EngineError {
        EngineError {
            kind,
            message: message.into(),
            code: None,
            coordinator: None,
            attempts: None,
            may_have_applied: false,
            details: Vec::new(),
            history: Box::default(),
            reason: None,
        }
    }

    /// Adds the statement to the message, without its literals. If `hide` is true, or if the
    /// statement has a password, the literals are also removed from the server's text.
    pub(crate) fn about(self, text: &str, hide: bool) -> EngineError {
        self.without(text, hide).naming(text)
    }

    /// If `hide` is true, or if the statement has a password, removes the statement's literals from
    /// the server's text. Also removes quoted texts that may be values.
    pub(crate) fn without(mut self, text: &str, hide: bool) -> EngineError {
        if let Some(reason) = self.reason.take_if(|_| hide || has_secrets(text)) {
            let masked = without_values(&reason, self.code, text);
            self.message = self.message.replace(&*reason, &masked);
            for tried in self.history.iter_mut() {
                tried.answer = tried.answer.take().map(|answer| answer.replace(&*reason, &masked));
            }
        }
        if hide || has_secrets(text) {
            self.message = without_literals(&self.message, text);
            for tried in self.history.iter_mut() {
                tried.answer = tried.answer.take().map(|answer| without_literals(&answer, text));
            }
        }
        self
    }

    /// Adds the statement to the message, without its literals.
    pub(crate) fn naming(mut self, text: &str) -> EngineError {
        if !text.is_empty() {
            self.message.push_str("; statement: ");
            self.message.push_str(&shown(text));
        }
        self
    }

    pub fn closed() -> EngineError {
        EngineError::new(ErrorKind::Closed, "the session is closed")
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EngineError {}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::Int(n) => n.fmt(f),
            Detail::Bool(b) => b.fmt(f),
            Detail::Text(text) => f.write_str(text),
            Detail::Texts(texts) => f.write_str(&texts.join(", ")),
        }
    }
}
