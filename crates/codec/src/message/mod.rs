//! Bodies of request frames: QUERY, EXECUTE and BATCH, for protocol versions 3 to 5. `result`
//! parses bodies of RESULT frames.
//!
//! A message borrows all its parts. Its size is computed before its first byte is written, so that
//! the caller allocates once. A part that the protocol version cannot express is an error.

mod batch;
mod body;
mod execute;
mod query;
pub mod result;
mod settings;

use std::fmt;

pub use crate::row::AsCell;
pub use batch::{Batch, BatchKind, Statement, StatementText};
pub use body::Body;
pub use execute::{Execute, Extensions};
pub use query::{Parameters, Query, Values};
pub use settings::{Consistency, SerialConsistency, Settings};

/// A version of the native protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V3 = 3,
    V4 = 4,
    V5 = 5,
}

impl Version {
    pub const ALL: [Version; 3] = [Version::V3, Version::V4, Version::V5];

    /// Returns the version with this number, if it is supported here.
    pub fn from_number(number: u8) -> Option<Version> {
        Version::ALL.into_iter().find(|&version| version as u8 == number)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (*self as u8).fmt(f)
    }
}

/// The body of a request.
pub trait Message {
    /// Returns the size of the body in bytes. All checks that can fail are made here.
    fn size(&self, version: Version) -> Result<usize, MessageError>;

    /// Writes the body. [`Message::size`] returns the length of the body for this version.
    fn write(&self, version: Version, body: &mut impl Body);

    /// Returns the body in a new buffer.
    fn encode(&self, version: Version) -> Result<Vec<u8>, MessageError> {
        let size = self.size(version)?;
        let mut body = Vec::with_capacity(size);
        self.write(version, &mut body);
        assert_eq!(body.len(), size, "the body must have the size that was computed");
        Ok(body)
    }
}

/// Why a message cannot be encoded in a version of the protocol, and which part of it is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageError {
    /// The number of the batch's statement that is wrong, counted from 0. `None` if the error is
    /// not in a statement of a batch.
    pub statement: Option<usize>,
    /// The value that is wrong; `None` if another part is wrong.
    pub value: Option<ValueKey>,
    pub reason: Reason,
}

/// A value of a statement, by position or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKey {
    Index(usize),
    Name(String),
}

/// The kind of error in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A part that exists only since version `first`, in a message of version `got`.
    Since { part: &'static str, first: Version, got: Version },
    /// A part that version `got` requires, and that the message does not have.
    Missing { part: &'static str, got: Version },
    /// More bytes than the length field of the part can express.
    Length { part: &'static str, maximum: usize, got: u64 },
    /// More items than their count field can express.
    Count { part: &'static str, maximum: usize, got: usize },
    /// A number out of the allowed range.
    Range { part: &'static str, minimum: i64, maximum: i64, got: i64 },
}

impl From<Reason> for MessageError {
    fn from(reason: Reason) -> MessageError {
        MessageError { statement: None, value: None, reason }
    }
}

impl MessageError {
    /// Returns the same error, about the statement with this index in a batch.
    fn in_statement(self, statement: usize) -> MessageError {
        MessageError { statement: Some(statement), ..self }
    }

    /// Returns the same error, about this value.
    fn at(self, key: ValueKey) -> MessageError {
        MessageError { value: Some(key), ..self }
    }

    /// Returns the place of the error, as `statement [3], value [1]`. The text is empty if the
    /// error is about the whole message.
    pub fn path(&self) -> String {
        let statement = self.statement.map(|index| format!("statement [{index}]"));
        let value = self.value.as_ref().map(|key| format!("value {key}"));
        [statement, value].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for ValueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueKey::Index(index) => write!(f, "[{index}]"),
            ValueKey::Name(name) => write!(f, "[{name:?}]"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Since { part, first, got } => {
                write!(f, "{part} needs protocol version {first}, got {got}")
            }
            Reason::Missing { part, got } => write!(f, "protocol version {got} needs {part}"),
            Reason::Length { part, maximum, got } => {
                write!(f, "{part} of {got} bytes: at most {maximum} can be sent")
            }
            Reason::Count { part, maximum, got } => {
                write!(f, "{got} {part}: at most {maximum} can be sent")
            }
            Reason::Range { part, minimum, maximum, got } => {
                write!(f, "{part} must be from {minimum} to {maximum}, got {got}")
            }
        }
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        if path.is_empty() { self.reason.fmt(f) } else { write!(f, "{path}: {}", self.reason) }
    }
}

impl std::error::Error for MessageError {}

/// Refuses a part that exists only since version `first`, if the version `got` is earlier.
fn since(part: &'static str, first: Version, got: Version) -> Result<(), MessageError> {
    if got < first { Err(Reason::Since { part, first, got }.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_by_number() {
        assert_eq!(Version::from_number(4), Some(Version::V4));
        assert_eq!(Version::from_number(2), None);
        assert_eq!(Version::from_number(6), None);
    }

    #[test]
    fn errors_say_where_and_what() {
        let error = MessageError::from(Reason::Since {
            part: "UNSET",
            first: Version::V4,
            got: Version::V3,
        });
        assert_eq!(error.to_string(), "UNSET needs protocol version 4, got 3");
        let error = error.at(ValueKey::Index(1)).in_statement(3);
        assert_eq!(
            error.to_string(),
            "statement [3], value [1]: UNSET needs protocol version 4, got 3"
        );
        let missing = Reason::Missing { part: "result_metadata_id", got: Version::V5 };
        let named = MessageError::from(missing).at(ValueKey::Name("a".into()));
        assert_eq!(named.to_string(), "value [\"a\"]: protocol version 5 needs result_metadata_id");
    }
}
