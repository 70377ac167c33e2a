//! Conversion between binary32 and binary64, as the `struct` module of this CPython does it.

use turbocql_codec::types::float;

/// Whether `struct` keeps signalling NaNs of binary32. CPython's `struct` does so since 3.14.
/// Before 3.14, its conversion between binary32 and binary64 made them quiet. Drivers in Python use
/// `struct`, and turbocql makes the same bytes and values as these drivers.
pub const KEEPS_SIGNALLING: bool = cfg!(Py_3_14);

/// Converts a number to binary32. Returns `None` for a finite number out of the range of binary32.
#[inline(always)]
pub fn narrow(wide: f64) -> Option<f32> {
    let single = float::narrow(wide)?;
    if KEEPS_SIGNALLING && wide.is_nan() {
        return Some(signalling_as(wide, single));
    }
    Some(single)
}

#[cold]
fn signalling_as(wide: f64, single: f32) -> f32 {
    let (signalling, bits) = (wide.to_bits() & 1 << 51 == 0, single.to_bits());
    // A NaN whose only payload bit is the quiet bit would become infinity if that bit were cleared.
    if signalling && bits & 0x003f_ffff != 0 { f32::from_bits(bits & !(1 << 22)) } else { single }
}

/// Converts a binary32 number to binary64.
#[inline(always)]
pub fn widen(single: f32) -> f64 {
    let wide = f64::from(single);
    if KEEPS_SIGNALLING && single.is_nan() && single.to_bits() & 1 << 22 == 0 {
        return f64::from_bits(wide.to_bits() & !(1 << 51));
    }
    wide
}
