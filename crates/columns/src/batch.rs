//! Gathers pages into record batches.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use turbocql_codec::{CodecError, Column, Malformed, Page, Segment};

use crate::column::cells::Cells;
use crate::column::{Filling, Outcome};
use crate::schema::{self, Profile};

/// How many rows are read at a time. First the positions of all their cells are found, then the
/// cells are appended column by column. The number is small, so that the positions stay in the
/// CPU's cache.
pub const BLOCK: usize = 512;
/// A batch ends when, after a block of rows, it has at least this many bytes. So Arrow's offsets of
/// 32 bits suffice for its texts and lists, unless the last block is very large.
const MAX_BYTES: usize = 1 << 30;

/// Gathers the rows of pages into record batches, one batch at a time.
pub struct Batches {
    schema: SchemaRef,
    names: Arc<[Column]>,
    columns: Vec<Filling>,
    rows: usize,
    bytes: usize,
    /// The number of rows in the pages before the current one.
    before: usize,
    /// The number of rows in the previous batch.
    last: usize,
    /// The start and the length of each cell of the current block, column by column.
    spans: Vec<(u32, i32)>,
}

/// How much of a page has been appended to batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageProgress {
    /// The number of rows of the page that were read.
    pub rows: usize,
    /// The number of bytes of the page that were read.
    pub bytes: usize,
}

