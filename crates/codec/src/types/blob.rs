//! `blob`: any bytes, unchanged.

#[inline]
pub fn encode(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(value);
}

#[inline]
pub fn decode(bytes: &[u8]) -> &[u8] {
    bytes
}
