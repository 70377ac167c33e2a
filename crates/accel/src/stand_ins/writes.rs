//! The dialects of drivers: how each driver serializes values.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::Plan;
use turbocql_values::ffi::encode;
use turbocql_values::plan::HostPlan;

use crate::convert::{ByClass, refused, text};
use crate::ffi::dialect::{Converting, Driver};

/// How a driver writes timestamps, and how it writes nulls in collections. Drivers differ in both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Timestamps and nulls are as the protocol describes them.
    Protocol,
    /// Timestamps are computed in binary64, and nulls are as the protocol describes them.
    FloatTime,
    /// Timestamps are computed in binary64, and a null in a collection is a value of zero bytes.
    FloatTimeEmptyNull,
}

impl Writes {
    pub fn from_name(name: &str) -> PyResult<Writes> {
        match name {
            "protocol" => Ok(Writes::Protocol),
            "float time" => Ok(Writes::FloatTime),
            "float time, empty null" => Ok(Writes::FloatTimeEmptyNull),
            _ => Err(PyValueError::new_err(format!("unknown dialect: {name:?}"))),
        }
    }

    /// Returns the bytes of a value; `None` if the driver's function must serialize the value.
    ///
    /// # Errors
    /// If a conversion calls Python code, and this code raises an exception that is not an instance
    /// of `Exception`, such as `KeyboardInterrupt`.
    #[inline]
    pub fn bytes<'py>(
        self,
        plan: &HostPlan,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = match self {
            Writes::Protocol => encode::bytes_of::<Driver<false, false>>(plan, value),
            Writes::FloatTime => encode::bytes_of::<Driver<true, false>>(plan, value),
            Writes::FloatTimeEmptyNull => encode::bytes_of::<Driver<true, true>>(plan, value),
        };
        if bytes.is_some() { Ok(bytes) } else { self.converted(plan, value) }
    }

    /// Returns the bytes of a value that the quick path has refused, for example because of its
    /// class; `None` if the driver's function must serialize the value.
    #[cold]
    fn converted<'py>(
        self,
        plan: &HostPlan,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        refused::uninterrupted(|| match (plan, self) {
            // `text::bytes_of` makes one copy less than `bytes_converted`.
            (Plan::Blob, _) => text::bytes_of(plan, value),
            (_, Writes::Protocol) => {
                encode::bytes_converted::<Converting<ByClass, false, false>>(plan, value)
            }
            (_, Writes::FloatTime) => {
                encode::bytes_converted::<Converting<ByClass, true, false>>(plan, value)
            }
            (_, Writes::FloatTimeEmptyNull) => {
                encode::bytes_converted::<Converting<ByClass, true, true>>(plan, value)
            }
        })
    }
}

/// Whether the codec supports values of this protocol version.
pub fn is_known_version(version: &Bound<'_, PyAny>) -> bool {
    version.extract::<u8>().is_ok_and(|version| (3..=5).contains(&version))
}
