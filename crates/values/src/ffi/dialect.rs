//! What writers of CQL values do differently.

use pyo3::prelude::*;
use pyo3::types::PyDateTime;
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::wire;

use super::object::Object;
use crate::value::record::Record;
use crate::value::{HostPlan, temporal};

/// What writers of CQL values do differently. The defaults are the protocol's.
///
/// The accelerator writes as cassandra-driver does: `turbocql_accel::ffi::dialect`.
pub trait Dialect {
    /// The length that stands for a null in a list, set or map.
    const NULL: i32 = wire::NULL;

    /// Whether writing a value of this type may run Python code. Then the objects of a container are
    /// held by references, and compared with what is in the container afterwards.
    #[inline(always)]
    fn may_run_python(_plan: &HostPlan) -> bool {
        false
    }

    /// Milliseconds since 1970 of an exact `datetime`.
    #[inline(always)]
    fn milliseconds(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
        temporal::exact_timestamp(datetime)
    }

    /// Whether the bytes of a vector, just written, may stand. `of_objects`: its elements were Python
    /// numbers, not those of an array.
    #[inline(always)]
    fn accepts_vector(_vector: &VectorPlan<Record>, _bytes: &[u8], _of_objects: bool) -> bool {
        true
    }

    /// Appends a value that is not of the built-in classes which the type is usually written from.
    ///
    /// # Safety
    /// `object` is alive, and the GIL is held.
    #[inline(always)]
    unsafe fn put_other(_plan: &HostPlan, _object: Object, _out: &mut Vec<u8>) -> bool {
        false
    }
}

/// The protocol's own dialect: that of the driver and of `turbocql.codec`.
pub struct Protocol;

impl Dialect for Protocol {}
