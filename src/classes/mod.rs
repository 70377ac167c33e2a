//! The native classes on which the Python API is built.

pub mod bulk;
mod methods;
pub mod request;
pub mod result;
mod scan;
pub mod session;
pub mod statement;
