//! Plain data that all other modules use: consistencies, positions in results, responses.

pub mod payload;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use turbocql_codec::Page;

use self::payload::Entries;

/// The response to a request. No value in it is decoded.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The rows, or `None` for a statement without a result.
    pub page: Option<Page>,
    /// The position of the next page, or `None` if there is no next page.
    pub next: Option<PagingState>,
    pub warnings: Vec<String>,
    pub tracing_id: Option<[u8; 16]>,
    /// The coordinator: the node that answered.
    pub coordinator: Option<SocketAddr>,
    /// The response's custom payload, if the request has the option `custom_payload`.
    pub custom_payload: Option<Box<Entries>>,
}

impl Response {
    /// Whether the page has no rows, and another page follows.
    pub fn is_empty_page(&self) -> bool {
        self.next.is_some() && self.page.as_ref().is_some_and(|page| page.row_count == 0)
    }
}

/// The position at which a result continues. The bytes are opaque, and valid in any session and
/// any process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PagingState(Arc<[u8]>);

impl PagingState {
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> PagingState {
        PagingState(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn from_engine(state: &scylla::response::PagingState) -> Option<PagingState> {
        state.as_bytes_slice().map(|bytes| PagingState(Arc::clone(bytes)))
    }

    pub(crate) fn into_engine(self) -> scylla::response::PagingState {
        scylla::response::PagingState::new_from_raw_bytes(self.0)
    }
}

/// The error for a name that is not one of an enum's names. The field is the message.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownName(pub String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Defines an enum whose variants each have a CQL name. `Display` prints the name, and `FromStr`
/// accepts it in upper and lower case.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($variant,)+ }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant,)+];

            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<$name, UnknownName> {
                let variant = $name::ALL.iter().find(|v| v.name().eq_ignore_ascii_case(text));
                variant.copied().ok_or_else(|| {
                    let names = [$($text),+].join(", ");
                    UnknownName(format!(concat!($what, " \"{}\": expected one of {}"), text, names))
                })
            }
        }
    };
}

/// Implements the conversions, in both directions, between an enum of this crate and the ScyllaDB
/// driver's enum with the same variants.
macro_rules! mirrors {
    ($name:ident, $theirs:ty, { $($variant:ident),+ }) => {
        impl From<$name> for $theirs {
            fn from(ours: $name) -> $theirs {
                match ours { $($name::$variant => <$theirs>::$variant,)+ }
            }
        }

        impl From<$theirs> for $name {
            fn from(theirs: $theirs) -> $name {
                match theirs { $(<$theirs>::$variant => $name::$variant,)+ }
            }
        }
    };
}

named!(
    /// How many replicas must answer.
    Consistency, "consistency", {
        Any = "ANY",
        One = "ONE",
        Two = "TWO",
        Three = "THREE",
        Quorum = "QUORUM",
        All = "ALL",
        LocalQuorum = "LOCAL_QUORUM",
        EachQuorum = "EACH_QUORUM",
        Serial = "SERIAL",
        LocalSerial = "LOCAL_SERIAL",
        LocalOne = "LOCAL_ONE",
    }
);
mirrors!(Consistency, scylla::statement::Consistency, {
    Any, One, Two, Three, Quorum, All, LocalQuorum, EachQuorum, Serial, LocalSerial, LocalOne
});

named!(
    /// Whether a conditional update is agreed on in all datacenters or in the local one.
    SerialConsistency, "serial consistency", {
        Serial = "SERIAL",
        LocalSerial = "LOCAL_SERIAL",
    }
);
mirrors!(SerialConsistency, scylla::statement::SerialConsistency, { Serial, LocalSerial });

named!(
    /// How frames are compressed.
    Compression, "compression", {
        Lz4 = "LZ4",
        Snappy = "SNAPPY",
    }
);
mirrors!(Compression, scylla::client::Compression, { Lz4, Snappy });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case_and_printed_in_upper() {
        for &consistency in Consistency::ALL {
            let name = consistency.to_string();
            assert_eq!(name, name.to_uppercase());
            assert_eq!(name.to_lowercase().parse(), Ok(consistency));
            assert_eq!(
                Consistency::from(scylla::statement::Consistency::from(consistency)),
                consistency
            );
        }
        assert_eq!(Consistency::ALL.len(), 11);
        let error = "MOST".parse::<SerialConsistency>().unwrap_err();
        assert_eq!(error.0, "serial consistency \"MOST\": expected one of SERIAL, LOCAL_SERIAL");
    }
}
