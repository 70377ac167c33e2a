//! The error for an array that does not fit its CQL type. If a conversion of the array can help,
//! the message names an Arrow type that fits.

use arrow_schema::{DataType, Field, FieldRef};
use turbocql_codec::{CodecError, CqlType};

use crate::schema::{CQL_TYPE, Profile, data_type};

/// An array that does not fit its CQL type. The array is a column's own array, or it is nested in a
/// column's array.
pub struct Unfit {
    cql_type: CqlType,
    got: String,
    /// The type of the array, if its values may fit after a conversion to another type.
    convertible: Option<DataType>,
}

impl Unfit {
    /// Makes the error for an array whose type does not fit.
    pub fn array(cql_type: &CqlType, data_type: &DataType) -> Unfit {
        let convertible = Some(data_type.clone());
        Unfit { cql_type: cql_type.clone(), got: described(data_type), convertible }
    }

    /// Makes the error for values that do not fit because of their meaning. A conversion of their
    /// array to another Arrow type would not help.
    pub fn meaning(cql_type: &CqlType, got: String) -> Unfit {
        Unfit { cql_type: cql_type.clone(), got, convertible: None }
    }

    /// Converts this to an error about a whole column. `cql_type` and `field` are the column's CQL
    /// type and its Arrow field.
    pub fn error(self, cql_type: &CqlType, field: &Field) -> Box<CodecError> {
        let mut reason = format!("expected {cql_type}, got {}", described(field.data_type()));
        if let Some(cql_type_name) = field.metadata().get(CQL_TYPE) {
            reason = format!("{reason} from {cql_type_name}");
        }
        if self.got.starts_with("the extension") || self.cql_type != *cql_type.thawed() {
            reason = format!("{reason}: {} does not take {}", self.cql_type, self.got);
        }
        if let Some(from) = &self.convertible {
            reason.push_str(&advice(from, &self.cql_type));
        }
        CodecError::new(cql_type, reason)
    }
}

/// Returns the end of an error message: the type to which the user should convert the array.
/// Returns an empty text if that type is nested.
fn advice(from: &DataType, cql_type: &CqlType) -> String {
    let (name, to) = if *cql_type == CqlType::Decimal {
        ("decimal128".to_owned(), Kind::Number)
    } else if *cql_type == CqlType::VarInt {
        ("int64".to_owned(), Kind::Number)
    } else {
        let target = data_type(cql_type, Profile::LOSSLESS);
        if target.is_nested() {
            return String::new();
        }
        (printed(&target), kind(&target))
    };
    if is_castable(kind(from), to) {
        return format!("; cast it to {name} first, if its values fit");
    }
    format!("; convert it to {name} first")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Boolean,
    Text,
    Bytes,
    Time,
    Other,
}

/// Whether Arrow's libraries cast arrays of one kind to another.
fn is_castable(from: Kind, to: Kind) -> bool {
    match to {
        Kind::Number => matches!(from, Kind::Number | Kind::Boolean | Kind::Text | Kind::Time),
        Kind::Boolean => matches!(from, Kind::Number | Kind::Text),
        Kind::Text => from != Kind::Other,
        Kind::Bytes => from == Kind::Text,
        Kind::Time => matches!(from, Kind::Number | Kind::Text | Kind::Time),
        Kind::Other => false,
    }
}

fn kind(data_type: &DataType) -> Kind {
    if let DataType::Dictionary(_, values) = data_type {
        return kind(values);
    }
    if let DataType::RunEndEncoded(_, values) = data_type {
        return kind(values.data_type());
    }
    if matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        Kind::Text
    } else if matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) {
        Kind::Bytes
    } else if data_type == &DataType::Boolean {
        Kind::Boolean
    } else if matches!(
        data_type,
        DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
    ) {
        Kind::Time
    } else if data_type.is_numeric() {
        Kind::Number
    } else {
        Kind::Other
    }
}

fn described(data_type: &DataType) -> String {
    cut(format!("Arrow's {}", printed(data_type)))
}

