//! What a session is made from.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::authenticate::Authenticate;
use crate::error::{EngineError, ErrorKind};
use crate::profile::{Allowed, Profile};
use crate::tls::Tls;

/// Connections kept to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    PerNode(NonZeroUsize),
    /// Where the node has shards; else so many to the node.
    PerShard(NonZeroUsize),
}

/// Everything needed to connect.
#[derive(Clone)]
pub struct Config {
    /// `host:port` each; an IPv6 address goes in brackets.
    pub contact_points: Vec<String>,
    /// Case sensitive, taken as it is.
    pub keyspace: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// In the place of user and password.
    pub authenticator: Option<Arc<dyn Authenticate>>,
    pub tls: Option<Tls>,
    /// What requests are sent under that name no profile.
    pub profile: Profile,
    /// The others, by name.
    pub profiles: Vec<(String, Profile)>,
    /// How long connecting may take, all contact points together.
    pub connect_timeout: Duration,
    pub compression: Option<Compression>,
    /// Rows per page; below one, results come in one piece.
    pub page_size: i32,
    pub application_name: Option<String>,
    pub application_version: Option<String>,
    pub pool: Option<Pool>,
    /// Whether connections may go to the port at which ScyllaDB lets the client choose the shard.
    pub shard_aware_port: bool,
    /// Between requests that only ask whether the connection is alive; `None` for the engine's.
    pub keepalive_interval: Option<Duration>,
    /// Without an answer to one of those for so long, the connection is given up.
    pub keepalive_timeout: Option<Duration>,
    /// Of the operating system's own probes; `None` for none.
    pub tcp_keepalive: Option<Duration>,
    /// The address that connections come from.
    pub local_address: Option<IpAddr>,
    /// Where nodes are really reached, by the address that they tell of themselves. A rule for one
    /// port goes before one for the whole address.
    pub addresses: Vec<(Allowed, Allowed)>,
    /// Whether requests without a timestamp get one here, each above the one before.
    pub client_timestamps: bool,
    /// How long a schema change waits for the nodes to agree.
    pub agreement_timeout: Option<Duration>,
    /// Threads that drive connections: what [`Runtime::start`](crate::Runtime::start) wants.
    pub workers: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            contact_points: Vec::new(),
            keyspace: None,
            user: None,
            password: None,
            authenticator: None,
            tls: None,
            profile: Profile::default(),
            profiles: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            compression: None,
            page_size: 5000,
            application_name: None,
            application_version: None,
            pool: None,
            shard_aware_port: true,
            keepalive_interval: None,
            keepalive_timeout: None,
            tcp_keepalive: None,
            local_address: None,
            addresses: Vec::new(),
            client_timestamps: false,
            agreement_timeout: None,
            workers: 1,
        }
    }
}

impl Config {
    /// Refuses what could only fail later, and less clearly.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let refuse = |message: String| Err(EngineError::new(ErrorKind::Config, message));
        if self.contact_points.is_empty() {
            return refuse("no contact points: name at least one host:port".into());
        }
        for point in &self.contact_points {
            let port = point.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
            if !matches!(port, Some((host, Ok(port))) if !host.is_empty() && port > 0) {
                return refuse(format!("contact point \"{point}\": expected host:port"));
            }
        }
        if self.user.is_some() != self.password.is_some() {
            return refuse("a user and a password go together; only one of them is given".into());
        }
        let profiles = self.profiles.iter().map(|(_, profile)| profile);
        let mut timeouts = profiles.chain([&self.profile]).filter_map(|profile| profile.timeout);
        if self.connect_timeout.is_zero() || timeouts.any(|timeout| timeout.is_zero()) {
            return refuse("a timeout of zero leaves no time for anything".into());
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("contact_points", &self.contact_points)
            .field("keyspace", &self.keyspace)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "..."))
            .field("tls", &self.tls.is_some())
            .field("profile", &self.profile)
            .field("profiles", &self.profiles)
            .field("connect_timeout", &self.connect_timeout)
            .field("compression", &self.compression)
            .field("page_size", &self.page_size)
            .field("application_name", &self.application_name)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

/// An enum whose variants have a CQL name each: `Display` prints it, `FromStr` reads it in any
/// case. With an engine type, it converts there and back.
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
            type Err = EngineError;

            fn from_str(text: &str) -> Result<$name, EngineError> {
                let found = $name::ALL.iter().find(|v| v.name().eq_ignore_ascii_case(text));
                found.copied().ok_or_else(|| {
                    let names = [$($text),+].join(", ");
                    let message = format!(concat!($what, " \"{}\": expected one of {}"), text, names);
                    EngineError::new(ErrorKind::Config, message)
                })
            }
        }
    };
}

/// The two directions between one of our enums and the engine's, whose variants are named alike.
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
    /// How far the agreement of a conditional update reaches.
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
        assert_eq!(
            error.message,
            "serial consistency \"MOST\": expected one of SERIAL, LOCAL_SERIAL"
        );
    }

    #[test]
    fn debug_hides_the_password() {
        let config = Config { password: Some("hunter2".into()), ..Config::default() };
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn contact_points_are_checked() {
        let check = |point: &str| {
            Config { contact_points: vec![point.into()], ..Config::default() }.check()
        };
        for good in ["127.0.0.1:9042", "[::1]:9042", "db.example:19042"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "localhost", ":9042", "h:port", "h:0", "h:70000"] {
            assert_eq!(check(bad).unwrap_err().kind, ErrorKind::Config, "{bad}");
        }
        assert!(Config::default().check().is_err());
        let half = Config { user: Some("u".into()), ..Config::default() };
        let half = Config { contact_points: vec!["h:1".into()], ..half };
        assert!(half.check().unwrap_err().message.contains("password"));
    }
}
