//! The reasons why the driver had to write bodies, and their counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Why the stand-in passed a call to the driver's `send_body`, which it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The number of arguments, including the message, is neither 3 nor 4.
    Arguments,
    /// The class of the message is not exactly the class that the stand-in is for.
    Class,
    /// The class of the buffer is not exactly `io.BytesIO`, or the buffer has instance attributes.
    Buffer,
    /// An attribute of `ProtocolVersion` was replaced.
    Replaced,
    /// The protocol version is none of 3, 4 and 5.
    Version,
    /// The connection's features are not of a class that turbocql knows.
    Features,
    /// The connection has a feature that is unknown to turbocql and may change bodies. The number
    /// is the index of the feature in the list of unknown features.
    Unknown(usize),
    /// A field of the message, or a feature of the connection, is missing or has an unusual value.
    Field(&'static str),
    /// The message cannot be encoded, most likely because one of its fields is too large.
    Size,
}

impl Reason {
    /// Returns the reason as `status()` shows it. `unknown` are the names of the unknown features.
    fn text(self, unknown: &[String]) -> String {
        match self {
            Reason::Arguments => "the arguments of send_body were not the usual".to_owned(),
            Reason::Class => "the message was of a subclass".to_owned(),
            Reason::Buffer => "the buffer was no plain io.BytesIO".to_owned(),
            Reason::Replaced => "cassandra.ProtocolVersion was changed".to_owned(),
            Reason::Version => "the protocol version was none of 3, 4 and 5".to_owned(),
            Reason::Features => "the connection's features were of another class".to_owned(),
            Reason::Unknown(at) => {
                let name = unknown.get(at).map_or("", String::as_str);
                format!("the connection had the feature {name}, which turbocql does not know")
            }
            Reason::Field(name) => format!("{name} had an unusual value"),
            Reason::Size => "the body was too large, or its parts were".to_owned(),
        }
    }
}

/// Counts, by reason, the calls that were passed to the driver's `send_body`. A mutex is fast
/// enough, because these calls are slow anyway.
#[derive(Default)]
pub struct Reasons(Mutex<BTreeMap<Reason, u64>>);

impl Reasons {
    #[cold]
    pub fn count(&self, reason: Reason) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(reason).or_default() += 1;
    }

    pub fn get(&self, unknown: &[String]) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(reason, &count)| (reason.text(unknown), count)).collect()
    }
}
