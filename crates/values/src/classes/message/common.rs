//! Parts that several kinds of message have in common.

use pyo3::IntoPyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use turbocql_codec::Cell;
use turbocql_codec::message::{self, AsCell, Consistency, Parameters, SerialConsistency, Settings};

use super::arguments::{self, At, refused, unexpected};
use super::values::Values;
use crate::value::describe::describe;

type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The smallest timestamp that can be sent. Cassandra uses `i64::MIN` for "no timestamp", and
/// refuses it in a request.
const EARLIEST: i64 = i64::MIN + 1;

/// The settings that all messages have.
pub struct Common {
    pub consistency: Level,
    pub serial_consistency: Option<SerialLevel>,
    pub timestamp: Option<i64>,
    pub keyspace: Option<Py<PyString>>,
    pub now_in_seconds: Option<i32>,
}

impl Common {
    pub fn take(
        consistency: Argument<'_, '_>,
        serial_consistency: Argument<'_, '_>,
        timestamp: Argument<'_, '_>,
        keyspace: Argument<'_, '_>,
        now_in_seconds: Argument<'_, '_>,
    ) -> PyResult<Common> {
        Ok(Common {
            consistency: Level::take(consistency)?,
            serial_consistency: SerialLevel::take(serial_consistency)?,
            timestamp: timestamp
                .map(|timestamp| arguments::int(timestamp, "timestamp", EARLIEST, i64::MAX))
                .transpose()?,
            keyspace: keyspace
                .map(|keyspace| arguments::short_text(keyspace, At::argument("keyspace")))
                .transpose()?,
            now_in_seconds: int_32(now_in_seconds, "now_in_seconds", i32::MIN)?,
        })
    }

    /// Returns the settings in the form that the codec takes.
    pub fn settings<'a>(&'a self, py: Python<'a>) -> PyResult<Settings<'a>> {
        Ok(Settings {
            consistency: self.consistency.0,
            serial_consistency: self.serial_consistency.map(|level| level.0),
            timestamp: self.timestamp,
            keyspace: self.keyspace.as_ref().map(|name| name.to_str(py)).transpose()?,
            now_in_seconds: self.now_in_seconds,
        })
    }
}

fn int_32(argument: Argument<'_, '_>, name: &str, minimum: i32) -> PyResult<Option<i32>> {
    let maximum = i64::from(i32::MAX);
    let number = argument
        .map(|argument| arguments::int(argument, name, i64::from(minimum), maximum))
        .transpose()?;
    Ok(number.map(|number| number as i32))
}

/// The parameters at the end of the body of a QUERY or EXECUTE request.
pub struct Ending {
    pub values: Values,
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub paging_state: Option<Py<PyBytes>>,
    pub common: Common,
}

impl Ending {
    pub fn take(
        values: Argument<'_, '_>,
        skip_metadata: bool,
        page_size: Argument<'_, '_>,
        paging_state: Argument<'_, '_>,
        common: Common,
    ) -> PyResult<Ending> {
        Ok(Ending {
            values: Values::take(values)?,
            skip_metadata,
            page_size: int_32(page_size, "page_size", 1)?,
            paging_state: paging_state
                .map(|state| {
                    arguments::named_bytes(state, At::argument("paging_state"), arguments::LONGEST)
                })
                .transpose()?,
            common,
        })
    }

    /// Calls `call` with the parameters in the form that the codec takes.
    pub fn with<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Parameters<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let (positional, named): (Vec<Cell<'_>>, Vec<(&str, Cell<'_>)>);
        let values = match &self.values {
            Values::Absent => message::Values::Absent,
            Values::Positional(values) => {
                positional = values.iter().map(|value| value.as_cell()).collect();
                message::Values::Positional(&positional)
            }
            Values::Named(values) => {
                named = values
                    .iter()
                    .map(|(name, value)| Ok((name.to_str(py)?, value.as_cell())))
                    .collect::<PyResult<_>>()?;
                message::Values::Named(&named)
            }
        };
        call(Parameters {
            values,
            skip_metadata: self.skip_metadata,
            page_size: self.page_size,
            paging_state: self.paging_state.as_ref().map(|state| state.as_bytes(py)),
            settings: self.common.settings(py)?,
        })
    }
}

/// A consistency level. Python reads it as a member of `turbocql.Consistency`.
#[derive(Clone, Copy)]
pub struct Level(pub Consistency);

/// A consistency level for the serial phase of a conditional update. Python reads it as a member of
/// `turbocql.Consistency`.
#[derive(Clone, Copy)]
pub struct SerialLevel(pub SerialConsistency);

impl Level {
    /// Reads the argument. If it is `None`, the level is ONE.
    pub fn take(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Level> {
        let Some(argument) = argument else { return Ok(Level(Consistency::One)) };
        let name = level_name(argument, "consistency")?;
        Consistency::from_name(name).map(Level).ok_or_else(|| {
            let names = Consistency::names().collect::<Vec<_>>().join(", ");
            let reason = format!("expected one of {names}, got {}", describe(argument));
            refused(argument.py(), At::argument("consistency"), &reason)
        })
    }
}

impl SerialLevel {
    pub fn take(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Option<SerialLevel>> {
        let Some(argument) = argument else { return Ok(None) };
        let name = level_name(argument, "serial_consistency")?;
        SerialConsistency::from_name(name).map(|level| Some(SerialLevel(level))).ok_or_else(|| {
            let reason = format!("expected SERIAL or LOCAL_SERIAL, got {}", describe(argument));
            refused(argument.py(), At::argument("serial_consistency"), &reason)
        })
    }
}

fn level_name<'a>(argument: &'a Bound<'_, PyAny>, name: &str) -> PyResult<&'a str> {
    let wrong = || unexpected(At::argument(name), "a turbocql.Consistency or its name", argument);
    argument.cast::<PyString>().map_err(|_| wrong())?.to_str().map_err(|_| wrong())
}

fn member<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let import =
        || Ok::<_, PyErr>(py.import("turbocql.policies")?.getattr("Consistency")?.unbind());
    CLASS.get_or_try_init(py, import)?.bind(py).get_item(name)
}

impl<'py> IntoPyObject<'py> for &Level {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, self.0.name())
    }
}

impl<'py> IntoPyObject<'py> for &SerialLevel {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, self.0.name())
    }
}
