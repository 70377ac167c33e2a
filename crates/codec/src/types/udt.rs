//! User-defined types: framed like a `tuple`, the fields in declaration order.
//!
//! A value written before `ALTER TYPE ... ADD` is short: the new fields are null. One written by
//! a newer schema than the reader's is long: [`decode`] lets the caller stop early.

pub use super::tuple::{Components, decode};
