//! Parses types from text.

use std::fmt;

pub mod cql;
pub mod marshal;

/// Text that is not a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The kind of text that was expected.
    pub expected: &'static str,
    pub text: String,
    /// The byte offset of the error.
    pub position: usize,
    pub reason: String,
}

impl ParseError {
    fn new(
        expected: &'static str,
        text: &str,
        position: usize,
        reason: impl Into<String>,
    ) -> ParseError {
        ParseError { expected, text: text.to_owned(), position, reason: reason.into() }
    }
}

/// The maximum number of characters of the text that a message shows.
const SHOWN: usize = 200;

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { expected, text, position, reason } = self;
        let shown: String = text.chars().take(SHOWN).collect();
        let ellipsis = if shown.len() < text.len() { "..." } else { "" };
        write!(f, "not {expected}: {shown:?}{ellipsis}: at position {position}: {reason}")
    }
}

impl std::error::Error for ParseError {}
