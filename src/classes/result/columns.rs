//! Converts results to Arrow: gathers pages into record batches, and exports batches in capsules.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray, ffi};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyString, PyTuple};
use turbocql_codec::{CodecError, Column, Page};
use turbocql_columns::batch::{PageProgress, broken};
use turbocql_columns::schema::{Decimal, Duration, Texts, Time, Uuids, Varint};
use turbocql_columns::{Batches, Profile};
use turbocql_values::ending::{Foreign, Inside};
use turbocql_values::error::{Direction, raise};
use turbocql_values::failure::Failure;
use turbocql_values::ffi::interpreter::is_foreign_thread;

/// If the caller sets no number of rows, a batch is complete after the page with which it has at
/// least this many rows. A larger batch would not fit into the processor's caches.
const USUAL_ROWS: usize = 16_384;
/// If the caller sets no number of rows, a batch is also complete after the page with which it has
/// at least this many bytes in the protocol's encoding.
const USUAL_BYTES: usize = 8 << 20;

/// A page that is not decoded. `None` if the statement returns no rows.
#[pyclass(frozen, module = "turbocql._core")]
pub struct RawPage(pub Option<Page>);

#[pymethods]
impl RawPage {
    fn __len__(&self) -> usize {
        self.0.as_ref().map_or(0, |page| page.row_count)
    }

    /// Returns the rows. Each row is a list of its cells. A cell is a `bytes` object, or None for a
    /// null.
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Vec<Vec<Option<Bound<'py, PyBytes>>>>> {
        let Some(page) = &self.0 else { return Ok(Vec::new()) };
        let malformed = |malformed| failed(py, broken(malformed));
        let mut cells = page.cells().map_err(malformed)?;
        let mut rows = Vec::with_capacity(page.row_count);
        for _ in 0..page.row_count {
            let mut row = Vec::with_capacity(page.columns.len());
            for _ in 0..page.columns.len() {
                row.push(
                    cells.next_cell().map_err(malformed)?.map(|bytes| PyBytes::new(py, bytes)),
                );
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

pub fn failed(py: Python<'_>, error: Box<CodecError>) -> PyErr {
    raise(py, Failure::Refused(error, None), Direction::Decode)
}

fn mismatched(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// A record batch.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Batch(RecordBatch);

#[pymethods]
impl Batch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    #[getter]
    fn column_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let schema = self.0.schema();
        PyList::new(py, schema.fields().iter().map(|field| PyString::new(py, field.name())))
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0.schema())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The protocol allows a producer to ignore the requested schema.
        let _ = requested_schema;
        let array = StructArray::from(self.0.clone());
        let exported = ffi::FFI_ArrowArray::new(&array.to_data());
        let array = PyCapsule::new_with_value(py, exported, c"arrow_array")?;
        PyTuple::new(py, [schema_capsule(py, &self.0.schema())?, array])
    }

    /// Returns a pair: the little-endian numbers of a column, and one byte per row, which is 1 if
    /// the row has a value and 0 for a null. If all rows have a value, the second item is `None`.
    /// The column must have numbers of fixed width, booleans, dates, times, or vectors of numbers
    /// or timestamps without null elements. For any other column, returns `None`.
    fn numbers<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Option<Numbers<'py>>> {
        let Some(array) = self.0.columns().get(column) else {
            return Err(PyValueError::new_err("there is no such column"));
        };
        Ok(numbers::of(py, array))
    }

    fn __repr__(&self) -> String {
        format!("<Batch of {} rows>", self.0.num_rows())
    }
}

type Numbers<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

mod numbers {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{
        Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        Time64NanosecondType, TimestampMillisecondType,
    };
    use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
    use arrow_schema::{DataType, TimeUnit};
    use pyo3::prelude::*;
    use pyo3::types::PyByteArray;

