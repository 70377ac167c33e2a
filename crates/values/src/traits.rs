//! Properties of the values of each CQL type, in one table. If a type is added to `Plan`, the crate
//! does not compile until the table has a row for it.

use turbocql_codec::Plan;

use crate::plan::HostPlan;

/// Numbers of fixed width, which typed buffers hold as machine numbers. In a vector, no length is
/// written before them, except before a `tinyint` or `smallint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numeric {
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
}

impl Numeric {
    /// The size of a number in bytes.
    pub const fn width(self) -> usize {
        match self {
            Numeric::TinyInt => 1,
            Numeric::SmallInt => 2,
            Numeric::Int | Numeric::Float => 4,
            Numeric::BigInt | Numeric::Double => 8,
        }
    }
}

/// How the bytes of two values must be compared to get the order of the Python values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The bytes do not give the order.
    Unknown,
    /// The bytes have any length and are compared lexicographically.
    Lexical,
    /// The bytes are an unsigned big-endian number.
    Unsigned,
    /// The bytes are a big-endian number in two's complement.
    Signed,
    /// The bytes are an IEEE 754 number. NaN has no order.
    Float,
}

/// Properties of the values of a type.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    pub numeric: Option<Numeric>,
    pub order: Order,
    /// Whether every value of the type has at least one byte. Cassandra allows empty cells for such
    /// types too; an empty cell is read as null.
    pub empty_is_null: bool,
    /// Whether the Python value cannot form reference cycles. If a container has only such values,
    /// the GC need not track the container.
    pub atomic: bool,
    /// Whether the Python value is hashable if all its parts are hashable.
    pub hashable: bool,
}

/// The properties of text and blobs. An empty cell is a valid value: empty text or an empty blob.
const BYTES: Traits = Traits {
    numeric: None,
    order: Order::Lexical,
    empty_is_null: false,
    atomic: true,
    hashable: true,
};

const SCALAR: Traits = Traits { order: Order::Unknown, empty_is_null: true, ..BYTES };

const COLLECTION: Traits = Traits { atomic: false, hashable: false, ..SCALAR };

/// The properties of types with components or fields. A value may lack all of these. Then its cell
/// is empty, and is not null.
const COMPONENTS: Traits = Traits { empty_is_null: false, hashable: true, ..COLLECTION };

const fn number(numeric: Numeric, order: Order) -> Traits {
    Traits { numeric: Some(numeric), order, ..SCALAR }
}

/// Returns the properties of the values of a plan's type.
pub fn traits(plan: &HostPlan) -> Traits {
    match plan {
        Plan::Ascii | Plan::Text | Plan::Blob => BYTES,
        Plan::Custom(_) => Traits { order: Order::Unknown, ..BYTES },
        Plan::TinyInt => number(Numeric::TinyInt, Order::Signed),
        Plan::SmallInt => number(Numeric::SmallInt, Order::Signed),
        Plan::Int => number(Numeric::Int, Order::Signed),
        Plan::BigInt => number(Numeric::BigInt, Order::Signed),
        Plan::Float => number(Numeric::Float, Order::Float),
        Plan::Double => number(Numeric::Double, Order::Float),
        Plan::Counter | Plan::Timestamp => Traits { order: Order::Signed, ..SCALAR },
        Plan::Date | Plan::Time | Plan::Uuid | Plan::TimeUuid => {
            Traits { order: Order::Unsigned, ..SCALAR }
        }
        Plan::VarInt | Plan::Decimal | Plan::Boolean | Plan::Inet => SCALAR,
        // `turbocql.Duration`: its fields can be of any class, so it can be part of a cycle.
        Plan::Duration => Traits { atomic: false, ..SCALAR },
        Plan::List(_) | Plan::Set(_) | Plan::Map(_) => COLLECTION,
        Plan::Vector(vector) => Traits { empty_is_null: vector.dimension > 0, ..COLLECTION },
        Plan::Tuple(_) | Plan::Composite(_) | Plan::Udt(_) => COMPONENTS,
    }
}
