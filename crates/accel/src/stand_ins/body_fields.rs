//! Reads the fields of the driver's messages, and the features of its connections.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString, PyType};
use turbocql_codec::message::{Consistency, Extensions, SerialConsistency, Settings, Version};

use super::body_reason::Reason;
use crate::ffi::attribute;

/// The value of a field, or the reason why the driver's method must write the body.
pub type FieldResult<T> = Result<T, Reason>;

/// Reads an attribute with [`Fields::get`] or with another method of [`Fields`]. The literal is the
/// name of the attribute.
macro_rules! field {
    ($fields:expr, $name:literal) => {
        field!($fields, get $name)
    };
    ($fields:expr, $method:ident $name:literal) => {
        $fields.$method($name, pyo3::intern!($fields.py(), $name))
    };
}
pub(super) use field;

/// Reads the attributes of an object of the driver.
pub struct Fields<'a, 'py>(pub &'a Bound<'py, PyAny>);

impl<'py> Fields<'_, 'py> {
    pub fn py(&self) -> Python<'py> {
        self.0.py()
    }

    pub fn get(
        &self,
        name: &'static str,
        interned: &Bound<'py, PyString>,
    ) -> FieldResult<Bound<'py, PyAny>> {
        attribute::optional(self.0, interned).ok().flatten().ok_or(Reason::Field(name))
    }

    /// Checks that an attribute is None, False or missing. Returns the reason if it is not, or if
    /// its lookup raises.
    pub fn off(&self, name: &'static str, interned: &Bound<'py, PyString>) -> FieldResult<()> {
        match is_off(self.0, interned) {
            Some(true) => Ok(()),
            _ => Err(Reason::Field(name)),
        }
    }

    /// Whether an attribute is True. A missing attribute and None count as False. Any other value
    /// than True, False and None is refused.
    pub fn flag(&self, name: &'static str, interned: &Bound<'py, PyString>) -> FieldResult<bool> {
        match attribute::optional(self.0, interned) {
            Ok(None) => Ok(false),
            Ok(Some(value)) if value.is_none() => Ok(false),
            Ok(Some(value)) => match value.cast_exact::<PyBool>() {
                Ok(value) => Ok(value.is_true()),
                Err(_) => Err(Reason::Field(name)),
            },
            Err(_) => Err(Reason::Field(name)),
        }
    }

    /// Returns the keyspace of the message; `None` if the message has none. Before protocol version
    /// 5, a keyspace is refused, because bodies of these versions have none. An empty keyspace is
    /// always refused, because drivers do not write it as the protocol requires.
    pub fn keyspace(&self, version: Version) -> FieldResult<Option<Bound<'py, PyString>>> {
        let keyspace = field!(self, "keyspace")?;
        if keyspace.is_none() {
            return Ok(None);
        }
        let unusual = Reason::Field("keyspace");
        let keyspace = keyspace.cast_into_exact::<PyString>().map_err(|_| unusual)?;
        let usual = version >= Version::V5 && keyspace.len().is_ok_and(|length| length > 0);
        if usual { Ok(Some(keyspace)) } else { Err(unusual) }
    }

    pub fn settings<'k>(
        &self,
        keyspace: Option<&'k Bound<'py, PyString>>,
    ) -> FieldResult<Settings<'k>> {
        let level = number16(&field!(self, "consistency_level")?)
            .and_then(Consistency::from_number)
            .ok_or(Reason::Field("consistency_level"))?;
        let mut settings = Settings::new(level);
        let name = "serial_consistency_level";
        settings.serial_consistency = match field!(self, "serial_consistency_level")
            .and_then(|level| optional(name, &level))?
        {
            None | Some(0) => None,
            Some(8) => Some(SerialConsistency::Serial),
            Some(9) => Some(SerialConsistency::LocalSerial),
            Some(_) => return Err(Reason::Field(name)),
        };
        settings.timestamp = match optional("timestamp", &field!(self, "timestamp")?)? {
            None => None,
            Some(time) if time >= 0 => Some(time),
            Some(_) => return Err(Reason::Field("timestamp")),
        };
        settings.keyspace = match keyspace {
            Some(keyspace) => Some(keyspace.to_str().map_err(|_| Reason::Field("keyspace"))?),
            None => None,
        };
        Ok(settings)
    }

    /// Returns the maximum number of rows of a page; `None` if the field is None or 0.
    pub fn page_size(&self) -> FieldResult<Option<i32>> {
        match optional("fetch_size", &field!(self, "fetch_size")?)? {
            None | Some(0) => Ok(None),
            Some(size) => i32::try_from(size).map(Some).map_err(|_| Reason::Field("fetch_size")),
        }
    }

    pub fn paging_state(&self) -> FieldResult<Option<Bound<'py, PyBytes>>> {
        let state = field!(self, "paging_state")?;
        if state.is_none() {
            return Ok(None);
        }
        let state = state.cast_into_exact::<PyBytes>();
        state.map(Some).map_err(|_| Reason::Field("paging_state"))
    }

    /// Returns the byte of a tablet's version. It is 0 if the field is None, as in the drivers.
    pub fn tablet_version(&self) -> FieldResult<u8> {
        match optional("tablet_version_block", &field!(self, "tablet_version_block")?)? {
            None => Ok(0),
            Some(byte) => u8::try_from(byte).map_err(|_| Reason::Field("tablet_version_block")),
        }
    }
}

