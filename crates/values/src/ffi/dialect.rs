//! Differences between drivers in the bytes of CQL values.

use pyo3::prelude::*;
use pyo3::types::PyDateTime;
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::wire;

use super::object::Object;
use crate::calendar;
use crate::plan::HostPlan;
use crate::plan::Record;

/// All that drivers write differently in CQL values. The defaults are the protocol's.
///
/// The accelerator writes as cassandra-driver does: `turbocql_accel::ffi::dialect`.
pub trait Dialect {
    /// The length that means null in a list, set or map.
    const NULL: i32 = wire::NULL;

    /// Whether [`Dialect::convert`] gets each value that is not of a usual built-in class. Then
    /// [`Dialect::may_run_python`] is true for every type.
    const CONVERTS: bool = false;

    /// Whether writing a value of this type may run Python code. If so, owned references hold the
    /// items of a container, and are compared with the container's items afterwards.
    #[inline(always)]
    fn may_run_python(_plan: &HostPlan) -> bool {
        false
    }

    /// Milliseconds since 1970 of an exact `datetime`; `None` if the value is not taken.
    #[inline(always)]
    fn milliseconds(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
        calendar::exact_timestamp(datetime)
    }

    /// Whether the bytes just written for a vector are those of the dialect. If not, the value is
    /// not taken. `of_objects`: the elements were Python objects, not the numbers of an array.
    #[inline(always)]
    fn accepts_vector(_vector: &VectorPlan<Record>, _bytes: &[u8], _of_objects: bool) -> bool {
        true
    }

    /// Appends a value of a class other than the built-in classes that are usual for the type.
    /// Returns false if the value is not taken.
    ///
    /// # Safety
    /// The caller must ensure that `object` is alive and that the GIL is held. If
    /// [`Dialect::may_run_python`] is true, the caller must own a reference to `object`.
    #[inline(always)]
    unsafe fn put_other(_plan: &HostPlan, _object: Object, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends, without a length, a value that nothing else has taken. It may run Python code.
    /// Called only if [`Dialect::CONVERTS`]. If it returns false, `out` may end with an incomplete
    /// value.
    fn convert(_plan: &HostPlan, _object: &Bound<'_, PyAny>, _out: &mut Vec<u8>) -> bool {
        false
    }
}

/// The protocol's own dialect, which turbocql's sessions and `turbocql.codec` write.
pub struct Protocol;

impl Dialect for Protocol {}
