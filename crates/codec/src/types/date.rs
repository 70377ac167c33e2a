//! `date`: days as an unsigned 32-bit integer, big-endian, in which 2^31 is 1970-01-01.
//!
//! The functions of this module take and return a signed number of days since 1970-01-01.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 4;

const EPOCH: u32 = 1 << 31;

#[inline]
pub fn to_bytes(days: i32) -> [u8; WIDTH] {
    ((days as u32) ^ EPOCH).to_be_bytes()
}

#[inline]
pub fn encode(days: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&to_bytes(days));
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<i32, Malformed> {
    wire::exact(bytes).map(|raw| (u32::from_be_bytes(raw) ^ EPOCH) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_is_in_the_middle() {
        for (days, raw) in
            [(0, 0x8000_0000u32), (-1, 0x7fff_ffff), (i32::MIN, 0), (i32::MAX, u32::MAX)]
        {
            let mut out = Vec::new();
            encode(days, &mut out);
            assert_eq!(out, raw.to_be_bytes());
            assert_eq!(decode(&out), Ok(days));
        }
    }
}
