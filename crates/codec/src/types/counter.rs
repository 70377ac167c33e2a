//! `counter`: on the wire, a `bigint`.

pub use super::bigint::{WIDTH, decode, encode};
