//! Converts Arrow arrays of numbers to CQL numbers. Makes only conversions that lose nothing.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, PrimitiveArray};
use arrow_buffer::ScalarBuffer;
use turbocql_codec::Malformed;
use turbocql_codec::types::varint;

use crate::bytes_in::Slices;
use crate::parse;

/// An array of any integer type except `UInt64`. All values of the other integer types fit a signed
/// 64-bit integer.
pub enum Integers {
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
}

impl Integers {
    pub fn of(array: &dyn Array) -> Option<Integers> {
        if let Some(array) = array.as_primitive_opt::<Int64Type>() {
            return Some(Integers::Int64(array.values().clone()));
        }
        if let Some(array) = array.as_primitive_opt::<Int32Type>() {
            return Some(Integers::Int32(array.values().clone()));
        }
        if let Some(array) = array.as_primitive_opt::<Int16Type>() {
            return Some(Integers::Int16(array.values().clone()));
        }
        if let Some(array) = array.as_primitive_opt::<Int8Type>() {
            return Some(Integers::Int8(array.values().clone()));
        }
        if let Some(array) = array.as_primitive_opt::<UInt32Type>() {
            return Some(Integers::UInt32(array.values().clone()));
        }
        if let Some(array) = array.as_primitive_opt::<UInt16Type>() {
            return Some(Integers::UInt16(array.values().clone()));
        }
        let array = array.as_primitive_opt::<UInt8Type>()?;
        Some(Integers::UInt8(array.values().clone()))
    }

    /// Returns the size in bytes of the smallest signed integer type that has all values of the
    /// array's type.
    pub fn width(&self) -> usize {
        match self {
            Integers::Int8(_) => 1,
            Integers::Int16(_) | Integers::UInt8(_) => 2,
            Integers::Int32(_) | Integers::UInt16(_) => 4,
            Integers::Int64(_) | Integers::UInt32(_) => 8,
        }
    }

    #[inline]
    pub fn get(&self, row: usize) -> i64 {
        match self {
            Integers::Int8(values) => values[row].into(),
            Integers::Int16(values) => values[row].into(),
            Integers::Int32(values) => values[row].into(),
            Integers::Int64(values) => values[row],
            Integers::UInt8(values) => values[row].into(),
            Integers::UInt16(values) => values[row].into(),
            Integers::UInt32(values) => values[row].into(),
        }
    }
}

/// An array whose numbers can all be represented exactly in the CQL type of their column, `float`
/// or `double`.
pub enum Floats {
    Half(PrimitiveArray<Float16Type>),
    Single(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    Integers(Integers),
}

impl Floats {
    /// `digits` is the number of bits in the significand of the CQL type.
    pub fn of(array: &dyn Array, digits: usize) -> Option<Floats> {
        if let Some(array) = array.as_primitive_opt::<Float32Type>() {
            return Some(Floats::Single(array.values().clone()));
        }
        if let Some(array) = array.as_primitive_opt::<Float64Type>() {
            return (digits >= 53).then(|| Floats::Double(array.values().clone()));
        }
        if let Some(array) = array.as_primitive_opt::<Float16Type>() {
            return Some(Floats::Half(array.clone()));
        }
        let integers = Integers::of(array)?;
        let bits = match integers {
            Integers::UInt32(_) => 32,
            Integers::UInt16(_) => 16,
            Integers::Int8(_)
            | Integers::Int16(_)
            | Integers::Int32(_)
            | Integers::Int64(_)
            | Integers::UInt8(_) => integers.width() * 8 - 1,
        };
        (bits <= digits).then_some(Floats::Integers(integers))
    }

    #[inline]
    pub fn single(&self, row: usize) -> f32 {
        match self {
            Floats::Half(values) => values.value(row).to_f32(),
            Floats::Single(values) => values[row],
            // Not reached: `Floats::of` makes no `Double` for a significand of 24 bits.
            Floats::Double(values) => values[row] as f32,
            Floats::Integers(values) => values.get(row) as f32,
        }
    }

    #[inline]
    pub fn double(&self, row: usize) -> f64 {
        match self {
            Floats::Half(values) => values.value(row).to_f64(),
            Floats::Single(values) => values[row].into(),
            Floats::Double(values) => values[row],
            Floats::Integers(values) => values.get(row) as f64,
        }
    }
}

/// An array of integers, of decimals, or of texts that are parsed as numbers.
pub enum Decimals {
    Integers(Integers),
    UInt64(ScalarBuffer<u64>),
    Decimal32(ScalarBuffer<i32>, i8),
    Decimal64(ScalarBuffer<i64>, i8),
    Decimal128(ScalarBuffer<i128>, i8),
    Decimal256(PrimitiveArray<Decimal256Type>, i8),
    Text(Slices),
}

impl Decimals {
    pub fn of(array: &dyn Array) -> Option<Decimals> {
        if let Some(array) = array.as_primitive_opt::<Decimal128Type>() {
            return Some(Decimals::Decimal128(array.values().clone(), array.scale()));
        }
        if let Some(array) = array.as_primitive_opt::<Decimal256Type>() {
            return Some(Decimals::Decimal256(array.clone(), array.scale()));
        }
        if let Some(array) = array.as_primitive_opt::<Decimal64Type>() {
            return Some(Decimals::Decimal64(array.values().clone(), array.scale()));
        }
        if let Some(array) = array.as_primitive_opt::<Decimal32Type>() {
            return Some(Decimals::Decimal32(array.values().clone(), array.scale()));
        }
        if let Some(array) = array.as_primitive_opt::<UInt64Type>() {
            return Some(Decimals::UInt64(array.values().clone()));
        }
        if let Some(integers) = Integers::of(array) {
            return Some(Decimals::Integers(integers));
        }
        Slices::text(array).map(Decimals::Text)
    }

    /// Whether the array's type has only whole numbers. Also true for texts, because each text is
    /// checked later.
    pub fn are_whole(&self) -> bool {
        match self {
            Decimals::Decimal32(_, scale)
            | Decimals::Decimal64(_, scale)
            | Decimals::Decimal128(_, scale)
            | Decimals::Decimal256(_, scale) => *scale == 0,
            Decimals::Integers(_) | Decimals::UInt64(_) | Decimals::Text(_) => true,
        }
    }

    /// Appends the number's unscaled value as a `varint`. Returns the number's scale.
    fn put_unscaled(&self, row: usize, out: &mut Vec<u8>) -> Result<i32, Malformed> {
        let (value, scale) = match self {
            Decimals::Integers(values) => (values.get(row).into(), 0),
            Decimals::UInt64(values) => (values[row].into(), 0),
            Decimals::Decimal32(values, scale) => (values[row].into(), *scale),
            Decimals::Decimal64(values, scale) => (values[row].into(), *scale),
            Decimals::Decimal128(values, scale) => (values[row], *scale),
            Decimals::Decimal256(values, scale) => {
                out.extend_from_slice(varint::trim(&values.value(row).to_be_bytes()));
                return Ok((*scale).into());
            }
            // The callers parse texts themselves.
            Decimals::Text(_) => return Err(Malformed::Invalid("a text")),
        };
        varint::encode_i128(value, out);
        Ok(scale.into())
    }

    pub fn put_decimal(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Decimals::Text(texts) = self {
            return parse::decimal(texts.get(row), out);
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let scale = self.put_unscaled(row, out)?;
        out[start..start + 4].copy_from_slice(&scale.to_be_bytes());
        Ok(())
    }

    pub fn put_varint(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Decimals::Text(texts) = self {
            return parse::varint(texts.get(row), out);
        }
        self.put_unscaled(row, out).map(drop)
    }
}
