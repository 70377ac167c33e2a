//! Columns whose cells have elements or fields: collections, tuples, user-defined types and
//! vectors.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, ListArray, MapArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Fields};
use turbocql_codec::types::{list, map, tuple, vector};
use turbocql_codec::{CodecError, CqlType, Malformed, Segment};

use crate::column::cells::Nulls;
use crate::column::{Filling, Outcome, refused};
use crate::schema::Profile;

/// Converts a number of elements to an Arrow offset. Fails if the number does not fit 31 bits.
fn offset(count: usize, cql_type: &CqlType) -> Outcome<i32> {
    let too_many = Malformed::Invalid("more than 2,147,483,647 elements in one batch");
    i32::try_from(count).map_err(|_| refused(cql_type, too_many))
}

/// A column of lists or sets.
pub struct Lists {
    element: Filling,
    offsets: Vec<i32>,
    count: usize,
    nulls: Nulls,
}

impl Lists {
    pub fn new(element: &CqlType, profile: Profile) -> Lists {
        let element = Filling::new(element, profile);
        Lists { element, offsets: vec![0], count: 0, nulls: Nulls::new() }
    }

    pub fn push(&mut self, cell: Option<&[u8]>, cql_type: &CqlType) -> Outcome<()> {
        let cell = cell.filter(|bytes| !bytes.is_empty());
        if let Some(bytes) = cell {
            let malformed = |error| refused(cql_type, error);
            let mut elements = list::decode(bytes).map_err(malformed)?;
            for number in 0..elements.count() {
                let element = elements.next_value().map_err(malformed)?;
                self.element.push(element).map_err(|error| error.at(Segment::Index(number)))?;
            }
            self.count += elements.count();
            elements.finish().map_err(malformed)?;
        }
        self.offsets.push(offset(self.count, cql_type)?);
        self.nulls.push(cell.is_some());
        Ok(())
    }

    pub fn finish(&mut self, data_type: &DataType) -> Outcome<ArrayRef> {
        let DataType::List(field) = data_type else { return Err(unfit(data_type)) };
        let offsets =
            OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(&mut self.offsets, vec![0])));
        self.count = 0;
        let elements = self.element.finish()?;
        Ok(Arc::new(ListArray::new(field.clone(), offsets, elements, self.nulls.finish())))
    }
}

pub struct Maps {
    key: Filling,
    value: Filling,
    offsets: Vec<i32>,
    count: usize,
    nulls: Nulls,
}

impl Maps {
    pub fn new(key: &CqlType, value: &CqlType, profile: Profile) -> Maps {
        let (key, value) = (Filling::new(key, profile), Filling::new(value, profile));
        Maps { key, value, offsets: vec![0], count: 0, nulls: Nulls::new() }
    }

    pub fn push(&mut self, cell: Option<&[u8]>, cql_type: &CqlType) -> Outcome<()> {
        let cell = cell.filter(|bytes| !bytes.is_empty());
        if let Some(bytes) = cell {
            let malformed = |error| refused(cql_type, error);
            let mut parts = map::decode(bytes).map_err(malformed)?;
            for number in 0..parts.count() {
                let key = parts.next_value().map_err(malformed)?;
                let at = |error: Box<CodecError>| error.at(Segment::MapKey(number));
                // Arrow's maps have no null keys, and the server stores none.
                let null = || at(refused(cql_type, Malformed::Invalid("the key is null")));
                self.key.push(Some(key.ok_or_else(null)?)).map_err(at)?;
                let value = parts.next_value().map_err(malformed)?;
                self.value.push(value).map_err(at)?;
            }
            self.count += parts.count();
            parts.finish().map_err(malformed)?;
        }
        self.offsets.push(offset(self.count, cql_type)?);
        self.nulls.push(cell.is_some());
        Ok(())
    }

    pub fn finish(&mut self, data_type: &DataType) -> Outcome<ArrayRef> {
        let DataType::Map(entries, ordered) = data_type else { return Err(unfit(data_type)) };
        let DataType::Struct(fields) = entries.data_type() else { return Err(unfit(data_type)) };
        let offsets =
            OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(&mut self.offsets, vec![0])));
        self.count = 0;
        let keys = self.key.finish()?;
        if keys.null_count() > 0 {
            let null = Malformed::Invalid("a key has no bytes");
            return Err(refused(&self.key.cql_type, null));
        }
        let parts = StructArray::new(fields.clone(), vec![keys, self.value.finish()?], None);
        let nulls = self.nulls.finish();
        Ok(Arc::new(MapArray::new(entries.clone(), offsets, parts, nulls, *ordered)))
    }
}

/// A column of tuples or of values of a user-defined type.
pub struct Structs {
    parts: Vec<Filling>,
    nulls: Nulls,
    count: usize,
}

