//! Columns of numbers, texts or bytes, to which cells are appended. [`Nulls`] records which cells
//! of a column are null, and is used for columns of all types.

use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, StringArray};
use arrow_buffer::{NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use turbocql_codec::{CqlType, Malformed};

use crate::column::{Outcome, refused};

/// Records which cells of a column are null. Allocates memory only when the first null is recorded.
pub struct Nulls(NullBufferBuilder);

impl Nulls {
    pub fn new() -> Nulls {
        Nulls(NullBufferBuilder::new(0))
    }

    #[inline]
    pub fn push(&mut self, is_valid: bool) {
        self.0.append(is_valid);
    }

    pub fn push_valid(&mut self, count: usize) {
        self.0.append_n_non_nulls(count);
    }

    pub fn finish(&mut self) -> Option<NullBuffer> {
        self.0.finish()
    }
}

/// Some cells of one column: bytes of a page, and the positions of the cells in these bytes.
pub struct Cells<'a> {
    pub block: &'a [u8],
    /// The start and the length of each cell. A negative length stands for a null.
    pub spans: &'a [(u32, i32)],
}

impl<'a> Cells<'a> {
    /// Whether all cells have `bytes` bytes. False if a cell is null, because the length of a null
    /// is negative.
    #[inline]
    pub fn have_length(&self, bytes: usize) -> bool {
        self.spans.iter().all(|&(_, length)| length as usize == bytes)
    }

    /// Returns the total size of all cells in bytes; `None` if a cell is null.
    pub fn total(&self) -> Option<usize> {
        // The loop does not stop at the first null, so that the compiler can vectorize it.
        let (bytes, all) = self.spans.iter().fold((0u64, 0), |(bytes, all), &(_, length)| {
            (bytes + u64::from(length as u32), all | length)
        });
        if all < 0 { None } else { usize::try_from(bytes).ok() }
    }

    /// Iterates over the cells, all of which must have `N` bytes.
    #[inline]
    pub fn fixed<const N: usize>(&self) -> impl ExactSizeIterator<Item = [u8; N]> {
        let block = self.block;
        self.spans.iter().map(move |&(start, _)| {
            let cell = block.get(start as usize..).and_then(<[u8]>::first_chunk);
            // `batch::find` has checked that the cell is within the block, so the block has these
            // `N` bytes, and the zeros are never used.
            cell.copied().unwrap_or([0; N])
        })
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let block = self.block;
        self.spans.iter().map(move |&(start, length)| {
            let length = usize::try_from(length).ok()?;
            block.get(start as usize..start as usize + length)
        })
    }
}

/// A column of numbers of fixed width.
pub struct Numbers<T: ArrowPrimitiveType> {
    pub values: Vec<T::Native>,
    pub nulls: Nulls,
    decode: fn(&[u8]) -> Result<T::Native, Malformed>,
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    pub fn new(decode: fn(&[u8]) -> Result<T::Native, Malformed>) -> Numbers<T> {
        Numbers { values: Vec::new(), nulls: Nulls::new(), decode }
    }

    /// Appends a cell. A cell without bytes becomes a null.
    #[inline]
    pub fn push(&mut self, cell: Option<&[u8]>) -> Result<(), Malformed> {
        let cell = cell.filter(|bytes| !bytes.is_empty());
        self.values.push(match cell {
            Some(bytes) => (self.decode)(bytes)?,
            None => T::Native::default(),
        });
        self.nulls.push(cell.is_some());
        Ok(())
    }

    /// Appends cells. `swap` converts the `N` big-endian bytes of a cell to a number.
    #[inline(always)]
    pub fn extend<const N: usize>(
        &mut self,
        cells: &Cells<'_>,
        swap: fn([u8; N]) -> T::Native,
    ) -> Result<(), (usize, Malformed)> {
        if cells.have_length(N) {
            self.values.extend(cells.fixed().map(swap));
            self.nulls.push_valid(cells.spans.len());
            return Ok(());
        }
        self.values.reserve(cells.spans.len());
        for (number, cell) in cells.iter().enumerate() {
            match cell {
                Some(bytes) => match <[u8; N]>::try_from(bytes) {
                    Ok(bytes) => {
                        self.values.push(swap(bytes));
                        self.nulls.push(true);
                    }
                    // `push` appends a null for a cell without bytes, and refuses any other length.
                    Err(_) => self.push(Some(bytes)).map_err(|error| (number, error))?,
                },
                None => {
                    self.values.push(T::Native::default());
                    self.nulls.push(false);
                }
            }
        }
        Ok(())
    }

