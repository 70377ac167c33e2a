//! Decides whether encoded values may still be sent if the types of the statement's bind markers
//! have changed since the values were encoded. See `edits/types.patch`.

use scylla::frame::response::result::{CollectionType, ColumnSpec, ColumnType};

/// Whether values that were encoded for the markers `was` fit the markers `now`. A user-defined
/// type may have gained fields at its end, because a value may have fewer fields than its type.
#[cfg_attr(not(edited_crates), allow(dead_code, reason = "only an edited engine asks"))]
pub(crate) fn still_fit(was: &[ColumnSpec<'static>], now: &[ColumnSpec<'static>]) -> bool {
    was.len() == now.len()
        && was.iter().zip(now).all(|(was, now)| is_compatible(was.typ(), now.typ()))
}

fn is_compatible(was: &ColumnType<'_>, now: &ColumnType<'_>) -> bool {
    match (was, now) {
        (
            ColumnType::UserDefinedType { definition: was, .. },
            ColumnType::UserDefinedType { definition: now, .. },
        ) => {
            let fields = was.field_types.iter().zip(&now.field_types);
            was.name == now.name
                && was.keyspace == now.keyspace
                && was.field_types.len() <= now.field_types.len()
                && fields
                    .into_iter()
                    .all(|(was, now)| was.0 == now.0 && is_compatible(&was.1, &now.1))
        }
        (ColumnType::Tuple(was), ColumnType::Tuple(now)) => {
            was.len() == now.len() && was.iter().zip(now).all(|(was, now)| is_compatible(was, now))
        }
        (
            ColumnType::Vector { typ: was, dimensions },
            ColumnType::Vector { typ: now, dimensions: present },
        ) => dimensions == present && is_compatible(was, now),
        (ColumnType::Collection { typ: was, .. }, ColumnType::Collection { typ: now, .. }) => {
            match (was, now) {
                (CollectionType::List(was), CollectionType::List(now))
                | (CollectionType::Set(was), CollectionType::Set(now)) => is_compatible(was, now),
                (
                    CollectionType::Map(key, value),
                    CollectionType::Map(present_key, present_value),
                ) => is_compatible(key, present_key) && is_compatible(value, present_value),
                (was, now) => was == now,
            }
        }
        (was, now) => was == now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::frame::response::result::{NativeType, UserDefinedType};
    use std::sync::Arc;

    const INT: ColumnType<'static> = ColumnType::Native(NativeType::Int);
    const TEXT: ColumnType<'static> = ColumnType::Native(NativeType::Text);

    fn udt(fields: &[(&'static str, ColumnType<'static>)]) -> ColumnType<'static> {
        let field_types = fields.iter().map(|(name, of)| ((*name).into(), of.clone())).collect();
        let definition = UserDefinedType { name: "u".into(), keyspace: "ks".into(), field_types };
        ColumnType::UserDefinedType { frozen: false, definition: Arc::new(definition) }
    }

    fn list(of: ColumnType<'static>) -> ColumnType<'static> {
        ColumnType::Collection { frozen: false, typ: CollectionType::List(Box::new(of)) }
    }

    fn map(of: ColumnType<'static>) -> ColumnType<'static> {
        let typ = CollectionType::Map(Box::new(INT), Box::new(of));
        ColumnType::Collection { frozen: false, typ }
    }

    #[test]
    fn a_type_may_gain_fields_and_nothing_else() {
        let (one_field, two_fields) = (udt(&[("a", INT)]), udt(&[("a", INT), ("b", INT)]));
        let wrapped: [fn(ColumnType<'static>) -> ColumnType<'static>; 6] = [
            |of| of,
            list,
            map,
            |of| ColumnType::Tuple(vec![INT, of]),
            |of| ColumnType::Vector { typ: Box::new(of), dimensions: 2 },
            |of| udt(&[("inner", list(of))]),
        ];
        for wrap in wrapped {
            assert!(is_compatible(&wrap(INT), &wrap(INT)));
            assert!(!is_compatible(&wrap(INT), &wrap(TEXT)));
            assert!(is_compatible(&wrap(one_field.clone()), &wrap(two_fields.clone())));
            assert!(!is_compatible(&wrap(two_fields.clone()), &wrap(one_field.clone())));
            assert!(!is_compatible(&wrap(one_field.clone()), &wrap(udt(&[("a", TEXT)]))));
            assert!(!is_compatible(&wrap(one_field.clone()), &wrap(udt(&[("z", INT)]))));
            assert!(!is_compatible(
                &wrap(two_fields.clone()),
                &wrap(udt(&[("b", INT), ("a", INT)]))
            ));
        }
        assert!(!is_compatible(&list(INT), &map(INT)));
        assert!(!is_compatible(&one_field, &INT));
    }
}
