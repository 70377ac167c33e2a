//! Readers, which form trees. A reader describes, for one type, how bytes become the value that the
//! package `cassandra` makes from them.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBool, PyDict, PyString, PyTuple, PyType};
use turbocql_codec::Plan;

use turbocql_values::classes::cql_type::CqlType_;
use turbocql_values::plan::HostPlan;
use turbocql_values::traits::traits;

use crate::types::{has_drivers_class, makes};

/// How bytes become values of one type.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ValueReader {
    pub kind: Kind,
    pub empty: Empty,
    /// How deep the type is nested; 1 for a scalar.
    depth: usize,
}

/// How a value of zero bytes is decoded.
pub enum Empty {
    /// The type decodes it, like any other bytes.
    Read,
    /// The value is None.
    None,
    /// The value is this object (the driver's `EMPTY`).
    Object(Py<PyAny>),
}

pub enum Kind {
    /// A scalar, or a vector of numbers whose elements are written without lengths.
    Leaf(Arc<HostPlan>),
    List(Py<ValueReader>),
    Set(Py<ValueReader>, SetClass),
    Map(Box<(Py<ValueReader>, Py<ValueReader>)>, MapClass),
    Tuple(Vec<Py<ValueReader>>),
    Udt(Vec<Py<ValueReader>>, UdtClass),
    /// Has three fields: the reader of the elements; the dimension; and the size of an element in
    /// bytes, or `None` if each element is written with its length.
    Vector(Py<ValueReader>, usize, Option<usize>),
    /// A frozen or reversed type. Its values are those of the type that it wraps.
    Through(Py<ValueReader>),
    /// The values are not read natively, but by `deserialize` of this class of the driver.
    Python(Py<PyAny>),
}

pub struct SetClass {
    /// A callable that is passed the list of elements and returns the set.
    pub make: Py<PyAny>,
    /// The driver's `SortedSet`. It is `None` if `make` is not that class, or if instances of the
    /// class have other attributes than `_items`, the list of the sorted elements.
    pub sorted: Option<Py<PyAny>>,
}

pub struct MapClass {
    pub class: Py<PyAny>,
    /// The driver's class of the key type.
    pub key: Py<PyAny>,
}

pub struct UdtClass {
    /// The driver's class of the type.
    pub class: Py<PyType>,
    pub keyspace: Py<PyAny>,
    pub name: Py<PyAny>,
    pub fields: Vec<Py<PyString>>,
    /// The named tuple class of the type, if it is as `collections.namedtuple` has made it.
    pub plain: Option<Py<PyAny>>,
}

/// The maximum depth of nested types. For the driver's own functions, Python's recursion limit sets
/// the maximum.
const DEEPEST: usize = 200;

type Given<'py> = Bound<'py, ValueReader>;

/// In all constructors, `empty` says how a value of zero bytes is decoded. If `empty` is True, the
/// type decodes the zero bytes. If it is None or any other object, the value is that object.
#[pymethods]
impl ValueReader {
    /// Makes the reader of a scalar, or of a vector of numbers that are written without lengths.
    #[staticmethod]
    fn leaf(cql_type: &Bound<'_, CqlType_>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        let plan = cql_type.get().plan(cql_type.py())?;
        if !makes(plan) {
            return Err(PyValueError::new_err("there is no native reader for this type"));
        }
        ValueReader::new(Kind::Leaf(plan.clone()), empty)
    }

    #[staticmethod]
    fn list_of(element: Given<'_>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        ValueReader::new(Kind::List(element.unbind()), empty)
    }

    /// `make` is called with the list of elements. If that call only sorts the list, `sorted` is
    /// the class of the result; otherwise it is None.
    #[staticmethod]
    fn set_of(
        element: Given<'_>,
        make: Py<PyAny>,
        sorted: Option<Py<PyAny>>,
        empty: &Bound<'_, PyAny>,
    ) -> PyResult<ValueReader> {
        ValueReader::new(Kind::Set(element.unbind(), SetClass { make, sorted }), empty)
    }

    /// Maps become instances of `owner`, which keep `key_class`, the driver's class of the key
    /// type.
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

    /// `owner` is the driver's class of the type. `plain` is the named tuple class of the type, if
    /// that class is as `collections.namedtuple` has made it.
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
            return Err(PyValueError::new_err("a named tuple class must be a subclass of tuple"));
        }
        ValueReader::new(Kind::Udt(parts, udt), empty)
    }

    /// `cql_type` is the type of the vector, not of an element. It has the dimension and the width
    /// of an element.
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

    /// Makes the reader of a type whose values are those of the type that it wraps.
    #[staticmethod]
    fn through(inner: Given<'_>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        ValueReader::new(Kind::Through(inner.unbind()), empty)
    }

    /// Makes a reader that calls `deserialize` of the driver's class `owner`.
    #[staticmethod]
    fn python(owner: Py<PyAny>, empty: &Bound<'_, PyAny>) -> PyResult<ValueReader> {
        ValueReader::new(Kind::Python(owner), empty)
    }

    /// Returns the size of one element in bytes, for a vector type whose elements are written
    /// without lengths; None for all other types.
    #[staticmethod]
    fn element_width(cql_type: &Bound<'_, CqlType_>) -> PyResult<Option<usize>> {
        let plan = cql_type.get().plan(cql_type.py())?;
        Ok(if let Plan::Vector(vector) = &**plan { vector.width } else { None })
    }

    /// False if the reader only calls `deserialize` of the driver's class.
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
        let mut reader = ValueReader { kind, empty, depth: 0 };
        reader.depth = 1 + reader.parts().iter().map(|part| part.get().depth).max().unwrap_or(0);
        if reader.depth > DEEPEST {
            return Err(PyValueError::new_err("types are nested too deep"));
        }
        Ok(reader)
    }

    /// Whether the values cannot form reference cycles. The GC need not track a row of such values.
    pub fn is_atomic(&self) -> bool {
        // Instances of the driver's Date, Time and Duration have a dict.
        match &self.kind {
            Kind::Leaf(plan) => traits(plan).atomic && !has_drivers_class(plan),
            Kind::List(_)
            | Kind::Set(..)
            | Kind::Map(..)
            | Kind::Tuple(_)
            | Kind::Udt(..)
            | Kind::Vector(..)
            | Kind::Through(_)
            | Kind::Python(_) => false,
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

    /// Whether the type is or contains a user-defined type.
    pub fn has_udts(&self) -> bool {
        let is_one = matches!(self.kind, Kind::Udt(..));
        is_one || self.parts().into_iter().any(|part| part.get().has_udts())
    }

    /// The driver has a class for each user-defined type. For each such type that this reader or
    /// one of its parts reads, sets `mapped_class` of the driver's class to the class that the
    /// application has registered for the type, or to None. The driver does this whenever it reads
    /// the metadata of a result.
    pub fn register(&self, mapped_classes: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = mapped_classes.py();
        for part in self.parts() {
            part.get().register(mapped_classes)?;
        }
        let Kind::Udt(_, udt) = &self.kind else { return Ok(()) };
        let get = pyo3::intern!(py, "get");
        let of_keyspace = mapped_classes.call_method1(get, (&udt.keyspace, PyDict::new(py)))?;
        let now = of_keyspace.call_method1(get, (&udt.name,))?;
        let (class, mapped) = (udt.class.bind(py), pyo3::intern!(py, "mapped_class"));
        if !class.getattr(mapped)?.is(&now) {
            class.setattr(mapped, now)?;
        }
        Ok(())
    }
}
