//! The class `Secret`, for text or bytes that are never displayed. The class is native, so no
//! Python attribute of the library and no local variable of its Python code holds the clear text.

use std::borrow::Cow;
use std::hint::black_box;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};

use turbocql_values::error::config_error;
use turbocql_values::value::describe::type_name;

const SHOWN: &str = "Secret('***')";

/// A password or a key: a `str` or `bytes` value that is always displayed as `Secret('***')`.
///
/// `repr`, `str` and format strings hide the value. So do containers, dataclasses, logs and
/// tracebacks that contain the secret. `reveal()` returns the value. Two secrets are equal if their
/// values are equal; the time of a comparison does not depend on where the values differ. A `str`
/// is not equal to a `Secret` of the same text.
///
/// A secret can be copied. It cannot be pickled, because a pickle contains everything in clear
/// text.
///
/// Raises: `TypeError` for a value that is neither `str` nor `bytes`; `ConfigError` when the secret
///     is pickled.
///
/// Example:
///     >>> secret = turbocql.Secret("correct horse")
///     >>> secret, f"{secret}"
///     (Secret('***'), "Secret('***')")
///     >>> secret.reveal()
///     'correct horse'
#[pyclass(frozen, name = "Secret", module = "turbocql.security")]
pub struct Secret {
    /// An instance of `str` or `bytes` itself, not of a subclass.
    value: Py<PyAny>,
}

impl Secret {
    /// Returns the value as bytes. A `str` is encoded as UTF-8. Lone surrogates are encoded as
    /// Python's error handler `surrogatepass` does.
    fn raw<'a>(&'a self, py: Python<'a>) -> PyResult<Cow<'a, [u8]>> {
        let value = self.value.bind(py);
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Cow::Borrowed(bytes.as_bytes()));
        }
        let text = value.cast::<PyString>()?;
        if let Ok(text) = text.to_str() {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        let encoded = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
        Ok(Cow::Owned(encoded.extract()?))
    }

    /// Returns the value as text, for the engine.
    pub fn text(&self, py: Python<'_>) -> PyResult<String> {
        self.value.extract(py)
    }

    /// Returns the value as bytes, for the engine.
    pub fn bytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        Ok(self.raw(py)?.into_owned())
    }

    fn not_pickled(py: Python<'_>) -> PyErr {
        config_error(
            py,
            "a Secret is not pickled, because the pickle would contain the value in clear text; \
             reveal() returns the value",
        )
    }
}

/// Whether two values are equal. If their lengths are equal, all bytes are compared. So the time
/// does not depend on the position of a difference.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |all, (a, b)| black_box(all | (a ^ b))) == 0
}

#[pymethods]
impl Secret {
    #[new]
    #[pyo3(signature = (value, /))]
    fn new(value: &Bound<'_, PyAny>) -> PyResult<Secret> {
        let py = value.py();
        let exact = if let Ok(secret) = value.cast::<Secret>() {
            secret.get().value.clone_ref(py)
        } else if value.is_exact_instance_of::<PyString>()
            || value.is_exact_instance_of::<PyBytes>()
        {
            value.clone().unbind()
        } else if let Ok(text) = value.cast::<PyString>() {
            // The value is converted to a plain `str`, because a subclass of `str` may have
            // attributes or methods that display the value.
            let str = py.get_type::<PyString>();
            str.call_method1("__str__", (text,))?.unbind()
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            PyBytes::new(py, bytes.as_bytes()).into_any().unbind()
        } else {
            let reason = format!("a secret is a str or bytes, got {}", type_name(value));
            return Err(pyo3::exceptions::PyTypeError::new_err(reason));
        };
        Ok(Secret { value: exact })
    }

    /// Returns the value.
    fn reveal(&self, py: Python<'_>) -> Py<PyAny> {
        self.value.clone_ref(py)
    }

    fn __repr__(&self) -> &'static str {
        SHOWN
    }

    fn __format__<'py>(&self, spec: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        PyString::new(spec.py(), SHOWN).call_method1("__format__", (spec,))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, Secret>) -> PyResult<bool> {
        let kind = |secret: &Secret| secret.value.bind(py).is_instance_of::<PyBytes>();
        let other = other.get();
        Ok(kind(self) == kind(other) && same(&self.raw(py)?, &other.raw(py)?))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.value.bind(py).hash()
    }

    fn __copy__(secret: Bound<'_, Self>) -> Bound<'_, Self> {
        secret
    }

    fn __deepcopy__<'py>(secret: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        secret
    }

    fn __reduce_ex__(&self, py: Python<'_>, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(Secret::not_pickled(py))
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<()> {
        Err(Secret::not_pickled(py))
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        kind: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let alias = cls.py().import("types")?.getattr("GenericAlias")?;
        alias.call1((cls, PyTuple::new(cls.py(), [kind])?))
    }
}
