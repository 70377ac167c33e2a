//! `text` (also written `varchar`): UTF-8.

use crate::error::Malformed;

#[inline]
pub fn encode(value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(value.as_bytes());
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Invalid("bytes that are not UTF-8"))
}
