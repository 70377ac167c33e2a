//! Columns that a caller passes. They may be Arrow data of any producer, arrays in NumPy's layout,
//! or lists of Python objects.

use std::sync::{Mutex, PoisonError, TryLockError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray, new_empty_array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::{Field, FieldRef};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::sync::Arc;
use turbocql_codec::CodecError;
use turbocql_columns::raw;
use turbocql_values::ending::{self, Inside};
use turbocql_values::error::{Direction, raise};
use turbocql_values::failure::Failure;

use crate::ffi::{arrow, capsule as ffi};

/// Makes an `EncodeError` about data that cannot be read.
pub fn unreadable(py: Python<'_>, reason: String) -> PyErr {
    raise(py, Failure::Refused(CodecError::new("columns", reason), None), Direction::Encode)
}

/// The values of a column.
pub enum Values {
    Arrow(FieldRef, ArrayRef),
    /// Python objects. They are encoded in the same way as the values of a row that a caller
    /// passes.
    Objects(Py<PyList>),
}

/// Some rows of the caller's data, as columns.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Piece {
    /// The number that the piece's first row has in the caller's data. `None` if the first row
    /// follows the last row of the previous piece.
    pub first_row: Option<u64>,
    pub rows: usize,
    pub names: Vec<String>,
    pub values: Vec<Values>,
}

impl Piece {
    fn of_struct(py: Python<'_>, array: &ArrayRef) -> PyResult<Piece> {
        let Some(columns) = array.as_struct_opt() else {
            let reason = format!(
                "expected a stream or an array of structs, got one of {}",
                array.data_type()
            );
            return Err(unreadable(py, reason));
        };
        if columns.null_count() > 0 {
            let reason = "a row is null as a whole: a record batch has nulls in its columns only";
            return Err(unreadable(py, reason.to_owned()));
        }
        Ok(Piece::of_columns_of(columns))
    }

    fn of_columns_of(columns: &StructArray) -> Piece {
        let pairs = columns.fields().iter().zip(columns.columns());
        Piece {
            first_row: None,
            rows: columns.len(),
            names: columns.fields().iter().map(|field| field.name().clone()).collect(),
            values: pairs
                .map(|(field, array)| Values::Arrow(Arc::clone(field), Arc::clone(array)))
                .collect(),
        }
    }

    /// Returns the index of the first row in which a column has no value.
    fn first_null(&self, py: Python<'_>, column: usize) -> Option<usize> {
        match &self.values[column] {
            Values::Arrow(_, array) => py.detach(|| {
                let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
                (0..array.len()).find(|&row| nulls.is_null(row))
            }),
            Values::Objects(list) => list.bind(py).iter().position(|value| value.is_none()),
        }
    }
}

