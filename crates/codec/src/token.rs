//! Partition keys and their tokens.

use crate::error::Malformed;

/// Packs the encoded parts of a partition key.
///
/// A packed key of one part is the part itself. In a key of several parts, each part is written as
/// `[uint16 length][bytes][0]`.
pub fn routing_key(parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), Malformed> {
    if let [only] = parts {
        out.extend_from_slice(only);
        return Ok(());
    }
    out.reserve(parts.iter().map(|part| 3 + part.len()).sum());
    for part in parts {
        let length = u16::try_from(part.len())
            .map_err(|_| Malformed::Invalid("a partition key part longer than 65535 bytes"))?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(part);
        out.push(0);
    }
    Ok(())
}

/// Returns the Murmur3 token of a packed partition key. The server's `token()` returns the same
/// number.
///
/// The token is the first half of MurmurHash3 x64 128 with seed 0, with one difference: the bytes
/// of the tail, which follow the last whole block of 16 bytes, are read as signed. The server's
/// hash has the same difference.
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
    // The smallest token marks the beginning of the ring and is never the token of a key.
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

    /// The tokens of keys of 0, 1, 2, ... bytes. At least two thirds of the bytes have the sign
    /// bit. scylla-driver's two implementations, in C and in Python, both return these tokens.
    const TOKENS: [i64; 41] = [
        0,
        -7_299_393_527_204_481_650,
        -8_140_077_134_074_869_146,
        -3_133_735_113_233_649_620,
        -2_657_119_990_765_585_433,
        9_119_469_590_835_961_141,
        4_500_975_020_232_141_621,
        6_376_112_878_623_932_743,
        -2_615_995_182_173_833_335,
        -6_061_869_184_498_891_129,
        3_323_474_406_001_387_056,
        4_688_577_137_802_801_765,
        -4_811_016_613_136_719_944,
        -3_614_637_134_824_003_925,
        -1_344_631_990_425_886_432,
        8_271_310_978_641_737_307,
        2_020_588_314_106_871_668,
        5_075_785_183_952_030_454,
        9_200_099_826_964_724_806,
        1_667_447_429_068_386_693,
        1_546_934_354_699_915_405,
        3_752_461_040_206_995_726,
        49_938_436_919_859_685,
        -88_318_594_474_487_512,
        5_357_395_870_634_068_793,
        5_400_359_312_921_657_969,
        6_398_121_536_442_128_577,
        -3_888_166_647_542_707_210,
        -464_308_921_205_914_742,
        8_651_203_833_162_506_820,
        1_510_216_591_244_976_397,
        5_258_755_984_524_373_201,
        5_465_870_611_781_680_897,
        -480_858_436_595_493_761,
        -7_167_034_066_603_290_248,
        637_461_079_218_703_372,
        6_719_102_955_334_237_244,
        4_113_260_452_252_374_524,
        -5_457_162_937_707_689_389,
        9_215_242_426_482_400_122,
        -3_769_182_935_623_844_935,
    ];

    #[test]
    fn tokens_of_every_length_of_tail() {
        for (length, token) in TOKENS.into_iter().enumerate() {
            let key: Vec<u8> = (0..length)
                .map(|i| {
                    let byte = (0x80 + 37 * i + 11 * length) as u8;
                    if i % 3 == 0 { byte } else { byte | 0x80 }
                })
                .collect();
            assert_eq!(murmur3(&key), token, "{length}");
        }
    }

    #[test]
    fn bytes_of_the_tail_are_signed() {
        assert_eq!(murmur3(&[0xff]), -4_442_228_696_663_692_417);
        assert_eq!(murmur3(&[0x80; 15]), -5_979_218_241_483_680_930);
        assert_eq!(murmur3(&[0xff; 16]), -2_824_192_546_314_762_522);
        assert_eq!(murmur3(&[0xff; 31]), -3_550_403_632_215_323_560);
    }
}
