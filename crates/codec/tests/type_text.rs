//! Checks that types of any shape print as text that parses to the same type.

mod support {
    pub mod types;
}

use std::sync::Arc;

use proptest::prelude::*;
use support::types::{cql_type, name};
use turbocql_codec::parse::{cql, marshal};
use turbocql_codec::{CqlType, UdtType};

/// Appends to `udts` the user-defined types that a type's text names, in the order of the text.
/// Types inside other user-defined types are left out, because the text does not name them.
fn user_types(cql_type: &CqlType, udts: &mut Vec<CqlType>) {
    match cql_type {
        CqlType::Udt(_) => udts.push(cql_type.clone()),
        CqlType::List(t) | CqlType::Set(t) | CqlType::Frozen(t) | CqlType::Vector(t, _) => {
            user_types(t, udts);
        }
        CqlType::Map(k, v) => {
            user_types(k, udts);
            user_types(v, udts);
        }
        CqlType::Tuple(types) => types.iter().for_each(|t| user_types(t, udts)),
        // A composite prints as a class name that includes the fields of its user-defined types, so
        // these types are not looked up.
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_definition_is_parsed_as_the_same_type(cql_type in cql_type(i32::MAX as u32)) {
        prop_assert_eq!(cql::parse(&cql_type.definition()), Ok(cql_type));
    }

    #[test]
    fn a_class_name_is_parsed_as_the_same_type(cql_type in cql_type(i32::MAX as u32)) {
        prop_assert_eq!(marshal::parse(&cql_type.class_name()), Ok(cql_type.clone()));
        // In CQL, a class name is written in single quotes.
        let quoted = format!("'{}'", cql_type.class_name().replace('\'', "''"));
        prop_assert_eq!(cql::parse(&quoted), Ok(cql_type));
    }

    #[test]
    fn any_names_are_parsed_as_the_same_names(keyspace in name(), name in name(), field in name()) {
        let udt = UdtType { keyspace, name, fields: vec![(field, CqlType::Int)] };
        let cql_type = CqlType::Udt(Arc::new(udt));
        prop_assert_eq!(cql::parse(&cql_type.definition()), Ok(cql_type));
    }

    #[test]
    fn names_without_fields_are_looked_up(cql_type in cql_type(9)) {
        let mut udts = Vec::new();
        user_types(&cql_type, &mut udts);
        let mut udts = udts.into_iter();
        let parsed = cql::parse_with(&cql_type.to_string(), &mut |keyspace, name| {
            let next = udts.next()?;
            let CqlType::Udt(udt) = &next else { return None };
            (udt.keyspace == keyspace && udt.name == name).then_some(next)
        });
        prop_assert_eq!(parsed, Ok(cql_type));
    }

    #[test]
    fn any_text_is_parsed_or_refused(text: String) {
        for parsed in [cql::parse(&text), marshal::parse(&text)].into_iter().flatten() {
            prop_assert_eq!(cql::parse(&parsed.definition()), Ok(parsed));
        }
    }
}
