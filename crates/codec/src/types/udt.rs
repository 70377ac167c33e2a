//! User-defined types: encoded like a `tuple`, with the fields in declaration order.
//!
//! A value written before `ALTER TYPE ... ADD` lacks the added fields; they are read as null. A
//! value written with a newer schema than the reader's has more fields; the caller of [`decode`]
//! can leave the additional ones unread.

pub use super::tuple::{Components, decode};
