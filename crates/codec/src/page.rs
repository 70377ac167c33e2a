//! A page of result rows: its columns, and the bytes of its rows.

use std::sync::Arc;

use bytes::Bytes;

use crate::cql_type::CqlType;
use crate::error::Malformed;
use crate::wire::Reader;

/// A bind marker or a result column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name of the keyspace. The columns of a table share this text.
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub name: String,
    pub cql_type: CqlType,
}

/// Result rows as received. They are decoded later, when the caller has chosen the form of the
/// decoded rows.
#[derive(Clone, Debug)]
pub struct Page {
    pub columns: Arc<[Column]>,
    /// The rows block of the frame: for each row and column, `[int length][bytes]`.
    pub rows: Bytes,
    pub row_count: usize,
}

impl Page {
    /// Returns the cells of all rows, row after row.
    ///
    /// If the page has too few bytes for its number of rows, it is refused here, before memory is
    /// allocated for that number of rows.
    pub fn cells(&self) -> Result<PageCells<'_>, Malformed> {
        cells(self.columns.len(), self.row_count, &self.rows)
    }
}

/// Returns the cells of a page that has `columns` columns, `row_count` rows and the bytes `rows`.
pub fn cells(columns: usize, row_count: usize, rows: &[u8]) -> Result<PageCells<'_>, Malformed> {
    // Rows without columns take no bytes, so the size of `rows` would not limit their number.
    if columns == 0 && row_count > 0 {
        return Err(Malformed::Invalid("rows without columns"));
    }
    let cells = row_count.saturating_mul(columns);
    if cells > rows.len() / 4 {
        return Err(Malformed::Short(cells.saturating_mul(4), rows.len()));
    }
    Ok(PageCells { reader: Reader::new(rows) })
}

/// Reads a page's cells in order.
pub struct PageCells<'a> {
    reader: Reader<'a>,
}

impl<'a> PageCells<'a> {
    /// Returns the next cell, or `None` for a null.
    #[inline]
    pub fn next_cell(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        self.reader.value()
    }

    /// Returns the number of bytes that are not read yet.
    pub fn remaining(&self) -> usize {
        self.reader.remaining()
    }

    /// Fails if bytes are left after the last cell.
    pub fn finish(self) -> Result<(), Malformed> {
        self.reader.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &'static [u8], row_count: usize) -> Page {
        let columns = ["a", "b"].map(|name| Column {
            keyspace: "ks".into(),
            table: "t".into(),
            name: name.into(),
            cql_type: CqlType::Int,
        });
        Page { columns: columns.into(), rows: Bytes::from_static(rows), row_count }
    }

    #[test]
    fn reads_cells_in_order() {
        let page = page(b"\0\0\0\x01x\xff\xff\xff\xff", 1);
        let mut cells = page.cells().unwrap();
        assert_eq!(cells.next_cell(), Ok(Some(&b"x"[..])));
        assert_eq!(cells.next_cell(), Ok(None));
        assert_eq!(cells.finish(), Ok(()));
    }

    #[test]
    fn refuses_a_count_that_the_bytes_cannot_hold() {
        assert!(page(b"\xff\xff\xff\xff", usize::MAX).cells().is_err());
        let nothing = Page { columns: Arc::new([]), rows: Bytes::new(), row_count: usize::MAX };
        assert!(nothing.cells().is_err());
    }
}
