//! `timestamp`: milliseconds since 1970-01-01T00:00:00Z as a signed 64-bit integer, big-endian.

pub use super::bigint::{WIDTH, decode, encode};
