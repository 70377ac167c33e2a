//! Encoded rows: their cells, one after another in one buffer, the arena. Each cell begins with its
//! length, as bound values do in the protocol.

use std::collections::TryReserveError;

use crate::wire;

/// One cell of an encoded row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    Value(&'a [u8]),
    Null,
    /// UNSET: the column keeps its value.
    Unset,
}

/// A type whose values can be read as cells.
pub trait AsCell {
    fn as_cell(&self) -> Cell<'_>;
}

impl AsCell for Cell<'_> {
    #[inline]
    fn as_cell(&self) -> Cell<'_> {
        *self
    }
}

/// Encoded rows, one after another in one arena.
///
/// A cell is `[int length][bytes]`; the length is -1 for null and -2 for unset. So the bytes of a
/// row are exactly the values of a request body, without the count that precedes the values.
#[derive(Clone, Debug, Default)]
pub struct RowBuffer {
    bytes: Vec<u8>,
    /// The end of each row in `bytes`, and its number of cells.
    ends: Vec<(usize, u32)>,
    /// The number of cells written since the last finished row.
    open_cells: u32,
}

impl RowBuffer {
    pub fn new() -> RowBuffer {
        RowBuffer::default()
    }

    pub fn with_capacity(bytes: usize, rows: usize) -> RowBuffer {
        RowBuffer {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(rows),
            open_cells: 0,
        }
    }

    /// Reserves room for `bytes` more bytes and `rows` more rows.
    ///
    /// A push without reserved room grows the `Vec`. If there is no memory for that, the process
    /// aborts.
    #[inline]
    pub fn reserve(&mut self, bytes: usize, rows: usize) -> Result<(), TryReserveError> {
        if self.bytes.capacity() - self.bytes.len() < bytes {
            self.bytes.try_reserve(bytes)?;
        }
        if self.ends.capacity() - self.ends.len() < rows {
            self.ends.try_reserve(rows)?;
        }
        Ok(())
    }

    pub fn push_null(&mut self) {
        wire::put_i32(&mut self.bytes, wire::NULL);
        self.open_cells += 1;
    }

    pub fn push_unset(&mut self) {
        wire::put_i32(&mut self.bytes, wire::UNSET);
        self.open_cells += 1;
    }

    pub fn push_value(&mut self, value: &[u8]) {
        wire::put_value(&mut self.bytes, value);
        self.open_cells += 1;
    }

    /// Appends a cell. `write` appends the cell's length and bytes to the arena.
    ///
    /// If `write` fails, the arena is as it was before the call.
    pub fn push_with<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        match write(&mut self.bytes) {
            Ok(()) => {
                self.open_cells += 1;
                Ok(())
            }
            Err(error) => {
                self.bytes.truncate(start);
                Err(error)
            }
        }
    }

    /// Appends a copy of another buffer's finished row, as a finished row.
    pub fn push_row(&mut self, row: RowRef<'_>) {
        self.bytes.extend_from_slice(row.bytes);
        self.open_cells += row.cells as u32;
        self.finish_row();
    }

    /// Ends a row. Its cells are those written since the last finished row.
    pub fn finish_row(&mut self) {
        self.ends.push((self.bytes.len(), self.open_cells));
        self.open_cells = 0;
    }

    /// Removes the cells written since the last finished row.
    pub fn abandon_row(&mut self) {
        self.bytes.truncate(self.ends.last().map_or(0, |&(end, _)| end));
        self.open_cells = 0;
    }

    /// The number of finished rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of bytes in the arena.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the finished row at `index`, if there is one.
    pub fn row(&self, index: usize) -> Option<RowRef<'_>> {
        let &(end, cells) = self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1].0 };
        Some(RowRef { bytes: &self.bytes[start..end], cells: cells as usize })
    }

    pub fn rows(&self) -> impl ExactSizeIterator<Item = RowRef<'_>> {
        (0..self.len()).map(|i| self.row(i).expect("the index is below the number of rows"))
    }
}

/// A finished row of a [`RowBuffer`].
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    bytes: &'a [u8],
    cells: usize,
}

impl<'a> RowRef<'a> {
    /// The cells, encoded as in a request body.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        self.cells
    }

    pub fn is_empty(&self) -> bool {
        self.cells == 0
    }

    pub fn cells(&self) -> Cells<'a> {
        Cells { unread: self.bytes }
    }
}

/// The cells of one row.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    unread: &'a [u8],
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;

    fn next(&mut self) -> Option<Cell<'a>> {
        let (head, unread) = self.unread.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*head);
        self.unread = unread;
        match usize::try_from(length) {
            Ok(length) => {
                let (value, unread) = unread.split_at(length.min(unread.len()));
                self.unread = unread;
                Some(Cell::Value(value))
            }
            Err(_) if length == wire::UNSET => Some(Cell::Unset),
            Err(_) => Some(Cell::Null),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_cell_by_cell() {
        let mut rows = RowBuffer::new();
        rows.push_value(b"ab");
        rows.push_null();
        rows.finish_row();
        rows.push_unset();
        rows.push_value(b"");
        rows.finish_row();
        let cells: Vec<Vec<Cell>> = rows.rows().map(|r| r.cells().collect()).collect();
        assert_eq!(
            cells,
            [vec![Cell::Value(b"ab"), Cell::Null], vec![Cell::Unset, Cell::Value(b"")]]
        );
        assert_eq!(rows.row(0).unwrap().len(), 2);
    }

    #[test]
    fn a_failed_cell_and_an_abandoned_row_leave_no_trace() {
        let mut rows = RowBuffer::new();
        rows.push_value(b"kept");
        rows.finish_row();
        rows.push_value(b"dropped");
        let failed = rows.push_with(|out| {
            out.extend_from_slice(b"half");
            Err(())
        });
        assert_eq!(failed, Err(()));
        rows.abandon_row();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows.byte_len(), 8);
    }
}
