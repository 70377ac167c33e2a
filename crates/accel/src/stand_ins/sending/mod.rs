//! Stand-ins for the methods of connections that send data on their sockets.
//!
//! They are for connections that use libev. Such a connection has a queue of messages. A message
//! for an idle connection is written by the thread that sends it, so that no thread switch is
//! needed. Messages that are in the queue at the same time are written together.

mod flush;
mod push;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};

use super::counts::Counts;
use super::fields::State;
use super::frames::UsualClasses;
use super::response::events::ThreadEvents;
use super::usual::Usual;
use crate::ffi::call::{self, StandIn};

/// The driver's classes and values that the stand-ins use.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Sending {
    usual: Py<Usual>,
    /// The classes of connections whose methods are the driver's.
    connections: UsualClasses,
    events: Py<ThreadEvents>,
    /// The global names of the driver's module `cassandra.io.libevreactor`. One of them is
    /// `_global_loop`, the event loop.
    names: Py<PyDict>,
    event_loop: Py<PyType>,
    deque: Py<PyType>,
    socket: Py<PyType>,
    /// The numbers of the errors that a socket raises if it accepts no more data now.
    blocking: Vec<i32>,
    /// The flag of an event that reports an error.
    error_event: i64,
}

#[pymethods]
impl Sending {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python code passes each by name")]
    fn new(
        usual: Py<Usual>,
        is_usual_connection: Py<PyAny>,
        events: Py<ThreadEvents>,
        names: Py<PyDict>,
        event_loop: Py<PyType>,
        deque: Py<PyType>,
        socket: Py<PyType>,
        blocking: Vec<i32>,
        error_event: i64,
    ) -> Sending {
        let connections = UsualClasses::new(is_usual_connection);
        Sending {
            usual,
            connections,
            events,
            names,
            event_loop,
            deque,
            socket,
            blocking,
            error_event,
        }
    }
}

/// The queue of a connection's messages.
struct Queue<'py> {
    messages: Bound<'py, PyAny>,
}

impl Queue<'_> {
    fn add(&self, message: &Bound<'_, PyAny>) -> PyResult<()> {
        self.messages.call_method1(pyo3::intern!(message.py(), "append"), (message,)).map(drop)
    }

    /// Puts a message that was not sent, or the rest of one that was sent in part, at the front.
    fn add_first(&self, message: &Bound<'_, PyAny>) -> PyResult<()> {
        self.messages.call_method1(pyo3::intern!(message.py(), "appendleft"), (message,)).map(drop)
    }
}

/// What became of a message that was passed to a socket.
enum Sent {
    /// The socket has accepted this number of bytes.
    Bytes(usize),
    /// The socket accepts no data now.
    Nothing,
}

impl Sending {
    /// Returns the queue of a connection, if the queue and its lock are of the usual classes and no
    /// thread holds the lock. The module of `ThreadEvents` says how long the lock stays free.
    fn queue<'py>(&self, connection: &Bound<'py, PyAny>) -> PyResult<Option<Queue<'py>>> {
        let py = connection.py();
        let state = State::of(connection, true);
        let messages = state.get(pyo3::intern!(py, "deque"))?;
        let lock = state.get(pyo3::intern!(py, "_deque_lock"))?;
        let is_usual = messages.get_type().is(&self.deque) && self.events.get().is_free(&lock)?;
        Ok(is_usual.then_some(Queue { messages }))
    }

    /// Returns the socket of a connection; `None` if the connection uses TLS.
    fn socket<'py>(&self, connection: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let socket = State::of(connection, true).get(pyo3::intern!(connection.py(), "_socket"))?;
        Ok(socket.get_type().is(&self.socket).then_some(socket))
    }

    /// Sends on a socket that does not block.
    ///
    /// # Errors
    /// Returns the socket's error, unless the error means that the socket accepts no data now.
    fn send(&self, socket: &Bound<'_, PyAny>, message: &Bound<'_, PyBytes>) -> PyResult<Sent> {
        let py = socket.py();
        match socket.call_method1(pyo3::intern!(py, "send"), (message,)) {
            Ok(sent) => Ok(Sent::Bytes(sent.extract()?)),
            Err(error) if error.is_instance_of::<PyOSError>(py) => {
                let number = error.value(py).getattr(pyo3::intern!(py, "args"))?.get_item(0);
                let number: Option<i32> = number.and_then(|number| number.extract()).ok();
                match number {
                    Some(number) if self.blocking.contains(&number) => Ok(Sent::Nothing),
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Push,
    HandleWrite,
}

/// Stands in for `push` or `handle_write` of connections.
#[pyclass(frozen, module = "turbocql._core")]
pub struct SendStandIn {
    original: Py<PyAny>,
    sending: Py<Sending>,
    kind: Kind,
    counts: Counts,
}

#[pymethods]
impl SendStandIn {
    #[new]
    fn new(original: Py<PyAny>, sending: Py<Sending>, name: &str) -> PyResult<SendStandIn> {
        let kind = match name {
            "push" => Kind::Push,
            "handle_write" => Kind::HandleWrite,
            _ => return Err(PyValueError::new_err(format!("unknown function: {name:?}"))),
        };
        Ok(SendStandIn { original, sending, kind, counts: Counts::default() })
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

impl StandIn for SendStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let sending = stand_in.sending.get();
        let Some(connection) = arguments.first() else { return Ok(None) };
        if !sending.connections.has(&connection.get_type())? || !sending.usual.get().holds(py)? {
            return Ok(None);
        }
        let done = match (stand_in.kind, arguments) {
            (Kind::Push, [connection, message]) => match message.cast_exact::<PyBytes>() {
                Ok(message) => sending.push(connection, &message)?,
                Err(_) => false,
            },
            (Kind::HandleWrite, [connection, _, events]) => {
                sending.handle_write(connection, events)?
            }
            _ => false,
        };
        if !done {
            return Ok(None);
        }
        stand_in.counts.native();
        Ok(Some(py.None().into_bound(py)))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
