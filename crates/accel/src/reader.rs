//! How bytes become the values that the package `cassandra` makes of them, of all its types.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBool, PyDict, PyString, PyTuple, PyType};
use turbocql_codec::Plan;

use turbocql_values::classes::cql_type::CqlType_;
use turbocql_values::value::{HostPlan, is_atomic};

use crate::ffi::reference::makes;

/// How bytes become values, of one type.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ValueReader {
    pub kind: Kind,
    pub empty: Empty,
    /// Types in types.
    depth: usize,
}

/// What zero bytes are, where a type does not read them.
pub enum Empty {
    Read,
    None,
    /// What stands for it.
    Object(Py<PyAny>),
}

pub enum Kind {
    /// A scalar, or a vector of bare numbers.
    Leaf(Arc<HostPlan>),
    List(Py<ValueReader>),
    Set(Py<ValueReader>, SetClass),
    Map(Box<(Py<ValueReader>, Py<ValueReader>)>, MapClass),
    Tuple(Vec<Py<ValueReader>>),
    Udt(Vec<Py<ValueReader>>, UdtClass),
    /// So many, of so many bytes each where that is fixed.
    Vector(Py<ValueReader>, usize, Option<usize>),
    /// The same value in another type.
    Through(Py<ValueReader>),
    /// By the driver's class of the type, whose `deserialize` is called.
    Python(Py<PyAny>),
}

pub struct SetClass {
    /// Called with a list.
    pub make: Py<PyAny>,
    /// The class that keeps elements in order in a list of that name, where calling it does just
    /// that.
    pub sorted: Option<Py<PyAny>>,
}

pub struct MapClass {
    pub class: Py<PyAny>,
    /// The driver's class of its keys.
    pub key: Py<PyAny>,
}

pub struct UdtClass {
    /// The driver's class of the type.
    pub class: Py<PyType>,
    pub keyspace: Py<PyAny>,
    pub name: Py<PyAny>,
    pub fields: Vec<Py<PyString>>,
    /// A class of named tuples that does no more than to be one.
    pub plain: Option<Py<PyAny>>,
}

/// How deep types may be in one another: the driver's own way ends by Python's limit.
const DEEPEST: usize = 200;

type Given<'py> = Bound<'py, ValueReader>;

/// `empty` is true where a type reads zero bytes, None where they are no value, or else what
/// stands for them.
#[pymethods]
impl ValueReader {
    /// A scalar, or a vector of bare numbers.
    #[staticmethod]
    fn leaf(cql_type: &Bound<'_, CqlType_>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        let plan = cql_type.get().plan(cql_type.py())?;
        if !makes(plan) {
            return Err(PyValueError::new_err("values of this type are not read natively"));
        }
        ValueReader::new(Kind::Leaf(plan.clone()), empty)
    }

    #[staticmethod]
    fn list_of(element: Given<'_>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        ValueReader::new(Kind::List(element.unbind()), empty)
    }

    /// `make` is called with a list; `sorted` is the class that this gives an instance of, where it
    /// does no more than to put the list in order.
    #[staticmethod]
    fn set_of(
        element: Given<'_>,
        make: Py<PyAny>,
        sorted: Option<Py<PyAny>>,
        empty: &Bound<'_, PyAny>,
    ) -> PyResult<ValueReader> {
        ValueReader::new(Kind::Set(element.unbind(), SetClass { make, sorted }), empty)
    }

    /// Made as an instance of a class that keeps the driver's class of the keys.
    #[staticmethod]
    fn map_of(
        key: Given<'_>,
        value: Given<'_>,
        owner: Py<PyAny>,
        key_class: Py<PyAny>,
        empty: &Bound<'_, PyAny>,
    ) -> PyResult<ValueReader> {
        let parts = Box::new((key.unbind(), value.unbind()));
        ValueReader::new(Kind::Map(parts, MapClass { class: owner, key: key_class }), empty)
    }

    #[staticmethod]
    fn tuple_of(parts: Vec<Given<'_>>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        ValueReader::new(Kind::Tuple(parts.into_iter().map(Bound::unbind).collect()), empty)
    }

