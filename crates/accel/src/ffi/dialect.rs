//! Serializes as cassandra-driver and scylla-driver do. A dialect is how values are written: as
//! turbocql's own codec writes them, or as one of these drivers does. The dialects here differ from
//! turbocql's in values that the drivers write in another way, and in objects that only the drivers
//! take.

use std::marker::PhantomData;

use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyTimeAccess};
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::{Plan, wire};
use turbocql_values::binary32::KEEPS_SIGNALLING;
use turbocql_values::calendar;
use turbocql_values::ffi::collections::put_parts;
use turbocql_values::ffi::dialect::Dialect;
use turbocql_values::ffi::object::{Object, items};
use turbocql_values::plan::HostPlan;
use turbocql_values::plan::Record;
use turbocql_values::traits::traits;

use super::cassandra_util::put_util;
use super::record::put_record;
use crate::types::has_drivers_class;

/// The dialect of a driver. If `FLOAT_TIME` is true, the driver computes timestamps in binary64. If
/// `EMPTY_NULL` is true, it writes a null in a collection as a value of zero bytes.
pub struct Driver<const FLOAT_TIME: bool, const EMPTY_NULL: bool>;

impl<const FLOAT_TIME: bool, const EMPTY_NULL: bool> Dialect for Driver<FLOAT_TIME, EMPTY_NULL> {
    const NULL: i32 = if EMPTY_NULL { 0 } else { wire::NULL };

    /// Python code can run when attributes are looked up in dicts, whose keys may be of any class,
    /// and when the buffers of arrays are requested.
    fn may_run_python(plan: &HostPlan) -> bool {
        !traits(plan).atomic || has_drivers_class(plan) || matches!(plan, Plan::Custom(_))
    }

    #[inline(always)]
    fn milliseconds(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
        if FLOAT_TIME { float_timestamp(datetime) } else { calendar::exact_timestamp(datetime) }
    }

    /// Returns false for a binary32 vector that may have a signalling NaN. The driver first
    /// converts each element to a Python float, and then packs the float with `struct`. Unless
    /// `KEEPS_SIGNALLING` is true, each of these steps quiets a signalling NaN.
    #[inline]
    fn accepts_vector(vector: &VectorPlan<Record>, bytes: &[u8], of_objects: bool) -> bool {
        // Narrowing a Python float to binary32 quiets NaNs if `KEEPS_SIGNALLING` is false.
        let quiet = of_objects && !KEEPS_SIGNALLING;
        quiet || !matches!(vector.element, Plan::Float) || !has_unusual_nan(bytes)
    }

    /// Appends instances of the classes in `cassandra.util`, and objects that represent values of
    /// user-defined types.
    unsafe fn put_other(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
        // SAFETY: `put_of_driver` demands the same as the `# Safety` section of
        // `Dialect::put_other`, since `may_run_python` is true for each type that `put_of_driver`
        // takes. Tests: accel/test_overrides.py (records_of_all_kinds).
        unsafe { put_of_driver::<Self>(plan, object, out) }
    }
}

/// Converts objects that are not of the built-in class that is usual for their CQL type.
pub trait Convert {
    /// Appends a value without its length. Returns false if it does not support the value; `out`
    /// may then end with an incomplete value. The function may run Python code.
    fn convert<D: Dialect, const FLOAT_TIME: bool>(
        plan: &HostPlan,
        object: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> bool;
}

/// The dialect of a driver. `C` converts the objects that are not of the usual built-in class.
pub struct Converting<C, const FLOAT_TIME: bool, const EMPTY_NULL: bool>(PhantomData<C>);

impl<C: Convert, const FLOAT_TIME: bool, const EMPTY_NULL: bool> Dialect
    for Converting<C, FLOAT_TIME, EMPTY_NULL>
{
    const NULL: i32 = Driver::<FLOAT_TIME, EMPTY_NULL>::NULL;
    const CONVERTS: bool = true;

    fn may_run_python(_plan: &HostPlan) -> bool {
        true
    }

    #[inline(always)]
    fn milliseconds(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
        Driver::<FLOAT_TIME, EMPTY_NULL>::milliseconds(datetime)
    }

    fn accepts_vector(vector: &VectorPlan<Record>, bytes: &[u8], of_objects: bool) -> bool {
        Driver::<FLOAT_TIME, EMPTY_NULL>::accepts_vector(vector, bytes, of_objects)
    }

    unsafe fn put_other(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
        // SAFETY: `put_of_driver` demands the same as the `# Safety` section of
        // `Dialect::put_other`, since `may_run_python` is true. Tests:
        // accel/test_everyday_values.py.
        unsafe { put_of_driver::<Self>(plan, object, out) }
    }

    fn convert(plan: &HostPlan, object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
        C::convert::<Self, FLOAT_TIME>(plan, object, out)
    }
}

/// Appends instances of the classes in `cassandra.util`, and objects that represent values of
/// user-defined types. Returns false if it does not support the value; `out` may then end with an
/// incomplete value.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held. If
/// [`Dialect::may_run_python`] is true for `plan`, the caller must own a reference to `object`.
unsafe fn put_of_driver<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: `object` is alive and the GIL is held, by the `# Safety` section. Where Python code
    // may run, the caller owns a reference to `object`. `parts` are the items of `object`;
    // `put_parts` handles a list that changes. Tests: accel/test_overrides.py
    // (records_of_all_kinds), accel/test_hostile.py (keys_of_a_class_of_their_own).
    unsafe {
        let Plan::Udt(udt) = plan else { return put_util::<D>(plan, object, out) };
        match items(object) {
            // The driver ignores items beyond the number of fields.
            Some(parts) if parts.len() > udt.fields.len() => {
                put_parts::<D>(&udt.fields, object, parts, out)
            }
            Some(_) => false,
            None => put_record::<D>(udt, object, out),
        }
    }
}

/// Returns the milliseconds of a `datetime`, computed as some drivers do: seconds and microseconds
/// are added in binary64, and the sum is truncated. Before 1970 and in the far future, the result
/// can differ from the exact milliseconds.
#[inline]
fn float_timestamp(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
    let below = datetime.get_microsecond();
    // The division is exact, since the fraction of a second has been subtracted.
    let seconds = (calendar::exact_timestamp(datetime)? - i64::from(below / 1000)) / 1000;
    Some((seconds as f64 * 1e3 + f64::from(below) / 1e3) as i64)
}

/// Whether any of the binary32 numbers is a signalling NaN. If `KEEPS_SIGNALLING` is true, a quiet
/// NaN counts too, because it may have been a signalling NaN before it was narrowed to binary32.
fn has_unusual_nan(bytes: &[u8]) -> bool {
    // The loop has no branches and keeps the wire's byte order, so that the compiler can vectorize
    // it.
    let mask = if KEEPS_SIGNALLING { 0x0000_807f } else { 0x0000_c07f };
    let is_unusual = |number: &[u8; 4]| {
        let bytes = u32::from_le_bytes(*number);
        let (all_ones, some) = (bytes & mask == 0x0000_807f, bytes & 0xffff_7f00 != 0);
        u32::from(all_ones & some)
    };
    bytes.as_chunks::<4>().0.iter().fold(0, |any, number| any | is_unusual(number)) != 0
}
