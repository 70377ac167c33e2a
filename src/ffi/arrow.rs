//! Imports Arrow arrays through the C data interface. Their producers may be faulty or hostile.
//!
//! arrow-rs does not check the structs of the interface. It panics if a child is missing, and it
//! reads out of bounds if a length is wrong. So `arrow_check` checks each struct before arrow-rs
//! reads it, and arrow-rs validates the array afterwards.
//!
//! The interface does not pass the sizes of memory blocks. So three errors of a producer cannot be
//! found: a buffer, a text or an array of pointers may be shorter than its struct declares; a
//! pointer may point to freed memory; and the producer may change memory later.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{mem, ptr, slice};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, make_array, new_empty_array};
use arrow_schema::{ArrowError, DataType, Field};

use super::arrow_check::{
    CArray, MAX_NODES, at, check_address, check_array, check_type, is_null, many, range_of,
    released,
};

/// The reason why Arrow data was refused, as text.
pub type Refused = String;

const MAX_DEPTH: usize = 64;
/// The maximum length of a format, of a name, or of the text of an error.
const MAX_TEXT: usize = 4096;
/// The maximum total length of all formats, names and metadata of a schema. Without a limit, a
/// small schema could take any amount of memory, because many children may point to the same text.
const MAX_TEXTS: usize = 16 << 20;

#[repr(C)]
struct CSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *const *const CSchema,
    dictionary: *const CSchema,
    /// A function pointer. This module only compares it with null.
    release: *const c_void,
    private_data: *const c_void,
}

const _: () = {
    assert!(size_of::<CSchema>() == size_of::<FFI_ArrowSchema>());
    assert!(align_of::<CSchema>() == align_of::<FFI_ArrowSchema>());
};

/// Takes an array of any type and its schema out of `*array` and `*schema`, and marks both structs
/// as released. Then checks and imports the array. The producer's array and schema are released
/// exactly once, even if they are refused.
///
/// # Safety
/// Each pointer is null, or points to a struct of the C data interface that no other code uses
/// during the call. The memory that the structs point to is as large as they declare.
pub unsafe fn import_array(
    schema: *mut c_void,
    array: *mut c_void,
) -> Result<(Field, ArrayRef), Refused> {
    // SAFETY: each pointer is null or points to a struct of its type, by the `# Safety` section.
    // Both structs are taken before an error of either is returned.
    let (schema, array) = unsafe {
        (
            take(schema, FFI_ArrowSchema::empty(), "ArrowSchema"),
            take(array, FFI_ArrowArray::empty(), "ArrowArray"),
        )
    };
    let (schema, array) = (schema?, array?);
    // SAFETY: both are structs of the producer. The memory that they point to stays valid until
    // they are dropped.
    unsafe {
        let field = read_schema(&schema).map_err(shortened)?;
        let array = read_array(array, field.data_type()).map_err(shortened)?;
        Ok((field, array))
    }
}

/// A stream of arrays. Dropping it releases the producer's stream.
pub struct Stream {
    stream: FFI_ArrowArrayStream,
    field: Field,
    /// Set after the end of the stream or an error. All later calls of `next` return this result.
    /// `Ok` means the end.
    over: Option<Result<(), Refused>>,
}

