//! The stand-in for `decode_message` of the driver's protocol handlers. Natively, it decodes only
//! results of the kind Void, such as the answer to a write.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyType};

use super::UsualClasses;
use crate::ffi::call::{self, StandIn};
use crate::stand_ins::counts::Counts;
use crate::stand_ins::usual::Usual;

const RESULT: i64 = 8;
const VOID: [u8; 4] = [0, 0, 0, 1];

/// Stands in for the class method `decode_message`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct DecodeStandIn {
    original: Py<PyAny>,
    usual: Py<Usual>,
    /// Tells whether a class of messages makes its instances as the driver's `ResultMessage` does.
    messages: UsualClasses,
    /// Whether `decode_message` has a parameter for the features of the connection, as in
    /// scylla-driver.
    has_features: bool,
    counts: Counts,
}

#[pymethods]
impl DecodeStandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        usual: Py<Usual>,
        is_usual_message: Py<PyAny>,
        has_features: bool,
    ) -> DecodeStandIn {
        let messages = UsualClasses::new(is_usual_message);
        DecodeStandIn { original, usual, messages, has_features, counts: Counts::default() }
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

fn number(value: &Bound<'_, PyAny>) -> Option<i64> {
    value.cast_exact::<PyInt>().ok().and_then(|value| value.extract().ok())
}

impl StandIn for DecodeStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [handler, stream, flags, opcode, body] = match arguments {
            [handler, _, _, stream, flags, opcode, body, _, _] if !stand_in.has_features => {
                [handler, stream, flags, opcode, body]
            }
            [handler, _, _, _, stream, flags, opcode, body, _, _] if stand_in.has_features => {
                [handler, stream, flags, opcode, body]
            }
            _ => return Ok(None),
        };
        let Ok(body) = body.cast_exact::<PyBytes>() else { return Ok(None) };
        if number(flags) != Some(0) || number(opcode) != Some(RESULT) || body.as_bytes() != VOID {
            return Ok(None);
        }
        if !stand_in.usual.get().holds(py)? {
            return Ok(None);
        }
        let classes = handler.getattr(pyo3::intern!(py, "message_types_by_opcode"))?;
        let Ok(classes) = classes.cast_into_exact::<PyDict>() else { return Ok(None) };
        let Some(class) = classes.get_item(opcode)? else { return Ok(None) };
        let Ok(class) = class.cast_into::<PyType>() else { return Ok(None) };
        if !stand_in.messages.has(&class)? {
            return Ok(None);
        }
        let message = class.call1((1,))?;
        let none = py.None();
        message.setattr(pyo3::intern!(py, "stream_id"), stream)?;
        message.setattr(pyo3::intern!(py, "trace_id"), &none)?;
        message.setattr(pyo3::intern!(py, "custom_payload"), &none)?;
        message.setattr(pyo3::intern!(py, "warnings"), &none)?;
        stand_in.counts.native();
        Ok(Some(message))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
