//! `map`: a 32-bit count of entries, then the key and the value of each entry, both as
//! `[int length][bytes]`.

use super::list::Elements;
use crate::error::Malformed;

pub use super::list::{begin, end};

/// Returns the entries. Keys and values alternate.
pub fn decode(bytes: &[u8]) -> Result<Elements<'_>, Malformed> {
    Elements::new(bytes, 2)
}
