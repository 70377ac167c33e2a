//! The state of a session, how it is opened, and the cluster that it sees.

pub mod changing;
pub mod checks;
pub mod cluster;
pub mod connecting;
pub mod hooks;
pub mod opening;
pub mod secret;
pub mod state;
pub mod telemetry;
