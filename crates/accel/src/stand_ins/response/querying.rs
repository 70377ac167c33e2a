//! Sends the request of a future to a host.

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

use crate::ffi::call::{self, StandIn};
use crate::stand_ins::counts::Counts;
use crate::stand_ins::fields::{Fields, State};
use crate::stand_ins::frames::UsualClasses;
use crate::stand_ins::pool::{Pools, Target};
use crate::stand_ins::usual::Usual;

/// The driver's timeout for borrowing a connection, in seconds.
const BORROW_TIMEOUT_S: f64 = 2.0;

/// What native code uses of the driver when it sends requests.
#[pyclass(frozen, module = "turbocql._core")]
pub struct RequestSender {
    pools: Py<Pools>,
    /// Tells which classes of connections have the driver's own `send_msg`.
    connections: UsualClasses,
    /// The global names of the driver's modules `cassandra.cluster` and `cassandra.connection`.
    names: (Py<PyDict>, Py<PyDict>),
    /// The module `io`, and `io.BytesIO`.
    io: (Py<PyAny>, Py<PyType>),
    /// The names of the encoder's arguments that are passed by name.
    encoder_names: Py<PyTuple>,
    is_scylla: bool,
}

#[pymethods]
impl RequestSender {
    #[new]
    fn new(
        py: Python<'_>,
        pools: Py<Pools>,
        is_usual_connection: Py<PyAny>,
        names: (Py<PyDict>, Py<PyDict>),
        io: (Py<PyAny>, Py<PyType>),
        is_scylla: bool,
    ) -> PyResult<RequestSender> {
        let encoder_names = [
            pyo3::intern!(py, "compressor"),
            pyo3::intern!(py, "allow_beta_protocol_version"),
            pyo3::intern!(py, "protocol_features"),
        ];
        let used = if is_scylla { &encoder_names[..] } else { &encoder_names[..2] };
        let encoder_names = PyTuple::new(py, used)?.unbind();
        let connections = UsualClasses::new(is_usual_connection);
        Ok(RequestSender { pools, connections, names, io, encoder_names, is_scylla })
    }
}

/// How far an attempt to send a request has come.
#[derive(Default)]
struct Attempt<'py> {
    connection: Option<Bound<'py, PyAny>>,
    stream: Option<Bound<'py, PyAny>>,
    is_sent: bool,
}

