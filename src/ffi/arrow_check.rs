//! Checks arrays and types of the C data interface before arrow-rs follows a pointer in them. The
//! documentation of the module `arrow` lists the errors that no check can find.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::slice;

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    validate_decimal_precision_and_scale,
};
use arrow_schema::{DataType, FieldRef};

use super::arrow::Refused;

pub const MAX_NODES: usize = 100_000;
const MAX_BUFFERS: usize = 1 << 20;
/// The maximum size of a buffer, which is the size of the memory that a process can address. The
/// sum of two such sizes cannot overflow, and neither can the product of such a size and the width
/// of an offset.
const MAX_BYTES: usize = 1 << 47;
/// The maximum length of an array whose elements take no memory. Without a limit, a struct of a few
/// bytes could make arrow-rs allocate any amount of memory, because arrow-rs allocates a bitmap
/// with one bit per element when it validates fixed-size lists.
const MAX_WEIGHTLESS: usize = i32::MAX as usize;

#[repr(C)]
pub struct CArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: Cell<i64>,
    n_children: i64,
    buffers: *const *const c_void,
    children: *const *const CArray,
    dictionary: *const CArray,
    pub release: *const c_void,
    private_data: *const c_void,
}

const _: () = {
    assert!(size_of::<CArray>() == size_of::<FFI_ArrowArray>());
    assert!(align_of::<CArray>() == align_of::<FFI_ArrowArray>());
};

pub fn released(name: &str) -> Refused {
    format!("the {name} was already used or released")
}

/// Whether a pointer is null, or points into the first page of memory. This page is never mapped.
/// Empty vectors of Rust have pointers into it.
pub fn is_null<T>(pointer: *const T) -> bool {
    pointer.addr() < 4096
}

pub fn check_address<T>(pointer: *const T, name: &str) -> Result<(), Refused> {
    match (is_null(pointer), pointer.is_aligned()) {
        (true, _) => Err(format!("the pointer to the {name} is null")),
        (false, false) => Err(format!("the pointer to the {name} is not aligned")),
        (false, true) => Ok(()),
    }
}

/// # Safety
/// The pointer is null or points to a valid `T` that lives and does not change for `'a`.
pub unsafe fn at<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Refused> {
    check_address(pointer, name)?;
    // SAFETY: `pointer` is not null and aligned, as checked above, and points to a valid `T`, by
    // the `# Safety` section.
    Ok(unsafe { &*pointer })
}

/// # Safety
/// The pointer is null or points to `count` valid elements that live and do not change for `'a`.
pub unsafe fn many<'a, T>(
    pointer: *const T,
    count: i64,
    max: usize,
    name: &str,
) -> Result<&'a [T], Refused> {
    let count = match usize::try_from(count) {
        Ok(0) => return Ok(&[]),
        Ok(count) if count <= max => count,
        _ => return Err(format!("the number of {name} is {count}")),
    };
    check_address(pointer, name)?;
    // SAFETY: `pointer` is not null and aligned, as checked above, and points to `count` valid
    // elements, by the `# Safety` section. Their size is below `isize::MAX`, because `count` is at
    // most `max`, a small number.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// Refuses types whose formats arrow-rs can parse, but on which it panics later.
pub fn check_type(data_type: &DataType) -> Result<(), Refused> {
    use DataType::*;
    fn decimal<T: DecimalType>(precision: u8, scale: i8) -> bool {
        validate_decimal_precision_and_scale::<T>(precision, scale).is_ok()
    }
    let is_known = match data_type {
        Decimal32(precision, scale) => decimal::<Decimal32Type>(*precision, *scale),
        Decimal64(precision, scale) => decimal::<Decimal64Type>(*precision, *scale),
        Decimal128(precision, scale) => decimal::<Decimal128Type>(*precision, *scale),
        Decimal256(precision, scale) => decimal::<Decimal256Type>(*precision, *scale),
        FixedSizeBinary(size) | FixedSizeList(_, size) => *size >= 0,
        Map(entries, _) => matches!(entries.data_type(), Struct(fields) if fields.len() == 2),
        RunEndEncoded(ends, _) => ends.data_type().is_run_ends_type(),
        Dictionary(key, values) => {
            check_type(values)?;
            key.is_dictionary_key_type()
        }
        Union(..) => false,
        _ => true,
    };
    if !is_known {
        return Err(format!("{data_type} is not a valid type"));
    }
    fields_of(data_type).into_iter().try_for_each(|field| check_type(field.data_type()))
}

