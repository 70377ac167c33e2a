//! Converts the ScyllaDB driver's column descriptions to [`Column`], and caches the columns.

use std::sync::{Arc, Mutex};

use scylla::frame::response::result::{CollectionType, ColumnSpec, ColumnType, NativeType};
use turbocql_codec::cql_type::MAX_DEPTH;
use turbocql_codec::{Column, CqlType, UdtType};

use crate::error::{EngineError, ErrorKind};

/// A cache of the columns used last, with the descriptions from which they were made.
///
/// Converting descriptions to columns allocates for every name and type; comparing descriptions
/// allocates nothing. Also, code that keeps an object for a set of columns, such as a decoding
/// plan, recognizes the set by its pointer. The cache has room for several sets, because the
/// answers to a conditional update have two: one if the update was applied, and one if it was not.
#[derive(Debug)]
pub(crate) struct RecentColumns {
    /// The set that was used last comes first.
    sets: Mutex<Vec<Arc<ColumnSet>>>,
    capacity: usize,
}

#[derive(Debug)]
struct ColumnSet {
    specs: Vec<ColumnSpec<'static>>,
    columns: Arc<[Column]>,
}

impl RecentColumns {
    pub(crate) fn new(capacity: usize) -> RecentColumns {
        RecentColumns { sets: Mutex::default(), capacity }
    }

