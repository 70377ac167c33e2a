//! Makes Arrow arrays from memory in NumPy's layout.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::types::{
    Date32Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::Field;

/// Makes an array from rows in NumPy's layout, little-endian and contiguous.
///
/// `kind` is NumPy's letter for a type, with the size of an item or with a unit of time: `f4`,
/// `b1`, `U10`, `M8[ms]`. `data` has the bytes of `rows` rows. `first` is the number of the first
/// of these rows, for error messages. `shape` is the shape of one row; it is empty for a plain
/// column. `valid` says which rows are not masked.
///
/// # Errors
/// If the kind is not supported, if the sizes contradict each other, or if an item cannot be
/// represented in Arrow.
pub fn array(
    kind: &str,
    data: Buffer,
    (first, rows): (usize, usize),
    shape: &[usize],
    valid: Option<Vec<bool>>,
) -> Result<ArrayRef, String> {
    let mut count = rows;
    for &size in shape {
        count = count.checked_mul(size).ok_or("an array of more elements than memory holds")?;
    }
    let nulls = valid.map(NullBuffer::from);
    if nulls.as_ref().is_some_and(|nulls| nulls.len() != rows) {
        return Err("a mask of another length than the array".to_owned());
    }
    let (element_nulls, list_nulls) = if shape.is_empty() { (nulls, None) } else { (None, nulls) };
    let mut array = elements(kind, &data, (first, count), element_nulls)?;
    for (depth, &size) in shape.iter().enumerate().rev() {
        let field = Arc::new(Field::new("item", array.data_type().clone(), true));
        let size = i32::try_from(size).map_err(|_| "a dimension of more than 31 bits")?;
        let length = shape[..depth].iter().product::<usize>() * rows;
        let nulls = if depth == 0 { list_nulls.clone() } else { None };
        let list = FixedSizeListArray::try_new_with_length(field, size, array, nulls, length);
        array = Arc::new(list.map_err(|error| error.to_string())?);
    }
    Ok(array)
}

fn elements(
    kind: &str,
    data: &Buffer,
    (first, count): (usize, usize),
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    if let Some(width) = kind.strip_prefix('U') {
        return texts(width, data, (first, count), nulls);
    }
    if let Some(width) = kind.strip_prefix('S') {
        return strings(width, data, count, nulls);
    }
    Ok(match kind {
        "i1" => numbers::<Int8Type>(data, count, nulls)?,
        "i2" => numbers::<Int16Type>(data, count, nulls)?,
        "i4" => numbers::<Int32Type>(data, count, nulls)?,
        "i8" => numbers::<Int64Type>(data, count, nulls)?,
        "u1" => numbers::<UInt8Type>(data, count, nulls)?,
        "u2" => numbers::<UInt16Type>(data, count, nulls)?,
        "u4" => numbers::<UInt32Type>(data, count, nulls)?,
        "u8" => numbers::<UInt64Type>(data, count, nulls)?,
        "f2" => numbers::<Float16Type>(data, count, nulls)?,
        "f4" => numbers::<Float32Type>(data, count, nulls)?,
        "f8" => numbers::<Float64Type>(data, count, nulls)?,
        "b1" => {
            check::<u8>(data, count)?;
            let values: BooleanBuffer = data.as_slice().iter().map(|&byte| byte != 0).collect();
            Arc::new(BooleanArray::new(values, nulls))
        }
        "M8[D]" => days(data, (first, count), nulls)?,
        "M8[s]" => times::<TimestampSecondType>(data, count, nulls)?,
        "M8[ms]" => times::<TimestampMillisecondType>(data, count, nulls)?,
        "M8[us]" => times::<TimestampMicrosecondType>(data, count, nulls)?,
        "M8[ns]" => times::<TimestampNanosecondType>(data, count, nulls)?,
        "m8[s]" => times::<DurationSecondType>(data, count, nulls)?,
        "m8[ms]" => times::<DurationMillisecondType>(data, count, nulls)?,
        "m8[us]" => times::<DurationMicrosecondType>(data, count, nulls)?,
        "m8[ns]" => times::<DurationNanosecondType>(data, count, nulls)?,
        other => return Err(format!("no column is made of NumPy's {other}")),
    })
}

