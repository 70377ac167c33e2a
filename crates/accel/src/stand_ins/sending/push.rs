//! Adds a message to the queue of a connection, or writes it at once.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Queue, Sending, Sent};

impl Sending {
    /// Does what `push` does for a message that need not be cut. Returns false if the original must
    /// be called.
    pub fn push<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        message: &Bound<'py, PyBytes>,
    ) -> PyResult<bool> {
        let py = connection.py();
        let most: usize =
            connection.getattr(pyo3::intern!(py, "out_buffer_size"))?.extract().unwrap_or(0);
        if message.as_bytes().len() > most {
            return Ok(false);
        }
        let Some(event_loop) = self.names.bind(py).get_item(pyo3::intern!(py, "_global_loop"))?
        else {
            return Ok(false);
        };
        if !event_loop.get_type().is(&self.event_loop) {
            return Ok(false);
        }
        let notifier = event_loop.getattr(pyo3::intern!(py, "_notifier"))?;
        let Some(queue) = self.queue(connection)? else { return Ok(false) };
        let left = if self.is_idle(connection, &queue)? {
            match self.socket(connection)? {
                Some(socket) => self.write(&queue, &socket, message)?,
                None => Some(message.clone()),
            }
        } else {
            Some(message.clone())
        };
        // No Python code has run since the lock was free, or since the queue's lock was released.
        if let Some(left) = left {
            queue.add(&left)?;
            notifier.call_method0(pyo3::intern!(py, "send"))?;
        }
        Ok(true)
    }

    /// Whether a connection has no other request, and the event loop does not write for it. The
    /// loop writes only while the watcher is active, and only the loop activates the watcher, for a
    /// queue that is not empty.
    fn is_idle(&self, connection: &Bound<'_, PyAny>, queue: &Queue<'_>) -> PyResult<bool> {
        let py = connection.py();
        let in_flight = connection.getattr(pyo3::intern!(py, "in_flight"))?;
        if in_flight.extract::<i64>().ok() != Some(1) || queue.messages.len()? != 0 {
            return Ok(false);
        }
        let is_watched = connection.getattr(pyo3::intern!(py, "_write_watcher_is_active"))?;
        Ok(!is_watched.is_truthy()?)
    }

    /// Writes a message while other threads that send wait for the queue's lock. Returns what has
    /// to be queued. After an error, that is the message: the event loop gets the same error, and
    /// closes the connection as the driver does.
    fn write<'py>(
        &self,
        queue: &Queue<'py>,
        socket: &Bound<'py, PyAny>,
        message: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = socket.py();
        // The lock is free, so this does not wait.
        queue.lock.call_method0(pyo3::intern!(py, "acquire"))?;
        let sent = self.send(socket, message);
        queue.lock.call_method0(pyo3::intern!(py, "release"))?;
        let data = message.as_bytes();
        match sent {
            Ok(Sent::Bytes(count)) if count >= data.len() => Ok(None),
            Ok(Sent::Bytes(count)) => Ok(Some(PyBytes::new(py, &data[count..]))),
            Ok(Sent::Nothing) => Ok(Some(message.clone())),
            Err(error) if error.is_instance_of::<PyOSError>(py) => Ok(Some(message.clone())),
            Err(error) => Err(error),
        }
    }
}
