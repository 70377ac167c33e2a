//! CQL types as Python objects.

use std::sync::Arc;

use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};
use turbocql_codec::cql_type::MAX_PARTS;
use turbocql_codec::parse::{cql, marshal};
use turbocql_codec::{CqlType, UdtType};

use crate::ending::Inside;
use crate::error::{self, Direction};
use crate::plan::HostPlan;
use crate::plan::{Classes, compile};
use crate::python;
use crate::value::describe::describe;

/// A CQL type.
///
/// A `CqlType` is made from CQL text, from another `CqlType`, or from a class of
/// `cassandra.cqltypes`. The static methods make a type from its parts. Types are equal if they
/// have the same structure and names, and are frozen at the same places. `str()` returns the type
/// as CQL, with only the name of a user-defined type. `definition` adds the fields, and `CqlType`
/// reads the text of `definition` as the same type.
///
/// In text, a user-defined type is its name and, in braces, its fields. If the braces are left out,
/// `udts` must map the name, as `name` or `keyspace.name`, to the type or to the type's text. Text
/// in single quotes is a Java class name.
///
/// Raises: `ValueError` for text that is not a CQL type, and for types that nest deeper than 64
///     levels or have more than 65,536 parts; `TypeError` for an object that is not a type.
#[pyclass(frozen, eq, hash, name = "CqlType", module = "turbocql.codec")]
pub struct CqlType_ {
    pub cql_type: CqlType,
    plan: PyOnceLock<Arc<HostPlan>>,
}

impl PartialEq for CqlType_ {
    fn eq(&self, other: &Self) -> bool {
        self.cql_type == other.cql_type
    }
}

impl std::hash::Hash for CqlType_ {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.cql_type.hash(state);
    }
}

impl CqlType_ {
    fn checked(cql_type: CqlType) -> PyResult<CqlType_> {
        cql_type.check().map_err(PyValueError::new_err)?;
        Ok(CqlType_ { cql_type, plan: PyOnceLock::new() })
    }

    /// Makes the Python object for a type. Checks the type, even if the caller has checked it
    /// before.
    pub fn new_of(cql_type: &CqlType) -> PyResult<CqlType_> {
        CqlType_::checked(cql_type.clone())
    }

    /// The type's plan, compiled at the first call and then cached.
    pub fn plan(&self, py: Python<'_>) -> PyResult<&Arc<HostPlan>> {
        self.plan.get_or_try_init(py, || compiled(py, &self.cql_type))
    }

    fn as_udt(&self) -> Option<&UdtType> {
        if let CqlType::Udt(udt) = &self.cql_type { Some(udt) } else { None }
    }
}

pub fn compiled(py: Python<'_>, cql_type: &CqlType) -> PyResult<Arc<HostPlan>> {
    compile(py, cql_type, &Classes::default())
        .map(Arc::new)
        .map_err(|f| error::raise(py, *f, Direction::Encode))
}

/// Returns the type that a `CqlType`, CQL text or a class of `cassandra.cqltypes` stands for.
pub fn object_of<'py>(definition: &Bound<'py, PyAny>) -> PyResult<Bound<'py, CqlType_>> {
    if let Ok(cql_type) = definition.cast::<CqlType_>() {
        return Ok(cql_type.clone());
    }
    let py = definition.py();
    if let Ok(text) = definition.cast::<PyString>() {
        return Bound::new(py, parse(text, None)?);
    }
    if definition.is_instance_of::<PyType>() {
        let cql_type = python::from_cassandra(py)?.call1((definition,))?;
        return Ok(cql_type.cast_into::<CqlType_>()?);
    }
    let reason = format!(
        "a CQL type is CQL text, a CqlType or a class of cassandra.cqltypes, got {}",
        describe(definition)
    );
    Err(PyTypeError::new_err(reason))
}

fn type_of(definition: &Bound<'_, PyAny>) -> PyResult<CqlType> {
    Ok(object_of(definition)?.get().cql_type.clone())
}

fn all_of(definitions: &Bound<'_, PyTuple>) -> PyResult<Vec<CqlType>> {
    let mut types = Vec::new();
    let mut parts = 0;
    for cql_type in definitions {
        let cql_type = type_of(&cql_type)?;
        count(&mut parts, &cql_type)?;
        types.push(cql_type);
    }
    Ok(types)
}

