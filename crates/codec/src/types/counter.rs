//! `counter`: encoded like a `bigint`.

pub use super::bigint::{WIDTH, decode, encode};