fn check<T>(data: &Buffer, count: usize) -> Result<(), String> {
    if Some(data.len()) == count.checked_mul(size_of::<T>()) {
        return Ok(());
    }
    Err(format!("{} bytes for {count} elements of {} bytes", data.len(), size_of::<T>()))
}

fn values<T: ArrowNativeType>(data: &Buffer, count: usize) -> Result<ScalarBuffer<T>, String> {
    check::<T>(data, count)?;
    Ok(ScalarBuffer::new(data.clone(), 0, count))
}

fn numbers<T: ArrowPrimitiveType>(
    data: &Buffer,
    count: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    Ok(Arc::new(PrimitiveArray::<T>::new(values::<T::Native>(data, count)?, nulls)))
}

/// Adds to `nulls` the rows whose value is NumPy's "not a time".
fn with_nats(values: &[i64], nulls: Option<NullBuffer>) -> Option<NullBuffer> {
    if !values.contains(&i64::MIN) {
        return nulls;
    }
    let nats: NullBuffer = values.iter().map(|&value| value != i64::MIN).collect();
    NullBuffer::union(nulls.as_ref(), Some(&nats))
}

fn times<T: ArrowPrimitiveType<Native = i64>>(
    data: &Buffer,
    count: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    let values = values::<i64>(data, count)?;
    let nulls = with_nats(&values, nulls);
    Ok(Arc::new(PrimitiveArray::<T>::new(values, nulls)))
}

fn days(
    data: &Buffer,
    (first, count): (usize, usize),
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    let values = values::<i64>(data, count)?;
    let nulls = with_nats(&values, nulls);
    let mut days = Vec::with_capacity(count);
    for (row, &value) in values.iter().enumerate() {
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let day = if is_null { Ok(0) } else { i32::try_from(value) };
        days.push(day.map_err(|_| format!("row {}: a date beyond 32 bits of days", first + row))?);
    }
    Ok(Arc::new(PrimitiveArray::<Date32Type>::new(days.into(), nulls)))
}

/// Makes an array from texts of fixed width: four bytes per character, padded with zeros.
fn texts(
    width: &str,
    data: &Buffer,
    (first, count): (usize, usize),
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    let width: usize = width.parse().map_err(|_| format!("a text of width {width}"))?;
    let items = fixed(width * 4, data, count)?;
    let mut builder = StringBuilder::new();
    let mut text = String::new();
    for (row, item) in items.enumerate() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            builder.append_null();
            continue;
        }
        text.clear();
        let characters = item.chunks_exact(4).map(|code_unit| {
            u32::from_ne_bytes([code_unit[0], code_unit[1], code_unit[2], code_unit[3]])
        });
        let length = width - characters.clone().rev().take_while(|&code| code == 0).count();
        for code in characters.take(length) {
            let reason =
                || format!("row {}: a text with a code that no character has", first + row);
            text.push(char::from_u32(code).ok_or_else(reason)?);
        }
        builder.append_value(&text);
    }
    Ok(Arc::new(builder.finish()))
}

/// Makes an array from byte strings of fixed width, padded with zeros.
fn strings(
    width: &str,
    data: &Buffer,
    count: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    let width: usize = width.parse().map_err(|_| format!("bytes of width {width}"))?;
    let mut builder = BinaryBuilder::new();
    for (row, item) in fixed(width, data, count)?.enumerate() {
        let length = width - item.iter().rev().take_while(|&&byte| byte == 0).count();
        match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => builder.append_null(),
            false => builder.append_value(&item[..length]),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Splits the data into `count` items of `width` bytes each. `width` may be 0.
fn fixed(width: usize, data: &Buffer, count: usize) -> Result<impl Iterator<Item = &[u8]>, String> {
    let bytes = data.as_slice();
    if Some(bytes.len()) != count.checked_mul(width) {
        return Err(format!("{} bytes for {count} items of {width} bytes", bytes.len()));
    }
    Ok((0..count).map(move |row| &bytes[row * width..(row + 1) * width]))
}
