//! `uuid`: the 16 bytes of RFC 9562, in order.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 16;

#[inline]
pub fn encode(value: &[u8; WIDTH], out: &mut Vec<u8>) {
    out.extend_from_slice(value);
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<[u8; WIDTH], Malformed> {
    wire::exact(bytes)
}