    /// The columns that `specs` describe.
    pub(crate) fn of(&self, specs: &[ColumnSpec<'_>]) -> Result<Arc<[Column]>, EngineError> {
        let mut sets = self.sets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(at) = sets.iter().position(|set| set.specs.as_slice() == specs) {
            sets[..=at].rotate_right(1);
            return Ok(Arc::clone(&sets[0].columns));
        }
        let columns = columns(specs)?;
        let specs = specs.iter().map(|spec| spec.clone().into_owned()).collect();
        sets.truncate(self.capacity - 1);
        sets.insert(0, Arc::new(ColumnSet { specs, columns: Arc::clone(&columns) }));
        Ok(columns)
    }
}

/// Converts the ScyllaDB driver's column descriptions.
pub(crate) fn columns(specs: &[ColumnSpec<'_>]) -> Result<Arc<[Column]>, EngineError> {
    specs.iter().map(column).collect()
}

fn column(spec: &ColumnSpec<'_>) -> Result<Column, EngineError> {
    let cql_type = cql_type(spec.typ(), MAX_DEPTH).map_err(|unknown| {
        let message = format!("column \"{}\": {unknown}", spec.name());
        EngineError::new(ErrorKind::Decode, message)
    })?;
    Ok(Column {
        keyspace: spec.table_spec().ks_name().into(),
        table: spec.table_spec().table_name().into(),
        name: spec.name().to_owned(),
        cql_type,
    })
}

/// Converts a type. Metadata does not show which types are frozen, so the result contains no
/// [`CqlType::Frozen`].
fn cql_type(theirs: &ColumnType<'_>, depth: usize) -> Result<CqlType, String> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(format!("types nested deeper than {MAX_DEPTH}"));
    };
    let inner = |theirs: &ColumnType<'_>| cql_type(theirs, depth);
    let boxed = |theirs: &ColumnType<'_>| inner(theirs).map(Box::new);
    Ok(match theirs {
        ColumnType::Native(native) => native_type(native)?,
        ColumnType::Collection { typ: CollectionType::List(t), .. } => CqlType::List(boxed(t)?),
        ColumnType::Collection { typ: CollectionType::Set(t), .. } => CqlType::Set(boxed(t)?),
        ColumnType::Collection { typ: CollectionType::Map(k, v), .. } => {
            CqlType::Map(boxed(k)?, boxed(v)?)
        }
        ColumnType::Vector { typ, dimensions } => {
            CqlType::Vector(boxed(typ)?, (*dimensions).into())
        }
        ColumnType::UserDefinedType { definition, .. } => {
            let fields = definition.field_types.iter();
            let fields = fields.map(|(name, t)| Ok((name.clone().into_owned(), inner(t)?)));
            CqlType::Udt(Arc::new(UdtType {
                keyspace: definition.keyspace.clone().into_owned(),
                name: definition.name.clone().into_owned(),
                fields: fields.collect::<Result<_, String>>()?,
            }))
        }
        ColumnType::Tuple(types) => {
            CqlType::Tuple(types.iter().map(inner).collect::<Result<_, String>>()?)
        }
        unknown => return Err(format!("a type that is not known here: {unknown:?}")),
    })
}

fn native_type(theirs: &NativeType) -> Result<CqlType, String> {
    Ok(match theirs {
        NativeType::Ascii => CqlType::Ascii,
        NativeType::Boolean => CqlType::Boolean,
        NativeType::Blob => CqlType::Blob,
        NativeType::Counter => CqlType::Counter,
        NativeType::Date => CqlType::Date,
        NativeType::Decimal => CqlType::Decimal,
        NativeType::Double => CqlType::Double,
        NativeType::Duration => CqlType::Duration,
        NativeType::Float => CqlType::Float,
        NativeType::Int => CqlType::Int,
        NativeType::BigInt => CqlType::BigInt,
        NativeType::Text => CqlType::Text,
        NativeType::Timestamp => CqlType::Timestamp,
        NativeType::Inet => CqlType::Inet,
        NativeType::SmallInt => CqlType::SmallInt,
        NativeType::TinyInt => CqlType::TinyInt,
        NativeType::Time => CqlType::Time,
        NativeType::Timeuuid => CqlType::TimeUuid,
        NativeType::Uuid => CqlType::Uuid,
        NativeType::Varint => CqlType::VarInt,
        unknown => return Err(format!("a type that is not known here: {unknown:?}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::frame::response::result::{TableSpec, UserDefinedType};

    fn spec(name: &'static str, typ: ColumnType<'static>) -> ColumnSpec<'static> {
        ColumnSpec::borrowed(name, typ, TableSpec::borrowed("ks", "t"))
    }

    fn list(of: ColumnType<'static>) -> ColumnType<'static> {
        ColumnType::Collection { frozen: false, typ: CollectionType::List(Box::new(of)) }
    }

    const INT: ColumnType<'static> = ColumnType::Native(NativeType::Int);

    #[test]
    fn nested_types_keep_their_shape() {
        let udt = ColumnType::UserDefinedType {
            frozen: false,
            definition: Arc::new(UserDefinedType {
                name: "pair".into(),
                keyspace: "ks".into(),
                field_types: vec![
                    ("at".into(), ColumnType::Native(NativeType::Timeuuid)),
                    ("of".into(), list(INT)),
                ],
            }),
        };
        let vector = ColumnType::Vector { typ: Box::new(udt), dimensions: 3 };
        let tuple = ColumnType::Tuple(vec![vector, ColumnType::Native(NativeType::Duration)]);
        let columns = columns(&[spec("c", tuple)]).unwrap();
        assert_eq!(columns[0].cql_type.to_string(), "tuple<vector<ks.pair, 3>, duration>");
        let CqlType::Tuple(types) = &columns[0].cql_type else { panic!() };
        let CqlType::Vector(udt, 3) = &types[0] else { panic!() };
        let CqlType::Udt(udt) = &**udt else { panic!() };
        assert_eq!(udt.fields[0], ("at".to_owned(), CqlType::TimeUuid));
        assert_eq!(udt.fields[1].1, CqlType::List(Box::new(CqlType::Int)));
    }

    #[test]
    fn types_too_deep_are_refused_by_name() {
        let deep = (0..MAX_DEPTH).fold(INT, |inner, _| list(inner));
        let error = columns(&[spec("deep", deep)]).unwrap_err();
        assert_eq!(error.message, "column \"deep\": types nested deeper than 64");
    }

    #[test]
    fn equal_descriptions_give_the_same_columns() {
        let recent = RecentColumns::new(2);
        let a = recent.of(&[spec("a", INT)]).unwrap();
        let b = recent.of(&[spec("b", INT)]).unwrap();
        assert!(Arc::ptr_eq(&a, &recent.of(&[spec("a", INT)]).unwrap()));
        let _c = recent.of(&[spec("a", list(INT))]).unwrap();
        assert!(Arc::ptr_eq(&a, &recent.of(&[spec("a", INT)]).unwrap()));
        // The least recently used set was evicted.
        let after_eviction = recent.of(&[spec("b", INT)]).unwrap();
        assert!(!Arc::ptr_eq(&b, &after_eviction));
        assert_eq!(b, after_eviction);
    }
}
