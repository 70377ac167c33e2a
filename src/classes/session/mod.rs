//! The session: its state, its configuration, how it is opened, and its view of the cluster.

pub mod changing;
pub mod checks;
pub mod cluster;
pub mod connecting;
pub mod hooks;
pub mod opening;
pub mod secret;
pub mod state;
pub mod telemetry;
