//! Java's `CompositeType`: each component as `[uint16 length][bytes][0]`. A value may end early; it
//! then has fewer components than its type.

use crate::error::Malformed;
use crate::wire::Reader;

/// Leaves room for a component's length. Returns the position of the length, for [`end`].
pub fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    start
}

/// Writes the length of the bytes appended since [`begin`], and ends the component.
pub fn end(out: &mut Vec<u8>, start: usize) -> Result<(), Malformed> {
    let length = u16::try_from(out.len() - start - 2)
        .map_err(|_| Malformed::Invalid("a component longer than 65535 bytes"))?;
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
    out.push(0);
    Ok(())
}

/// The components of an encoded composite.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    reader: Reader<'a>,
}

impl<'a> Components<'a> {
    /// Reads the next component; `None` at the end of the bytes.
    ///
    /// The byte after a component is ignored. It has a meaning only in a composite that is a bound
    /// of a range of rows: it says whether the bound is before or after the rows with this
    /// component. The byte may be missing after the last component.
    pub fn next_value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let length = u16::from_be_bytes(self.reader.array()?);
        let component = self.reader.take(length.into())?;
        if !self.reader.is_empty() {
            self.reader.take(1)?;
        }
        Ok(Some(component))
    }

    /// Fails if bytes are left after the last component.
    pub fn finish(self) -> Result<(), Malformed> {
        self.reader.finish()
    }
}

pub fn decode(bytes: &[u8]) -> Components<'_> {
    Components { reader: Reader::new(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_back() {
        let mut out = Vec::new();
        for component in [&b"ab"[..], b""] {
            let start = begin(&mut out);
            out.extend_from_slice(component);
            end(&mut out, start).unwrap();
        }
        assert_eq!(out, b"\0\x02ab\0\0\0\0");
        let mut components = decode(&out[..out.len() - 1]);
        assert_eq!(components.next_value(), Ok(Some(&b"ab"[..])));
        assert_eq!(components.next_value(), Ok(Some(&b""[..])));
        assert_eq!(components.next_value(), Ok(None));
        assert_eq!(components.finish(), Ok(()));
    }

    #[test]
    fn lengths_are_checked() {
        assert_eq!(decode(&[0xff, 0xff, 1]).next_value(), Err(Malformed::Short(65_535, 1)));
        let mut out = Vec::new();
        let start = begin(&mut out);
        out.extend_from_slice(&[0; 65_536]);
        assert!(end(&mut out, start).is_err());
    }
}
