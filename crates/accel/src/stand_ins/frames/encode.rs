//! The stand-in for `encode_message` of the driver's protocol handlers.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyTuple, PyType};
use turbocql_codec::message::Body;
use turbocql_values::ffi::bytes;

use super::UsualClasses;
use crate::ffi::call::{self, StandIn};
use crate::stand_ins::arguments::sorted;
use crate::stand_ins::counts::Counts;
use crate::stand_ins::usual::Usual;

const PARAMETERS: [&str; 7] = [
    "cls",
    "msg",
    "stream_id",
    "protocol_version",
    "compressor",
    "allow_beta_protocol_version",
    "protocol_features",
];
/// The length of the header of a frame.
const HEADER: usize = 9;
/// The protocol version whose frames are sent in segments. The segments are compressed, not the
/// frames.
const SEGMENTED: u8 = 5;

/// Stands in for the class method `encode_message`, for bodies that are not compressed.
#[pyclass(frozen, module = "turbocql._core")]
pub struct EncodeStandIn {
    original: Py<PyAny>,
    usual: Py<Usual>,
    /// Tells whether a class of handlers writes headers as the driver's own handlers do.
    handlers: UsualClasses,
    bytes_io: Py<PyType>,
    /// Whether `send_body` of messages has a parameter for the features of the connection, as in
    /// scylla-driver.
    has_features: bool,
    /// How many bytes the driver leaves free for the header before it writes the body.
    reserved: usize,
    counts: Counts,
}

#[pymethods]
impl EncodeStandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        usual: Py<Usual>,
        is_usual_handler: Py<PyAny>,
        bytes_io: Py<PyType>,
        has_features: bool,
        reserves_header: bool,
    ) -> EncodeStandIn {
        let reserved = if reserves_header { HEADER } else { 0 };
        let handlers = UsualClasses::new(is_usual_handler);
        let counts = Counts::default();
        EncodeStandIn { original, usual, handlers, bytes_io, has_features, reserved, counts }
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

impl EncodeStandIn {
    fn run<'py>(
        &self,
        py: Python<'py>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(values) = sorted(arguments, names, &PARAMETERS) else { return Ok(None) };
        let [
            Some(handler),
            Some(message),
            Some(stream),
            Some(version),
            Some(compressor),
            Some(beta),
            features,
        ] = values
        else {
            return Ok(None);
        };
        if features.is_some() != self.has_features || !self.usual.get().holds(py)? {
            return Ok(None);
        }
        let Ok(handler) = handler.cast::<PyType>() else { return Ok(None) };
        if !self.handlers.has(&handler)? {
            return Ok(None);
        }
        let (Some(stream), Some(number @ 3..=SEGMENTED)) =
            (integer::<i16>(stream), integer::<u8>(version))
        else {
            return Ok(None);
        };
        let is_compressed = number < SEGMENTED && compressor.is_truthy()?;
        if is_compressed
            || beta.is_truthy()?
            || message.getattr(pyo3::intern!(py, "custom_payload"))?.is_truthy()?
            || message.getattr(pyo3::intern!(py, "tracing"))?.is_truthy()?
        {
            return Ok(None);
        }
        let buffer = self.bytes_io.bind(py).call0()?;
        if self.reserved > 0 {
            buffer.call_method1(pyo3::intern!(py, "seek"), (self.reserved,))?;
        }
        let send_body = pyo3::intern!(py, "send_body");
        match features {
            Some(features) => message.call_method1(send_body, (&buffer, version, features))?,
            None => message.call_method1(send_body, (&buffer, version))?,
        };
        let opcode = message.getattr(pyo3::intern!(py, "opcode"))?;
        let written = buffer.call_method0(pyo3::intern!(py, "getvalue"))?;
        let written = written.cast_into_exact::<PyBytes>()?;
        let length = if self.reserved > 0 {
            let position: i64 = buffer.call_method0(pyo3::intern!(py, "tell"))?.extract()?;
            position - self.reserved as i64
        } else {
            written.as_bytes().len() as i64
        };
        let body = written.as_bytes().get(self.reserved..);
        let (Some(opcode), Ok(length @ 0..), Some(body)) =
            (integer::<u8>(&opcode), i32::try_from(length), body)
        else {
            return self.by_driver(&handler, &buffer, &written, (version, stream, &opcode, length));
        };
        let [stream_0, stream_1] = stream.to_be_bytes();
        let frame = bytes::build(py, HEADER + body.len(), |frame| {
            frame.put(&[number, 0, stream_0, stream_1, opcode]);
            frame.put(&length.to_be_bytes());
            frame.put(body);
            true
        })?;
        Ok(frame.map(Bound::into_any))
    }

    /// Makes a frame whose header the driver's `_write_header` writes. This is for numbers that do
    /// not fit the header's fields: `_write_header` raises its own error for them.
    fn by_driver<'py>(
        &self,
        handler: &Bound<'py, PyType>,
        buffer: &Bound<'py, PyAny>,
        written: &Bound<'py, PyBytes>,
        (version, stream, opcode, length): (&Bound<'py, PyAny>, i16, &Bound<'py, PyAny>, i64),
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = buffer.py();
        let frame = match self.reserved {
            0 => self.bytes_io.bind(py).call0()?,
            _ => buffer.clone(),
        };
        frame.call_method1(pyo3::intern!(py, "seek"), (0,))?;
        let name = pyo3::intern!(py, "_write_header");
        handler.call_method1(name, (&frame, version, 0, stream, opcode, length))?;
        if self.reserved == 0 {
            frame.call_method1(pyo3::intern!(py, "write"), (written,))?;
        }
        frame.call_method0(pyo3::intern!(py, "getvalue")).map(Some)
    }
}

fn integer<'py, T: for<'a> FromPyObject<'a, 'py>>(value: &Bound<'py, PyAny>) -> Option<T> {
    value.cast_exact::<PyInt>().ok().and_then(|value| value.extract().ok())
}

impl StandIn for EncodeStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let frame = this.get().run(this.py(), arguments, None)?;
        if frame.is_some() {
            this.get().counts.native();
        }
        Ok(frame)
    }

    fn call_named<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let frame = this.get().run(this.py(), arguments, Some(names))?;
        if frame.is_some() {
            this.get().counts.native();
        }
        Ok(frame)
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
