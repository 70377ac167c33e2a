//! Whether values that were encoded for the earlier types of a statement's bind markers may be sent
//! for the present ones. See `edits/types.patch`.

use scylla::frame::response::result::{CollectionType, ColumnSpec, ColumnType};

/// Whether values for the markers of `was` fit those of `now`. A user-defined type may have gained
/// fields at its end, because a value may have fewer fields than its type.
#[cfg_attr(not(edited_crates), allow(dead_code, reason = "only an edited engine asks"))]
pub(crate) fn still_fit(was: &[ColumnSpec<'static>], now: &[ColumnSpec<'static>]) -> bool {
    was.len() == now.len() && was.iter().zip(now).all(|(was, now)| fits(was.typ(), now.typ()))
}

fn fits(was: &ColumnType<'_>, now: &ColumnType<'_>) -> bool {
    match (was, now) {
        (
            ColumnType::UserDefinedType { definition: was, .. },
            ColumnType::UserDefinedType { definition: now, .. },
        ) => {
            let fields = was.field_types.iter().zip(&now.field_types);
            was.name == now.name
                && was.keyspace == now.keyspace
                && was.field_types.len() <= now.field_types.len()
                && fields.into_iter().all(|(was, now)| was.0 == now.0 && fits(&was.1, &now.1))
        }
        (ColumnType::Tuple(was), ColumnType::Tuple(now)) => {
            was.len() == now.len() && was.iter().zip(now).all(|(was, now)| fits(was, now))
        }
        (
            ColumnType::Vector { typ: was, dimensions },
            ColumnType::Vector { typ: now, dimensions: present },
        ) => dimensions == present && fits(was, now),
        (ColumnType::Collection { typ: was, .. }, ColumnType::Collection { typ: now, .. }) => {
            match (was, now) {
                (CollectionType::List(was), CollectionType::List(now))
                | (CollectionType::Set(was), CollectionType::Set(now)) => fits(was, now),
                (
                    CollectionType::Map(key, value),
                    CollectionType::Map(present_key, present_value),
                ) => fits(key, present_key) && fits(value, present_value),
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
        let (one, two) = (udt(&[("a", INT)]), udt(&[("a", INT), ("b", INT)]));
        let wrapped: [fn(ColumnType<'static>) -> ColumnType<'static>; 6] = [
            |of| of,
            list,
            map,
            |of| ColumnType::Tuple(vec![INT, of]),
            |of| ColumnType::Vector { typ: Box::new(of), dimensions: 2 },
            |of| udt(&[("inner", list(of))]),
        ];
        for wrap in wrapped {
            assert!(fits(&wrap(INT), &wrap(INT)));
            assert!(!fits(&wrap(INT), &wrap(TEXT)));
            assert!(fits(&wrap(one.clone()), &wrap(two.clone())));
            assert!(!fits(&wrap(two.clone()), &wrap(one.clone())));
            assert!(!fits(&wrap(one.clone()), &wrap(udt(&[("a", TEXT)]))));
            assert!(!fits(&wrap(one.clone()), &wrap(udt(&[("z", INT)]))));
            assert!(!fits(&wrap(two.clone()), &wrap(udt(&[("b", INT), ("a", INT)]))));
        }
        assert!(!fits(&list(INT), &map(INT)));
        assert!(!fits(&one, &INT));
    }
}