/// Adds the number of parts of one subtype to `parts`. Refuses too many parts here, before the type
/// that contains the subtype is made.
fn count(parts: &mut usize, cql_type: &CqlType) -> PyResult<()> {
    *parts += cql_type.parts();
    if *parts < MAX_PARTS {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("the type has more than {MAX_PARTS} parts")))
}

fn parse(text: &Bound<'_, PyString>, udts: Option<&Bound<'_, PyAny>>) -> PyResult<CqlType_> {
    let mut raised = None;
    let mut resolve = |keyspace: &str, name: &str| {
        let udts = udts?;
        let qualified_name;
        let key = if keyspace.is_empty() {
            name
        } else {
            qualified_name = format!("{keyspace}.{name}");
            &qualified_name
        };
        let resolved = udts.get_item(key).and_then(|resolved| match resolved.cast::<PyString>() {
            // The user-defined types that this text names are looked up in `udts` too.
            Ok(text) => Ok(Inside::nested(udts.py()).and_then(|_inside| parse(text, Some(udts)))?),
            Err(_) => CqlType_::new_of(&type_of(&resolved)?),
        });
        let resolved = resolved.and_then(|resolved| {
            let resolved_type = resolved.cql_type.thawed();
            if let CqlType::Udt(_) = resolved_type {
                Ok(resolved.cql_type.clone())
            } else {
                let reason = format!("udts[{key:?}] is {resolved_type}, not a user-defined type");
                Err(PyValueError::new_err(reason))
            }
        });
        resolved
            .map_err(|error| {
                if !error.is_instance_of::<PyKeyError>(text.py()) {
                    raised = Some(error);
                }
            })
            .ok()
    };
    let parsed = cql::parse_with(text.to_str()?, &mut resolve);
    if let Some(error) = raised {
        return Err(error);
    }
    CqlType_::checked(parsed.map_err(|error| PyValueError::new_err(error.to_string()))?)
}

#[pymethods]
impl CqlType_ {
    #[new]
    #[pyo3(signature = (cql_type, *, udts=None))]
    fn new(cql_type: &Bound<'_, PyAny>, udts: Option<&Bound<'_, PyAny>>) -> PyResult<CqlType_> {
        let _inside = Inside::nested(cql_type.py())?;
        match cql_type.cast::<PyString>() {
            Ok(text) => parse(text, udts),
            Err(_) => CqlType_::checked(type_of(cql_type)?),
        }
    }

    /// Makes a type from a Java class name, as in the protocol and the system tables.
    ///
    /// `ReversedType` is skipped, because it does not change the bytes. An unknown class becomes a
    /// custom type, whose values are bytes.
    #[staticmethod]
    fn from_class_name(class_name: &str) -> PyResult<CqlType_> {
        let parsed = marshal::parse(class_name);
        CqlType_::checked(parsed.map_err(|error| PyValueError::new_err(error.to_string()))?)
    }

    /// Makes the type `list<element>`.
    #[staticmethod]
    fn list_of(element: &Bound<'_, PyAny>) -> PyResult<CqlType_> {
        CqlType_::checked(CqlType::List(Box::new(type_of(element)?)))
    }

    /// Makes the type `set<element>`.
    #[staticmethod]
    fn set_of(element: &Bound<'_, PyAny>) -> PyResult<CqlType_> {
        CqlType_::checked(CqlType::Set(Box::new(type_of(element)?)))
    }

