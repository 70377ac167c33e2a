//! Errors of encoding and decoding.

use std::fmt;

use crate::path::{Path, Segment};

/// Bytes that are not a value of their type, or a value that the type cannot hold. This error does
/// not say where it occurred, so it is small and returned in registers. The caller adds the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A value of fixed width has the wrong length. The numbers are the expected and the actual
    /// length.
    Length(usize, usize),
    /// A value needs more bytes than are left. The numbers are the bytes needed and the bytes left.
    Short(usize, usize),
    /// This number of bytes is left over after the value.
    Trailing(usize),
    /// A length is negative where it must not be.
    NegativeLength(i32),
    /// A count of elements is negative, or too large for the number of bytes. The numbers are the
    /// count and the number of bytes.
    Count(i32, usize),
    /// Any error for which there is no other variant, with its description.
    Invalid(&'static str),
    /// A number is out of the range of the type. The text describes the error.
    Range(&'static str),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Length(expected, got) => write!(f, "expected {expected} bytes, got {got}"),
            Malformed::Short(needed, left) => write!(f, "needs {needed} more bytes, {left} left"),
            Malformed::Trailing(n) => write!(f, "{n} bytes left over after the value"),
            Malformed::NegativeLength(n) => write!(f, "a length of {n}"),
            Malformed::Count(n, bytes) => write!(f, "a count of {n} elements in {bytes} bytes"),
            Malformed::Invalid(reason) | Malformed::Range(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Malformed {}

/// A value that its CQL type does not take, or bytes that are not a value of the type. The error
/// says where the problem is, which type was expected, and which value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecError {
    pub path: Path,
    /// The type at the place that failed, as CQL text.
    pub cql_type: String,
    /// The message without the path, such as `expected text, got int 7`.
    pub reason: String,
    /// True if the type takes the class of the value, but the value is out of the type's range.
    pub out_of_range: bool,
}

impl CodecError {
    pub fn new(cql_type: impl fmt::Display, reason: impl Into<String>) -> Box<CodecError> {
        Box::new(CodecError {
            path: Path::default(),
            cql_type: cql_type.to_string(),
            reason: reason.into(),
            out_of_range: false,
        })
    }

    /// Returns the same error, marked as out of range.
    pub fn beyond_range(mut self: Box<Self>) -> Box<Self> {
        self.out_of_range = true;
        self
    }

    /// Returns the same error, with one more outer step in its path.
    pub fn at(mut self: Box<Self>, segment: Segment) -> Box<Self> {
        self.path.push_outer(segment);
        self
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for CodecError {}
