//! The classes that the Python face is built on.

pub mod batch;
pub mod bulk;
pub mod codec;
pub mod cursor;
pub mod options;
pub mod prepared;
pub mod session;