    /// Makes the type `map<key, value>`.
    #[staticmethod]
    fn map_of(key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<CqlType_> {
        CqlType_::checked(CqlType::Map(Box::new(type_of(key)?), Box::new(type_of(value)?)))
    }

    /// Makes the type `tuple<component, ...>`.
    #[staticmethod]
    #[pyo3(signature = (*components))]
    fn tuple_of(components: &Bound<'_, PyTuple>) -> PyResult<CqlType_> {
        let components = all_of(components)?;
        if components.is_empty() {
            return Err(PyValueError::new_err("a tuple needs at least one component"));
        }
        CqlType_::checked(CqlType::Tuple(components))
    }

    /// Makes Java's `CompositeType`, which old tables use for clustering columns.
    #[staticmethod]
    #[pyo3(signature = (*components))]
    fn composite_of(components: &Bound<'_, PyTuple>) -> PyResult<CqlType_> {
        let components = all_of(components)?;
        if components.is_empty() {
            return Err(PyValueError::new_err("a composite needs at least one component"));
        }
        CqlType_::checked(CqlType::Composite(components))
    }

    /// Makes the type `vector<element, dimension>`.
    #[staticmethod]
    fn vector_of(element: &Bound<'_, PyAny>, dimension: &Bound<'_, PyAny>) -> PyResult<CqlType_> {
        let reason = || format!("dimension must be 0 to 2147483647, got {}", describe(dimension));
        let number: i64 = dimension.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyTypeError>(dimension.py()) {
                PyTypeError::new_err(reason())
            } else {
                PyValueError::new_err(reason())
            }
        })?;
        let number = i32::try_from(number).ok().and_then(|number| u32::try_from(number).ok());
        let number = number.ok_or_else(|| PyValueError::new_err(reason()))?;
        CqlType_::checked(CqlType::Vector(Box::new(type_of(element)?), number))
    }

    /// Makes the type `frozen<inner>`.
    #[staticmethod]
    fn frozen(inner: &Bound<'_, PyAny>) -> PyResult<CqlType_> {
        CqlType_::checked(CqlType::Frozen(Box::new(type_of(inner)?)))
    }

    /// Makes a user-defined type.
    ///
    /// `fields` is a mapping from name to type, or an iterable of pairs `(name, type)`, in order.
    #[staticmethod]
    #[pyo3(signature = (name, fields, *, keyspace=""))]
    fn udt(name: &str, fields: &Bound<'_, PyAny>, keyspace: &str) -> PyResult<CqlType_> {
        let mut of = Vec::new();
        let mut parts = 0;
        let pairs = match fields.getattr_opt(pyo3::intern!(fields.py(), "items"))? {
            Some(items) => items.call0()?,
            None => fields.clone(),
        };
        for pair in pairs.try_iter()? {
            let (field, cql_type) = pair?.extract::<(String, Bound<'_, PyAny>)>()?;
            let cql_type = type_of(&cql_type)?;
            count(&mut parts, &cql_type)?;
            of.push((field, cql_type));
        }
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        CqlType_::checked(CqlType::Udt(Arc::new(UdtType { keyspace, name, fields: of })))
    }

    /// The kind of type: `int`, `list`, `frozen`, `udt`, ...
    ///
    /// It is `custom` for a Java class that the codec does not know.
    #[getter]
    fn kind(&self) -> &'static str {
        self.cql_type.kind()
    }

    /// The types directly inside this one, as a tuple; empty if there are none.
    ///
    /// For a collection, these are the types of its elements, or of its key and value. For a tuple
    /// or a user-defined type, they are the types of its components or fields. For `frozen`, it is
    /// the type inside.
    #[getter]
    fn subtypes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let parts = self.cql_type.subtypes().into_iter().cloned().map(CqlType_::checked);
        PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)
    }

    /// The number of elements of a vector; None for other types.
    #[getter]
    fn dimension(&self) -> Option<u32> {
        if let CqlType::Vector(_, dimension) = self.cql_type { Some(dimension) } else { None }
    }

    /// The keyspace of a user-defined type, empty if it is not known; None for other types.
    #[getter]
    fn keyspace(&self) -> Option<&str> {
        self.as_udt().map(|udt| udt.keyspace.as_str())
    }

    /// The name of a user-defined type; None for other types.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.as_udt().map(|udt| udt.name.as_str())
    }

    /// The field names of a user-defined type; an empty tuple for other types.
    #[getter]
    fn field_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let fields = self.as_udt().map(|udt| udt.fields.as_slice()).unwrap_or_default();
        PyTuple::new(py, fields.iter().map(|(name, _)| name))
    }

    /// The type as a Java class name, such as `org.apache.cassandra.db.marshal.Int32Type`.
    #[getter]
    fn class_name(&self) -> String {
        self.cql_type.class_name()
    }

    /// The type as CQL, with the fields of user-defined types in braces.
    ///
    /// `CqlType` reads this text as the same type.
    #[getter]
    fn definition(&self) -> String {
        self.cql_type.definition()
    }

    fn __str__(&self) -> String {
        self.cql_type.to_string()
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<String> {
        let definition = PyString::new(py, &self.definition());
        Ok(format!("CqlType({})", definition.repr()?.to_str()?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (String,))> {
        Ok((py.get_type::<CqlType_>(), (self.definition(),)))
    }
}
