//! The classes that the Python face is built on.

pub mod call;
pub mod cluster;
pub mod connecting;
pub mod cursor;
pub mod execute_many;
pub mod opening;
pub mod options;
pub mod prepared;
pub mod secret;
pub mod send_batch;
pub mod session;
