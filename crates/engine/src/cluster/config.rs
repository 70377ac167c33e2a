//! The configuration of a session.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::authenticate::Authenticate;
use crate::cluster::tls::Tls;
use crate::error::{EngineError, ErrorKind};
use crate::policies::profile::{Allowed, Profile};
use crate::terms::Compression;

/// How many connections are kept open to each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    PerNode(NonZeroUsize),
    /// The number of connections to each shard. A node without shards gets this number in all.
    PerShard(NonZeroUsize),
}

/// All settings of a session.
#[derive(Clone)]
pub struct Config {
    /// Each contact point is `host:port`. An IPv6 address is written in brackets.
    pub contact_points: Vec<String>,
    /// The keyspace to use. The name is case-sensitive and used unchanged.
    pub keyspace: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// The authenticator that is used instead of the user and the password.
    pub authenticator: Option<Arc<dyn Authenticate>>,
    pub tls: Option<Tls>,
    /// The default profile, for requests that name no profile.
    pub profile: Profile,
    /// The other profiles, by name.
    pub profiles: Vec<(String, Profile)>,
    /// The time limit for connecting, for all contact points together.
    pub connect_timeout: Duration,
    pub compression: Option<Compression>,
    /// The number of rows per page. If it is below 1, results are not paged.
    pub page_size: i32,
    pub application_name: Option<String>,
    pub application_version: Option<String>,
    pub pool: Option<Pool>,
    /// Whether connections may use the port at which ScyllaDB lets the client choose the shard.
    pub shard_aware_port: bool,
    /// How long a connection may be silent before a keepalive request is sent. `None` means the
    /// ScyllaDB driver's default. In a build without the edits of the driver's crates (`edits/`),
    /// this is the time between keepalive requests.
    pub keepalive_interval: Option<Duration>,
    /// How long a connection may stay silent after a keepalive request before it is closed. `None`
    /// means the ScyllaDB driver's default.
    pub keepalive_timeout: Option<Duration>,
    /// The time between the operating system's TCP keepalive probes. `None` means no probes.
    pub tcp_keepalive: Option<Duration>,
    /// The maximum length of a frame's body, before and after decompression. A longer body makes
    /// the client close the connection. The setting has no effect in a build without the edits of
    /// the driver's crates.
    pub max_frame_bytes: usize,
    /// The local address of connections.
    pub local_address: Option<IpAddr>,
    /// The addresses that nodes announce, each with the address at which the node is reached. Each
    /// pair is a rule. A rule for an announced address at one port takes precedence over a rule for
    /// that address at any port.
    pub addresses: Vec<(Allowed, Allowed)>,
    /// Whether the client adds a timestamp to requests without one. Each timestamp is larger than
    /// the previous one.
    pub client_timestamps: bool,
    /// How long a schema change waits for the nodes to agree on the schema.
    pub agreement_timeout: Option<Duration>,
    /// The maximum number of requests in flight.
    pub max_in_flight: usize,
    /// Further requests wait while the values of all requests in flight have at least this many
    /// bytes.
    pub max_in_flight_bytes: usize,
    /// Requests that take at least this long are reported as events.
    pub slow_request: Option<Duration>,
    /// Servers quote values and the literals of statements in their error texts. This setting says
    /// whether error messages may contain these quotes.
    pub values_in_errors: bool,
    /// The number of threads that drive connections, for
    /// [`Runtime::start`](crate::Runtime::start).
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
            max_frame_bytes: 256 << 20,
            local_address: None,
            addresses: Vec::new(),
            client_timestamps: false,
            agreement_timeout: None,
            max_in_flight: 10_000,
            max_in_flight_bytes: 256 << 20,
            slow_request: None,
            values_in_errors: true,
            workers: 1,
        }
    }
}

impl Config {
    /// Refuses settings that would cause a less clear error later.
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
            return refuse("a user and a password go together; only one of them is set".into());
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

#[cfg(test)]
mod tests {
    use super::*;

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
