//! Passes rows from the codec to the ScyllaDB driver, and pages from the driver to the codec.
//!
//! Only this module knows how the codec and the ScyllaDB driver represent a row.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use scylla::deserialize::row::ColumnIterator;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::serialize::SerializationError;
use scylla::serialize::batch::{BatchValues, BatchValuesIterator};
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::bound::BoundStatement;
use turbocql_codec::{Cell, Page, RowBuffer, RowRef, wire};

use crate::error::attempts::Attempts;
use crate::error::{EngineError, ErrorKind, encoding};
use crate::policies::profile::Profiles;
use crate::statement::descriptions::RecentColumns;
use crate::statement::{Prepared, RequestOptions};
use crate::terms::PagingState;
use crate::terms::Response;

/// A row of encoded cells that the ScyllaDB driver can write.
pub(crate) struct EncodedRow<'a>(pub(crate) RowRef<'a>);

impl SerializeRow for EncodedRow<'_> {
    fn serialize(
        &self,
        context: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> Result<(), SerializationError> {
        let (markers, cells) = (context.columns().len(), self.0.len());
        if markers != cells {
            return Err(SerializationError::new(WrongCount { markers, cells }));
        }
        for cell in self.0.cells() {
            let out = writer.make_cell_writer();
            match cell {
                Cell::Value(bytes) => out.set_value(bytes).map_err(SerializationError::new)?,
                Cell::Null => out.set_null(),
                Cell::Unset => out.set_unset(),
            };
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug)]
struct WrongCount {
    markers: usize,
    cells: usize,
}

impl fmt::Display for WrongCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the statement has {} bind markers, the row {} values", self.markers, self.cells)
    }
}

impl std::error::Error for WrongCount {}

impl Prepared {
    /// Makes a request from the statement, a row of values, and `options`, which may name one of
    /// `profiles`. The attempts of the request are recorded in `attempts`.
    pub(crate) fn bind(
        &self,
        row: RowRef<'_>,
        options: &RequestOptions,
        profiles: &Profiles,
        attempts: &mut Arc<Attempts>,
    ) -> Result<BoundStatement, EngineError> {
        self.check()?;
        let bound = self.inner.clone().bind(&EncodedRow(row));
        let mut bound = bound.map_err(|error| encoding("executing", &error))?;
        Attempts::reset(attempts, &profiles.telemetry, self.effect, self.kind);
        options.apply(&mut bound, attempts, profiles)?;
        if self.doubles_lists(options) {
            bound.set_is_idempotent(false);
        }
        Ok(bound)
    }
}

/// Encoded rows, accessed by index.
pub(crate) trait Rows {
    fn nth_row(&self, nth: usize) -> Option<RowRef<'_>>;
}

impl Rows for RowBuffer {
    fn nth_row(&self, nth: usize) -> Option<RowRef<'_>> {
        self.row(nth)
    }
}

/// Rows as the values of a batch: row `i` belongs to statement `i`.
pub(crate) struct BatchRows<R>(pub(crate) R);

pub(crate) struct BatchRowsIter<'a, R> {
    rows: &'a R,
    next: usize,
}

impl<'a, R: Rows> BatchRowsIter<'a, R> {
    fn take(&mut self) -> Option<EncodedRow<'a>> {
        let row = self.rows.nth_row(self.next)?;
        self.next += 1;
        Some(EncodedRow(row))
    }
}

impl<R: Rows> BatchValues for BatchRows<R> {
    type BatchValuesIter<'r>
        = BatchRowsIter<'r, R>
    where
        R: 'r;

    fn batch_values_iter(&self) -> BatchRowsIter<'_, R> {
        BatchRowsIter { rows: &self.0, next: 0 }
    }
}

impl<'a, R: Rows> BatchValuesIterator<'a> for BatchRowsIter<'a, R> {
    fn serialize_next(
        &mut self,
        context: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> Option<Result<(), SerializationError>> {
        Some(self.take()?.serialize(context, writer))
    }

    fn is_empty_next(&mut self) -> Option<bool> {
        Some(self.take()?.is_empty())
    }

    fn skip_next(&mut self) -> Option<()> {
        self.take().map(drop)
    }
}