    pub fn of<'py>(py: Python<'py>, array: &ArrayRef) -> Option<super::Numbers<'py>> {
        let valid = || {
            array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| {
                let flags: Vec<u8> = nulls.iter().map(u8::from).collect();
                PyByteArray::new(py, &flags).into_any()
            })
        };
        let numbers = values(py, array)?;
        Some((numbers, valid()))
    }

    fn values<'py>(py: Python<'py>, array: &ArrayRef) -> Option<Bound<'py, PyAny>> {
        let numbers = match array.data_type() {
            DataType::Int8 => bytes::<Int8Type>(py, array),
            DataType::Int16 => bytes::<Int16Type>(py, array),
            DataType::Int32 => bytes::<Int32Type>(py, array),
            DataType::Int64 => bytes::<Int64Type>(py, array),
            DataType::Float32 => bytes::<Float32Type>(py, array),
            DataType::Float64 => bytes::<Float64Type>(py, array),
            DataType::Date32 => bytes::<Date32Type>(py, array),
            DataType::Time64(_) => bytes::<Time64NanosecondType>(py, array),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                bytes::<TimestampMillisecondType>(py, array)
            }
            DataType::Boolean => {
                let flags: Vec<u8> = array.as_boolean().values().iter().map(u8::from).collect();
                PyByteArray::new(py, &flags)
            }
            DataType::FixedSizeList(_, _) => {
                // Plain numbers cannot represent a vector that has a null element.
                let elements = array.as_fixed_size_list().values();
                if elements.null_count() > 0 && array.null_count() == 0 {
                    return None;
                }
                let is_time = matches!(elements.data_type(), DataType::Timestamp(..));
                if !is_time && !elements.data_type().is_numeric() {
                    return None;
                }
                return values(py, elements);
            }
            _ => return None,
        };
        Some(numbers.into_any())
    }

    fn bytes<'py, T: ArrowPrimitiveType>(
        py: Python<'py>,
        array: &ArrayRef,
    ) -> Bound<'py, PyByteArray> {
        let array = array.as_primitive::<T>();
        PyByteArray::new(py, array.values().inner().as_slice())
    }
}

fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let exported =
        FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| mismatched(&error))?;
    PyCapsule::new_with_value(py, exported, c"arrow_schema")
}

struct Filled {
    batches: Batches,
    /// The error for a page that could not be read. Later batches would lack rows of this page. So
    /// after this error, no more batches are made, and every later call returns the error.
    failed: Option<Box<CodecError>>,
}

impl Filled {
    fn new(columns: &Arc<[Column]>, profile: Profile) -> Filled {
        Filled { batches: Batches::new(columns, profile), failed: None }
    }

    /// Appends a page, and returns the batches that are complete now. If the page cannot be read,
    /// sets `failed`, and returns the batches that were completed before the error.
    fn take(&mut self, page: &Page, rows_per_batch: Option<usize>) -> Vec<RecordBatch> {
        let (mut read, mut ready) = (PageProgress::default(), Vec::new());
        let limit = rows_per_batch.unwrap_or(usize::MAX);
        let filling = &mut self.batches;
        let mut fill = || -> Result<(), Box<CodecError>> {
            loop {
                let is_over = filling.append(page, &mut read, limit)?;
                let is_enough = match rows_per_batch {
                    Some(rows) => filling.rows() >= rows,
                    None => filling.rows() >= USUAL_ROWS || filling.bytes() >= USUAL_BYTES,
                };
                if is_enough || !is_over {
                    ready.push(filling.finish()?);
                }
                if is_over {
                    return Ok(());
                }
            }
        };
        self.failed = fill().err();
        ready
    }
}

/// Gathers pages into batches.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Gatherer {
    schema: SchemaRef,
    rows_per_batch: Option<usize>,
    filling: Mutex<Filled>,
    /// The exception that ended a stream. The consumer of the stream gets only the text of the
    /// exception.
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Gatherer {
    fn filling(&self) -> MutexGuard<'_, Filled> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a page, and returns the batches that it completes.
    fn take(&self, page: &Page) -> Result<Vec<RecordBatch>, Box<CodecError>> {
        let mut filled = self.filling();
        if let Some(error) = &filled.failed {
            return Err(error.clone());
        }
        let ready = filled.take(page, self.rows_per_batch);
        match &filled.failed {
            // If the page completed batches before the error, they are returned now. The next call
            // returns the error.
            Some(error) if ready.is_empty() => Err(error.clone()),
            _ => Ok(ready),
        }
    }

    fn last_batch(&self) -> Result<Option<RecordBatch>, Box<CodecError>> {
        let mut filled = self.filling();
        if let Some(error) = &filled.failed {
            return Err(error.clone());
        }
        if filled.batches.rows() == 0 {
            return Ok(None);
        }
        let batch = filled.batches.finish();
        filled.failed = batch.as_ref().err().cloned();
        batch.map(Some)
    }
}

