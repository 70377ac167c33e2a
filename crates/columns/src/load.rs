//! Encodes record batches as the rows of a statement.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::FieldRef;
use turbocql_codec::types::vector;
use turbocql_codec::{CodecError, Column, RowBuffer, Segment, nulls as within};

use crate::column::Outcome;
use crate::fit::{self, Purpose};
use crate::source::{Dropped, Encoded, Kind, Source};

/// What is bound to a column if a value of the batch is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// A null, which deletes the stored value.
    Null,
    /// An unset value, which leaves the stored value as it is.
    Unset,
    /// Nothing: the row is refused.
    Refused,
}

/// A bind marker of the statement, and where its values come from.
#[derive(Clone, Debug)]
pub struct Marker {
    pub column: Column,
    /// The name of the batch's field that has the values to bind.
    pub field: String,
    pub purpose: Purpose,
    pub nulls: Nulls,
    /// If this is `Some`, a null inside a collection is refused where servers would refuse it. The
    /// `bool` says whether elements of a list column may be null ([`within::can_have`]).
    pub within: Option<bool>,
    /// For a column of vectors that has an index: the index's name, and whether it uses cosine
    /// similarity.
    pub index: Option<(String, bool)>,
}

impl Marker {
    /// Returns an error if servers would refuse the value with these bytes.
    fn refused(&self, bytes: &[u8]) -> Option<Box<CodecError>> {
        let cql_type = &self.column.cql_type;
        if let Some((index, is_cosine)) = &self.index {
            let got = vector::refused_by_index(bytes, *is_cosine)?;
            let reason = format!("expected a vector that the index \"{index}\" takes, got {got}");
            return Some(CodecError::new(cql_type, reason));
        }
        self.within.and_then(|takes_nulls| within::first(cql_type, bytes, takes_nulls))
    }
}

/// The values of a bind marker, one for each row of a batch.
#[derive(Clone, Debug)]
pub enum Values {
    Arrow(FieldRef, ArrayRef),
    /// Values that are encoded already, as cells of the marker's type.
    Encoded(Arc<Encoded>),
}

/// The bind markers of the statement with which batches are loaded.
pub struct Target {
    markers: Vec<Marker>,
    dropped: Dropped,
}

/// A batch whose values have been matched with the bind markers, so that its rows can be encoded.
pub struct Bound {
    markers: Arc<Target>,
    sources: Vec<Source>,
}

impl Target {
    pub fn new(mut markers: Vec<Marker>, dropped: Dropped) -> Arc<Target> {
        for marker in &mut markers {
            let cql_type = &marker.column.cql_type;
            marker.within = marker.within.filter(|&takes| within::can_have(cql_type, takes));
        }
        Arc::new(Target { markers, dropped })
    }

    pub fn markers(&self) -> &[Marker] {
        &self.markers
    }

    /// Binds a batch: `values` has the values of each marker, in the order of the markers.
    ///
    /// # Errors
    /// If the Arrow type of a marker's values cannot be written to the marker's CQL type. The error
    /// names the column and both types.
    pub fn bind(self: &Arc<Self>, values: Vec<Values>) -> Outcome<Bound> {
        let mut sources = Vec::with_capacity(values.len());
        for (marker, values) in self.markers.iter().zip(values) {
            let cql_type = &marker.column.cql_type;
            sources.push(match values {
                Values::Arrow(field, array) => {
                    fit::source(cql_type, marker.purpose, &field, &array, self.dropped)
                        .map_err(|error| error.at(Segment::Column(marker.column.name.clone())))?
                }
                Values::Encoded(cells) => Source {
                    cql_type: cql_type.thawed().clone(),
                    nulls: None,
                    kind: Kind::Encoded(cells),
                },
            });
        }
        Ok(Bound { markers: Arc::clone(self), sources })
    }
}