impl Structs {
    pub fn new<'a>(parts: impl Iterator<Item = &'a CqlType>, profile: Profile) -> Structs {
        let parts = parts.map(|part| Filling::new(part, profile)).collect();
        Structs { parts, nulls: Nulls::new(), count: 0 }
    }

    pub fn push(&mut self, cell: Option<&[u8]>, cql_type: &CqlType) -> Outcome<()> {
        let malformed = |error| refused(cql_type, error);
        let udt = if let CqlType::Udt(udt) = cql_type { Some(udt) } else { None };
        let mut components = cell.map(tuple::decode);
        for (number, part) in self.parts.iter_mut().enumerate() {
            let value = match &mut components {
                Some(components) => components.next_value().map_err(malformed)?,
                None => None,
            };
            part.push(value).map_err(|error| {
                error.at(match udt {
                    Some(udt) => Segment::Field(udt.fields[number].0.clone()),
                    None => Segment::Index(number),
                })
            })?;
        }
        // A value of a user-defined type has additional fields if fields were added to the type
        // after the statement was prepared. Such additional fields are ignored.
        if let Some(components) = components
            && udt.is_none()
        {
            components.finish().map_err(malformed)?;
        }
        self.nulls.push(cell.is_some());
        self.count += 1;
        Ok(())
    }

    pub fn finish(&mut self, data_type: &DataType) -> Outcome<ArrayRef> {
        let DataType::Struct(fields) = data_type else { return Err(unfit(data_type)) };
        let count = std::mem::take(&mut self.count);
        let nulls = self.nulls.finish();
        if self.parts.is_empty() {
            return Ok(Arc::new(StructArray::new_empty_fields(count, nulls)));
        }
        let parts = self.parts.iter_mut().map(Filling::finish).collect::<Outcome<Vec<_>>>()?;
        Ok(Arc::new(StructArray::new(Fields::clone(fields), parts, nulls)))
    }
}

/// A null vector of more elements than this is an error. Servers allow at most 16,000 elements.
const LARGEST_NULL: usize = 65_536;

pub struct Vectors {
    element: Filling,
    dimension: usize,
    /// The size in bytes of an element, if elements are written without lengths.
    width: Option<usize>,
    nulls: Nulls,
    count: usize,
}

impl Vectors {
    pub fn new(element: &CqlType, dimension: u32, profile: Profile) -> Vectors {
        Vectors {
            width: vector::element_width(element),
            element: Filling::new(element, profile),
            dimension: dimension as usize,
            nulls: Nulls::new(),
            count: 0,
        }
    }

    /// Reserves memory for `cells` vectors, which take at most `bytes` bytes.
    pub fn reserve(&mut self, cells: usize, bytes: usize) {
        if let Some(width) = self.width {
            let fitting = bytes / width.max(1);
            self.element.reserve(cells.saturating_mul(self.dimension).min(fitting), bytes);
        }
    }

    pub fn push(&mut self, cell: Option<&[u8]>, cql_type: &CqlType) -> Outcome<()> {
        let malformed = |error| refused(cql_type, error);
        let cell = cell.filter(|bytes| self.dimension == 0 || !bytes.is_empty());
        match cell {
            Some(bytes) => {
                let mut elements =
                    vector::decode(bytes, self.dimension, self.width).map_err(malformed)?;
                if self.width.is_none() || !self.element.extend_bare(bytes) {
                    for number in 0..self.dimension {
                        let element = elements.next_value().map_err(malformed)?;
                        let at = |error: Box<CodecError>| error.at(Segment::Index(number));
                        self.element.push(Some(element)).map_err(at)?;
                    }
                    elements.finish().map_err(malformed)?;
                }
            }
            // Arrow stores elements even for a null vector. Without this limit, a server could make
            // the client allocate much memory just by a large dimension.
            None if self.dimension > LARGEST_NULL => {
                let large = "a null among vectors of more than 65,536 elements";
                return Err(malformed(Malformed::Invalid(large)));
            }
            None => {
                for _ in 0..self.dimension {
                    self.element.push(None)?;
                }
            }
        }
        self.nulls.push(cell.is_some());
        self.count += 1;
        Ok(())
    }

    pub fn finish(&mut self, data_type: &DataType) -> Outcome<ArrayRef> {
        let DataType::FixedSizeList(field, size) = data_type else { return Err(unfit(data_type)) };
        let elements = self.element.finish()?;
        let count = std::mem::take(&mut self.count);
        let nulls = self.nulls.finish();
        let array =
            FixedSizeListArray::try_new_with_length(field.clone(), *size, elements, nulls, count);
        array.map(|array| Arc::new(array) as ArrayRef).map_err(|error| {
            CodecError::new(data_type, format!("the vectors do not fit an Arrow array: {error}"))
        })
    }
}

fn unfit(data_type: &DataType) -> Box<CodecError> {
    CodecError::new(data_type, "no column is made so")
}
