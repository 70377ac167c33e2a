//! The destinations to which the bytes of a value are written: a buffer (with or without a length
//! before the bytes), or a new `bytes` object.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::{Plan, wire};

use super::append::{append, append_framed, room};
use super::bytes::copy;
use super::dialect::Dialect;
use super::encode::{put, put_non_scalar};
use super::numpy;
use super::object::{Object, items};
use super::vector::sized;
use crate::plan::HostPlan;

/// Whether a frame can carry a value of this many bytes. For longer values the safe path
/// (`crate::value`) raises the error.
#[inline(always)]
fn can_be_sent(bytes: &[u8]) -> bool {
    i32::try_from(bytes.len()).is_ok()
}

/// The destination of the bytes of a value.
pub trait Sink: Sized {
    type Output;

    /// Writes `N` bytes. `None` means that the quick path does not take the value.
    fn fixed<const N: usize>(self, bytes: Option<[u8; N]>) -> Self::Output;

    /// Writes the bytes. `None` means that the quick path does not take the value.
    fn slice(self, bytes: Option<&[u8]>) -> Self::Output;

    /// Writes the bytes of a blob.
    #[inline(always)]
    fn blob(self, bytes: Option<&[u8]>) -> Self::Output {
        self.slice(bytes)
    }

    /// Writes a value of a type that [`put_scalar`] leaves to the sink.
    ///
    /// # Safety
    /// The caller must ensure that `object` is alive and that the GIL is held. If
    /// [`Dialect::may_run_python`] is true for `plan`, the caller must own a reference to `object`.
    unsafe fn non_scalar<D: Dialect>(self, plan: &HostPlan, object: Object) -> Self::Output;
}

/// Appends the bytes to a buffer, without a length.
pub struct Bare<'a>(pub &'a mut Vec<u8>);

impl Sink for Bare<'_> {
    type Output = bool;

    #[inline(always)]
    fn fixed<const N: usize>(self, bytes: Option<[u8; N]>) -> bool {
        let Some(bytes) = bytes else { return false };
        append(self.0, &bytes)
    }

    #[inline(always)]
    fn slice(self, bytes: Option<&[u8]>) -> bool {
        let Some(bytes) = bytes else { return false };
        append(self.0, bytes)
    }

    #[inline(always)]
    unsafe fn non_scalar<D: Dialect>(self, plan: &HostPlan, object: Object) -> bool {
        // SAFETY: `put_non_scalar` requires only what the `# Safety` section of `Sink::non_scalar`
        // requires. Tests: property/test_safe_path.py. Benchmark: "bind: 10 mixed, sequence".
        unsafe { put_non_scalar::<D>(plan, object, self.0) }
    }
}

/// Appends a length and the bytes to a buffer.
pub struct Framed<'a>(pub &'a mut Vec<u8>);

impl Sink for Framed<'_> {
    type Output = bool;

    #[inline(always)]
    fn fixed<const N: usize>(self, bytes: Option<[u8; N]>) -> bool {
        let Some(bytes) = bytes else { return false };
        append_framed(self.0, N as i32, &bytes)
    }

    #[inline(always)]
    fn slice(self, bytes: Option<&[u8]>) -> bool {
        let Some(bytes) = bytes else { return false };
        let Ok(length) = i32::try_from(bytes.len()) else { return false };
        append_framed(self.0, length, bytes)
    }

    #[inline(always)]
    unsafe fn non_scalar<D: Dialect>(self, plan: &HostPlan, object: Object) -> bool {
        let out = self.0;
        if !room(out, 4) {
            return false;
        }
        let start = wire::begin_value(out);
        // SAFETY: `put` requires only what the `# Safety` section of `Sink::non_scalar` requires.
        // Tests: property/test_safe_path.py. Benchmark: "bind: 10 mixed, sequence".
        unsafe { put::<D>(plan, object, out) && wire::end_value(out, start).is_ok() }
    }
}

/// Makes a new `bytes`. The field is the object that is encoded.
pub struct Unbuffered<'a, 'py>(pub &'a Bound<'py, PyAny>);

impl<'py> Sink for Unbuffered<'_, 'py> {
    type Output = PyResult<Option<Bound<'py, PyBytes>>>;

    #[inline(always)]
    fn fixed<const N: usize>(self, bytes: Option<[u8; N]>) -> Self::Output {
        bytes.map(|bytes| copy(self.0.py(), &bytes)).transpose()
    }

    #[inline(always)]
    fn slice(self, bytes: Option<&[u8]>) -> Self::Output {
        bytes.filter(|bytes| can_be_sent(bytes)).map(|bytes| copy(self.0.py(), bytes)).transpose()
    }

    /// Returns the value itself if it is an exact `bytes`, because a `bytes` never changes.
    #[inline(always)]
    fn blob(self, _: Option<&[u8]>) -> Self::Output {
        let bytes = self.0.cast_exact::<PyBytes>().ok();
        Ok(bytes.filter(|bytes| can_be_sent(bytes.as_bytes())).cloned())
    }

    #[inline(always)]
    unsafe fn non_scalar<D: Dialect>(self, plan: &HostPlan, object: Object) -> Self::Output {
        let Plan::Vector(vector) = plan else { return Ok(None) };
        numpy::learn(self.0);
        // SAFETY: `items` requires only what the `# Safety` section of `Sink::non_scalar` requires;
        // the items are not used. Tests: property/test_safe_path.py, accel/test_overrides.py
        // (signalling_numbers_become_quiet). Benchmark: "value: vector<float, 1536>, list".
        let of_objects = unsafe { items(object) }.is_some();
        let bytes = sized(plan, self.0)?;
        Ok(bytes.filter(|bytes| D::accepts_vector(vector, bytes.as_bytes(), of_objects)))
    }
}
