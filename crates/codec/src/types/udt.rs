//! User-defined types: encoded like a `tuple`, with the fields in declaration order.
//!
//! A value that was written before `ALTER TYPE ... ADD` lacks the added fields. These fields are
//! read as null. If the server's type is newer than the reader's, a value can have more fields than
//! the reader's type. The caller of [`decode`] can leave these additional fields unread.

pub use super::tuple::{Components, decode};