impl Bound {
    /// Looks for nulls in columns that refuse nulls, among the first `rows` rows of the batch.
    /// Returns the first row with such a null, and the error for that row.
    pub fn missing(&self, rows: usize) -> Option<(usize, Box<CodecError>)> {
        let markers = self.markers.markers.iter().zip(&self.sources);
        let nulls = markers.filter(|(marker, _)| marker.nulls == Nulls::Refused);
        let null_rows = nulls.filter_map(|(marker, source)| {
            source.first_null(rows).map(|row| (row, missing(marker)))
        });
        null_rows.min_by_key(|(row, _)| *row)
    }

    /// Encodes a row of the batch, and appends it to `rows`. On failure, `rows` is unchanged.
    ///
    /// # Errors
    /// If a value does not fit its column, or servers would refuse it. The error names the column.
    pub fn encode(&self, row: usize, rows: &mut RowBuffer) -> Outcome<()> {
        for (marker, source) in self.markers.markers.iter().zip(&self.sources) {
            let encoded = if source.is_unset(row) && marker.nulls != Nulls::Refused {
                rows.push_unset();
                continue;
            } else if source.is_null(row) || source.is_unset(row) {
                match marker.nulls {
                    Nulls::Null => rows.push_null(),
                    Nulls::Unset => rows.push_unset(),
                    Nulls::Refused => {
                        rows.abandon_row();
                        return Err(missing(marker));
                    }
                }
                continue;
            } else {
                rows.push_with(|out| {
                    let start = out.len();
                    source.put_cell(row, out).map_err(|error| (error, false))?;
                    let null_error = marker.refused(&out[start + 4..]);
                    null_error.map_or(Ok(()), |error| Err((error, true)))
                })
            };
            if let Err((error, is_of_null)) = encoded {
                rows.abandon_row();
                // `Kind::Encoded` has cells that were encoded before the batch was bound. If a
                // cell's encoding failed at that time, the cell's error already names the column.
                let is_named = matches!(source.kind, Kind::Encoded(_)) && !is_of_null;
                let name = || Segment::Column(marker.column.name.clone());
                return Err(if is_named { error } else { error.at(name()) });
            }
        }
        rows.finish_row();
        Ok(())
    }
}

