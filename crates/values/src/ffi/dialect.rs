//! How drivers differ in the bytes of CQL values. If a function here does not take a value, it
//! returns false or `None`. The safe path (`crate::value`), or a function of the accelerated
//! driver, then encodes the value.

use pyo3::prelude::*;
use pyo3::types::PyDateTime;
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::wire;

use super::object::Object;
use crate::calendar;
use crate::plan::HostPlan;
use crate::plan::Record;

/// How a driver writes CQL values where drivers differ. The default constants and methods follow
/// the protocol.
///
/// `turbocql_accel::ffi::dialect` has the dialects of cassandra-driver and scylla-driver.
pub trait Dialect {
    /// The length that means null in a list, set or map.
    const NULL: i32 = wire::NULL;

    /// Whether [`Dialect::convert`] is called for each value that no other function has taken. If
    /// so, [`Dialect::may_run_python`] is true for every type.
    const CONVERTS: bool = false;

    /// Whether writing a value of this type may run Python code. If so, the encoder takes owned
    /// references to the items of a container, and afterwards compares these with the container's
    /// items.
    #[inline(always)]
    fn may_run_python(_plan: &HostPlan) -> bool {
        false
    }

    /// Returns the milliseconds since 1970 of an exact `datetime`, or `None` if the value is not
    /// taken.
    #[inline(always)]
    fn milliseconds(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
        calendar::exact_timestamp(datetime)
    }

    /// Whether the driver of this dialect would write the same bytes for a vector as turbocql has
    /// just written (the argument `bytes`). If not, the vector is not taken. `of_objects` is true
    /// if the elements were Python objects, and false if they were the numbers of an array.
    #[inline(always)]
    fn accepts_vector(_vector: &VectorPlan<Record>, _bytes: &[u8], _of_objects: bool) -> bool {
        true
    }

    /// Appends a value whose class is not one of the built-in Python classes for values of this CQL
    /// type. Returns false if the value is not taken; `out` may then end with an incomplete value.
    ///
    /// # Safety
    /// The caller must ensure that `object` is alive and that the GIL is held. If
    /// [`Dialect::may_run_python`] is true for `plan`, the caller must own a reference to `object`.
    #[inline(always)]
    unsafe fn put_other(_plan: &HostPlan, _object: Object, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends, without a length, a value that no other function has taken. This function may run
    /// Python code, and is called only if [`Dialect::CONVERTS`] is true. If it returns false, `out`
    /// may end with an incomplete value.
    fn convert(_plan: &HostPlan, _object: &Bound<'_, PyAny>, _out: &mut Vec<u8>) -> bool {
        false
    }
}

/// The protocol's own dialect, which turbocql's sessions and `turbocql.codec` write.
pub struct Protocol;

impl Dialect for Protocol {}