impl RequestSender {
    /// Does what the driver's `_query(host)` does. Returns the id of the request's stream, or
    /// Python's None if the request was not sent. Returns `None` if that method must be called.
    fn query<'py>(
        &self,
        future: &Bound<'py, PyAny>,
        host: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = future.py();
        let state = State::of(future, self.is_scylla);
        let pools =
            state.get(pyo3::intern!(py, "session"))?.getattr(pyo3::intern!(py, "_pools"))?;
        let Ok(pools) = pools.cast_into_exact::<PyDict>() else { return Ok(None) };
        let Some(pool) = pools.get_item(host)? else { return Ok(None) };
        if !pool.is_truthy()? || pool.getattr(pyo3::intern!(py, "is_shutdown"))?.is_truthy()? {
            return Ok(None);
        }
        let message = state.get(pyo3::intern!(py, "message"))?;
        let stream_name = pyo3::intern!(py, "_req_id");
        let mut earlier_stream = None;
        if self.is_scylla {
            state.set(pyo3::intern!(py, "_control_connection_query_attempted"), false)?;
            earlier_stream = Some(state.get(stream_name)?);
        }
        state.set(pyo3::intern!(py, "_current_host"), host)?;
        let mut attempt = Attempt::default();
        let error = match self.send(&state, host, &pool, &message, &mut attempt) {
            Ok(()) => return Ok(attempt.stream),
            Err(error) => error,
        };
        let handled = self.handle(&state, host, &pool, attempt.connection.as_ref(), error);
        if let (Some(earlier), Some(stream)) = (earlier_stream, attempt.stream)
            && !attempt.is_sent
            && state.get(stream_name)?.eq(stream)?
        {
            state.set(stream_name, earlier)?;
        }
        handled?;
        Ok(Some(py.None().into_bound(py)))
    }

    /// Borrows a connection and sends a message on it.
    fn send<'py>(
        &self,
        state: &State<'_, 'py>,
        host: &Bound<'py, PyAny>,
        pool: &Bound<'py, PyAny>,
        message: &Bound<'py, PyAny>,
        attempt: &mut Attempt<'py>,
    ) -> PyResult<()> {
        let py = host.py();
        let (connection, stream) = self.borrow(state, pool)?;
        attempt.connection = Some(connection.clone());
        attempt.stream = Some(stream.clone()).filter(|stream| !stream.is_none());
        state.set(pyo3::intern!(py, "_connection"), &connection)?;
        let metadata = self.metadata(state)?;
        let set_result = state.object().getattr(pyo3::intern!(py, "_set_result"))?;
        let partial = self.global(py, pyo3::intern!(py, "partial"))?;
        let callback = partial.call1((set_result, host, &connection, pool))?;
        if self.is_scylla {
            state.set(pyo3::intern!(py, "_req_id"), &stream)?;
        }
        let size = self.write(state, &connection, (message, &stream, &callback, &metadata))?;
        state.set(pyo3::intern!(py, "request_encoded_size"), size)?;
        attempt.is_sent = true;
        let hosts = state.get(pyo3::intern!(py, "attempted_hosts"))?;
        match hosts.cast_exact::<PyList>() {
            Ok(hosts) => hosts.append(host)?,
            Err(_) => drop(hosts.call_method1(pyo3::intern!(py, "append"), (host,))?),
        }
        // The driver returns the id even if it is None.
        attempt.stream = Some(stream);
        Ok(())
    }

    /// Returns a global name of the driver's module `cassandra.cluster`.
    fn global<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.names.0.bind(py).as_any().get_item(name)
    }

    fn borrow<'py>(
        &self,
        state: &State<'_, 'py>,
        pool: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = pool.py();
        let none = py.None().into_bound(py);
        let mut of_query = None;
        if self.is_scylla {
            let query = state.get(pyo3::intern!(py, "query"))?;
            if query.is_truthy()? {
                of_query = Some((
                    query.getattr(pyo3::intern!(py, "routing_key"))?,
                    query.getattr(pyo3::intern!(py, "keyspace"))?,
                    query.getattr(pyo3::intern!(py, "table"))?,
                    state.get(pyo3::intern!(py, "_routing_token"))?,
                ));
            }
        }
        let target = match &of_query {
            None => {
                Target { routing_key: &none, keyspace: &none, table: &none, routing_token: &none }
            }
            Some((routing_key, keyspace, table, routing_token)) => {
                Target { routing_key, keyspace, table, routing_token }
            }
        };
        if let Some(loan) = self.pools.get().borrow_by_method(pool, &target)? {
            return Ok((loan.connection, loan.stream));
        }
        let options = PyDict::new(py);
        options.set_item(pyo3::intern!(py, "timeout"), BORROW_TIMEOUT_S)?;
        if of_query.is_some() {
            options.set_item(pyo3::intern!(py, "routing_key"), target.routing_key)?;
            options.set_item(pyo3::intern!(py, "keyspace"), target.keyspace)?;
            options.set_item(pyo3::intern!(py, "table"), target.table)?;
            options.set_item(pyo3::intern!(py, "routing_token"), target.routing_token)?;
        }
        let name = pyo3::intern!(py, "borrow_connection");
        let borrowed = pool.call_method(name, (), Some(&options))?;
        let parts = borrowed.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        match <[Bound<'py, PyAny>; 2]>::try_from(parts) {
            Ok([connection, stream]) => Ok((connection, stream)),
            Err(parts) if parts.len() > 2 => {
                Err(PyValueError::new_err("too many values to unpack (expected 2)"))
            }
            Err(parts) => {
                let plural = if parts.len() == 1 { "" } else { "s" };
                let count = parts.len();
                let text = format!("need more than {count} value{plural} to unpack");
                Err(PyValueError::new_err(text))
            }
        }
    }

    /// Returns the columns with which the driver decodes a result that the server sends without
    /// columns.
    fn metadata<'py>(&self, state: &State<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = state.object().py();
        if self.is_scylla {
            return state.get(pyo3::intern!(py, "_bound_result_metadata"));
        }
        let prepared = state.get(pyo3::intern!(py, "prepared_statement"))?;
        if prepared.is_truthy()? {
            return prepared.getattr(pyo3::intern!(py, "result_metadata"));
        }
        Ok(PyList::empty(py).into_any())
    }

    /// Does what the driver's `send_msg` does. Calls that method if it must raise an error, or if
    /// it is not the driver's own.
    fn write<'py>(
        &self,
        state: &State<'_, 'py>,
        connection: &Bound<'py, PyAny>,
        (message, stream, callback, metadata): (
            &Bound<'py, PyAny>,
            &Bound<'py, PyAny>,
            &Bound<'py, PyAny>,
            &Bound<'py, PyAny>,
        ),
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = connection.py();
        let handler = state.get(pyo3::intern!(py, "_protocol_handler"))?;
        let encoder = handler.getattr(pyo3::intern!(py, "encode_message"))?;
        let decoder = handler.getattr(pyo3::intern!(py, "decode_message"))?;
        let Some(fields) = self.usual_fields(connection)? else {
            let options = PyDict::new(py);
            options.set_item(pyo3::intern!(py, "cb"), callback)?;
            options.set_item(pyo3::intern!(py, "encoder"), encoder)?;
            options.set_item(pyo3::intern!(py, "decoder"), decoder)?;
            options.set_item(pyo3::intern!(py, "result_metadata"), metadata)?;
            let name = pyo3::intern!(py, "send_msg");
            return connection.call_method(name, (message, stream), Some(&options));
        };
        let request = PyTuple::new(py, [callback, &decoder, metadata])?;
        fields.get(pyo3::intern!(py, "_requests"))?.set_item(stream, request)?;
        let version = fields.get(pyo3::intern!(py, "protocol_version"))?;
        let compressor = fields.get(pyo3::intern!(py, "compressor"))?;
        let beta = fields.get(pyo3::intern!(py, "allow_beta_protocol_version"))?;
        let names = self.encoder_names.bind(py);
        let mut frame = if self.is_scylla {
            let features = fields.get(pyo3::intern!(py, "features"))?;
            let values = [message, stream, &version, &compressor, &beta, &features];
            call::with_names(&encoder, values, names)?
        } else {
            call::with_names(&encoder, [message, stream, &version, &compressor, &beta], names)?
        };
        if fields.is_true(pyo3::intern!(py, "_is_checksumming_enabled"))? {
            frame = self.segment(connection, &fields, &frame)?;
        }
        connection.call_method1(pyo3::intern!(py, "push"), (&frame,))?;
        let length = match frame.cast_exact::<PyBytes>() {
            Ok(frame) => frame.as_bytes().len(),
            Err(_) => frame.len()?,
        };
        Ok(length.into_pyobject(py)?.into_any())
    }

    /// Returns the attributes of a connection that sends messages by the driver's `send_msg` and
    /// accepts messages now.
    fn usual_fields<'a, 'py>(
        &self,
        connection: &'a Bound<'py, PyAny>,
    ) -> PyResult<Option<Fields<'a, 'py>>> {
        let py = connection.py();
        if !self.connections.has(&connection.get_type())? {
            return Ok(None);
        }
        let Some(fields) = Fields::of(connection) else { return Ok(None) };
        if fields.has(pyo3::intern!(py, "send_msg"))?
            || fields.is_true(pyo3::intern!(py, "is_defunct"))?
            || fields.is_true(pyo3::intern!(py, "is_closed"))?
            || !fields.get(pyo3::intern!(py, "_socket_writable"))?.is_truthy()?
        {
            return Ok(None);
        }
        Ok(Some(fields))
    }

    /// Wraps a frame in a segment, as protocol version 5 demands.
    fn segment<'py>(
        &self,
        connection: &Bound<'py, PyAny>,
        fields: &Fields<'_, 'py>,
        frame: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = connection.py();
        let io = self.names.1.bind(py).as_any().get_item(pyo3::intern!(py, "io"))?;
        let buffer = if io.is(&self.io.0) {
            self.io.1.bind(py).call0()?
        } else {
            io.call_method0(pyo3::intern!(py, "BytesIO"))?
        };
        let codec = fields.get(pyo3::intern!(py, "_segment_codec"))?;
        codec.call_method1(pyo3::intern!(py, "encode"), (&buffer, frame))?;
        buffer.call_method0(pyo3::intern!(py, "getvalue"))
    }

    /// Records why a request was not sent to a host. Raises the error again if it is not an
    /// `Exception`.
    fn handle<'py>(
        &self,
        state: &State<'_, 'py>,
        host: &Bound<'py, PyAny>,
        pool: &Bound<'py, PyAny>,
        connection: Option<&Bound<'py, PyAny>>,
        error: PyErr,
    ) -> PyResult<()> {
        let py = host.py();
        let log = |text: &str, options: Option<&Bound<'py, PyDict>>| -> PyResult<()> {
            let log = self.global(py, pyo3::intern!(py, "log"))?;
            log.call_method(pyo3::intern!(py, "debug"), (text, host), options).map(drop)
        };
        let is_of = |name| -> PyResult<bool> { Ok(error.matches(py, self.global(py, name)?)?) };
        let value = error.value(py);
        let record = || state.get(pyo3::intern!(py, "_errors"))?.set_item(host, value);
        if is_of(pyo3::intern!(py, "NoConnectionsAvailable"))? {
            log("All connections for host %s are at capacity, moving to the next host", None)?;
            return record();
        }
        if is_of(pyo3::intern!(py, "ConnectionBusy"))? {
            log("Connection for host %s is busy, moving to the next host", None)?;
            return record();
        }
        if !error.is_instance_of::<PyException>(py) {
            return Err(error);
        }
        let options = PyDict::new(py);
        options.set_item(pyo3::intern!(py, "exc_info"), value)?;
        log("Error querying host %s", Some(&options))?;
        record()?;
        let metrics = state.get(pyo3::intern!(py, "_metrics"))?;
        if !metrics.is_none() {
            metrics.call_method0(pyo3::intern!(py, "on_connection_error"))?;
        }
        if let Some(connection) = connection
            && connection.is_truthy()?
        {
            pool.call_method1(pyo3::intern!(py, "return_connection"), (connection,))?;
        }
        Ok(())
    }
}

/// Stands in for `_query` of `ResponseFuture`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct QueryStandIn {
    original: Py<PyAny>,
    /// Only futures of exactly this class are handled natively.
    class: Py<PyType>,
    usual: Py<Usual>,
    requests: Py<RequestSender>,
    counts: Counts,
}

#[pymethods]
impl QueryStandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        owner: Py<PyType>,
        usual: Py<Usual>,
        requests: Py<RequestSender>,
    ) -> QueryStandIn {
        QueryStandIn { original, class: owner, usual, requests, counts: Counts::default() }
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

impl StandIn for QueryStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stand_in = this.get();
        let [future, host] = arguments else { return Ok(None) };
        if !future.get_type().is(&stand_in.class) || !stand_in.usual.get().holds(this.py())? {
            return Ok(None);
        }
        let stream = stand_in.requests.get().query(future, host)?;
        if stream.is_some() {
            stand_in.counts.native();
        }
        Ok(stream)
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
