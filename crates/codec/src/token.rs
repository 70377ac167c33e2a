//! Partition keys and their tokens.

use crate::error::Malformed;

/// Packs the encoded parts of a partition key.
///
/// A key of one part is that part; of several, each part is `[uint16 length][bytes][0]`.
pub fn routing_key(parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), Malformed> {
    if let [only] = parts {
        out.extend_from_slice(only);
        return Ok(());
    }
    for part in parts {
        let length = u16::try_from(part.len())
            .map_err(|_| Malformed::Invalid("a partition key part longer than 65535 bytes"))?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(part);
        out.push(0);
    }
    Ok(())
}

/// The Murmur3 token of a packed partition key, equal to the server's `token()`.
///
/// This is the first half of MurmurHash3 x64 128 with seed 0, with the server's one departure
/// from it: the bytes of the tail are taken as signed.
pub fn murmur3(key: &[u8]) -> i64 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let scramble_1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let scramble_2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let word =
        |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));

    let (mut h1, mut h2) = (0u64, 0u64);
    let mut blocks = key.chunks_exact(16);
    for block in &mut blocks {
        h1 ^= scramble_1(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= scramble_2(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let signed_word = |bytes: &[u8]| {
        bytes
            .iter()
            .enumerate()
            .fold(0u64, |value, (i, &byte)| value ^ ((i64::from(byte as i8) as u64) << (8 * i)))
    };
    let tail = blocks.remainder();
    let (first, second) = tail.split_at(tail.len().min(8));
    h2 ^= scramble_2(signed_word(second));
    h1 ^= scramble_1(signed_word(first));

    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let finish = |mut k: u64| {
        k ^= k >> 33;
        k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
        k ^= k >> 33;
        k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        k ^ (k >> 33)
    };
    let token = finish(h1).wrapping_add(finish(h2)) as i64;
    // The smallest token marks the ring's beginning and is no key's.
    if token == i64::MIN { i64::MAX } else { token }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_keys_frame_each_part() {
        let mut out = Vec::new();
        routing_key(&[b"ab", b""], &mut out).unwrap();
        assert_eq!(out, b"\0\x02ab\0\0\0\0");
        out.clear();
        routing_key(&[b"ab"], &mut out).unwrap();
        assert_eq!(out, b"ab");
        let long = vec![0; 65_536];
        assert!(routing_key(&[&long, b""], &mut out).is_err());
    }
}
