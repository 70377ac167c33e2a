//! Stand-ins for the methods of connections that read frames and dispatch them, and for the
//! functions of protocol handlers that encode and decode messages.

mod decode;
mod dispatch;
mod encode;
mod reading;

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::counts::Counts;
use super::usual::Usual;
use crate::ffi::call::{self, StandIn};
use crate::ffi::version;
pub use decode::DecodeStandIn;
pub use encode::EncodeStandIn;

/// The classes and functions of the driver that the stand-ins of connections use.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Frames {
    usual: Py<Usual>,
    /// Tells which classes of connections have the driver's own methods.
    connections: UsualClasses,
    /// The driver's `Connection.process_io_buffer`.
    process_io_buffer: Py<PyAny>,
    io_buffer: Py<PyType>,
    bytes_io: Py<PyType>,
    segment_codec: Py<PyType>,
    frame: Py<PyType>,
    protocol_exception: Py<PyType>,
    log: Py<PyAny>,
    /// Whether decoders have a parameter for the features of the connection, as in scylla-driver.
    has_features: bool,
    dispatched: Counts,
}

#[pymethods]
impl Frames {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python code passes each by name")]
    fn new(
        usual: Py<Usual>,
        is_usual_connection: Py<PyAny>,
        process_io_buffer: Py<PyAny>,
        io_buffer: Py<PyType>,
        bytes_io: Py<PyType>,
        segment_codec: Py<PyType>,
        frame: Py<PyType>,
        protocol_exception: Py<PyType>,
        log: Py<PyAny>,
        has_features: bool,
    ) -> Frames {
        Frames {
            usual,
            connections: UsualClasses::new(is_usual_connection),
            process_io_buffer,
            io_buffer,
            bytes_io,
            segment_codec,
            frame,
            protocol_exception,
            log,
            has_features,
            dispatched: Counts::default(),
        }
    }
}

/// Tells whether a class, of the driver or of the application, has the driver's own methods. Caches
/// the answers.
pub struct UsualClasses {
    /// A Python function that checks a class.
    is_usual: Py<PyAny>,
    /// The versions of classes, each with the result of the check.
    by_version: Mutex<Vec<(u32, bool)>>,
}

/// The maximum number of classes in the cache.
const MOST_CLASSES: usize = 32;

impl UsualClasses {
    pub fn new(is_usual: Py<PyAny>) -> UsualClasses {
        UsualClasses { is_usual, by_version: Mutex::new(Vec::new()) }
    }

    /// Whether a class has the driver's own methods. False if CPython assigns the class no version,
    /// or if the class changes during the check.
    pub fn has(&self, class: &Bound<'_, PyType>) -> PyResult<bool> {
        let before = version::of(class);
        let by_version = || self.by_version.lock().unwrap_or_else(PoisonError::into_inner);
        let of_version = |version| {
            by_version().iter().find(|(seen, _)| *seen == version).map(|(_, usual)| *usual)
        };
        if before != 0
            && let Some(is_usual) = of_version(before)
        {
            return Ok(is_usual);
        }
        let is_usual = self.is_usual.bind(class.py()).call1((class,))?.is_truthy()?;
        // The attribute lookups of the Python function make CPython assign a version to the class.
        let after = version::of(class);
        if after == 0 || (before != 0 && after != before) {
            return Ok(false);
        }
        let mut by_version = by_version();
        if by_version.len() == MOST_CLASSES {
            by_version.clear();
        }
        by_version.push((after, is_usual));
        Ok(is_usual)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    ProcessIoBuffer,
    ProcessMsg,
}

/// Stands in for `process_io_buffer` or `process_msg` of connections.
#[pyclass(frozen, module = "turbocql._core")]
pub struct FrameStandIn {
    original: Py<PyAny>,
    frames: Py<Frames>,
    kind: Kind,
    counts: Counts,
}

#[pymethods]
impl FrameStandIn {
    #[new]
    fn new(original: Py<PyAny>, frames: Py<Frames>, name: &str) -> PyResult<FrameStandIn> {
        let kind = match name {
            "process_io_buffer" => Kind::ProcessIoBuffer,
            "process_msg" => Kind::ProcessMsg,
            _ => return Err(PyValueError::new_err(format!("unknown function: {name:?}"))),
        };
        Ok(FrameStandIn { original, frames, kind, counts: Counts::default() })
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks. A frame that `process_io_buffer` dispatches
    /// without calling `process_msg` counts as a native call of `process_msg`.
    fn counts(&self) -> (u64, u64) {
        let (native, fallback) = self.counts.get();
        match self.kind {
            Kind::ProcessIoBuffer => (native, fallback),
            Kind::ProcessMsg => (native + self.frames.get().dispatched.get().0, fallback),
        }
    }
}

impl StandIn for FrameStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let frames = stand_in.frames.get();
        let Some(connection) = arguments.first() else { return Ok(None) };
        if !frames.connections.has(&connection.get_type())? || !frames.usual.get().holds(py)? {
            return Ok(None);
        }
        let done = match (stand_in.kind, arguments) {
            (Kind::ProcessIoBuffer, [connection]) => frames.process_io_buffer(connection)?,
            (Kind::ProcessMsg, [connection, header, body]) => {
                frames.process_msg(connection, header, body)?
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