fn fields_of(data_type: &DataType) -> Vec<&FieldRef> {
    use DataType::*;
    match data_type {
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => vec![field],
        FixedSizeList(field, _) | Map(field, _) => vec![field],
        Struct(fields) => fields.iter().collect(),
        RunEndEncoded(ends, values) => vec![ends, values],
        _ => Vec::new(),
    }
}

/// Returns the range of elements in the buffers and children that belongs to the array.
pub fn range_of(array: &CArray) -> Result<Range<usize>, Refused> {
    let CArray { offset, length, null_count, .. } = *array;
    let max = MAX_BYTES as i64;
    if !(0..=max).contains(&offset) || !(0..=max).contains(&length) {
        return Err(format!("the array has the offset {offset} and the length {length}"));
    }
    if !(-1..=length).contains(&null_count) {
        return Err(format!("an array of the length {length} has the null_count {null_count}"));
    }
    Ok(offset as usize..(offset + length) as usize)
}

/// # Safety
/// The pointers in the array are null or point to the structures of the C data interface for the
/// type. Their sizes are as the numbers in the array declare. The array's struct can be written to.
pub unsafe fn check_array(array: &CArray, data_type: &DataType) -> Result<(), Refused> {
    if array.release.is_null() {
        return Err(released("ArrowArray"));
    }
    let range = range_of(array)?;
    let is_weightless = match data_type {
        DataType::Null | DataType::RunEndEncoded(..) => true,
        DataType::FixedSizeBinary(size) | DataType::FixedSizeList(_, size) => *size == 0,
        DataType::Struct(fields) => fields.is_empty(),
        _ => false,
    };
    if is_weightless && range.end > MAX_WEIGHTLESS {
        return Err(format!("the array of type {data_type} has {} elements", range.end));
    }
    if *data_type == DataType::Null && array.n_buffers.get() == 1 {
        // Polars declares a bitmap for arrays of nulls. This violates the specification, and
        // arrow-rs refuses such arrays. So the bitmap is removed from the struct. The interface
        // allows a consumer to write to the struct: for example, a consumer may move children out
        // of it.
        array.n_buffers.set(0);
    }
    // SAFETY: the struct has as many buffers and children as it declares.
    let (buffers, children) = unsafe {
        (
            many(array.buffers, array.n_buffers.get(), MAX_BUFFERS, "buffers")?,
            many(array.children, array.n_children, MAX_NODES, "children")?,
        )
    };
    let fields = fields_of(data_type);
    if children.len() != fields.len() {
        return Err(format!("an array of type {data_type} has {} children", children.len()));
    }
    let mut read = Vec::with_capacity(children.len());
    for (&child, field) in children.iter().zip(fields) {
        // SAFETY: the pointer is null or points to an array of the field's type.
        let checked = unsafe {
            at(child, "ArrowArray").and_then(|child| {
                check_array(child, field.data_type())?;
                Ok(child)
            })
        };
        read.push(checked.map_err(|why| format!("in {:?}: {why}", field.name()))?);
    }
    let stored = match data_type {
        DataType::Dictionary(keys, values) => {
            // SAFETY: the pointer is null or points to an array of the dictionary's type.
            unsafe { check_array(at(array.dictionary, "dictionary")?, values) }?;
            keys
        }
        _ if array.dictionary.is_null() => data_type,
        _ => return Err(format!("an array of type {data_type} has a dictionary")),
    };
    // SAFETY: the buffers have the sizes that the array's type, offset and length need, by the
    // `# Safety` section. The children were checked above.
    unsafe { Content { range, null_count: array.null_count, buffers }.check(stored, &read) }
}

/// An array's buffers, and the range of elements that it uses.
struct Content<'a> {
    range: Range<usize>,
    null_count: i64,
    buffers: &'a [*const c_void],
}

