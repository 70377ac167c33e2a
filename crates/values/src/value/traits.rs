//! What is true of the Python values of each CQL type.

use turbocql_codec::Plan;

use super::HostPlan;

/// Whether values cannot form reference cycles, so that a container of them need not be tracked by
/// the GC.
pub fn is_atomic(plan: &HostPlan) -> bool {
    match plan {
        Plan::Ascii
        | Plan::Text
        | Plan::Blob
        | Plan::Custom(_)
        | Plan::TinyInt
        | Plan::SmallInt
        | Plan::Int
        | Plan::BigInt
        | Plan::Counter
        | Plan::VarInt
        | Plan::Float
        | Plan::Double
        | Plan::Boolean
        | Plan::Date
        | Plan::Timestamp
        | Plan::Decimal
        | Plan::Uuid
        | Plan::TimeUuid
        | Plan::Inet
        | Plan::Time => true,
        Plan::Duration
        | Plan::List(_)
        | Plan::Set(_)
        | Plan::Map(_)
        | Plan::Tuple(_)
        | Plan::Composite(_)
        | Plan::Udt(_)
        | Plan::Vector(_) => false,
    }
}
