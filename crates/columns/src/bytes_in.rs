//! Reads Arrow arrays of text and bytes, and the offsets of lists.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, RunArray, StringArray, StringViewArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};

/// An Arrow array of texts or bytes, of any layout.
pub enum Slices {
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Bytes(BinaryArray),
    LargeBytes(LargeBinaryArray),
    BytesView(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
}

impl Slices {
    pub fn text(array: &dyn Array) -> Option<Slices> {
        if let Some(array) = array.as_string_opt::<i32>() {
            return Some(Slices::Text(array.clone()));
        }
        if let Some(array) = array.as_string_opt::<i64>() {
            return Some(Slices::LargeText(array.clone()));
        }
        array.as_string_view_opt().cloned().map(Slices::TextView)
    }

    pub fn bytes(array: &dyn Array) -> Option<Slices> {
        if let Some(array) = array.as_binary_opt::<i32>() {
            return Some(Slices::Bytes(array.clone()));
        }
        if let Some(array) = array.as_binary_opt::<i64>() {
            return Some(Slices::LargeBytes(array.clone()));
        }
        if let Some(array) = array.as_fixed_size_binary_opt() {
            return Some(Slices::Fixed(array.clone()));
        }
        array.as_binary_view_opt().cloned().map(Slices::BytesView)
    }

    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        match self {
            Slices::Text(array) => array.value(row).as_bytes(),
            Slices::LargeText(array) => array.value(row).as_bytes(),
            Slices::TextView(array) => array.value(row).as_bytes(),
            Slices::Bytes(array) => array.value(row),
            Slices::LargeBytes(array) => array.value(row),
            Slices::BytesView(array) => array.value(row),
            Slices::Fixed(array) => array.value(row),
        }
    }
}

/// Where the elements of each list begin and end.
pub enum ListOffsets {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
    SmallViews(ScalarBuffer<i32>, ScalarBuffer<i32>),
    LargeViews(ScalarBuffer<i64>, ScalarBuffer<i64>),
    Fixed(usize),
}

impl ListOffsets {
    /// Returns the offsets and the elements of an array of lists of any layout; `None` for other
    /// arrays.
    pub fn of(array: &dyn Array) -> Option<(ListOffsets, ArrayRef)> {
        if let Some(array) = array.as_list_opt::<i32>() {
            return Some((ListOffsets::Small(array.offsets().clone()), array.values().clone()));
        }
        if let Some(array) = array.as_list_opt::<i64>() {
            return Some((ListOffsets::Large(array.offsets().clone()), array.values().clone()));
        }
        if let Some(array) = array.as_fixed_size_list_opt() {
            let size = usize::try_from(array.value_length()).unwrap_or(0);
            return Some((ListOffsets::Fixed(size), array.values().clone()));
        }
        if let Some(array) = array.as_list_view_opt::<i32>() {
            let offsets = ListOffsets::SmallViews(array.offsets().clone(), array.sizes().clone());
            return Some((offsets, array.values().clone()));
        }
        let array = array.as_list_view_opt::<i64>()?;
        let offsets = ListOffsets::LargeViews(array.offsets().clone(), array.sizes().clone());
        Some((offsets, array.values().clone()))
    }

    /// Returns the index of a list's first element, and the number of the list's elements. Neither
    /// is negative, because arrays are validated when they are imported.
    #[inline]
    pub fn get(&self, row: usize) -> (usize, usize) {
        match self {
            ListOffsets::Small(offsets) => {
                (offsets[row] as usize, (offsets[row + 1] - offsets[row]) as usize)
            }
            ListOffsets::Large(offsets) => {
                (offsets[row] as usize, (offsets[row + 1] - offsets[row]) as usize)
            }
            ListOffsets::SmallViews(offsets, sizes) => (offsets[row] as usize, sizes[row] as usize),
            ListOffsets::LargeViews(offsets, sizes) => (offsets[row] as usize, sizes[row] as usize),
            ListOffsets::Fixed(size) => (row * size, *size),
        }
    }
}

/// A dictionary-encoded or run-end-encoded array. `values` has the values of the dictionary, or a
/// value for each run. `index` has, for each row, the index of its value in `values`.
pub struct Indexed {
    pub index: Vec<usize>,
    pub nulls: Option<NullBuffer>,
    pub values: ArrayRef,
}

impl Indexed {
    pub fn of(array: &dyn Array) -> Option<Indexed> {
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let (values, nulls) = (dictionary.values().clone(), dictionary.nulls().cloned());
            // The key of a null row can be any number. `normalized_keys` replaces keys that are out
            // of range.
            let index = if values.is_empty() {
                vec![0; dictionary.len()]
            } else {
                dictionary.normalized_keys()
            };
            return Some(Indexed { index, nulls, values });
        }
        fn runs<T: arrow_array::types::RunEndIndexType>(array: &dyn Array) -> Option<Indexed> {
            let runs = array.as_any().downcast_ref::<RunArray<T>>()?;
            let index = (0..runs.len()).map(|row| runs.get_physical_index(row)).collect();
            Some(Indexed { index, nulls: None, values: runs.values().clone() })
        }
        runs::<Int32Type>(array)
            .or_else(|| runs::<Int64Type>(array))
            .or_else(|| runs::<Int16Type>(array))
    }
}