impl Stream {
    /// Takes the stream out of `*stream`, marks the struct as released, and reads the stream's
    /// schema.
    ///
    /// # Safety
    /// The pointer is null or points to an `ArrowArrayStream` that no other code uses during the
    /// call. Its callbacks follow the C stream interface, and can be called on any thread, one at a
    /// time.
    pub unsafe fn open(stream: *mut c_void) -> Result<Stream, Refused> {
        // SAFETY: the pointer is null or points to an `ArrowArrayStream`, by the `# Safety`
        // section.
        let mut stream =
            unsafe { take(stream, FFI_ArrowArrayStream::empty(), "ArrowArrayStream") }?;
        if stream.release().is_none() {
            return Err(released("ArrowArrayStream"));
        }
        let Some(get_schema) = stream.get_schema() else {
            return Err("get_schema of the ArrowArrayStream is null".into());
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the function is called with the stream that it was read from, which is not
        // released, and with a struct to write to.
        let code = unsafe { get_schema(&mut stream, &mut schema) };
        if code != 0 {
            // After a failure, the contents of the struct are undefined. So they must not be
            // released.
            mem::forget(schema);
            return Err(last_error(&mut stream, code));
        }
        // SAFETY: the producer has written a schema, or left the empty one.
        let field = unsafe { read_schema(&schema) }.map_err(shortened)?;
        Ok(Stream { stream, field, over: None })
    }

    /// Returns the stream's schema.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// Returns the next array, or `None` at the end. After the end, all later calls return `None`.
    /// After an error, all later calls return the same error. In both cases, the producer is not
    /// called any more.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would swap the option and the result"
    )]
    pub fn next(&mut self) -> Result<Option<ArrayRef>, Refused> {
        if let Some(over) = &self.over {
            return over.clone().map(|()| None);
        }
        let array = self.advance();
        self.over = match &array {
            Ok(Some(_)) => None,
            Ok(None) => Some(Ok(())),
            Err(why) => Some(Err(why.clone())),
        };
        if self.over.is_some() {
            // The producer's stream is released now and not when this object is dropped, because
            // this object may live much longer.
            self.stream = FFI_ArrowArrayStream::empty();
        }
        array
    }

    fn advance(&mut self) -> Result<Option<ArrayRef>, Refused> {
        let Some(get_next) = self.stream.get_next() else {
            return Err("get_next of the ArrowArrayStream is null".into());
        };
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the function is called with the stream that it was read from, and with a struct
        // to write to. The stream is not released: `over` is None.
        let code = unsafe { get_next(&mut self.stream, &mut array) };
        if code != 0 {
            mem::forget(array);
            return Err(last_error(&mut self.stream, code));
        }
        if array.is_released() {
            return Ok(None);
        }
        // SAFETY: the producer has written an array of the stream's schema.
        unsafe { read_array(array, self.field.data_type()) }.map(Some).map_err(shortened)
    }
}

fn last_error(stream: &mut FFI_ArrowArrayStream, code: c_int) -> Refused {
    let text = match stream.get_last_error() {
        // SAFETY: the function is called with the stream that it was read from.
        Some(get_last_error) => unsafe { get_last_error(stream) }.cast::<u8>(),
        None => ptr::null(),
    };
    if is_null(text) {
        return format!("the producer of the stream failed (errno {code})");
    }
    // SAFETY: `text` is a C string of the producer. It is valid until the stream is called again.
    let bytes = unsafe { slice::from_raw_parts(text, length_of(text, MAX_TEXT)) };
    format!("the producer of the stream failed: {} (errno {code})", String::from_utf8_lossy(bytes))
}

/// # Safety
/// The pointer is null or points to a valid `T` that no other code uses during the call.
unsafe fn take<T>(from: *mut c_void, empty: T, name: &str) -> Result<T, Refused> {
    let from = from.cast::<T>();
    check_address(from, name)?;
    // SAFETY: `from` is not null and aligned, as checked above, and points to a valid `T`, by the
    // `# Safety` section.
    Ok(unsafe { ptr::replace(from, empty) })
}

/// Returns the number of bytes before the first NUL, or `max` if the first `max` bytes have no NUL.
///
/// # Safety
/// `text` points to a C string, or to `max` bytes.
unsafe fn length_of(text: *const u8, max: usize) -> usize {
    // SAFETY: bytes up to the first NUL, or `max`, are readable, as the caller guarantees.
    (0..max).find(|&at| unsafe { *text.add(at) } == 0).unwrap_or(max)
}

/// Shortens the reason for a refusal, because the text may contain a type with thousands of fields.
fn shortened(why: Refused) -> Refused {
    match why.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", &why[..end]),
        None => why,
    }
}

fn guarded<T>(run: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, Refused> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("arrow-rs panicked".into()),
    }
}

/// # Safety
/// The pointers in the schema are null or point to the structures of the C data interface.
unsafe fn read_schema(schema: &FFI_ArrowSchema) -> Result<Field, Refused> {
    // SAFETY: both types are the ArrowSchema of the C data interface.
    unsafe { Budget::new().check_schema(ptr::from_ref(schema).cast(), 1) }?;
    let field = guarded(|| Field::try_from(schema))?;
    check_type(field.data_type())?;
    Ok(field)
}

/// The number of nodes and bytes that the unread rest of a schema may still use.
struct Budget {
    nodes: usize,
    bytes: usize,
}

impl Budget {
    fn new() -> Budget {
        Budget { nodes: MAX_NODES, bytes: MAX_TEXTS }
    }

