//! `ascii`: text of characters below 128.

use crate::error::Malformed;

#[inline]
pub fn encode(value: &str, out: &mut Vec<u8>) -> Result<(), Malformed> {
    if !value.is_ascii() {
        return Err(Malformed::Invalid("a character that is not ASCII"));
    }
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<&str, Malformed> {
    if !bytes.is_ascii() {
        return Err(Malformed::Invalid("a byte that is not ASCII"));
    }
    super::text::decode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascii_both_ways() {
        let mut out = Vec::new();
        assert_eq!(encode("plain", &mut out), Ok(()));
        assert!(encode("naïve", &mut out).is_err());
        assert_eq!(out, b"plain");
        assert!(decode(b"\xc3\xaf").is_err());
    }
}