impl Content<'_> {
    /// # Safety
    /// The buffers are as [`check_array`] demands. The children were checked.
    unsafe fn check(&self, data_type: &DataType, children: &[&CArray]) -> Result<(), Refused> {
        use DataType::*;
        let count = self.buffers.len();
        let is_right = match data_type {
            Null | RunEndEncoded(..) => count == 0,
            Struct(_) | FixedSizeList(..) => count == 1,
            Utf8 | Binary | LargeUtf8 | LargeBinary | ListView(_) | LargeListView(_) => count == 3,
            // There may be any number of text buffers. They are between the buffer of views and the
            // buffer of sizes.
            Utf8View | BinaryView => count >= 3,
            _ => count == 2,
        };
        if !is_right {
            return Err(format!("an array of type {data_type} has {count} buffers"));
        }
        let lengths: Vec<usize> = children.iter().map(|child| child.length as usize).collect();
        // SAFETY: the buffers have the sizes that the type needs, by the `# Safety` section. There
        // are enough buffers, as checked above, and as many children as the type has fields.
        unsafe {
            match data_type {
                Null => Ok(()),
                Struct(_) => {
                    lengths.iter().try_for_each(|&length| self.within(self.range.end, length))
                }
                FixedSizeList(_, size) => self.within(self.scaled(*size as usize)?, lengths[0]),
                Boolean => self.need(1, self.range.end.div_ceil(8)),
                FixedSizeBinary(size) => self.need(1, self.scaled(*size as usize)?),
                Utf8 | Binary => self.need(2, self.last_offset::<i32>(true)?),
                LargeUtf8 | LargeBinary => self.need(2, self.last_offset::<i64>(true)?),
                List(_) | Map(..) => self.within(self.last_offset::<i32>(false)?, lengths[0]),
                LargeList(_) => self.within(self.last_offset::<i64>(false)?, lengths[0]),
                ListView(_) => self.check_list_views::<i32>(lengths[0]),
                LargeListView(_) => self.check_list_views::<i64>(lengths[0]),
                Utf8View | BinaryView => self.check_views(),
                RunEndEncoded(ends, _) if lengths[0] == lengths[1] => match ends.data_type() {
                    Int16 => self.check_run_ends::<i16>(children[0]),
                    Int32 => self.check_run_ends::<i32>(children[0]),
                    _ => self.check_run_ends::<i64>(children[0]),
                },
                RunEndEncoded(..) => Err("run ends and values differ in length".into()),
                other => match other.primitive_width() {
                    Some(width) => self.need(1, self.scaled(width)?),
                    None => Err(format!("arrays of type {other} are not read")),
                },
            }?;
            // This check comes last, because it reads the whole validity bitmap, whose length the
            // earlier checks have limited.
            if count > 0 { self.check_validity() } else { Ok(()) }
        }
    }

    /// Converts the end of the range to bytes of a buffer, or to elements of the child. An element
    /// of the array takes `size` bytes, or `size` elements of the child.
    fn scaled(&self, size: usize) -> Result<usize, Refused> {
        let scaled = self.range.end.checked_mul(size).filter(|&scaled| scaled <= MAX_BYTES);
        scaled.ok_or_else(|| format!("{} elements of the size {size} are too many", self.range.end))
    }

    fn need(&self, buffer: usize, bytes: usize) -> Result<(), Refused> {
        match (bytes, is_null(self.buffers[buffer])) {
            (0, _) | (1..=MAX_BYTES, false) => Ok(()),
            (1..=MAX_BYTES, true) => Err(format!("buffer {buffer} is null, with {bytes} bytes")),
            _ => Err(format!("buffer {buffer} has {bytes} bytes")),
        }
    }

    fn within(&self, needed: usize, length: usize) -> Result<(), Refused> {
        if needed > length {
            return Err(format!("a child has {length} elements, its parent needs {needed}"));
        }
        Ok(())
    }

    /// # Safety
    /// The first buffer is null or a bitmap of `range.end` bits.
    unsafe fn check_validity(&self) -> Result<(), Refused> {
        let bits = self.buffers[0].cast::<u8>();
        if bits.is_null() {
            return match self.null_count {
                ..=0 => Ok(()),
                count => Err(format!("null_count is {count}, and there is no validity bitmap")),
            };
        }
        let Range { start, end } = self.range;
        self.need(0, end.div_ceil(8))?;
        if start == end || self.null_count < 0 {
            return Ok(());
        }
        // If the null count is zero, arrow-rs does not read the bitmap. So the nulls are counted.
        // SAFETY: the bitmap reaches to bit `end`, and it is not null.
        let bytes =
            unsafe { slice::from_raw_parts(bits.add(start / 8), end.div_ceil(8) - start / 8) };
        let ones: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let before = bytes[0] & !(0xff << (start % 8));
        let after = if end % 8 == 0 { 0 } else { bytes[bytes.len() - 1] & (0xff << (end % 8)) };
        let ones = ones - u64::from(before.count_ones() + after.count_ones());
        let nulls = (end - start) as u64 - ones;
        if nulls != self.null_count.unsigned_abs() {
            return Err(format!("null_count is {}, but {nulls} are null", self.null_count));
        }
        Ok(())
    }

    /// Returns the number at `index` of a buffer, which may be unaligned.
    ///
    /// # Safety
    /// The buffer has more than `index` elements of type `T`.
    unsafe fn number<T: Into<i64>>(&self, buffer: usize, index: usize) -> i64 {
        // SAFETY: the buffer has this element, by the `# Safety` section. The read needs no
        // alignment.
        unsafe { self.buffers[buffer].cast::<T>().add(index).read_unaligned() }.into()
    }

    /// Returns the last offset of the array. Returns an error if an offset is less than the offset
    /// before it. If `is_read` is true, the offsets must be aligned, because arrow-rs reads the
    /// last offset in place.
    ///
    /// # Safety
    /// Buffer 1 is null or has `range.end + 1` offsets.
    unsafe fn last_offset<T: Into<i64>>(&self, is_read: bool) -> Result<usize, Refused> {
        self.need(1, (self.range.end + 1) * size_of::<T>())?;
        if is_read && !self.buffers[1].cast::<T>().is_aligned() {
            return Err("the offsets are not aligned".into());
        }
        let mut last = 0;
        for index in self.range.start..=self.range.end {
            // SAFETY: the buffer is not null and has `range.end + 1` offsets.
            let offset = unsafe { self.number::<T>(1, index) };
            if offset < last {
                return Err(format!("offset {offset} comes after {last}"));
            }
            last = offset;
        }
        Ok(last as usize)
    }

    /// # Safety
    /// Buffers 1 and 2 are null or have `range.end` numbers.
    unsafe fn check_list_views<T: Into<i64>>(&self, length: usize) -> Result<(), Refused> {
        let bytes = self.scaled(size_of::<T>())?;
        self.need(1, bytes)?;
        self.need(2, bytes)?;
        for index in self.range.clone() {
            // SAFETY: both buffers are not null and have `range.end` numbers.
            let (offset, size) =
                unsafe { (self.number::<T>(1, index), self.number::<T>(2, index)) };
            let end = offset.checked_add(size).and_then(|end| usize::try_from(end).ok());
            if offset < 0 || size < 0 || end.is_none_or(|end| end > length) {
                return Err(format!("a list of {size} at {offset}, of {length} elements"));
            }
        }
        Ok(())
    }

    /// # Safety
    /// Buffer 1 is null or has `range.end` views. The last buffer is null, or has a size for each
    /// buffer between it and buffer 1.
    unsafe fn check_views(&self) -> Result<(), Refused> {
        self.need(1, self.scaled(16)?)?;
        let last = self.buffers.len() - 1;
        if last > 2 {
            check_address(self.buffers[last].cast::<i64>(), "sizes")?;
        }
        for buffer in 2..last {
            // SAFETY: the sizes are not null, and there are `last - 2` of them.
            let size = unsafe { self.number::<i64>(last, buffer - 2) };
            let size = usize::try_from(size).map_err(|_| format!("a buffer has {size} bytes"))?;
            self.need(buffer, size)?;
        }
        Ok(())
    }

    /// # Safety
    /// `ends` was checked as an array of `T`. `self` is the parent of `ends` and has no buffers.
    unsafe fn check_run_ends<T: Into<i64>>(&self, ends: &CArray) -> Result<(), Refused> {
        let range = range_of(ends)?;
        // SAFETY: `ends` was checked, by the `# Safety` section, so it has two buffers.
        let buffers = unsafe { many(ends.buffers, ends.n_buffers.get(), MAX_BUFFERS, "buffers") }?;
        let ends = Content { range, null_count: 0, buffers };
        let mut last = 0;
        for index in ends.range.clone() {
            // SAFETY: `ends` was checked, so the buffer is not null and has `range.end` numbers.
            let end = unsafe { ends.number::<T>(1, index) };
            if end <= last {
                return Err(format!("run end {end} comes after {last}"));
            }
            last = end;
        }
        if !self.range.is_empty() && (last as usize) < self.range.end {
            return Err(format!("the runs end at {last}, the array at {}", self.range.end));
        }
        Ok(())
    }
}
