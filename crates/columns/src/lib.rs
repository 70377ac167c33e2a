//! Converts pages of CQL rows to Arrow record batches, and record batches to rows of bind values.
//!
//! For reading, this crate decides which Arrow type each CQL type becomes, and appends cells to
//! columns. For writing, the crate decides which Arrow types can be written to each CQL type, and
//! encodes the values of Arrow arrays as cells. The crate does not depend on Python or the network.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

#[cfg(test)]
mod arbitrary;
pub mod batch;
mod bytes_in;
mod column;
pub mod fit;
pub mod flat;
pub mod load;
mod numbers_in;
mod parse;
pub mod raw;
pub mod schema;
pub mod source;
mod text;
mod unfit;

pub use batch::Batches;
pub use schema::Profile;
