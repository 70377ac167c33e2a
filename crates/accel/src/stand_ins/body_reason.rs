//! The reasons why the driver had to write bodies, and their counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Why a stand-in handed a call to its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The arguments have another count or another form.
    Arguments,
    /// The message is of another class, such as a subclass.
    Class,
    /// The buffer is no plain `io.BytesIO`.
    Buffer,
    /// A method of `ProtocolVersion` was replaced.
    Replaced,
    /// The version of the protocol is not known here.
    Version,
    /// The connection's features are of another class.
    Features,
    /// The connection has this feature, whose effect on bodies is not known.
    Unknown(usize),
    /// A field of the message, or a feature of the connection, has an unusual value.
    Field(&'static str),
    /// The parts are too large for a body.
    Size,
}

impl Reason {
    /// The reason as `status()` shows it. `unknown` are the names of the features that are not
    /// known.
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

/// How many calls were handed to the original, by reason. A mutex is fast enough, because only slow
/// calls are counted here.
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
