//! How cassandra-driver and scylla-driver write values, where they write otherwise than the protocol
//! asks, or take objects that the driver's own codec does not.

use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyTimeAccess};
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::{Plan, wire};
use turbocql_values::ffi::collections::put_parts;
use turbocql_values::ffi::dialect::Dialect;
use turbocql_values::ffi::object::{Object, items};
use turbocql_values::value::numbers::KEEPS_SIGNALLING;
use turbocql_values::value::record::Record;
use turbocql_values::value::{HostPlan, is_atomic, temporal};

use super::cassandra_util::put_util;
use super::record::put_record;

/// The dialect of a driver. `FLOAT_TIME`: it computes timestamps in binary64. `EMPTY_NULL`: it writes
/// a null in a collection as a value of zero bytes.
pub struct Driver<const FLOAT_TIME: bool, const EMPTY_NULL: bool>;

impl<const FLOAT_TIME: bool, const EMPTY_NULL: bool> Dialect for Driver<FLOAT_TIME, EMPTY_NULL> {
    const NULL: i32 = if EMPTY_NULL { 0 } else { wire::NULL };

    /// Attributes of objects are looked up in dicts whose keys may be of any class, and arrays are
    /// asked for their buffers.
    fn may_run_python(plan: &HostPlan) -> bool {
        !is_atomic(plan) || matches!(plan, Plan::Date | Plan::Time | Plan::Custom(_))
    }

    #[inline(always)]
    fn milliseconds(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
        if FLOAT_TIME { float_timestamp(datetime) } else { temporal::exact_timestamp(datetime) }
    }

    /// Not a vector of binary32 in which a signalling NaN was met: the driver converts each element
    /// to a Python float first, which quiets it, or not.
    #[inline]
    fn accepts_vector(vector: &VectorPlan<Record>, bytes: &[u8], of_objects: bool) -> bool {
        // Narrowing a Python float quiets where signalling NaNs are not kept.
        let quiet = of_objects && !KEEPS_SIGNALLING;
        quiet || !matches!(vector.element, Plan::Float) || !has_unusual_nan(bytes)
    }

    /// Values of `cassandra.util`, and objects that stand for user-defined types.
    unsafe fn put_other(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
        // SAFETY: the same demands as `Dialect::put_other`, whose caller keeps them.
        unsafe {
            match plan {
                Plan::Udt(udt) => match items(object) {
                    // Parts beyond the fields are ignored, as the driver does.
                    Some(parts) if parts.len() > udt.fields.len() => {
                        put_parts::<Self>(&udt.fields, object, parts, out)
                    }
                    Some(_) => false,
                    None => put_record::<Self>(udt, object, out),
                },
                _ => put_util::<Self>(plan, object, out),
            }
        }
    }
}

/// Milliseconds as drivers compute them that add seconds and microseconds in binary64 and cut off the
/// rest. Before 1970 and in the far future they are not the same.
#[inline]
fn float_timestamp(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
    let below = datetime.get_microsecond();
    // Exact: without the part below a second.
    let seconds = (temporal::exact_timestamp(datetime)? - i64::from(below / 1000)) / 1000;
    Some((seconds as f64 * 1e3 + f64::from(below) / 1e3) as i64)
}

/// Whether binary32 numbers have a signalling NaN among them, or any NaN where the narrowing keeps
/// the quiet bit, since that NaN may have been a signalling one.
fn has_unusual_nan(bytes: &[u8]) -> bool {
    // Without a branch, and in the byte order of the wire, so that the compiler makes it wide.
    let mask = if KEEPS_SIGNALLING { 0x0000_807f } else { 0x0000_c07f };
    let one = |number: &[u8; 4]| {
        let bytes = u32::from_le_bytes(*number);
        let (all_ones, some) = (bytes & mask == 0x0000_807f, bytes & 0xffff_7f00 != 0);
        u32::from(all_ones & some)
    };
    bytes.as_chunks::<4>().0.iter().fold(0, |any, number| any | one(number)) != 0
}
