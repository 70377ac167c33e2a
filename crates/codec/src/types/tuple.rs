//! `tuple`: each component as `[int length][bytes]`, without a count. A value may end early; the
//! missing components are null.

use crate::error::Malformed;
use crate::wire::Reader;

/// The components of an encoded tuple or the fields of an encoded user-defined type.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    reader: Reader<'a>,
}

impl<'a> Components<'a> {
    /// Reads the next component; `None` for a null and at the end of the bytes.
    #[inline]
    pub fn next_value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        if self.reader.is_empty() { Ok(None) } else { self.reader.value() }
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
    fn missing_components_are_null() {
        let mut components = decode(b"\0\0\0\x01a");
        assert_eq!(components.next_value(), Ok(Some(&b"a"[..])));
        assert_eq!(components.next_value(), Ok(None));
        assert_eq!(components.finish(), Ok(()));
    }
}