/// Returns the name of an Arrow type as pyarrow prints it.
fn printed(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "bool",
        DataType::Float16 => "halffloat",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Utf8 => "string",
        DataType::LargeUtf8 => "large_string",
        DataType::Utf8View => "string_view",
        DataType::LargeBinary => "large_binary",
        DataType::BinaryView => "binary_view",
        DataType::FixedSizeBinary(width) => return format!("fixed_size_binary[{width}]"),
        DataType::Date32 => "date32[day]",
        DataType::Date64 => "date64[ms]",
        DataType::Timestamp(unit, None) => return format!("timestamp[{unit}]"),
        DataType::Timestamp(unit, Some(zone)) => return format!("timestamp[{unit}, tz={zone}]"),
        DataType::Time32(unit) => return format!("time32[{unit}]"),
        DataType::Time64(unit) => return format!("time64[{unit}]"),
        DataType::Duration(unit) => return format!("duration[{unit}]"),
        DataType::List(item) => return format!("list<{}>", printed(item.data_type())),
        DataType::LargeList(item) => return format!("large_list<{}>", printed(item.data_type())),
        DataType::FixedSizeList(item, length) => {
            return format!("fixed_size_list<{}>[{length}]", printed(item.data_type()));
        }
        DataType::Struct(fields) => {
            let field = |field: &FieldRef| {
                let nulls = if field.is_nullable() { "" } else { " not null" };
                format!("{}: {}{nulls}", field.name(), printed(field.data_type()))
            };
            return format!("struct<{}>", fields.iter().map(field).collect::<Vec<_>>().join(", "));
        }
        DataType::Dictionary(keys, values) => {
            return format!("dictionary<values={}, indices={}>", printed(values), printed(keys));
        }
        // arrow-rs and pyarrow have the same names for these types, except for the letter case.
        DataType::Null
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Interval(_)
        | DataType::Binary
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => return data_type.to_string().to_lowercase(),
        // These names contain names of fields, whose letter case must be kept.
        DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Union(..)
        | DataType::Map(..)
        | DataType::RunEndEncoded(..) => return data_type.to_string(),
    };
    name.to_owned()
}

fn cut(text: String) -> String {
    if text.chars().count() <= 300 {
        return text;
    }
    text.chars().take(300).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(cql_type: &CqlType, data_type: DataType) -> String {
        let field = Field::new("v", data_type.clone(), true);
        Unfit::array(cql_type, &data_type).error(cql_type, &field).to_string()
    }

    #[test]
    fn the_error_says_to_which_type_to_cast() {
        let texts = DataType::Utf8;
        let dictionary =
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8View));
        for (cql_type, from, expected) in [
            (CqlType::Date, texts.clone(), "Arrow's string; cast it to date32[day] first"),
            (CqlType::Date, dictionary, "<values=string_view, indices=int32>; cast it to date32"),
            (CqlType::Int, texts.clone(), "cast it to int32 first, if its values fit"),
            (CqlType::Boolean, texts.clone(), "cast it to bool first, if its values fit"),
            (CqlType::Blob, texts.clone(), "cast it to binary first, if its values fit"),
            (CqlType::Time, texts.clone(), "cast it to time64[ns] first, if its values fit"),
            (CqlType::Timestamp, DataType::Int64, "cast it to timestamp[ms, tz=UTC] first, if"),
            (CqlType::Text, DataType::Int64, "cast it to string first, if its values fit"),
            (CqlType::Text, DataType::Binary, "cast it to string first, if its values fit"),
            (CqlType::Int, DataType::Boolean, "cast it to int32 first, if its values fit"),
            (CqlType::Decimal, DataType::Float64, "cast it to decimal128 first, if its values fit"),
            (CqlType::Int, DataType::Float64, "cast it to int32 first, if its values fit"),
            (CqlType::Uuid, DataType::Int64, "convert it to fixed_size_binary[16] first"),
            (CqlType::Duration, texts, "expected duration, got Arrow's string"),
        ] {
            let message = error(&cql_type, from);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn there_is_no_advice_for_other_meanings() {
        let field = Field::new("v", DataType::Int64, true);
        let unfit = Unfit::meaning(&CqlType::Int, "the extension type pandas.period".to_owned());
        let message = unfit.error(&CqlType::Int, &field).to_string();
        assert!(message.ends_with("int does not take the extension type pandas.period"));
    }
}