impl Batches {
    pub fn new(columns: &Arc<[Column]>, profile: Profile) -> Batches {
        Batches {
            schema: Arc::new(schema::schema(columns, profile)),
            names: Arc::clone(columns),
            columns: columns.iter().map(|column| Filling::new(&column.cql_type, profile)).collect(),
            rows: 0,
            bytes: 0,
            before: 0,
            last: 0,
            spans: Vec::new(),
        }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of rows in the batch that is being filled.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The size in bytes of the rows in the batch that is being filled, as the server sent them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends rows of a page to the batch. `read` says which part of the page earlier calls have
    /// appended. This call appends the rows after that part until the batch has `limit` rows or
    /// `MAX_BYTES` bytes, and updates `read`. Returns whether the whole page has been read.
    ///
    /// # Errors
    /// If the page cannot be read. The contents of the batch are then invalid.
    pub fn append(&mut self, page: &Page, read: &mut PageProgress, limit: usize) -> Outcome<bool> {
        let width = self.columns.len();
        check(page, &self.names)?;
        if read.rows == 0 {
            // This batch will most likely have as many rows as the previous one.
            let rows = page.row_count.max(self.last.saturating_sub(self.rows)).min(limit);
            for column in &mut self.columns {
                column.reserve(rows, page.rows.len());
            }
        }
        while read.rows < page.row_count {
            let room = limit.saturating_sub(self.rows).min(page.row_count - read.rows).min(BLOCK);
            if room == 0 || (self.rows > 0 && self.bytes >= MAX_BYTES) {
                return Ok(false);
            }
            let block = &page.rows[read.bytes..];
            let bytes = find(&mut self.spans, block, room, width)?;
            for (number, column) in self.columns.iter_mut().enumerate() {
                let spans = &self.spans[number * room..(number + 1) * room];
                column.extend(&Cells { block, spans }).map_err(|(row, error)| {
                    let column = Segment::Column(self.names[number].name.clone());
                    error.at(column).at(Segment::Row(self.before + read.rows + row))
                })?;
            }
            read.rows += room;
            read.bytes += bytes;
            self.rows += room;
            self.bytes += bytes;
        }
        if read.bytes != page.rows.len() {
            return Err(broken(Malformed::Trailing(page.rows.len() - read.bytes)));
        }
        self.before += page.row_count;
        Ok(true)
    }

    /// Returns the batch that was filled, and begins the next one.
    ///
    /// # Errors
    /// If a text is not UTF-8, if a key of a map has no bytes, or if Arrow refuses the values.
    pub fn finish(&mut self) -> Outcome<RecordBatch> {
        let rows = std::mem::take(&mut self.rows);
        self.last = rows;
        self.bytes = 0;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (column, name) in self.columns.iter_mut().zip(self.names.iter()) {
            let named = |error: Box<CodecError>| error.at(Segment::Column(name.name.clone()));
            arrays.push(column.finish().map_err(named)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| CodecError::new("rows", format!("the columns do not fit: {error}")))
    }
}

/// Finds the cells of the next `rows` rows, and writes their positions to `spans`, column by
/// column. Returns the number of bytes of these rows.
pub fn find(
    spans: &mut Vec<(u32, i32)>,
    block: &[u8],
    rows: usize,
    width: usize,
) -> Outcome<usize> {
    spans.resize(rows * width, (0, -1));
    // A frame has at most 2 GiB, so 32 bits suffice for the positions in a page.
    let block = &block[..block.len().min(u32::MAX as usize)];
    let mut unread = block;
    for row in 0..rows {
        // `spans` is ordered by column, so neighboring cells of a row are `rows` items apart.
        for span in spans.get_mut(row..).unwrap_or_default().iter_mut().step_by(rows) {
            let Some((length, cells)) = unread.split_first_chunk() else {
                return Err(broken(Malformed::Short(4, unread.len())));
            };
            let length = i32::from_be_bytes(*length);
            *span = ((block.len() - cells.len()) as u32, length);
            let size = length.max(0) as usize;
            let Some(after) = cells.get(size..) else {
                return Err(broken(Malformed::Short(size, cells.len())));
            };
            unread = after;
        }
    }
    Ok(block.len() - unread.len())
}

/// Checks that a page has the columns `names`, and enough bytes for the number of its rows.
pub fn check(page: &Page, names: &Arc<[Column]>) -> Outcome<()> {
    if !Arc::ptr_eq(&page.columns, names) && page.columns[..] != names[..] {
        let changed = "the columns differ from those of the first page: the table was changed \
            meanwhile; execute the statement again";
        return Err(broken(Malformed::Invalid(changed)));
    }
    page.cells().map_err(broken)?;
    Ok(())
}

pub fn broken(malformed: Malformed) -> Box<CodecError> {
    CodecError::new("rows", malformed.to_string())
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Int32Type};
    use bytes::Bytes;
    use proptest::prelude::*;
    use turbocql_codec::CqlType;

    use super::*;
    use crate::arbitrary::{gathered, page, types};
    use crate::schema::{Decimal, Duration, Varint};

    #[test]
    fn nulls_and_numbers() {
        let rows: Vec<_> = (0..1300i32)
            .map(|n| vec![(n % 3 > 0).then(|| n.to_be_bytes().to_vec()), Some(Vec::new())])
            .collect();
        let batch = gathered(&page(&[CqlType::Int, CqlType::Int], &rows), Profile::LOSSLESS);
        let batch = batch.unwrap();
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        assert_eq!(numbers.null_count(), 434);
        assert_eq!(numbers.value(1299 - 1), 1298);
        assert!(numbers.is_null(1299));
        // A cell without bytes is a null.
        assert_eq!(batch.column(1).null_count(), 1300);
    }

    #[test]
    fn a_page_is_split_where_the_batch_is_full() {
        let rows: Vec<_> = (0..1300i32).map(|n| vec![Some(n.to_be_bytes().to_vec())]).collect();
        let page = page(&[CqlType::Int], &rows);
        let mut batches = Batches::new(&page.columns, Profile::LOSSLESS);
        let (mut read, mut row_counts) = (PageProgress::default(), Vec::new());
        while !batches.append(&page, &mut read, 700).unwrap() {
            row_counts.push(batches.finish().unwrap().num_rows());
        }
        row_counts.push(batches.finish().unwrap().num_rows());
        assert_eq!(row_counts, [700, 600]);
    }

    #[test]
    fn errors_name_row_column_and_place() {
        let lists = CqlType::List(Box::new(CqlType::Int));
        let wrong = b"\0\0\0\x01\0\0\0\x03abc".to_vec();
        let rows = vec![vec![None], vec![Some(wrong)]];
        let error = gathered(&page(&[lists], &rows), Profile::LOSSLESS).unwrap_err();
        let expected = "row 1, column \"c0\"[0]: malformed int: expected 4 bytes, got 3";
        assert_eq!(error.to_string(), expected);
        let rows = vec![vec![Some(b"\xff".to_vec())]];
        let error = gathered(&page(&[CqlType::Text], &rows), Profile::LOSSLESS).unwrap_err();
        assert!(error.to_string().starts_with("column \"c0\": malformed text"), "{error}");
    }

    #[test]
    fn vectors_of_numbers_stand_bare() {
        let vector = CqlType::Vector(Box::new(CqlType::Float), 2);
        let cell: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|n| n.to_be_bytes()).collect();
        let rows = vec![vec![Some(cell)], vec![None]];
        let batch = gathered(&page(&[vector], &rows), Profile::LOSSLESS).unwrap();
        let column = batch.column(0).as_fixed_size_list();
        assert!(column.is_null(1));
        assert_eq!(column.value(0).as_primitive::<Float32Type>().values(), &[1.5, -2.0]);
    }