    /// # Safety
    /// `node` is null or points to an ArrowSchema, whose pointers are as [`read_schema`] demands.
    unsafe fn check_schema(&mut self, node: *const CSchema, depth: usize) -> Result<(), Refused> {
        if depth > MAX_DEPTH {
            return Err(format!("the schema is nested deeper than {MAX_DEPTH}"));
        }
        self.nodes = self.nodes.checked_sub(1).ok_or("the schema has too many fields")?;
        // SAFETY: `node` is null or points to an ArrowSchema, by the `# Safety` section.
        let node = unsafe { at(node, "ArrowSchema") }?;
        if node.release.is_null() {
            return Err(released("ArrowSchema"));
        }
        // SAFETY: the texts, the metadata and the children are as the C data interface defines
        // them, by the `# Safety` section.
        unsafe {
            let format = self.text(node.format, "format")?;
            if !node.name.is_null() {
                self.text(node.name, "name")?;
            }
            if !node.metadata.is_null() {
                self.metadata(node.metadata.cast())?;
            }
            let children = many(node.children, node.n_children, self.nodes, "children")?;
            // arrow-rs panics if a child is missing.
            let expected = match format {
                "+s" => children.len(),
                "+l" | "+L" | "+vl" | "+vL" | "+m" => 1,
                "+r" => 2,
                _ if format.starts_with("+w:") => 1,
                _ if format.starts_with("+u") => return Err("unions are not read".into()),
                _ => 0,
            };
            if children.len() != expected {
                let count = children.len();
                return Err(format!("a schema of format {format:?} has {count} children"));
            }
            for &child in children {
                self.check_schema(child, depth + 1)?;
            }
            if !node.dictionary.is_null() {
                self.check_schema(node.dictionary, depth + 1)?;
            }
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Refused> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or("the schema has too much text")?;
        Ok(())
    }

    /// # Safety
    /// The pointer is null or points to a C string that lives for `'a`.
    unsafe fn text<'a>(&mut self, text: *const c_char, part: &str) -> Result<&'a str, Refused> {
        let text = text.cast::<u8>();
        check_address(text, part)?;
        // SAFETY: `text` is not null, as checked above, and a C string, by the `# Safety` section.
        let bytes = unsafe { slice::from_raw_parts(text, length_of(text, MAX_TEXT)) };
        if bytes.len() == MAX_TEXT {
            return Err(format!("a {part} is longer than {} bytes", MAX_TEXT - 1));
        }
        self.spend(bytes.len())?;
        str::from_utf8(bytes).map_err(|_| format!("a {part} is not UTF-8"))
    }

    /// # Safety
    /// The pointer is null or points to metadata as the C data interface encodes it.
    unsafe fn metadata(&mut self, metadata: *const u8) -> Result<(), Refused> {
        check_address(metadata, "metadata")?;
        let mut read = 0;
        let mut number = |skipped: usize| {
            self.spend(skipped + 4)?;
            read += skipped + 4;
            // SAFETY: the metadata has a number at this position, because its earlier numbers
            // declare this.
            let number = unsafe { metadata.add(read - 4).cast::<i32>().read_unaligned() };
            usize::try_from(number).map_err(|_| format!("{number} is a length in the metadata"))
        };
        // Keys and values alternate, and a number with its length precedes each of them. No number
        // follows the last value.
        let (entries, mut length) = (number(0)?, 0);
        for _ in 0..entries * 2 {
            length = number(length)?;
        }
        self.spend(length)
    }
}

/// # Safety
/// The pointers in the array are null or point to the structures of the C data interface for the
/// type. Their sizes are as the numbers in the array declare.
unsafe fn read_array(mut array: FFI_ArrowArray, data_type: &DataType) -> Result<ArrayRef, Refused> {
    let root = ptr::from_mut(&mut array).cast::<CArray>();
    // SAFETY: both types are the ArrowArray of the C data interface.
    let root = unsafe { at(root, "ArrowArray") }?;
    if root.release.is_null() {
        return Err(released("ArrowArray"));
    }
    if range_of(root)?.is_empty() {
        // An empty array is not read. Its buffer of offsets may be null or contain any numbers, and
        // arrow-rs would fail on such a buffer.
        return guarded(|| Ok(new_empty_array(data_type)));
    }
    // SAFETY: `check_array` demands what the `# Safety` section of this function demands. The
    // struct is a local variable, so it can be written to.
    unsafe { check_array(root, data_type) }?;
    guarded(|| {
        // SAFETY: `check_array` has checked everything about the array on which arrow-rs relies.
        let data = unsafe { from_ffi_and_data_type(array, data_type.clone()) }?;
        data.validate_full()?;
        Ok(make_array(data))
    })
}
