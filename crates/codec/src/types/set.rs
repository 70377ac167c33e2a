//! `set`: encoded like a `list`. The server keeps the elements sorted.

pub use super::list::{begin, decode, end};