    #[test]
    fn a_page_with_other_columns_is_refused() {
        let first = page(&[CqlType::Int], &[vec![None]]);
        let mut batches = Batches::new(&first.columns, Profile::LOSSLESS);
        let (same, other) = (page(&[CqlType::Int], &[vec![None]]), page(&[CqlType::Text], &[]));
        assert!(batches.append(&same, &mut PageProgress::default(), 10).unwrap());
        assert!(batches.append(&other, &mut PageProgress::default(), 10).is_err());
    }

    #[test]
    fn a_servers_word_alone_takes_no_memory() {
        let vector = CqlType::Vector(Box::new(CqlType::Float), u32::MAX);
        let error = gathered(&page(&[vector], &[vec![None]]), Profile::LOSSLESS).unwrap_err();
        assert!(error.to_string().contains("65,536"), "{error}");
    }

    fn profiles() -> impl Strategy<Value = Profile> {
        prop::sample::select(vec![
            Profile::LOSSLESS,
            Profile {
                decimal: Decimal::Decimal128(10, 2),
                varint: Varint::Int64,
                duration: Duration::Interval,
                tensors: true,
                ..Profile::LOSSLESS
            },
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn no_bytes_are_a_panic(
            cql_type in types(),
            profile in profiles(),
            cells in prop::collection::vec(prop::option::of(prop::collection::vec(
                prop_oneof![0..5u8, any::<u8>()], 0..40)), 0..6),
        ) {
            prop_assume!(cql_type.check().is_ok());
            let rows: Vec<_> = cells.into_iter().map(|cell| vec![cell]).collect();
            let count = rows.len();
            if let Ok(batch) = gathered(&page(&[cql_type], &rows), profile) {
                prop_assert_eq!(batch.num_rows(), count);
                prop_assert!(batch.column(0).to_data().validate_full().is_ok());
            }
        }

        #[test]
        fn no_page_is_a_panic(cql_type in types(), rows: Vec<u8>, row_count in 0..50usize) {
            prop_assume!(cql_type.check().is_ok());
            let mut page = page(&[cql_type], &[]);
            page.rows = Bytes::from(rows);
            page.row_count = row_count;
            let _ = gathered_or_not(&page);
        }
    }

    fn gathered_or_not(page: &Page) -> Outcome<()> {
        let mut batches = Batches::new(&page.columns, Profile::LOSSLESS);
        batches.append(page, &mut PageProgress::default(), usize::MAX)?;
        batches.finish().map(|_| ())
    }
}
