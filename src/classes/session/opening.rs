//! Opens sessions.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use turbocql_engine::{EngineError, ErrorKind, Runtime};

use crate::classes::session::connecting::ConnectOptions;
use crate::classes::session::state::{Session, SessionState, Settings, out_of_turn};
use crate::error::raise_engine;
use crate::op::{Arrival, Next, Op, OpState, Step};
use crate::python;
use turbocql_values::plan::Choices;
use turbocql_values::row::RowKind;

struct ConnectStep {
    /// The runtime, until the session takes it or it is shut down. Then `None`.
    runtime: Option<Runtime>,
    settings: Settings,
}

impl Drop for ConnectStep {
    /// If the call of `connect` was abandoned, shuts the runtime down. The shutdown runs on a new
    /// thread, because it waits for a while if an authenticator of the application blocks.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            std::thread::spawn(move || runtime.shutdown());
        }
    }
}

impl Step for ConnectStep {
    fn arrived(
        mut self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        let engine = match arrival {
            Ok(Arrival::Connected(engine)) => engine,
            Ok(_) => return Err(out_of_turn()),
            Err(error) => {
                if let Some(runtime) = self.runtime.take() {
                    py.detach(|| runtime.shutdown());
                }
                return Err(raise_engine(py, &error));
            }
        };
        let runtime = self.runtime.take().ok_or_else(out_of_turn)?;
        let state = SessionState::new(py, runtime, engine, &self.settings);
        Ok(Next::Done(Py::new(py, Session(Arc::new(state)))?.into_any()))
    }
}

/// Opens a session. `config` is the dict that `turbocql.config.Config` makes. `rows_class` is the
/// class of the result objects that users get.
#[pyfunction]
pub fn connect(config: &Bound<'_, PyDict>, rows_class: Py<PyAny>) -> PyResult<Op> {
    python::notice_gevent(config.py())?.call0()?;
    let options: ConnectOptions<'_> = config.extract()?;
    let engine_config = options.parse(config.py())?;
    if options.prepared_cache_size == 0 {
        return Err(PyValueError::new_err("prepared_cache_size must be above 0"));
    }
    let runtime = Runtime::start(engine_config.workers).map_err(|error| {
        let reason = format!("connecting: io_threads={}: {error}", engine_config.workers);
        raise_engine(config.py(), &EngineError::new(ErrorKind::Connect, reason))
    })?;
    let choices = Choices {
        naive_timestamps: options.naive_timestamps,
        numpy_vectors: options.numpy_vectors,
    };
    let row_kind = RowKind::parse(config.py(), &options.rows)?;
    let raises = options.raises_when_full;
    let settings =
        Settings::new(choices, row_kind, options.prepared_cache_size, rows_class, raises);
    let step = ConnectStep { runtime: Some(runtime.clone()), settings };
    let op = OpState::new(Box::new(step));
    op.run(&runtime, async move {
        turbocql_engine::Session::connect(engine_config).await.map(Arrival::Connected)
    });
    Ok(Op(op))
}
