//! Parts that several kinds of message have in common.

use pyo3::IntoPyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use turbocql_codec::Cell;
use turbocql_codec::message::{self, AsCell, Consistency, Parameters, SerialConsistency, Settings};

use super::given::{self, At, refused, unexpected};
use super::values::Values;
use crate::value::describe::describe;

type Given<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The smallest timestamp that can be sent. Servers read `i64::MIN` as "no timestamp".
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
        consistency: Given<'_, '_>,
        serial_consistency: Given<'_, '_>,
        timestamp: Given<'_, '_>,
        keyspace: Given<'_, '_>,
        now_in_seconds: Given<'_, '_>,
    ) -> PyResult<Common> {
        Ok(Common {
            consistency: Level::take(consistency)?,
            serial_consistency: SerialLevel::take(serial_consistency)?,
            timestamp: timestamp
                .map(|given| given::int(given, "timestamp", EARLIEST, i64::MAX))
                .transpose()?,
            keyspace: keyspace
                .map(|given| given::short_text(given, At::argument("keyspace")))
                .transpose()?,
            now_in_seconds: int_32(now_in_seconds, "now_in_seconds", i32::MIN)?,
        })
    }

    /// The settings in the form that the codec takes.
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

fn int_32(given: Given<'_, '_>, name: &str, least: i32) -> PyResult<Option<i32>> {
    let most = i64::from(i32::MAX);
    let number = given.map(|given| given::int(given, name, i64::from(least), most)).transpose()?;
    Ok(number.map(|number| number as i32))
}

/// The parameters with which the bodies of QUERY and EXECUTE end.
pub struct Ending {
    pub values: Values,
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub paging_state: Option<Py<PyBytes>>,
    pub common: Common,
}

impl Ending {
    pub fn take(
        values: Given<'_, '_>,
        skip_metadata: bool,
        page_size: Given<'_, '_>,
        paging_state: Given<'_, '_>,
        common: Common,
    ) -> PyResult<Ending> {
        Ok(Ending {
            values: Values::take(values)?,
            skip_metadata,
            page_size: int_32(page_size, "page_size", 1)?,
            paging_state: paging_state
                .map(|given| {
                    given::named_bytes(given, At::argument("paging_state"), given::LONGEST)
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

/// A consistency level for the serial phase. Python reads it as a member of `turbocql.Consistency`.
#[derive(Clone, Copy)]
pub struct SerialLevel(pub SerialConsistency);

impl Level {
    /// Reads the argument; without an argument the level is ONE.
    pub fn take(given: Option<&Bound<'_, PyAny>>) -> PyResult<Level> {
        let Some(given) = given else { return Ok(Level(Consistency::One)) };
        let name = level_name(given, "consistency")?;
        Consistency::from_name(name).map(Level).ok_or_else(|| {
            let names = Consistency::names().collect::<Vec<_>>().join(", ");
            let reason = format!("expected one of {names}, got {}", describe(given));
            refused(given.py(), At::argument("consistency"), &reason)
        })
    }
}

impl SerialLevel {
    pub fn take(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<SerialLevel>> {
        let Some(given) = given else { return Ok(None) };
        let name = level_name(given, "serial_consistency")?;
        SerialConsistency::from_name(name).map(|level| Some(SerialLevel(level))).ok_or_else(|| {
            let reason = format!("expected SERIAL or LOCAL_SERIAL, got {}", describe(given));
            refused(given.py(), At::argument("serial_consistency"), &reason)
        })
    }
}

fn level_name<'a>(given: &'a Bound<'_, PyAny>, name: &str) -> PyResult<&'a str> {
    let wrong = || unexpected(At::argument(name), "a turbocql.Consistency or its name", given);
    given.cast::<PyString>().map_err(|_| wrong())?.to_str().map_err(|_| wrong())
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
