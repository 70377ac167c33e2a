//! Explains errors of servers about nulls within collections.

use turbocql_codec::{Cell, Column, CqlType, RowRef, Segment, nulls};

use crate::error::{EngineError, ErrorKind};

/// If the server's error is about a null within a collection, describes where the row has the first
/// such null. If `hides` is true, the keys of maps are left out.
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
        // The type does not show whether the list is frozen. A frozen list may have null elements,
        // so nulls elsewhere are searched for first. If there are none, the null elements must be
        // the cause of the error.
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
