//! Nulls within collections, which servers refuse in words of their own.

use turbocql_codec::{Cell, Column, CqlType, RowRef, Segment, nulls};

use crate::error::{EngineError, ErrorKind};

/// A null within a collection, if the server's error is about one. If `hides`, the keys of maps are
/// left out.
pub(crate) fn null_of(
    markers: &[Column],
    row: RowRef<'_>,
    error: &EngineError,
    hides: bool,
) -> Option<String> {
    const WORDS: [&str; 4] =
        ["NullPointerException", "Null value", "null is not", "\"value\" is null"];
    let reason = error.reason.as_deref()?;
    if error.kind != ErrorKind::Server || !WORDS.iter().any(|words| reason.contains(words)) {
        return None;
    }
    markers.iter().zip(row.cells()).find_map(|(marker, cell)| {
        let Cell::Value(bytes) = cell else { return None };
        // Whether a list is frozen cannot be seen here. The error says that something is wrong.
        let is_list = matches!(marker.cql_type.thawed(), CqlType::List(_));
        let null = nulls::first(&marker.cql_type, bytes, is_list)
            .or_else(|| nulls::first(&marker.cql_type, bytes, false));
        let mut null = null?.at(Segment::Column(marker.name.clone()));
        if hides {
            null.path.hide_keys();
        }
        Some(null.to_string())
    })
}
