//! Writes the messages in the queue of a connection.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};

use super::{Queue, Sending, Sent};

/// Messages are joined up to this number of bytes. Without a limit, each write to a socket that
/// accepts little would copy all messages again.
const MOST_BYTES: usize = 65_536;

impl Sending {
    /// Does what the driver's `handle_write` does. Returns false if that method must be called.
    pub fn handle_write<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        events: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let py = connection.py();
        let is_error =
            events.extract::<i64>().map_or(true, |events| events & self.error_event != 0);
        if is_error || connection.getattr(pyo3::intern!(py, "is_closed"))?.is_truthy()? {
            return Ok(false);
        }
        let Some(socket) = self.socket(connection)? else { return Ok(false) };
        let writable = pyo3::intern!(py, "_socket_writable");
        loop {
            let Some(queue) = self.queue(connection)? else { return Ok(false) };
            let message = match next_message(&queue)? {
                Next::Message(message) => Some(message),
                Next::OfOtherClass => return Ok(false),
                Next::Nothing => None,
            };
            let Some(message) = message else {
                if !connection.getattr(writable)?.is_truthy()? {
                    connection.setattr(writable, PyBool::new(py, true))?;
                }
                return Ok(true);
            };
            let data = message.as_bytes();
            match self.send(&socket, &message) {
                Ok(Sent::Bytes(count)) if count >= data.len() => {}
                Ok(Sent::Bytes(count)) => {
                    queue.add_first(&PyBytes::new(py, &data[count..]))?;
                    if count == 0 {
                        connection.setattr(writable, PyBool::new(py, false))?;
                        return Ok(true);
                    }
                }
                Ok(Sent::Nothing) => {
                    connection.setattr(writable, PyBool::new(py, false))?;
                    queue.add_first(&message)?;
                    return Ok(true);
                }
                Err(error) if error.is_instance_of::<PyOSError>(py) => {
                    connection.call_method1(pyo3::intern!(py, "defunct"), (error.value(py),))?;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What is next in the queue of a connection.
enum Next<'py> {
    Message(Bound<'py, PyBytes>),
    /// An object that is not an exact `bytes`. It stays in the queue.
    OfOtherClass,
    Nothing,
}

/// Removes the next messages from the queue, and joins them up to `MOST_BYTES`.
fn next_message<'py>(queue: &Queue<'py>) -> PyResult<Next<'py>> {
    let messages = &queue.messages;
    let py = messages.py();
    let mut first: Option<Bound<'py, PyBytes>> = None;
    let mut joined: Vec<u8> = Vec::new();
    let mut length = 0;
    for _ in 0..messages.len()? {
        let Ok(next) = messages.get_item(0)?.cast_into_exact::<PyBytes>() else {
            if first.is_none() {
                return Ok(Next::OfOtherClass);
            }
            break;
        };
        let data = next.as_bytes();
        if length != 0 && length + data.len() > MOST_BYTES {
            break;
        }
        messages.call_method0(pyo3::intern!(py, "popleft"))?;
        length += data.len();
        match &first {
            None => first = Some(next),
            Some(first) => {
                if joined.is_empty() {
                    joined.extend_from_slice(first.as_bytes());
                }
                joined.extend_from_slice(data);
            }
        }
    }
    Ok(match first {
        None => Next::Nothing,
        Some(first) if joined.is_empty() => Next::Message(first),
        Some(_) => Next::Message(PyBytes::new(py, &joined)),
    })
}
