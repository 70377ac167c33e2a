//! Adds a message to the queue of a connection, or writes it at once.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};

use super::{Queue, Sending};
use crate::ffi::socket::{self, SentNow};
use crate::stand_ins::fields::State;

impl Sending {
    /// Does what the driver's `push` does. Returns false if that method must be called, for example
    /// because it must cut the message, which has more than `out_buffer_size` bytes.
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
        // This thread keeps the GIL until the message is written or in the queue. So no other
        // thread writes, adds a message or closes the socket meanwhile.
        match self.idle_descriptor(connection, &queue, &event_loop)? {
            None => queue.add(message)?,
            Some(descriptor) => match socket::send_now(descriptor, message.as_bytes()) {
                // The event loop then writes the queue, gets the same error, and closes the
                // connection as the driver does.
                SentNow::Failed => queue.add(message)?,
                SentNow::Nothing => {
                    set_full(connection)?;
                    queue.add(message)?;
                }
                SentNow::Bytes(count) => match message.as_bytes().get(count..) {
                    Some(rest) if !rest.is_empty() => {
                        set_full(connection)?;
                        queue.add(&PyBytes::new(py, rest))?;
                    }
                    _ => return Ok(true),
                },
            },
        }
        notifier.call_method0(pyo3::intern!(py, "send"))?;
        Ok(true)
    }

    /// Returns the descriptor of a connection's socket, if this thread may write the new message to
    /// the socket at once. For this, the message's request must be the only one in flight on the
    /// connection, and the event loop must not write for the connection. The loop writes only while
    /// the connection's write watcher is active. Only the loop activates that watcher, and only if
    /// the queue is not empty.
    fn idle_descriptor(
        &self,
        connection: &Bound<'_, PyAny>,
        queue: &Queue<'_>,
        event_loop: &Bound<'_, PyAny>,
    ) -> PyResult<Option<i32>> {
        let py = connection.py();
        let state = State::of(connection, true);
        let in_flight = state.get(pyo3::intern!(py, "in_flight"))?;
        if in_flight.extract::<i64>().ok() != Some(1) || queue.messages.len()? != 0 {
            return Ok(None);
        }
        for name in [
            pyo3::intern!(py, "_write_watcher_is_active"),
            pyo3::intern!(py, "is_closed"),
            pyo3::intern!(py, "is_defunct"),
        ] {
            if state.is_true(name)? {
                return Ok(None);
            }
        }
        // A forked process does not write at once: its parent still has the socket, and gets the
        // answers.
        let process = event_loop.getattr(pyo3::intern!(py, "_pid"))?;
        if process.extract::<u32>().ok() != Some(std::process::id()) {
            return Ok(None);
        }
        let Some(socket) = self.socket(connection)? else { return Ok(None) };
        let descriptor = socket.call_method0(pyo3::intern!(py, "fileno"))?.extract::<i32>()?;
        Ok((descriptor >= 0).then_some(descriptor))
    }
}

/// Makes the driver refuse further requests until the event loop has written the queue. The loop
/// writes only when the socket accepts data again.
fn set_full(connection: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = connection.py();
    connection.setattr(pyo3::intern!(py, "_socket_writable"), PyBool::new(py, false))
}