/// The data of a piece's column: numbers, rows of an [`ArrowColumn`], or objects.
#[derive(FromPyObject)]
enum ColumnData<'py> {
    /// Four fields: NumPy's code for the type of the elements, such as `f4`; the shape of the array
    /// in each row; the bytes of all rows; and a flag for each row that says whether the row has a
    /// value. There is `None` in place of the flags if every row has a value.
    Numbers(String, Vec<usize>, PyBuffer<u8>, Option<Vec<bool>>),
    /// A column, and the index of the column's row at which the piece begins.
    Arrow(Bound<'py, ArrowColumn>, usize),
    Objects(Bound<'py, PyList>),
}

#[pymethods]
impl Piece {
    /// Makes a piece from a record batch. `schema` and `array` are the two capsules of
    /// `__arrow_c_array__`.
    #[staticmethod]
    #[pyo3(signature = (schema, array, first_row = None))]
    fn of_array(
        schema: &Bound<'_, PyAny>,
        array: &Bound<'_, PyAny>,
        first_row: Option<u64>,
    ) -> PyResult<Piece> {
        let py = schema.py();
        let _inside = Inside::nested(py)?;
        let (_, array) = imported(schema, array)?;
        Ok(Piece { first_row, ..Piece::of_struct(py, &array)? })
    }

    /// Makes a piece of `rows` rows. `first` is the number of its first row in the caller's data,
    /// for error messages. Each column is a pair of its name and its data. The data is in one of
    /// three forms: a tuple `(kind, shape, bytes, valid)` in NumPy's layout; a tuple of an
    /// `ArrowColumn` and the index of the column's row at which the piece begins; or a list of
    /// objects.
    #[staticmethod]
    fn of_columns(
        py: Python<'_>,
        first: usize,
        rows: usize,
        columns: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<Piece> {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for (name, data) in columns {
            let about = |reason: String| unreadable(py, format!("column \"{name}\", {reason}"));
            let array = match data.extract::<ColumnData<'_>>()? {
                ColumnData::Numbers(kind, shape, bytes, valid) => {
                    let data = copied(py, &bytes)?;
                    raw::array(&kind, data, (first, rows), &shape, valid).map_err(about)?
                }
                ColumnData::Arrow(column, first) => {
                    let (chunk, start) = column
                        .get()
                        .chunk(first)
                        .ok_or_else(|| PyValueError::new_err("the column has fewer rows"))?;
                    if chunk.len() - start < rows {
                        return Err(PyValueError::new_err("the chunk has fewer rows"));
                    }
                    values.push(Values::Arrow(
                        Arc::new(column.get().field.clone().with_name(&name)),
                        chunk.slice(start, rows),
                    ));
                    names.push(name);
                    continue;
                }
                ColumnData::Objects(list) => {
                    if list.len() != rows {
                        return Err(PyValueError::new_err("a list of another length"));
                    }
                    values.push(Values::Objects(list.unbind()));
                    names.push(name);
                    continue;
                }
            };
            let field = Field::new(&name, array.data_type().clone(), true);
            values.push(Values::Arrow(Arc::new(field), array));
            names.push(name);
        }
        Ok(Piece { first_row: None, rows, names, values })
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Looks in the columns `names` for rows without a value. Returns the index of the first such
    /// row, and the name of its column.
    fn first_missing(&self, py: Python<'_>, names: Vec<String>) -> Option<(usize, String)> {
        let columns = self.names.iter().enumerate().filter(|(_, name)| names.contains(name));
        let null_rows = columns.filter_map(|(column, name)| {
            self.first_null(py, column).map(|row| (row, name.clone()))
        });
        null_rows.min_by_key(|(row, _)| *row)
    }

    fn __len__(&self) -> usize {
        self.rows
    }
}

/// Copies the bytes of a contiguous buffer to memory that is aligned as Arrow demands.
fn copied(py: Python<'_>, bytes: &PyBuffer<u8>) -> PyResult<Buffer> {
    let mut data = MutableBuffer::from_len_zeroed(bytes.item_count());
    bytes.copy_to_slice(py, data.as_slice_mut())?;
    Ok(data.into())
}

fn imported(schema: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<(Field, ArrayRef)> {
    let py = schema.py();
    let (schema, array) = (capsule(schema)?, capsule(array)?);
    ffi::array(schema, array).map_err(|why| unreadable(py, why))
}

fn capsule<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyCapsule>> {
    let reason = "expected a PyCapsule, got another object";
    object.cast::<PyCapsule>().map_err(|_| unreadable(object.py(), reason.to_owned()))
}

/// A stream of record batches, from any producer. Its iteration yields a piece for each batch.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ArrowStream {
    stream: Mutex<arrow::Stream>,
    field: Field,
}

#[pymethods]
impl ArrowStream {
    /// Makes a stream from the capsule of `__arrow_c_stream__`.
    #[new]
    fn new(stream: &Bound<'_, PyAny>) -> PyResult<ArrowStream> {
        let py = stream.py();
        let _inside = Inside::nested(py)?;
        let stream = ffi::stream(capsule(stream)?).map_err(|why| unreadable(py, why))?;
        let field = stream.field().clone();
        Ok(ArrowStream { stream: Mutex::new(stream), field })
    }

    /// Returns a piece that has the stream's columns, but no rows.
    fn empty(&self, py: Python<'_>) -> PyResult<Piece> {
        Piece::of_struct(py, &new_empty_array(self.field.data_type()))
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// Returns the next batch as a piece. The producer is called without the GIL.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Piece>> {
        let _inside = Inside::nested(py)?;
        let next = py.detach(|| {
            let next = match self.stream.try_lock() {
                Ok(mut stream) => stream.next(),
                Err(TryLockError::Poisoned(stream)) => stream.into_inner().next(),
                Err(TryLockError::WouldBlock) => {
                    Err("the stream is being read elsewhere".to_owned())
                }
            };
            ending::stay_away();
            next
        });
        let next = next.map_err(|why| {
            // If the producer is Python code, it may have set an exception, which is then raised.
            PyErr::take(py).unwrap_or_else(|| unreadable(py, why))
        })?;
        next.map(|array| Piece::of_struct(py, &array)).transpose()
    }
}

/// A column from any producer. It keeps the chunks in which the producer passed the column.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ArrowColumn {
    field: Field,
    chunks: Vec<(usize, ArrayRef)>,
    rows: usize,
}

impl ArrowColumn {
    fn of(field: Field, arrays: Vec<ArrayRef>) -> ArrowColumn {
        let (mut chunks, mut rows) = (Vec::new(), 0);
        for array in arrays.into_iter().filter(|array| !array.is_empty()) {
            chunks.push((rows, array));
            rows += chunks.last().map_or(0, |(_, array)| array.len());
        }
        ArrowColumn { field, chunks, rows }
    }

    /// Returns the chunk that contains a row, and the row's index in that chunk.
    fn chunk(&self, row: usize) -> Option<(ArrayRef, usize)> {
        if self.rows == 0 && row == 0 {
            return Some((new_empty_array(self.field.data_type()), 0));
        }
        let after = self.chunks.partition_point(|(start, _)| *start <= row);
        let (start, array) = self.chunks.get(after.checked_sub(1)?)?;
        (row - start < array.len()).then(|| (Arc::clone(array), row - start))
    }
}

#[pymethods]
impl ArrowColumn {
    /// Makes a column from the two capsules of `__arrow_c_array__`.
    #[staticmethod]
    fn of_array(schema: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<ArrowColumn> {
        let _inside = Inside::nested(schema.py())?;
        let (field, array) = imported(schema, array)?;
        Ok(ArrowColumn::of(field, vec![array]))
    }

    /// Makes a column from the capsule of `__arrow_c_stream__`. Reads the stream to its end.
    #[staticmethod]
    fn of_stream(stream: &Bound<'_, PyAny>) -> PyResult<ArrowColumn> {
        let py = stream.py();
        let stream = ArrowStream::new(stream)?;
        let mut arrays = Vec::new();
        let mut stream = stream.stream.into_inner().unwrap_or_else(PoisonError::into_inner);
        let field = stream.field().clone();
        let read = py.detach(|| {
            while let Some(array) = stream.next()? {
                arrays.push(array);
            }
            Ok(())
        });
        read.map_err(|why: String| PyErr::take(py).unwrap_or_else(|| unreadable(py, why)))?;
        Ok(ArrowColumn::of(field, arrays))
    }

    /// Returns the number of rows from `row` to the end of its chunk.
    fn run(&self, row: usize) -> usize {
        self.chunk(row).map_or(0, |(chunk, start)| chunk.len() - start)
    }

    fn __len__(&self) -> usize {
        self.rows
    }
}
