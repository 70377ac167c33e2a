//! Decides, for each CQL type, whether the driver has its own class for the type's values, and
//! whether native code makes these values.

use turbocql_codec::Plan;
use turbocql_values::plan::HostPlan;
use turbocql_values::traits::traits;

/// Whether the driver has its own class for the values of a scalar type. Instances of such a class
/// have a dict.
pub fn has_drivers_class(plan: &HostPlan) -> bool {
    match plan {
        Plan::Date | Plan::Time | Plan::Duration => true,
        Plan::Ascii
        | Plan::Text
        | Plan::TinyInt
        | Plan::SmallInt
        | Plan::Int
        | Plan::BigInt
        | Plan::Counter
        | Plan::VarInt
        | Plan::Float
        | Plan::Double
        | Plan::Decimal
        | Plan::Boolean
        | Plan::Blob
        | Plan::Uuid
        | Plan::TimeUuid
        | Plan::Inet
        | Plan::Timestamp
        | Plan::List(_)
        | Plan::Set(_)
        | Plan::Map(_)
        | Plan::Tuple(_)
        | Plan::Udt(_)
        | Plan::Vector(_)
        | Plan::Composite(_)
        | Plan::Custom(_) => false,
    }
}

/// Whether [`Scalars`](crate::scalars::Scalars) decodes the values of this plan's type.
pub fn makes(plan: &HostPlan) -> bool {
    match plan {
        Plan::Text
        | Plan::Ascii
        | Plan::Blob
        | Plan::Int
        | Plan::BigInt
        | Plan::Counter
        | Plan::SmallInt
        | Plan::TinyInt
        | Plan::Float
        | Plan::Double
        | Plan::Boolean
        | Plan::Uuid
        | Plan::TimeUuid
        | Plan::Timestamp
        | Plan::Date
        | Plan::Time
        | Plan::VarInt
        | Plan::Decimal
        | Plan::Duration
        | Plan::Inet => true,
        Plan::Vector(vector) => vector.width.is_some() && traits(&vector.element).numeric.is_some(),
        Plan::List(_)
        | Plan::Set(_)
        | Plan::Map(_)
        | Plan::Tuple(_)
        | Plan::Udt(_)
        | Plan::Composite(_)
        | Plan::Custom(_) => false,
    }
}
