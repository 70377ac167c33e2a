//! `decimal`: the scale as a signed 32-bit integer, big-endian, then the unscaled value as a
//! `varint`; the number is `unscaled * 10^-scale`.

use num_bigint::{BigInt, BigUint, Sign};

use super::varint;
use crate::error::Malformed;
use crate::wire::Reader;

/// Encodes `(-1)^negative * digits * 10^-scale`. The digits are numbers from 0 to 9, the most
/// significant one first.
pub fn encode(
    negative: bool,
    digits: &[u8],
    scale: i32,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.extend_from_slice(&scale.to_be_bytes());
    // 38 decimal digits always fit 127 bits.
    if digits.len() <= 38 {
        let unscaled = digits.iter().fold(0i128, |value, &digit| value * 10 + i128::from(digit));
        varint::encode_i128(if negative { -unscaled } else { unscaled }, out);
        return Ok(());
    }
    let magnitude =
        BigUint::from_radix_be(digits, 10).ok_or(Malformed::Invalid("a decimal digit above 9"))?;
    let sign = if negative { Sign::Minus } else { Sign::Plus };
    varint::encode(&BigInt::from_biguint(sign, magnitude), out);
    Ok(())
}

/// The parts of a decimal: the number is `(-1)^negative * digits * 10^-scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    pub negative: bool,
    /// ASCII digits, most significant first; never empty.
    pub digits: String,
    pub scale: i32,
}

pub fn decode(bytes: &[u8]) -> Result<Parts, Malformed> {
    let mut reader = Reader::new(bytes);
    let scale = reader.i32()?;
    let unscaled = match reader.take(reader.remaining())? {
        // The server accepts a value that has only a scale, and reads it as zero with this scale.
        [] => &[0],
        unscaled => unscaled,
    };
    Ok(match varint::decode_i128(unscaled)? {
        Some(value) => {
            Parts { negative: value < 0, digits: value.unsigned_abs().to_string(), scale }
        }
        None => {
            let (sign, magnitude) = varint::decode(unscaled)?.into_parts();
            Parts { negative: sign == Sign::Minus, digits: magnitude.to_string(), scale }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_the_server_writes_them() {
        let mut out = Vec::new();
        encode(false, &[3, 1, 4], 2, &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 2, 0x01, 0x3a]);
        assert_eq!(decode(&[0, 0, 0, 2]).unwrap().digits, "0");
        assert!(decode(&[0, 0]).is_err());
    }

    proptest! {
        #[test]
        fn round_trips(negative: bool, digits in proptest::collection::vec(0..10u8, 1..120), scale: i32) {
            let mut out = Vec::new();
            encode(negative, &digits, scale, &mut out).unwrap();
            let text: String = digits.iter().map(|&d| char::from(b'0' + d)).collect();
            let trimmed = text.trim_start_matches('0');
            let parts = decode(&out).unwrap();
            prop_assert_eq!(parts.digits, if trimmed.is_empty() { "0" } else { trimmed });
            prop_assert_eq!(parts.scale, scale);
            prop_assert_eq!(parts.negative, negative && !trimmed.is_empty());
        }
    }
}
