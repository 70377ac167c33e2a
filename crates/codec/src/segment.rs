//! Segments, which carry frames since protocol version 5.
//!
//! A segment is a header, a payload of at most 131,071 bytes, and the payload's CRC
//! ([`payload_crc`]) in little-endian order. The header is a little-endian number, followed by the
//! header's own CRC-24. The number has these fields, the lowest bits first:
//!
//! - 17 bits: the length of the payload;
//! - in the compressed format only, 17 bits: the length of the payload before compression;
//! - 1 bit: 1 if the payload consists of whole frames.

/// The maximum size of a payload in bytes.
pub const MAX_PAYLOAD: usize = (1 << LENGTH_BITS) - 1;

/// The size in bytes of the CRC after a payload.
pub const TRAILER: usize = 4;

const LENGTH_BITS: u32 = 17;
const CRC24: usize = 3;

/// The two formats of headers. A connection uses one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Plain,
    Compressed,
}

impl Format {
    /// The size of the header in bytes, with its CRC.
    pub const fn header(self) -> usize {
        self.fields() + CRC24
    }

    const fn fields(self) -> usize {
        match self {
            Format::Plain => 3,
            Format::Compressed => 5,
        }
    }
}

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The size in bytes of the payload as sent.
    pub length: u32,
    /// The size in bytes of the payload before compression; 0 if the payload is sent uncompressed.
    /// The plain format does not have this field.
    pub uncompressed: u32,
    /// Whether the payload consists of whole frames; otherwise it is a part of a long frame.
    pub is_self_contained: bool,
}

impl Header {
    /// Returns an array that begins with the header. [`Format::header`] is the header's size. The
    /// bytes after the header are zero.
    ///
    /// # Panics
    /// If a length is above [`MAX_PAYLOAD`].
    pub fn bytes(self, format: Format) -> [u8; 8] {
        assert!(self.length as usize <= MAX_PAYLOAD && self.uncompressed as usize <= MAX_PAYLOAD);
        let mut fields = u64::from(self.length);
        let mut flag = LENGTH_BITS;
        if format == Format::Compressed {
            fields |= u64::from(self.uncompressed) << flag;
            flag += LENGTH_BITS;
        }
        fields |= u64::from(self.is_self_contained) << flag;
        let width = format.fields();
        let crc = u64::from(crc24(&fields.to_le_bytes()[..width]));
        (fields | crc << (8 * width)).to_le_bytes()
    }

    /// Parses a header. Returns `None` if the length of `bytes` is not [`Format::header`], or if
    /// the CRC does not match.
    pub fn read(format: Format, bytes: &[u8]) -> Option<Header> {
        if bytes.len() != format.header() {
            return None;
        }
        let (fields, crc) = bytes.split_at(format.fields());
        if number(crc) != u64::from(crc24(fields)) {
            return None;
        }
        let (fields, mask) = (number(fields), MAX_PAYLOAD as u64);
        let (uncompressed, flag) = match format {
            Format::Plain => (0, fields >> LENGTH_BITS),
            Format::Compressed => (fields >> LENGTH_BITS & mask, fields >> (2 * LENGTH_BITS)),
        };
        Some(Header {
            length: (fields & mask) as u32,
            uncompressed: uncompressed as u32,
            is_self_contained: flag & 1 == 1,
        })
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The CRC after a payload: the CRC-32 of four fixed bytes and the payload.
pub fn payload_crc(payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xfa, 0x2d, 0x55, 0xca]);
    crc.update(payload);
    crc.finalize()
}

const CRC24_START: u32 = 0x0087_5060;
const CRC24_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0197_4f0b;
            }
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_START, |crc, &byte| {
        (crc << 8 & 0x00ff_ffff) ^ CRC24_TABLE[((crc >> 16) as u8 ^ byte) as usize]
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // The reference drivers, cassandra-driver and scylla-driver, wrote these bytes.
    #[test]
    fn known_headers() {
        let header = Header { length: 3085, uncompressed: 0, is_self_contained: true };
        assert_eq!(header.bytes(Format::Plain), [0x0d, 0x0c, 0x02, 0x6c, 0xdf, 0xa2, 0, 0]);
        let header = Header { length: 131_071, uncompressed: 131_071, is_self_contained: false };
        assert_eq!(
            header.bytes(Format::Compressed),
            [0xff, 0xff, 0xff, 0xff, 0x03, 0xa2, 0x88, 0xb3]
        );
        assert_eq!(payload_crc(b""), 0x4477_7ed3);
        assert_eq!(payload_crc(b"turbocql"), 0x8215_d9f9);
    }

    proptest! {
        #[test]
        fn headers_round_trip(
            length in 0..=MAX_PAYLOAD as u32,
            uncompressed in 0..=MAX_PAYLOAD as u32,
            is_self_contained: bool,
            compressed: bool,
            broken in 0..64u32,
        ) {
            let format = if compressed { Format::Compressed } else { Format::Plain };
            let uncompressed = if compressed { uncompressed } else { 0 };
            let header = Header { length, uncompressed, is_self_contained };
            let mut bytes = header.bytes(format);
            let width = format.header();
            prop_assert_eq!(&bytes[width..], &[0; 8][width..]);
            prop_assert_eq!(Header::read(format, &bytes[..width]), Some(header));
            prop_assert_eq!(Header::read(format, &bytes[..width - 1]), None);
            let broken = broken as usize % (8 * width);
            bytes[broken / 8] ^= 1 << (broken % 8);
            prop_assert_eq!(Header::read(format, &bytes[..width]), None);
        }
    }
}