fn is_off<'py>(object: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Option<bool> {
    match attribute::optional(object, name).ok()? {
        None => Some(true),
        Some(value) => Some(value.is_none() || value.is(PyBool::new(value.py(), false))),
    }
}

/// Returns the value of an exact `int` that fits 16 unsigned bits; `None` for any other object.
pub fn number16(value: &Bound<'_, PyAny>) -> Option<u16> {
    u16::try_from(value.cast_exact::<PyInt>().ok()?.extract::<i64>().ok()?).ok()
}

/// Returns the number of a field; `None` if the field is None.
fn optional(name: &'static str, value: &Bound<'_, PyAny>) -> FieldResult<Option<i64>> {
    if value.is_none() {
        return Ok(None);
    }
    let number = value.cast_exact::<PyInt>().ok().and_then(|number| number.extract::<i64>().ok());
    number.map(Some).ok_or(Reason::Field(name))
}

/// The driver's class for the features of a connection, and the names of the features that are
/// unknown to turbocql and may change bodies.
pub struct Features {
    class: Py<PyType>,
    unknown: Vec<Py<PyString>>,
}

impl Features {
    pub fn new(class: Py<PyType>, unknown: Vec<Py<PyString>>) -> Features {
        Features { class, unknown }
    }

    /// Returns the names of the features that are unknown to turbocql and may change bodies.
    pub fn unknown(&self, py: Python<'_>) -> Vec<String> {
        self.unknown.iter().map(|name| name.bind(py).to_string()).collect()
    }

    /// Checks that an object is exactly of the driver's class, and that none of the unknown
    /// features is on in it. Returns the reason if that is not so.
    pub fn check(&self, features: &Bound<'_, PyAny>) -> FieldResult<()> {
        let py = features.py();
        if !features.get_type().is(&self.class) {
            return Err(Reason::Features);
        }
        for (at, name) in self.unknown.iter().enumerate() {
            if is_off(features, name.bind(py)) != Some(true) {
                return Err(Reason::Unknown(at));
            }
        }
        Ok(())
    }
}

/// Returns the protocol extensions for an EXECUTE on a connection with these features.
pub fn extensions(
    features: Option<&Bound<'_, PyAny>>,
    message: &Fields<'_, '_>,
) -> FieldResult<Extensions> {
    let Some(features) = features.map(Fields) else { return Ok(Extensions::default()) };
    let metadata_ids = field!(features, flag "use_metadata_id")?;
    let tablet_version = if field!(features, flag "tablets_routing_v2")? {
        Some(message.tablet_version()?)
    } else {
        None
    };
    Ok(Extensions { metadata_ids, tablet_version })
}
