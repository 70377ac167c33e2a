//! What the errors of a request say about the request: its action, its text and its time limit.

use std::borrow::Cow;

use crate::error::EngineError;
use crate::request::limit::TimeLeft;
use crate::statement::{BatchEntry, RequestOptions};

/// The facts about one request that are put into its errors. `doing` is the request's action.
pub(crate) struct Subject<'a> {
    pub(crate) doing: &'a str,
    pub(crate) text: Text<'a>,
    pub(crate) time_left: Option<TimeLeft>,
    pub(crate) options: &'a RequestOptions,
}

/// The text of a request.
#[derive(Clone, Copy)]
pub(crate) enum Text<'a> {
    One(&'a str),
    Batch(&'a [BatchEntry]),
}

impl<'a> Text<'a> {
    /// The text, or the first text of a batch, for messages.
    pub(crate) fn first(self) -> &'a str {
        match self {
            Text::One(text) => text,
            Text::Batch(statements) => statements.first().map_or("", BatchEntry::text),
        }
    }

    /// The text, or all texts of a batch.
    fn all(self) -> Cow<'a, str> {
        match self {
            Text::One(text) => Cow::Borrowed(text),
            Text::Batch(statements) => {
                let texts: Vec<_> = statements.iter().map(BatchEntry::text).collect();
                Cow::Owned(texts.join("; "))
            }
        }
    }

    /// Adds the text to an error. Literals of all statements are removed from the server's message,
    /// if `hides` is true or a statement has a password.
    pub(crate) fn of(self, error: EngineError, hides: bool) -> EngineError {
        error.without(&self.all(), hides).naming(self.first())
    }
}

/// Joins up to five of these texts, and adds the number of the others.
pub(crate) fn few(texts: &[String], between: &str) -> String {
    const SHOWN: usize = 5;
    let hidden = texts.len().saturating_sub(SHOWN);
    let shown = texts[..texts.len() - hidden].join(between);
    if hidden == 0 { shown } else { format!("{shown} and {hidden} more") }
}