    /// Appends the elements of a vector, which are written without lengths.
    #[inline(always)]
    pub fn extend_bare<const N: usize>(&mut self, bytes: &[u8], swap: fn([u8; N]) -> T::Native) {
        let (numbers, _) = bytes.as_chunks::<N>();
        self.values.extend(numbers.iter().map(|&number| swap(number)));
        self.nulls.push_valid(numbers.len());
    }

    pub fn finish(&mut self, data_type: &DataType) -> ArrayRef {
        let values = ScalarBuffer::from(std::mem::take(&mut self.values));
        let array = PrimitiveArray::<T>::new(values, self.nulls.finish());
        Arc::new(array.with_data_type(data_type.clone()))
    }
}

/// A function that converts the bytes of a value and appends the result.
pub type Write = fn(&[u8], &mut Vec<u8>) -> Result<(), Malformed>;

/// A column of texts or bytes.
pub struct Bytes {
    pub offsets: Vec<i32>,
    data: Vec<u8>,
    nulls: Nulls,
    /// The function that converts and appends a value. If it is `None`, the bytes are copied
    /// unchanged.
    pub write: Option<Write>,
    /// Whether a cell without bytes is a value. If not, it is a null.
    empty_is_value: bool,
}

impl Bytes {
    pub fn new(write: Option<Write>, empty_is_value: bool) -> Bytes {
        Bytes { offsets: vec![0], data: Vec::new(), nulls: Nulls::new(), write, empty_is_value }
    }

    #[inline]
    pub fn push(&mut self, cell: Option<&[u8]>) -> Result<(), Malformed> {
        let cell = cell.filter(|bytes| self.empty_is_value || !bytes.is_empty());
        if let Some(bytes) = cell {
            match self.write {
                None => self.data.extend_from_slice(bytes),
                Some(write) => write(bytes, &mut self.data)?,
            }
        }
        let end = i32::try_from(self.data.len());
        self.offsets.push(end.map_err(|_| Malformed::Invalid("more than 2 GiB in one batch"))?);
        self.nulls.push(cell.is_some());
        Ok(())
    }

    /// Appends cells.
    ///
    /// # Errors
    /// If a cell cannot be read, returns its index in `cells` and the reason.
    pub fn extend(&mut self, cells: &Cells<'_>) -> Result<(), (usize, Malformed)> {
        self.offsets.reserve(cells.spans.len());
        if let Some(bytes) = cells.total().filter(|_| self.empty_is_value && self.write.is_none()) {
            let end = self.data.len() + bytes;
            if i32::try_from(end).is_ok() {
                self.copy(cells, end);
                return Ok(());
            }
        }
        let mut numbered = cells.iter().enumerate();
        numbered.try_for_each(|(row, cell)| self.push(cell).map_err(|error| (row, error)))
    }

    /// Copies cells, none of which is null. `end` is where the copy of the last cell will end in
    /// `data`.
    fn copy(&mut self, cells: &Cells<'_>, end: usize) {
        /// A text of at most this many bytes is copied as a chunk of exactly this size, which takes
        /// one load and one store. The next text overwrites the rest of the chunk.
        const SHORT: usize = 16;

        let mut at = self.data.len();
        self.data.resize(end + SHORT, 0);
        for &(start, length) in cells.spans {
            let (from, length) = (&cells.block[start as usize..], length as usize);
            match from.first_chunk::<SHORT>() {
                Some(chunk) if length <= SHORT => {
                    self.data[at..][..SHORT].copy_from_slice(chunk);
                }
                _ => self.data[at..][..length].copy_from_slice(&from[..length]),
            }
            at += length;
            self.offsets.push(at as i32);
        }
        self.data.truncate(end);
        self.nulls.push_valid(cells.spans.len());
    }

    pub fn take(&mut self) -> (OffsetBuffer<i32>, Vec<u8>, Option<NullBuffer>) {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        (offsets, std::mem::take(&mut self.data), self.nulls.finish())
    }

    pub fn finish_text(&mut self, cql_type: &CqlType) -> Outcome<ArrayRef> {
        let (offsets, data, nulls) = self.take();
        // `try_new` checks all texts for UTF-8 at once, which is faster than a check of each text.
        let wrong =
            Malformed::Invalid("a text that is not UTF-8; ColumnTypes(text=\"binary\") reads it");
        match StringArray::try_new(offsets, data.into(), nulls) {
            Ok(array) => Ok(Arc::new(array)),
            Err(_) => Err(refused(cql_type, wrong)),
        }
    }
}