#[pymethods]
impl Gatherer {
    /// Makes a gatherer for the columns of `page`. The first item of `profile` is the `(precision,
    /// scale)` of decimals. If this item is `None`, decimals become text. Six flags follow. In this
    /// order, they say whether varints become int64, durations become intervals, UUIDs become text,
    /// times become int64, texts become binary, and vectors become tensors. `rows_per_batch` is the
    /// number of rows of each batch except the last.
    #[new]
    fn new(
        page: &RawPage,
        profile: (Option<(u8, i8)>, [bool; 6]),
        rows_per_batch: Option<usize>,
    ) -> Gatherer {
        let (decimal, [int64, interval, plain_uuid, plain_time, bytes, tensors]) = profile;
        let profile = Profile {
            decimal: decimal.map_or(Decimal::Text, |(p, s)| Decimal::Decimal128(p, s)),
            varint: if int64 { Varint::Int64 } else { Varint::Text },
            duration: if interval { Duration::Interval } else { Duration::Struct },
            uuid: if plain_uuid { Uuids::Text } else { Uuids::Uuid },
            time: if plain_time { Time::Int64 } else { Time::Time64 },
            text: if bytes { Texts::Binary } else { Texts::Text },
            tensors,
        };
        let none: Arc<[Column]> = Arc::new([]);
        let columns = page.0.as_ref().map_or(&none, |page| &page.columns);
        let filled = Filled::new(columns, profile);
        Gatherer {
            schema: Arc::clone(filled.batches.schema()),
            rows_per_batch,
            filling: Mutex::new(filled),
            raised: Arc::default(),
        }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Appends a page, and returns the batches that it completes.
    fn append(&self, py: Python<'_>, page: &RawPage) -> PyResult<Vec<Batch>> {
        let Some(page) = &page.0 else { return Ok(Vec::new()) };
        let ready = py.detach(|| self.take(page)).map_err(|error| failed(py, error))?;
        Ok(ready.into_iter().map(Batch).collect())
    }

    /// Returns the last batch, with the rows that are in no batch yet; None if there are no such
    /// rows.
    fn finish(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let batch = py.detach(|| self.last_batch()).map_err(|error| failed(py, error))?;
        Ok(batch.map(Batch))
    }

    /// Returns the capsule of a stream of batches. `pages.next_page()` returns the next pages, or
    /// `None` at the end. If `is_foreign` is true, the consumer does not call `take_raised` after
    /// an exception has ended the stream. If this exception is a `KeyboardInterrupt`, it is then
    /// signaled to the application again.
    fn stream<'py>(
        this: &Bound<'py, Self>,
        pages: Py<PyAny>,
        is_foreign: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let reader = Reader {
            gatherer: this.clone().unbind(),
            pages: Some(pages),
            ready: VecDeque::new(),
            is_foreign,
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(this.py(), stream, c"arrow_array_stream")
    }

    /// Returns the exception that ended a stream, and forgets it.
    fn take_raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Yields the batches of a stream to the stream's consumer. The consumer may hold the GIL or not.
struct Reader {
    gatherer: Py<Gatherer>,
    /// `None` after the last page.
    pages: Option<Py<PyAny>>,
    ready: VecDeque<RecordBatch>,
    is_foreign: bool,
}

impl Reader {
    fn next_batch(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let _inside = Inside::nested(py)?;
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            let Some(pages) = &self.pages else { return Ok(None) };
            let page = pages.bind(py).call_method0(pyo3::intern!(py, "next_page"))?;
            let gatherer = self.gatherer.get();
            if page.is_none() {
                // If a page could not be read, `last_batch` returns the error for that page.
                let batch =
                    py.detach(|| gatherer.last_batch()).map_err(|error| failed(py, error))?;
                self.pages = None;
                return Ok(batch);
            }
            for page in page.try_iter()? {
                let page = page?.cast_into::<RawPage>()?;
                let Some(page) = &page.get().0 else { continue };
                let ready = py.detach(|| gatherer.take(page));
                self.ready.extend(ready.map_err(|error| failed(py, error))?);
            }
        }
    }

    /// Keeps the exception for `take_raised`, and returns its text for the consumer. If the
    /// consumer is foreign, signals a `KeyboardInterrupt` again, so that the application gets it.
    fn consumer_error(&self, py: Python<'_>, error: PyErr) -> ArrowError {
        let text = format!("{}: {}", error.get_type(py), error.value(py));
        if self.is_foreign && error.is_instance_of::<PyKeyboardInterrupt>(py) {
            let interrupted =
                py.import("_thread").and_then(|module| module.call_method0("interrupt_main"));
            drop(interrupted);
        }
        let gatherer = self.gatherer.get();
        let mut raised = gatherer.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = raised.replace(error);
        // The replaced exception is dropped after the lock is released, because its destructor may
        // run Python code.
        drop(raised);
        drop(replaced);
        ArrowError::ExternalError(text.into())
    }
}

fn ended() -> ArrowError {
    ArrowError::ExternalError("the interpreter has ended".into())
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(_inside) = Foreign::enter(is_foreign_thread()) else { return Some(Err(ended())) };
        // C code calls this function, so a panic must not unwind out of it.
        let next = catch_unwind(AssertUnwindSafe(|| {
            Python::try_attach(|py| match self.next_batch(py) {
                Ok(batch) => batch.map(Ok),
                Err(error) => Some(Err(self.consumer_error(py, error))),
            })
        }));
        match next {
            Ok(Some(batch)) => batch,
            Ok(None) => Some(Err(ended())),
            Err(_) => Some(Err(ArrowError::ExternalError("turbocql panicked".into()))),
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.gatherer.get().schema)
    }
}
