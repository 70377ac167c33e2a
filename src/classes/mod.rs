//! The classes that the Python face is built on.

pub mod batch;
pub mod bulk;
pub mod call;
pub mod cluster;
pub mod codec;
pub mod connecting;
pub mod cql_type;
pub mod cursor;
pub mod message;
pub mod opening;
pub mod options;
pub mod prepared;
pub mod row_encoder;
pub mod rows_decoder;
pub mod secret;
pub mod session;
