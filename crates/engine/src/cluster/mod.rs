//! Connections to a cluster: settings, contact points, TLS, and the watch over silent nodes.

pub mod authenticate;
pub mod config;
pub mod connect;
pub mod probe;
pub mod server_names;
pub mod tls;
pub(crate) mod transport;
pub mod verifier;
pub mod watch;
#[cfg(edited_crates)]
pub(crate) mod watcher;
