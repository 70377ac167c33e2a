//! Where the drivers that write CQL values differ in the bytes they write.

use pyo3::prelude::*;
use pyo3::types::PyDateTime;
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::wire;

use super::object::Object;
use crate::calendar;
use crate::plan::HostPlan;
use crate::plan::Record;

/// Where drivers differ in the bytes of CQL values. The defaults are the protocol's.
///
/// The accelerator writes as cassandra-driver does: `turbocql_accel::ffi::dialect`.
pub trait Dialect {
    /// The length that means null in a list, set or map.
    const NULL: i32 = wire::NULL;

    /// Whether writing a value of this type may run Python code. If so, the items of a container
    /// are held by owned references, and compared with the container's items afterwards.
    #[inline(always)]
    fn may_run_python(_plan: &HostPlan) -> bool {
        false
    }

    /// Milliseconds since 1970 of an exact `datetime`.
    #[inline(always)]
    fn milliseconds(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
        calendar::exact_timestamp(datetime)
    }

    /// Whether the bytes of a vector, just written, are taken. `of_objects`: its elements were
    /// Python objects, not the numbers of an array.
    #[inline(always)]
    fn accepts_vector(_vector: &VectorPlan<Record>, _bytes: &[u8], _of_objects: bool) -> bool {
        true
    }

    /// Appends a value whose class is none of the built-in classes that the type is usually written
    /// from. Returns false if the value is not taken.
    ///
    /// # Safety
    /// The caller must ensure that `object` is alive and that the GIL is held. Where
    /// [`Dialect::may_run_python`] is true, it must own a reference to `object`.
    #[inline(always)]
    unsafe fn put_other(_plan: &HostPlan, _object: Object, _out: &mut Vec<u8>) -> bool {
        false
    }
}

/// The protocol's own dialect, which turbocql's sessions and `turbocql.codec` write.
pub struct Protocol;

impl Dialect for Protocol {}
