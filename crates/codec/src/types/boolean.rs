//! `boolean`: one byte, zero for false.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 1;

#[inline]
pub fn encode(value: bool, out: &mut Vec<u8>) {
    out.push(u8::from(value));
}

/// Decodes a boolean. Any byte other than zero is true, as in the server.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<bool, Malformed> {
    wire::exact::<1>(bytes).map(|[byte]| byte != 0)
}