/// Converts the ScyllaDB driver's result to a [`Response`]. `recent` caches the columns of results.
pub(crate) fn response(
    result: QueryResult,
    next: Option<PagingState>,
    recent: &RecentColumns,
) -> Result<Response, EngineError> {
    let mut response = Response {
        page: None,
        next,
        warnings: result.warnings().map(str::to_owned).collect(),
        tracing_id: result.tracing_id().map(|id| id.into_bytes()),
        coordinator: Some(result.request_coordinator().connection_address()),
        custom_payload: None,
    };
    if result.is_rows() {
        let unreadable = |error: &dyn fmt::Display| {
            EngineError::new(ErrorKind::Decode, format!("reading the result: {error}"))
        };
        let rows = result.into_rows_result().map_err(|error| unreadable(&error))?;
        let columns = recent.of(rows.column_specs().as_slice())?;
        let bytes = rows_block(&rows).map_err(|error| unreadable(&error))?;
        response.page = Some(Page { columns, rows: bytes, row_count: rows.rows_num() });
    }
    Ok(response)
}

/// Returns the bytes of all rows, as they arrived.
///
/// The ScyllaDB driver returns only cells, but each cell refers to the block of bytes that contains
/// all rows.
fn rows_block(result: &QueryRowsResult) -> Result<Bytes, String> {
    let size = result.rows_bytes_size();
    let cells = result.rows_num().saturating_mul(result.column_specs().len());
    if size == 0 || cells == 0 {
        return Ok(Bytes::new());
    }
    for row in result.rows::<ColumnIterator>().map_err(|error| error.to_string())? {
        for cell in row.map_err(|error| error.to_string())? {
            let cell = cell.map_err(|error| error.to_string())?;
            if let Some(slice) = cell.slice {
                let block = slice.as_original_frame_bytes();
                // Later releases of the driver may cut slices from a larger block. Then the rows
                // are copied.
                return if block.len() == size { Ok(block.clone()) } else { reframed(result) };
            }
        }
    }
    // No cell has bytes, so all cells are null, and the block has only the lengths of nulls.
    Ok(Bytes::from(wire::NULL.to_be_bytes().repeat(cells)))
}

/// Copies the block of rows, cell by cell.
fn reframed(result: &QueryRowsResult) -> Result<Bytes, String> {
    let mut out = Vec::with_capacity(result.rows_bytes_size());
    for row in result.rows::<ColumnIterator>().map_err(|error| error.to_string())? {
        for cell in row.map_err(|error| error.to_string())? {
            match cell.map_err(|error| error.to_string())?.slice {
                Some(slice) => wire::put_value(&mut out, slice.as_slice()),
                None => wire::put_i32(&mut out, wire::NULL),
            }
        }
    }
    Ok(Bytes::from(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::frame::response::result::{ColumnSpec, ColumnType, NativeType, TableSpec};

    fn specs() -> Vec<ColumnSpec<'static>> {
        let table = TableSpec::borrowed("ks", "t");
        let spec =
            |name| ColumnSpec::borrowed(name, ColumnType::Native(NativeType::Blob), table.clone());
        ["a", "b", "c"].map(spec).into()
    }

    fn rows() -> RowBuffer {
        let mut rows = RowBuffer::new();
        rows.push_value(b"xyz");
        rows.push_null();
        rows.push_unset();
        rows.finish_row();
        rows.push_value(b"");
        rows.finish_row();
        rows
    }

    #[test]
    fn encoded_cells_are_written_unchanged() {
        let (rows, specs, mut out) = (rows(), specs(), Vec::new());
        let context = RowSerializationContext::from_specs(&specs);
        let row = rows.row(0).unwrap();
        EncodedRow(row).serialize(&context, &mut RowWriter::new(&mut out)).unwrap();
        assert_eq!(out, row.bytes());
    }

    #[test]
    fn a_wrong_number_of_values_is_refused() {
        let (rows, specs, mut out) = (rows(), specs(), Vec::new());
        let context = RowSerializationContext::from_specs(&specs);
        let row = EncodedRow(rows.row(1).unwrap());
        let error = row.serialize(&context, &mut RowWriter::new(&mut out)).unwrap_err();
        assert!(error.to_string().contains("3 bind markers, the row 1 values"), "{error}");
        assert!(out.is_empty());
    }

    #[test]
    fn an_arena_gives_its_rows_one_by_one() {
        let (specs, mut out) = (specs(), Vec::new());
        let arena = BatchRows(rows());
        let mut values = arena.batch_values_iter();
        let context = RowSerializationContext::from_specs(&specs);
        values.serialize_next(&context, &mut RowWriter::new(&mut out)).unwrap().unwrap();
        assert_eq!(out, arena.0.row(0).unwrap().bytes());
        assert_eq!(values.is_empty_next(), Some(false));
        assert_eq!(values.skip_next(), None);
        assert_eq!(arena.batch_values_iter().count(), 2);
    }
}
