//! The codec alone, without a server.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_codec::parse::cql;

use crate::ending::Inside;
use crate::error::{self, Way};
use crate::value::decode::{Choices, Decoder};
use crate::value::encode::encode;
use crate::value::record::compile;
use crate::value::{HostPlan, Outcome};

/// A CQL type, ready to encode and decode.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Codec {
    plan: HostPlan,
    text: String,
}

#[pymethods]
impl Codec {
    /// From CQL text; user-defined types bring their fields: `address{street text, zip int}`.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Codec> {
        let cql_type =
            cql::parse(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let plan = compile(py, &cql_type).map_err(|f| error::raise(py, *f, Way::Encode))?;
        Ok(Codec { plan, text: cql_type.to_string() })
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of a value that is not None.
    fn encode<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let _inside = Inside::enter(value.py());
        let mut out = Vec::new();
        encode(&self.plan, value, &mut out)
            .map_err(|failure| error::raise(value.py(), *failure, Way::Encode))?;
        Ok(PyBytes::new(value.py(), &out))
    }

    #[pyo3(signature = (data, naive_timestamps=false, numpy_vectors=false))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        naive_timestamps: bool,
        numpy_vectors: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::enter(py);
        let decoder = Decoder { py, choices: Choices { naive_timestamps, numpy_vectors } };
        let decoded: Outcome<_> = decoder.cell(&self.plan, Some(data));
        decoded.map_err(|failure| error::raise(py, *failure, Way::Decode))
    }
}