fn missing(marker: &Marker) -> Box<CodecError> {
    let reason = "a column of the primary key needs a value, got null";
    let error = CodecError::new(&marker.column.cql_type, reason);
    error.at(Segment::Column(marker.column.name.clone()))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::{Float16Type, TimestampMicrosecondType};
    use arrow_array::{
        Array, BinaryArray, DictionaryArray, FixedSizeListArray, Int32Array, Int64Array, ListArray,
        PrimitiveArray, RecordBatch, StringArray, StructArray,
    };
    use arrow_schema::{DataType, Field, Fields};
    use proptest::prelude::*;
    use turbocql_codec::{Cell, CqlType};

    use super::*;
    use crate::arbitrary::{cell, gathered, page, types};
    use crate::schema::Profile;

    fn target(types: &[CqlType], nulls: Nulls, dropped: Dropped) -> Arc<Target> {
        let markers = types.iter().enumerate().map(|(number, cql_type)| {
            let name = format!("c{number}");
            let (keyspace, table) = ("ks".into(), "t".into());
            let column = Column { keyspace, table, name: name.clone(), cql_type: cql_type.clone() };
            Marker {
                column,
                field: name,
                purpose: Purpose::Column,
                nulls,
                within: None,
                index: None,
            }
        });
        Target::new(markers.collect(), dropped)
    }

    fn written(cql_type: &CqlType, array: ArrayRef) -> Outcome<Vec<Option<Vec<u8>>>> {
        let field = Arc::new(Field::new("c0", array.data_type().clone(), true));
        put(&target(std::slice::from_ref(cql_type), Nulls::Null, Dropped::No), vec![(field, array)])
    }

    fn put(
        target: &Arc<Target>,
        arrays: Vec<(FieldRef, ArrayRef)>,
    ) -> Outcome<Vec<Option<Vec<u8>>>> {
        let count = arrays[0].1.len();
        let values = arrays.into_iter().map(|(field, array)| Values::Arrow(field, array));
        let bound = target.bind(values.collect())?;
        let mut rows = RowBuffer::new();
        for row in 0..count {
            bound.encode(row, &mut rows)?;
        }
        let cells = rows.rows().flat_map(|row| row.cells().collect::<Vec<_>>());
        Ok(cells
            .map(|cell| match cell {
                Cell::Value(bytes) => Some(bytes.to_vec()),
                Cell::Null | Cell::Unset => None,
            })
            .collect())
    }

    fn of_batch(batch: &RecordBatch, types: &[CqlType]) -> Outcome<Vec<Option<Vec<u8>>>> {
        let target = target(types, Nulls::Null, Dropped::No);
        let schema = batch.schema();
        let pairs = schema.fields().iter().zip(batch.columns());
        put(&target, pairs.map(|(field, array)| (field.clone(), array.clone())).collect())
    }

    /// Returns an Arrow type for the same values in another layout: large, view or dictionary.
    fn varied(data_type: &DataType, choice: u64) -> DataType {
        let inner = |field: &FieldRef| -> FieldRef {
            let inner_type = varied(field.data_type(), choice / 5);
            Arc::new(field.as_ref().clone().with_data_type(inner_type))
        };
        if *data_type == DataType::Utf8 {
            let key = Box::new(DataType::Int16);
            return match choice % 5 {
                0 => DataType::LargeUtf8,
                1 => DataType::Utf8View,
                2 => DataType::Dictionary(key, Box::new(DataType::Utf8)),
                3 => {
                    DataType::Dictionary(Box::new(DataType::UInt64), Box::new(DataType::LargeUtf8))
                }
                _ => DataType::Utf8,
            };
        }
        if *data_type == DataType::Binary {
            return match choice % 3 {
                0 => DataType::LargeBinary,
                1 => DataType::BinaryView,
                _ => DataType::Binary,
            };
        }
        if let DataType::List(field) = data_type {
            return match choice % 4 {
                0 => DataType::LargeList(inner(field)),
                1 => DataType::ListView(inner(field)),
                2 => DataType::LargeListView(inner(field)),
                _ => DataType::List(inner(field)),
            };
        }
        if let DataType::Struct(fields) = data_type {
            return DataType::Struct(fields.iter().map(inner).collect());
        }
        if let DataType::FixedSizeList(field, size) = data_type {
            return DataType::FixedSizeList(inner(field), *size);
        }
        data_type.clone()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn what_was_read_is_written_the_same(
            (cql_type, cells) in types()
                .prop_filter("a type of the server", |cql_type| cql_type.check().is_ok())
                .prop_flat_map(|cql_type| {
                    let cell = prop::option::weighted(0.9, cell(&cql_type));
                    (Just(cql_type), prop::collection::vec(cell, 1..8))
                }),
            choice: u64,
            (skipped, length) in (0..8usize, 0..8usize),
        ) {
            let rows: Vec<_> = cells.iter().map(|cell| vec![cell.clone()]).collect();
            let page = page(std::slice::from_ref(&cql_type), &rows);
            // Some pages cannot be gathered: for example, those with a map that has an empty key.
            let Ok(batch) = gathered(&page, Profile::LOSSLESS) else { return Ok(()) };
            let types = [cql_type];
            prop_assert_eq!(of_batch(&batch, &types).unwrap(), cells.clone());
            let first = skipped.min(cells.len());
            let count = length.min(cells.len() - first);
            let part = of_batch(&batch.slice(first, count), &types).unwrap();
            prop_assert_eq!(part, &cells[first..first + count]);
            let varied_type = varied(batch.column(0).data_type(), choice);
            let Ok(array) = arrow_cast::cast(batch.column(0), &varied_type) else { return Ok(()) };
            let field = batch.schema().field(0).clone().with_data_type(varied_type);
            let target = target(&types, Nulls::Null, Dropped::No);
            let part = vec![(Arc::new(field), array.slice(first, count))];
            prop_assert_eq!(put(&target, part).unwrap(), &cells[first..first + count]);
        }
    }

    fn refused(cql_type: &CqlType, array: ArrayRef) -> String {
        written(cql_type, array).unwrap_err().to_string()
    }

    #[test]
    fn only_what_loses_nothing_is_taken() {
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![1, i64::MAX]));
        let error = refused(&CqlType::Int, integers.clone());
        assert_eq!(
            error,
            "column \"c0\": expected int, got Arrow's int64; cast it to int32 first, if its values fit"
        );
        assert!(written(&CqlType::BigInt, integers.clone()).is_ok());
        assert!(written(&CqlType::VarInt, integers.clone()).is_ok());
        assert!(written(&CqlType::Decimal, integers.clone()).is_ok());
        assert!(written(&CqlType::Double, integers).is_err());
        let small: ArrayRef = Arc::new(Int32Array::from(vec![Some(-5), None]));
        let cells = written(&CqlType::BigInt, small.clone()).unwrap();
        assert_eq!(cells, [Some((-5i64).to_be_bytes().to_vec()), None]);
        let cells = written(&CqlType::Double, small.clone()).unwrap();
        assert_eq!(cells[0], Some((-5f64).to_be_bytes().to_vec()));
        assert!(written(&CqlType::Float, small).is_err());
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["1.50"]));
        assert_eq!(written(&CqlType::Decimal, texts.clone()).unwrap()[0].as_ref().unwrap()[3], 2);
        let error = refused(&CqlType::VarInt, texts);
        assert!(error.contains("a text that is no finite number"), "{error}");
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["\u{e9}"]));
        assert!(refused(&CqlType::Ascii, texts).contains("other characters"));
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![b"abc".as_slice()]));
        let error = refused(&CqlType::Uuid, bytes);
        assert!(error.contains("expected uuid of 16 bytes, got 3 bytes"), "{error}");
    }

    #[test]
    fn metadata_keeps_types_apart() {
        let put_text = |cql_type: &str, column: CqlType| {
            let array: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
            let metadata = [("cql_type".to_owned(), cql_type.to_owned())];
            let field = Field::new("c0", DataType::Utf8, true).with_metadata(metadata);
            put(&target(&[column], Nulls::Null, Dropped::No), vec![(Arc::new(field), array)])
        };
        assert!(put_text("decimal", CqlType::Decimal).is_ok());
        assert!(
            put_text("text", CqlType::Text).is_ok() && put_text("ascii", CqlType::Text).is_ok()
        );
        let error = put_text("decimal", CqlType::Text).unwrap_err().to_string();
        assert_eq!(error, "column \"c0\": expected text, got Arrow's string from decimal");
        assert!(put_text("text", CqlType::Decimal).is_err());
        assert!(put_text("decimal", CqlType::VarInt).is_err());
        assert!(put_text("nonsense(", CqlType::Text).is_err());
    }

    #[test]
    fn finer_times_are_dropped_on_request_only() {
        let array: ArrayRef =
            Arc::new(PrimitiveArray::<TimestampMicrosecondType>::from(vec![-1, 2000]));
        let error = refused(&CqlType::Timestamp, array.clone());
        assert!(error.contains("truncate_time"), "{error}");
        let field = Arc::new(Field::new("c0", array.data_type().clone(), true));
        let target = target(&[CqlType::Timestamp], Nulls::Null, Dropped::Yes);
        let cells = put(&target, vec![(field, array)]).unwrap();
        assert_eq!(cells[0], Some((-1i64).to_be_bytes().to_vec()));
        assert_eq!(cells[1], Some(2i64.to_be_bytes().to_vec()));
    }

    #[test]
    fn nulls_are_unset_or_refused() {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let field = Arc::new(Field::new("c0", DataType::Int32, true));
        let bound = |nulls| {
            let values = vec![Values::Arrow(field.clone(), array.clone())];
            target(&[CqlType::Int], nulls, Dropped::No).bind(values).unwrap()
        };
        let mut rows = RowBuffer::new();
        bound(Nulls::Unset).encode(1, &mut rows).unwrap();
        bound(Nulls::Null).encode(1, &mut rows).unwrap();
        let cells: Vec<_> = rows.rows().flat_map(|row| row.cells().collect::<Vec<_>>()).collect();
        assert_eq!(cells, [Cell::Unset, Cell::Null]);
        let key = bound(Nulls::Refused);
        assert_eq!(key.missing(2).unwrap().0, 1);
        assert!(key.encode(1, &mut rows).is_err());
        assert!(key.encode(0, &mut rows).is_ok());
        assert_eq!((rows.len(), key.missing(1).is_none()), (3, true));
    }

    #[test]
    fn vectors_need_their_elements() {
        let vector = CqlType::Vector(Box::new(CqlType::Float), 2);
        let item = Arc::new(Field::new("item", DataType::Float16, true));
        let halves: ArrayRef = Arc::new(PrimitiveArray::<Float16Type>::from_iter([
            Some(half(1.5)),
            Some(half(-2.0)),
            None,
            Some(half(0.0)),
        ]));
        let array = FixedSizeListArray::new(item, 2, halves, None);
        let cells = written(&vector, Arc::new(array.slice(0, 1))).unwrap();
        let expected: Vec<u8> =
            [1.5f32, -2.0].iter().flat_map(|element| element.to_be_bytes()).collect();
        assert_eq!(cells, [Some(expected)]);
        let error = refused(&vector, Arc::new(array.slice(1, 1)));
        assert!(error.starts_with("column \"c0\"[0]: expected float, got a null"), "{error}");
        let lists = ListArray::from_iter_primitive::<arrow_array::types::Float32Type, _, _>([
            Some(vec![Some(1.0), Some(2.0)]),
            Some(vec![Some(1.0)]),
        ]);
        assert!(refused(&vector, Arc::new(lists)).contains("a vector of 1 elements"));
    }

    fn half(value: f32) -> <Float16Type as arrow_array::ArrowPrimitiveType>::Native {
        <Float16Type as arrow_array::ArrowPrimitiveType>::Native::from_f32(value)
    }

    #[test]
    fn fields_of_a_type_go_by_name() {
        let udt = |names: &[&str]| {
            let fields = names.iter().map(|name| ((*name).to_owned(), CqlType::Int)).collect();
            let (keyspace, name) = ("ks".to_owned(), "u".to_owned());
            CqlType::Udt(Arc::new(turbocql_codec::UdtType { keyspace, name, fields }))
        };
        let numbers = |number: i32| -> ArrayRef { Arc::new(Int32Array::from(vec![number])) };
        let fields: Fields =
            ["b", "a"].map(|name| Field::new(name, DataType::Int32, true)).to_vec().into();
        let array: ArrayRef =
            Arc::new(StructArray::new(fields, vec![numbers(2), numbers(1)], None));
        let cells = written(&udt(&["a", "b", "c"]), array.clone()).unwrap();
        let cell = cells[0].as_ref().unwrap();
        assert_eq!((cell[7], cell[15], &cell[16..]), (1, 2, &[0xff; 4][..]));
        let error = refused(&udt(&["a"]), array);
        assert!(error.starts_with("column \"c0\": expected ks.u, got Arrow's struct<"), "{error}");
    }

    #[test]
    fn keys_of_dictionaries_that_are_null_may_be_any_number() {
        let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let keys = Int32Array::from(vec![Some(0), Some(1), None]);
        let array = DictionaryArray::try_new(keys, values).unwrap();
        let cells = written(&CqlType::Text, Arc::new(array)).unwrap();
        assert_eq!(cells, [Some(b"a".to_vec()), None, None]);
    }
}
