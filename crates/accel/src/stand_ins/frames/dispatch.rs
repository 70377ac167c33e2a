//! Decodes the body of a frame, and calls the callback of its request.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use super::Frames;
use crate::stand_ins::fields::State;

/// The header of a frame.
#[derive(Clone, Copy)]
pub struct Header {
    version: u8,
    flags: u8,
    stream: i16,
    opcode: u8,
    pub length: usize,
}

/// The bits of the first byte that contain the version. The other bit marks responses.
const VERSION: u8 = 0x7f;

impl Header {
    /// Reads the header of a frame. Returns `None` if the driver must read it, or would refuse it.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let &[first, flags, stream_0, stream_1, opcode, ref length @ ..] = bytes else {
            return None;
        };
        let version = first & VERSION;
        let length = i32::from_be_bytes(length.try_into().ok()?);
        matches!(version, 3..=5).then_some(Header {
            version,
            flags,
            stream: i16::from_be_bytes([stream_0, stream_1]),
            opcode,
            length: usize::try_from(length).ok()?,
        })
    }
}

impl Frames {
    /// Makes the driver's object for a header.
    pub fn frame_of<'py>(&self, py: Python<'py>, header: &Header) -> PyResult<Bound<'py, PyAny>> {
        let &Header { version, flags, stream, opcode, length } = header;
        self.frame.bind(py).call1((version, flags, stream, opcode, 9, 9 + length))
    }

    /// Does what the driver's `process_msg` does. Returns false if that method must be called.
    pub fn process_msg<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        frame: &Bound<'py, PyAny>,
        body: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let py = connection.py();
        let Ok(body) = body.cast_exact::<PyBytes>() else { return Ok(false) };
        if !frame.get_type().is(&self.frame) {
            return Ok(false);
        }
        let number = |name| -> PyResult<Option<i64>> { Ok(frame.getattr(name)?.extract().ok()) };
        let (Some(version), Some(flags), Some(stream), Some(opcode)) = (
            number(pyo3::intern!(py, "version"))?,
            number(pyo3::intern!(py, "flags"))?,
            number(pyo3::intern!(py, "stream"))?,
            number(pyo3::intern!(py, "opcode"))?,
        ) else {
            return Ok(false);
        };
        let header = (u8::try_from(version), u8::try_from(flags), u8::try_from(opcode));
        let (Ok(version), Ok(flags), Ok(opcode)) = header else { return Ok(false) };
        let Ok(stream @ 0..) = i16::try_from(stream) else { return Ok(false) };
        let header = Header { version, flags, stream, opcode, length: body.as_bytes().len() };
        if self.is_special(connection, stream)? {
            return Ok(false);
        }
        self.guarded(connection, &header, Some(frame), body, &|| Ok(()))?;
        Ok(true)
    }

    /// Whether the driver treats the responses on a stream specially. It does so for events, pages
    /// that the server pushes, and responses that arrive after the request's timeout.
    fn is_special(&self, connection: &Bound<'_, PyAny>, stream: i16) -> PyResult<bool> {
        let py = connection.py();
        let state = State::of(connection, true);
        if stream < 0 || state.get(pyo3::intern!(py, "_continuous_paging_sessions"))?.is_truthy()? {
            return Ok(true);
        }
        let orphaned = state.get(pyo3::intern!(py, "orphaned_request_ids"))?;
        Ok(orphaned.is_truthy()? && orphaned.contains(stream)?)
    }

    /// Dispatches a frame: decodes its body, and calls the callback of its request. `put_back` puts
    /// the bytes from the start of the frame into the driver's buffers, where error messages find
    /// them.
    pub fn dispatch<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        header: &Header,
        frame: Option<&Bound<'py, PyAny>>,
        body: &Bound<'py, PyBytes>,
        put_back: impl Fn() -> PyResult<()>,
    ) -> PyResult<()> {
        let py = connection.py();
        if self.is_special(connection, header.stream)? {
            put_back()?;
            let frame = self.frame_of(py, header)?;
            let name = pyo3::intern!(py, "process_msg");
            return connection.call_method1(name, (frame, body)).map(drop);
        }
        self.dispatched.native();
        self.guarded(connection, header, frame, body, &put_back)
    }

    /// Dispatches a frame. An error makes the connection defunct, as with the driver's decorator
    /// `defunct_on_error`.
    fn guarded<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        header: &Header,
        frame: Option<&Bound<'py, PyAny>>,
        body: &Bound<'py, PyBytes>,
        put_back: &dyn Fn() -> PyResult<()>,
    ) -> PyResult<()> {
        let py = connection.py();
        match self.answer(connection, header, frame, body, put_back) {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let defunct = pyo3::intern!(py, "defunct");
                connection.call_method1(defunct, (error.value(py),)).map(drop)
            }
            answered => answered,
        }
    }

    fn answer<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        header: &Header,
        frame: Option<&Bound<'py, PyAny>>,
        body: &Bound<'py, PyBytes>,
        put_back: &dyn Fn() -> PyResult<()>,
    ) -> PyResult<()> {
        let py = connection.py();
        let state = State::of(connection, true);
        state.set(pyo3::intern!(py, "msg_received"), true)?;
        let stream = header.stream.into_pyobject(py)?;
        let requests = state.get(pyo3::intern!(py, "_requests"))?;
        let request = match requests.cast_exact::<PyDict>() {
            Ok(requests) => {
                let request = requests.get_item(&stream)?;
                if request.is_some() {
                    requests.del_item(&stream)?;
                }
                request
            }
            Err(_) => {
                let popped = requests.call_method1(pyo3::intern!(py, "pop"), (&stream,));
                match popped {
                    Err(error) if error.is_instance_of::<pyo3::exceptions::PyKeyError>(py) => None,
                    popped => Some(popped?),
                }
            }
        };
        // If `_requests` lacks the stream, the timeout of the stream's request has removed it.
        let Some(request) = request else { return free(connection, stream.as_any()) };
        let (callback, decoder, metadata): (
            Bound<'py, PyAny>,
            Bound<'py, PyAny>,
            Bound<'py, PyAny>,
        ) = request.extract()?;
        drop(request);
        let response = self.decoded(connection, header, body, &decoder, &metadata);
        let response = match response {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                put_back()?;
                return self.refuse(connection, header, frame, &callback, &error);
            }
            response => response?,
        };
        match self.call_back(connection, &callback, &response) {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let text = PyTuple::new(py, ["Callback handler errored, ignoring:"])?;
                self.log_exception(&error, text)?;
            }
            called => called?,
        }
        drop(response);
        drop(callback);
        // The callback may have begun a session of continuous paging.
        let sessions = state.get(pyo3::intern!(py, "_continuous_paging_sessions"))?;
        if sessions.is_truthy()? && sessions.contains(&stream)? {
            let session = sessions.get_item(&stream)?;
            if session.getattr(pyo3::intern!(py, "released"))?.is_truthy()? {
                let name = pyo3::intern!(py, "remove_continuous_paging_session");
                connection.call_method1(name, (stream,))?;
            }
            return Ok(());
        }
        free(connection, stream.as_any())
    }

    fn decoded<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        header: &Header,
        body: &Bound<'py, PyBytes>,
        decoder: &Bound<'py, PyAny>,
        metadata: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = connection.py();
        let types = connection.getattr(pyo3::intern!(py, "user_type_map"))?;
        let decompressor = connection.getattr(pyo3::intern!(py, "decompressor"))?;
        let &Header { version, flags, stream, opcode, .. } = header;
        if self.has_features {
            let features = connection.getattr(pyo3::intern!(py, "features"))?;
            return decoder.call1((
                version,
                features,
                types,
                stream,
                flags,
                opcode,
                body,
                decompressor,
                metadata,
            ));
        }
        decoder.call1((version, types, stream, flags, opcode, body, decompressor, metadata))
    }

    /// Handles a response that cannot be decoded: logs the error, passes it to the callback, and
    /// makes the connection defunct.
    fn refuse<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        header: &Header,
        frame: Option<&Bound<'py, PyAny>>,
        callback: &Bound<'py, PyAny>,
        error: &PyErr,
    ) -> PyResult<()> {
        let py = connection.py();
        let frame = match frame {
            Some(frame) => frame.clone(),
            None => self.frame_of(py, header)?,
        };
        let buffer = connection.getattr(pyo3::intern!(py, "_iobuf"))?;
        let buffer = buffer.call_method0(pyo3::intern!(py, "getvalue"))?;
        let text = "Error decoding response from Cassandra. %s; buffer: %r";
        self.log_exception(error, (text, frame, buffer).into_pyobject(py)?)?;
        if !callback.is_none() {
            callback.call1((error.value(py),))?;
        }
        connection.call_method1(pyo3::intern!(py, "defunct"), (error.value(py),)).map(drop)
    }

    fn call_back<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        callback: &Bound<'py, PyAny>,
        response: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = connection.py();
        if response.is_instance(self.protocol_exception.bind(py))? {
            let text = response.getattr(pyo3::intern!(py, "message"))?;
            if text.contains("unsupported protocol version")? {
                connection.setattr(pyo3::intern!(py, "is_unsupported_proto_version"), true)?;
            } else {
                let summary = response.call_method0(pyo3::intern!(py, "summary_msg"))?;
                let text = "Closing connection %s due to protocol error: %s";
                let log = self.log.bind(py);
                log.call_method1(pyo3::intern!(py, "error"), (text, connection, summary))?;
            }
            connection.call_method1(pyo3::intern!(py, "defunct"), (response,))?;
        }
        if !callback.is_none() {
            callback.call1((response,))?;
        }
        Ok(())
    }

    fn log_exception(&self, error: &PyErr, arguments: Bound<'_, PyTuple>) -> PyResult<()> {
        let py = arguments.py();
        let options = PyDict::new(py);
        options.set_item(pyo3::intern!(py, "exc_info"), error.value(py))?;
        let exception = self.log.bind(py).getattr(pyo3::intern!(py, "exception"))?;
        exception.call(arguments, Some(&options)).map(drop)
    }
}

/// Frees a stream for another request.
fn free(connection: &Bound<'_, PyAny>, stream: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = connection.py();
    let state = State::of(connection, true);
    let lock = state.get(pyo3::intern!(py, "lock"))?;
    lock.call_method0(pyo3::intern!(py, "acquire"))?;
    let ids = state.get(pyo3::intern!(py, "request_ids"));
    let freed = ids.and_then(|ids| ids.call_method1(pyo3::intern!(py, "append"), (stream,)));
    lock.call_method0(pyo3::intern!(py, "release"))?;
    freed.map(drop)
}
