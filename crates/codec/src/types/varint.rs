//! `varint`: a two's complement integer, big-endian, in as few bytes as possible.

use num_bigint::BigInt;

use crate::error::Malformed;

/// Appends the shortest form of an integer of 128 bits.
pub fn encode_i128(value: i128, out: &mut Vec<u8>) {
    out.extend_from_slice(trim(&value.to_be_bytes()));
}

/// Appends the shortest form of an integer of 64 bits.
#[inline]
pub fn encode_i64(value: i64, out: &mut Vec<u8>) {
    // The number of bits that are needed: one sign bit, and all bits from the lowest to the highest
    // bit that differs from the sign.
    let bits = 65 - (value ^ (value >> 63)).leading_zeros() as usize;
    let bytes = value.to_be_bytes();
    out.extend_from_slice(&bytes[8 - bits.div_ceil(8)..]);
}

pub fn encode(value: &BigInt, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_signed_bytes_be());
}

/// Returns the bytes without those leading bytes that only repeat the sign.
pub fn trim(bytes: &[u8]) -> &[u8] {
    let mut trimmed = bytes;
    while let [first, second, ..] = trimmed {
        let repeats_sign =
            (*first == 0 && second & 0x80 == 0) || (*first == 0xff && second & 0x80 != 0);
        if !repeats_sign {
            break;
        }
        trimmed = &trimmed[1..];
    }
    trimmed
}

/// Decodes a value. Returns `None` if it does not fit 128 bits; then the caller must use
/// [`decode`]. Values in more bytes than necessary are accepted.
pub fn decode_i128(bytes: &[u8]) -> Result<Option<i128>, Malformed> {
    let [first, ..] = bytes else {
        return Err(Malformed::Invalid("an integer of no bytes"));
    };
    let bytes = trim(bytes);
    if bytes.len() > 16 {
        return Ok(None);
    }
    let mut wide = if first & 0x80 == 0 { [0; 16] } else { [0xff; 16] };
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Ok(Some(i128::from_be_bytes(wide)))
}

pub fn decode(bytes: &[u8]) -> Result<BigInt, Malformed> {
    if bytes.is_empty() {
        return Err(Malformed::Invalid("an integer of no bytes"));
    }
    Ok(BigInt::from_signed_bytes_be(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shortest_forms() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (127, &[0x7f]),
            (128, &[0x00, 0x80]),
            (-1, &[0xff]),
            (-128, &[0x80]),
            (-129, &[0xff, 0x7f]),
            (-256, &[0xff, 0x00]),
        ] {
            let mut out = Vec::new();
            encode_i128(value, &mut out);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(decode_i128(bytes), Ok(Some(value)));
        }
    }

    #[test]
    fn a_long_form_decodes_like_the_short_one() {
        let mut long = vec![0xff; 40];
        long.push(0x85);
        assert_eq!(decode_i128(&long), Ok(Some(-123)));
        assert_eq!(decode(&long), Ok(BigInt::from(-123)));
    }

    proptest! {
        #[test]
        fn both_ways_agree(value: i128, shift in 0..128u32) {
            let value = value >> shift;
            let (mut short, mut long) = (Vec::new(), Vec::new());
            encode_i128(value, &mut short);
            encode(&BigInt::from(value), &mut long);
            prop_assert_eq!(&short, &long);
            prop_assert_eq!(decode_i128(&short), Ok(Some(value)));
            prop_assert_eq!(decode(&short), Ok(BigInt::from(value)));
            if let Ok(small) = i64::try_from(value) {
                short.clear();
                encode_i64(small, &mut short);
                prop_assert_eq!(&short, &long);
            }
        }
    }
}
