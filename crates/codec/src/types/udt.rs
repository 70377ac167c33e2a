//! User-defined types: encoded like a `tuple`, with the fields in declaration order.
//!
//! A value written before `ALTER TYPE ... ADD` has fewer fields; the new ones are null. A value
//! written with a newer schema than the reader's has more fields; with [`decode`], the caller can
//! stop early.

pub use super::tuple::{Components, decode};
