//! Writes values in the notations of section 3 of the protocol's specification, and computes their
//! sizes.

use super::{MessageError, Reason, ValueKey, Version, since};
use crate::row::{AsCell, Cell};
use crate::wire::{NULL, UNSET};

/// The largest count in a `[short]`.
pub const MAX_SHORT: usize = u16::MAX as usize;
/// The largest length in an `[int]`.
pub const LONGEST: usize = i32::MAX as usize;

/// Returns the size of `[short bytes]` or a `[string]`, with its length field.
pub fn short_size(part: &'static str, bytes: &[u8]) -> Result<u64, MessageError> {
    sized(part, 2, bytes, MAX_SHORT)
}

/// Returns the size of `[bytes]` or a `[long string]`, with its length field.
pub fn long_size(part: &'static str, bytes: &[u8]) -> Result<u64, MessageError> {
    sized(part, 4, bytes, LONGEST)
}

#[inline]
fn sized(
    part: &'static str,
    prefix: u64,
    bytes: &[u8],
    maximum: usize,
) -> Result<u64, MessageError> {
    let got = bytes.len() as u64;
    if bytes.len() > maximum {
        return Err(Reason::Length { part, maximum, got }.into());
    }
    Ok(prefix + got)
}

/// Refuses more items than a `[short]` can count.
#[inline]
pub fn check_count(part: &'static str, got: usize) -> Result<(), MessageError> {
    if got > MAX_SHORT {
        Err(Reason::Count { part, maximum: MAX_SHORT, got }.into())
    } else {
        Ok(())
    }
}

/// Returns the size of a `[value]`, with its length field.
#[inline]
pub fn cell_size(
    cell: Cell<'_>,
    version: Version,
    key: impl FnOnce() -> ValueKey,
) -> Result<u64, MessageError> {
    match cell {
        Cell::Value(bytes) if bytes.len() <= LONGEST => Ok(4 + bytes.len() as u64),
        Cell::Null => Ok(4),
        Cell::Unset if version >= Version::V4 => Ok(4),
        Cell::Value(bytes) => long_size("a value", bytes).map_err(|error| error.at(key())),
        Cell::Unset => {
            since("UNSET", Version::V4, version).map_err(|error| error.at(key()))?;
            Ok(4)
        }
    }
}

/// Returns the size of positional values, including the count that is written before them.
pub fn cells_size(cells: &[impl AsCell], version: Version) -> Result<u64, MessageError> {
    check_count("values", cells.len())?;
    let mut size = 2;
    for (index, cell) in cells.iter().enumerate() {
        size += cell_size(cell.as_cell(), version, || ValueKey::Index(index))?;
    }
    Ok(size)
}

/// Returns the size of a whole body, or an error if a frame cannot hold it.
pub fn body_size(size: u64) -> Result<usize, MessageError> {
    match usize::try_from(size) {
        Ok(size) if size <= LONGEST => Ok(size),
        _ => Err(Reason::Length { part: "a body", maximum: LONGEST, got: size }.into()),
    }
}

/// The target that a body is written to. Lengths and counts are not checked here, because
/// [`Message::size`](super::Message::size) has checked them.
pub trait Body {
    fn put(&mut self, bytes: &[u8]);

    #[inline]
    fn byte(&mut self, value: u8) {
        self.put(&[value]);
    }

    #[inline]
    fn short(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    #[inline]
    fn int(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    #[inline]
    fn long(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }

    /// Writes a count as a `[short]`.
    #[inline]
    fn count(&mut self, count: usize) {
        self.short(count as u16);
    }

    #[inline]
    fn short_bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
    }

    #[inline]
    fn long_bytes(&mut self, bytes: &[u8]) {
        self.int(bytes.len() as i32);
        self.put(bytes);
    }

    #[inline]
    fn cell(&mut self, cell: Cell<'_>) {
        match cell {
            Cell::Value(bytes) => self.long_bytes(bytes),
            Cell::Null => self.int(NULL),
            Cell::Unset => self.int(UNSET),
        }
    }

    /// Writes positional values, after their count.
    #[inline]
    fn cells(&mut self, cells: &[impl AsCell]) {
        self.count(cells.len());
        for cell in cells {
            self.cell(cell.as_cell());
        }
    }

    /// Writes flags: one byte before version 5, an int since version 5.
    #[inline]
    fn flags(&mut self, flags: u32, version: Version) {
        match version {
            Version::V3 | Version::V4 => self.byte(flags as u8),
            Version::V5 => self.put(&flags.to_be_bytes()),
        }
    }
}

impl Body for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