    /// `owner` is the driver's class; `plain` its class of named tuples, if that is no more than one.
    #[staticmethod]
    fn udt(
        owner: Py<PyType>,
        keyspace: Py<PyAny>,
        name: Py<PyAny>,
        fields: Vec<(Py<PyString>, Given<'_>)>,
        plain: Option<Py<PyAny>>,
        empty: &Bound<'_, PyAny>,
    ) -> PyResult<ValueReader> {
        let (fields, parts): (Vec<_>, Vec<_>) =
            fields.into_iter().map(|(name, part)| (name, part.unbind())).unzip();
        let udt = UdtClass { class: owner, keyspace, name, fields, plain };
        if let Some(plain) = &udt.plain
            && !plain.bind(empty.py()).cast::<PyType>()?.is_subclass_of::<PyTuple>()?
        {
            return Err(PyValueError::new_err("a class of named tuples is a subclass of tuple"));
        }
        ValueReader::new(Kind::Udt(parts, udt), empty)
    }

    /// Of a type of as many dimensions.
    #[staticmethod]
    fn vector_of(
        element: Given<'_>,
        cql_type: &Bound<'_, CqlType_>,
        empty: &Bound<'_, PyAny>,
    ) -> PyResult<ValueReader> {
        let Plan::Vector(vector) = &**cql_type.get().plan(cql_type.py())? else {
            return Err(PyValueError::new_err("not a vector"));
        };
        let kind = Kind::Vector(element.unbind(), vector.dimension, vector.width);
        ValueReader::new(kind, empty)
    }

    /// The same value in another type.
    #[staticmethod]
    fn through(inner: Given<'_>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        ValueReader::new(Kind::Through(inner.unbind()), empty)
    }

    /// By the `deserialize` of the driver's class.
    #[staticmethod]
    fn python(owner: Py<PyAny>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        ValueReader::new(Kind::Python(owner), empty)
    }

    /// Of a vector whose elements have no lengths, the bytes of one.
    #[staticmethod]
    fn element_width(cql_type: &Bound<'_, CqlType_>) -> PyResult<Option<usize>> {
        Ok(match &**cql_type.get().plan(cql_type.py())? {
            Plan::Vector(vector) => vector.width,
            _ => None,
        })
    }

    /// Whether it is more than a function of Python's.
    #[getter]
    fn is_native(&self) -> bool {
        !matches!(self.kind, Kind::Python(_))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for part in self.parts() {
            visit.call(part)?;
        }
        if let Empty::Object(object) = &self.empty {
            visit.call(object)?;
        }
        match &self.kind {
            Kind::Set(_, SetClass { make, sorted }) => {
                visit.call(make)?;
                visit.call(sorted)
            }
            Kind::Map(_, MapClass { class, key }) => {
                visit.call(class)?;
                visit.call(key)
            }
            Kind::Udt(_, UdtClass { class, keyspace, name, fields, plain }) => {
                for field in fields {
                    visit.call(field)?;
                }
                visit.call(class)?;
                visit.call(keyspace)?;
                visit.call(name)?;
                visit.call(plain)
            }
            Kind::Python(read) => visit.call(read),
            Kind::Leaf(_)
            | Kind::List(_)
            | Kind::Tuple(_)
            | Kind::Vector(..)
            | Kind::Through(_) => Ok(()),
        }
    }
}

impl ValueReader {
    fn new(kind: Kind, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        let empty = match empty.cast::<PyBool>() {
            Ok(reads) if reads.is_true() => Empty::Read,
            _ if empty.is_none() => Empty::None,
            _ => Empty::Object(empty.clone().unbind()),
        };
        let mut made = ValueReader { kind, empty, depth: 0 };
        made.depth = 1 + made.parts().iter().map(|part| part.get().depth).max().unwrap_or(0);
        if made.depth > DEEPEST {
            return Err(PyValueError::new_err("types are too deep in one another"));
        }
        Ok(made)
    }

    /// Whether no value refers to other objects.
    pub fn is_atomic(&self) -> bool {
        // Dates and times of the driver's have a dict.
        match &self.kind {
            Kind::Leaf(plan) => {
                is_atomic(plan) && !matches!(**plan, Plan::Date | Plan::Time | Plan::Duration)
            }
            _ => false,
        }
    }

    fn parts(&self) -> Vec<&Py<ValueReader>> {
        match &self.kind {
            Kind::Leaf(_) | Kind::Python(_) => Vec::new(),
            Kind::List(part) | Kind::Set(part, _) => vec![part],
            Kind::Vector(part, ..) | Kind::Through(part) => vec![part],
            Kind::Map(parts, _) => vec![&parts.0, &parts.1],
            Kind::Tuple(parts) | Kind::Udt(parts, _) => parts.iter().collect(),
        }
    }

    /// Whether it holds user-defined types.
    pub fn has_udts(&self) -> bool {
        let is_one = matches!(self.kind, Kind::Udt(..));
        is_one || self.parts().into_iter().any(|part| part.get().has_udts())
    }

    /// Tells the driver's classes of user-defined types what the user's classes for them are, as
    /// the driver does whenever it reads a description.
    pub fn register(&self, known: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = known.py();
        for part in self.parts() {
            part.get().register(known)?;
        }
        let Kind::Udt(_, udt) = &self.kind else { return Ok(()) };
        let get = pyo3::intern!(py, "get");
        let of_keyspace = known.call_method1(get, (&udt.keyspace, PyDict::new(py)))?;
        let now = of_keyspace.call_method1(get, (&udt.name,))?;
        let (class, mapped) = (udt.class.bind(py), pyo3::intern!(py, "mapped_class"));
        if !class.getattr(mapped)?.is(&now) {
            class.setattr(mapped, now)?;
        }
        Ok(())
    }
}
