//! Why a request failed, in terms that need no knowledge of the engine.

mod connect;
mod request;
mod server;

use std::fmt;

pub(crate) use self::connect::{connecting, metadata_error as metadata, unreachable};
pub(crate) use request::{attempt_may_have_applied, deadline, encoding, executing, preparing};

/// A failure, told so that a person can act on it and a program can decide.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineError {
    pub kind: ErrorKind,
    /// What was being done, with whom, for how long, and what the server said.
    pub message: String,
    /// The CQL error code, when the server answered with an error.
    pub code: Option<i32>,
    /// `ip:port` of the node last spoken to.
    pub coordinator: Option<String>,
    /// How often the request was sent, or began to be.
    pub attempts: Option<u32>,
    /// The server may have carried out the request, in whole or in part, although it failed.
    pub may_have_applied: bool,
    /// What the server's error carries, by the protocol's names.
    pub details: Vec<(&'static str, Detail)>,
}

/// What went wrong, by who can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The options contradict each other or say nothing sensible.
    Config,
    /// No contact point could be spoken to.
    Connect,
    /// The server wants credentials, or other ones.
    Authentication,
    /// The client's own deadline passed.
    Timeout,
    /// The server answered with an error.
    Server,
    /// The connection broke while the request was on its way.
    Broken,
    /// There is no working connection to any node that could be asked.
    Unavailable,
    /// The request could not be written.
    Encode,
    /// The response could not be read.
    Decode,
    /// The session is closed.
    Closed,
    /// A defect: of this library, or of what it stands on.
    Internal,
}

/// A value carried by a server's error.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    Int(i64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
}

impl EngineError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> EngineError {
        EngineError {
            kind,
            message: message.into(),
            code: None,
            coordinator: None,
            attempts: None,
            may_have_applied: false,
            details: Vec::new(),
        }
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
