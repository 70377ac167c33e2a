//! Pages of CQL rows to Arrow record batches.
//!
//! This crate knows which Arrow type each CQL type becomes, and how cells are appended to columns. It
//! does not depend on Python or the network.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod batch;
mod cells;
mod column;
mod nested;
pub mod schema;
mod text;

pub use batch::Batches;
pub use schema::Profile;
