//! Decodes values to the Python objects that the driver makes, with a tree of readers.

use std::cell::RefCell;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyTuple, PyType};
use turbocql_codec::types;

use crate::reader::{Empty, Kind, MapClass, SetClass, UdtClass, ValueReader};
use crate::scalars::Scalars;
use turbocql_values::ffi::bytes;
use turbocql_values::ffi::make;
use turbocql_values::ffi::rows::{Stopped, Values};
use turbocql_values::plan::HostPlan;
use turbocql_values::traits::{Order, traits};

/// Why a value was not decoded here.
pub enum Refused {
    /// The driver's function must decode the value, or raise its own error.
    Unusual,
    /// An exception that must be passed on, such as `KeyboardInterrupt`.
    Raised(PyErr),
}

impl From<PyErr> for Refused {
    /// An `Exception` becomes `Unusual`: the driver's function is called and raises its own error.
    /// Any other exception, such as `KeyboardInterrupt`, is passed on.
    fn from(error: PyErr) -> Refused {
        Python::attach(|py| match error.is_instance_of::<PyException>(py) {
            true => Refused::Unusual,
            false => Refused::Raised(error),
        })
    }
}

/// Decodes values with their readers.
pub struct Reading<'a, 'py> {
    py: Python<'py>,
    scalars: Scalars<'a, 'py>,
    /// Whether the driver refuses a null in a collection. Such a null is then left to the driver's
    /// function.
    strict_nulls: bool,
    version: Bound<'py, PyInt>,
    /// Caches the forms of values of user-defined types, each with the address of its `UdtClass`.
    forms: RefCell<Vec<(*const UdtClass, UdtForm<'py>)>>,
}

impl<'a, 'py> Reading<'a, 'py> {
    pub fn new(scalars: Scalars<'a, 'py>, strict_nulls: bool, version: i64) -> Self {
        let py = scalars.py;
        let Ok(version) = version.into_pyobject(py);
        Reading { py, scalars, strict_nulls, version, forms: RefCell::default() }
    }

    /// Does the work of `deserialize` of the driver's types.
    pub fn object(&self, reader: &ValueReader, bytes: &[u8]) -> Result<Bound<'py, PyAny>, Refused> {
        self.read(reader, bytes)
    }

    /// Does the work of `from_binary` of the driver's types. `reader.empty` says how zero
    /// bytes are decoded.
    #[inline(always)]
    fn value(&self, reader: &ValueReader, bytes: &[u8]) -> Result<Bound<'py, PyAny>, Refused> {
        if bytes.is_empty() {
            match &reader.empty {
                Empty::Read => {}
                Empty::None => return Ok(self.none()),
                Empty::Object(empty) => return Ok(empty.bind(self.py).clone()),
            }
        }
        self.read(reader, bytes)
    }

    #[inline(always)]
    fn read(&self, reader: &ValueReader, bytes: &[u8]) -> Result<Bound<'py, PyAny>, Refused> {
        match &reader.kind {
            Kind::Leaf(plan) => self.scalars.value(plan, bytes).ok_or(Refused::Unusual),
            Kind::List(_)
            | Kind::Set(..)
            | Kind::Map(..)
            | Kind::Tuple(_)
            | Kind::Udt(..)
            | Kind::Vector(..)
            | Kind::Through(_)
            | Kind::Python(_) => self.compound(reader, bytes),
        }
    }

    fn compound(&self, reader: &ValueReader, bytes: &[u8]) -> Result<Bound<'py, PyAny>, Refused> {
        let value = match &reader.kind {
            Kind::Leaf(_) => return self.read(reader, bytes),
            Kind::Through(inner) => return self.value(inner.get(), bytes),
            Kind::List(element) => self.list(element.get(), bytes)?.into_any(),
            Kind::Set(element, class) => self.set(element.get(), class, bytes)?,
            Kind::Map(entry, class) => self.map(entry, class, bytes)?,
            Kind::Tuple(parts) => self.tuple(parts, None, bytes)?,
            Kind::Udt(parts, udt) => self.udt(parts, udt, bytes)?,
            Kind::Vector(element, dimension, width) => {
                self.vector(element.get(), *dimension, *width, bytes)?.into_any()
            }
            Kind::Python(class) => {
                let encoded = bytes::copy(self.py, bytes)?;
                let read = pyo3::intern!(self.py, "deserialize");
                class.bind(self.py).call_method1(read, (encoded, &self.version))?
            }
        };
        Ok(value)
    }

    fn none(&self) -> Bound<'py, PyAny> {
        self.py.None().into_bound(self.py)
    }

    /// Returns the value of an element that may be null.
    #[inline(always)]
    fn element(
        &self,
        reader: &ValueReader,
        bytes: Option<&[u8]>,
    ) -> Result<Bound<'py, PyAny>, Refused> {
        match bytes {
            Some(bytes) => self.value(reader, bytes),
            None if !self.strict_nulls => Ok(self.none()),
            None => Err(Refused::Unusual),
        }
    }

    fn list(&self, element: &ValueReader, bytes: &[u8]) -> Result<Bound<'py, PyList>, Refused> {
        let mut elements = types::list::decode(bytes).map_err(|_| Refused::Unusual)?;
        let list = make::list::<Refused>(self.py, elements.count(), || {
            let bytes = elements.next_value().map_err(|_| Refused::Unusual)?;
            self.element(element, bytes)
        })?;
        elements.finish().map_err(|_| Refused::Unusual)?;
        Ok(list)
    }

    fn vector(
        &self,
        element: &ValueReader,
        dimension: usize,
        width: Option<usize>,
        bytes: &[u8],
    ) -> Result<Bound<'py, PyList>, Refused> {
        let elements = types::vector::decode(bytes, dimension, width);
        let mut elements = elements.map_err(|_| Refused::Unusual)?;
        let list = make::list::<Refused>(self.py, dimension, || {
            let bytes = elements.next_value().map_err(|_| Refused::Unusual)?;
            self.read(element, bytes)
        })?;
        elements.finish().map_err(|_| Refused::Unusual)?;
        Ok(list)
    }

    fn set(
        &self,
        element: &ValueReader,
        class: &SetClass,
        bytes: &[u8],
    ) -> Result<Bound<'py, PyAny>, Refused> {
        let mut elements = types::list::decode(bytes).map_err(|_| Refused::Unusual)?;
        let (mut ascending, mut last) = (class.sorted.is_some(), None);
        let list = make::list::<Refused>(self.py, elements.count(), || {
            let bytes = elements.next_value().map_err(|_| Refused::Unusual)?;
            let value = self.element(element, bytes)?;
            if ascending {
                ascending = match (&element.kind, bytes, last) {
                    (Kind::Leaf(plan), Some(now), Some(before)) => is_below(plan, before, now),
                    (Kind::Leaf(plan), Some(now), None) => is_ordered(plan, now),
                    _ => false,
                };
                last = bytes;
            }
            Ok(value)
        })?;
        elements.finish().map_err(|_| Refused::Unusual)?;
        match &class.sorted {
            Some(sorted) if ascending => {
                let set = make::instance(sorted.bind(self.py))?;
                make::set(&set, pyo3::intern!(self.py, "_items"), &list)?;
                Ok(set)
            }
            _ => Ok(class.make.bind(self.py).call1((list,))?),
        }
    }

    fn map(
        &self,
        (key, value): &(Py<ValueReader>, Py<ValueReader>),
        class: &MapClass,
        bytes: &[u8],
    ) -> Result<Bound<'py, PyAny>, Refused> {
        let py = self.py;
        let mut entries = types::map::decode(bytes).map_err(|_| Refused::Unusual)?;
        let index = PyDict::new(py);
        let mut number = 0_usize;
        let items = make::list::<Refused>(self.py, entries.count(), || {
            let encoded = entries.next_value().map_err(|_| Refused::Unusual)?;
            let key = self.element(key.get(), encoded)?;
            let flat = match encoded {
                Some(encoded) => bytes::copy(py, encoded)?.into_any(),
                None => py.None().into_bound(py),
            };
            let encoded = entries.next_value().map_err(|_| Refused::Unusual)?;
            let value = self.element(value.get(), encoded)?;
            index.set_item(flat, number)?;
            number += 1;
            Ok((key, value).into_pyobject(py)?.into_any())
        })?;
        entries.finish().map_err(|_| Refused::Unusual)?;
        let map = make::instance(class.class.bind(py))?;
        make::set(&map, pyo3::intern!(py, "_items"), &items)?;
        make::set(&map, pyo3::intern!(py, "_index"), &index)?;
        make::set(&map, pyo3::intern!(py, "cass_key_type"), class.key.bind(py))?;
        make::set(&map, pyo3::intern!(py, "protocol_version"), &self.version)?;
        Ok(map)
    }

    /// Makes a tuple, or an instance of the named tuple class `class`. Ignores bytes after the last
    /// component, as the driver does.
    fn tuple(
        &self,
        parts: &[Py<ValueReader>],
        class: Option<&Bound<'py, PyType>>,
        bytes: &[u8],
    ) -> Result<Bound<'py, PyAny>, Refused> {
        let mut components = types::tuple::decode(bytes);
        let mut parts_left = parts.iter();
        make::tuple::<Refused>(self.py, class, parts.len(), || {
            let bytes = components.next_value().map_err(|_| Refused::Unusual)?;
            match (parts_left.next(), bytes) {
                (Some(part), Some(bytes)) => self.value(part.get(), bytes),
                _ => Ok(self.none()),
            }
        })
    }

    fn udt(
        &self,
        parts: &[Py<ValueReader>],
        udt: &UdtClass,
        bytes: &[u8],
    ) -> Result<Bound<'py, PyAny>, Refused> {
        match self.form(udt)? {
            UdtForm::Tuple => self.tuple(parts, None, bytes),
            UdtForm::Plain(class) => self.tuple(parts, Some(&class), bytes),
            UdtForm::Named(class) => {
                let values = self.tuple(parts, None, bytes)?.cast_into::<PyTuple>();
                Ok(class.call1(values.map_err(PyErr::from)?)?)
            }
            UdtForm::Mapped(class) => {
                let values = self.tuple(parts, None, bytes)?;
                let values = values.cast::<PyTuple>().map_err(PyErr::from)?;
                let named = PyDict::new(self.py);
                for (name, value) in udt.fields.iter().zip(values.iter_borrowed()) {
                    named.set_item(name, value)?;
                }
                Ok(class.call((), Some(&named))?)
            }
        }
    }

    /// Returns the form of the values of a user-defined type. Each `Reading` looks it up once.
    fn form(&self, udt: &UdtClass) -> PyResult<UdtForm<'py>> {
        let address = std::ptr::from_ref(udt);
        let cached =
            self.forms.borrow().iter().find(|(of, _)| *of == address).map(|(_, form)| form.clone());
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let (py, class) = (self.py, udt.class.bind(self.py));
        let mapped = class.getattr(pyo3::intern!(py, "mapped_class"))?;
        let named = class.getattr(pyo3::intern!(py, "tuple_type"))?;
        let form = if mapped.is_truthy()? {
            UdtForm::Mapped(mapped)
        } else if !named.is_truthy()? {
            UdtForm::Tuple
        } else {
            match named.cast_into::<PyType>() {
                Ok(class) if udt.plain.as_ref().is_some_and(|plain| plain.is(&class)) => {
                    UdtForm::Plain(class)
                }
                Ok(class) => UdtForm::Named(class.into_any()),
                Err(error) => UdtForm::Named(error.into_inner()),
            }
        };
        self.forms.borrow_mut().push((address, form.clone()));
        Ok(form)
    }
}

/// The form of the Python value of a user-defined type.
#[derive(Clone)]
enum UdtForm<'py> {
    /// The mapped class, called with the fields as keyword arguments.
    Mapped(Bound<'py, PyAny>),
    /// A class, called with the fields as positional arguments.
    Named(Bound<'py, PyAny>),
    /// A class that is as `collections.namedtuple` has made it. Instances are made natively.
    Plain(Bound<'py, PyType>),
    /// A plain tuple.
    Tuple,
}

/// Whether the encoded bytes are enough to compare this value with other values of its type. False
/// for NaN.
fn is_ordered(plan: &HostPlan, bytes: &[u8]) -> bool {
    match traits(plan).order {
        Order::Unknown => false,
        Order::Lexical => true,
        Order::Unsigned | Order::Signed => !bytes.is_empty(),
        Order::Float => float(bytes).is_some_and(|number| !number.is_nan()),
    }
}

fn float(bytes: &[u8]) -> Option<f64> {
    if let Ok(four) = bytes.try_into() {
        return Some(f32::from_be_bytes(four).into());
    }
    Some(f64::from_be_bytes(bytes.try_into().ok()?))
}

/// Whether the bytes prove that `left < right` is true for the Python values. If this function
/// returns false, Python must compare the values.
fn is_below(plan: &HostPlan, left: &[u8], right: &[u8]) -> bool {
    let numbers = !left.is_empty() && left.len() == right.len();
    match traits(plan).order {
        Order::Unknown => false,
        // UTF-8 bytes have the same order as the code points.
        Order::Lexical => left < right,
        Order::Unsigned => numbers && left < right,
        Order::Signed => numbers && (left[0] ^ 0x80, &left[1..]) < (right[0] ^ 0x80, &right[1..]),
        Order::Float => numbers && float(left) < float(right),
    }
}

/// Decodes the columns of a page.
pub struct Columns<'a, 'py> {
    reading: Reading<'a, 'py>,
    columns: Vec<Column<'a, 'py>>,
}

/// How the cells of one column are decoded.
pub enum Column<'a, 'py> {
    /// The column is not encrypted. This reader decodes the cells.
    Clear(&'a ValueReader),
    /// The column is encrypted: a reader, the column's description, and `decrypt` of the column
    /// encryption policy. `decrypt` is called with the description and the encrypted bytes. The
    /// reader decodes the bytes that `decrypt` returns.
    Encrypted(Py<ValueReader>, Bound<'py, PyAny>, Bound<'py, PyAny>),
}

impl<'a, 'py> Columns<'a, 'py> {
    pub fn new(reading: Reading<'a, 'py>, columns: Vec<Column<'a, 'py>>) -> Self {
        Columns { reading, columns }
    }
}

impl<'py> Values<'py> for Columns<'_, 'py> {
    #[inline(always)]
    fn width(&self) -> usize {
        self.columns.len()
    }

    #[inline(always)]
    fn value(&self, column: usize, cell: Option<&[u8]>) -> Result<Bound<'py, PyAny>, Stopped> {
        let value = match (&self.columns[column], cell) {
            (Column::Clear(reader), Some(cell)) => self.reading.value(reader, cell),
            (Column::Clear(_), None) => Ok(self.reading.none()),
            (Column::Encrypted(reader, described, decrypt), Some(cell)) => {
                self.decrypted(reader.get(), described, decrypt, cell)
            }
            (Column::Encrypted(..), None) => Err(Refused::Unusual),
        };
        value.map_err(|refused| Stopped::Raised(refused.into_error()))
    }
}

impl<'py> Columns<'_, 'py> {
    fn decrypted(
        &self,
        reader: &ValueReader,
        described: &Bound<'_, PyAny>,
        decrypt: &Bound<'_, PyAny>,
        encrypted: &[u8],
    ) -> Result<Bound<'py, PyAny>, Refused> {
        let encrypted = bytes::copy(decrypt.py(), encrypted)?;
        let clear = decrypt.call1((described, encrypted))?;
        let clear = clear.cast_exact::<PyBytes>().map_err(|_| Refused::Unusual)?;
        self.reading.value(reader, clear.as_bytes())
    }
}

impl Refused {
    /// Converts `Unusual` to a `ValueError`. A caller that gets an `Exception` calls the driver's
    /// function. It passes on all other exceptions.
    #[cold]
    fn into_error(self) -> PyErr {
        match self {
            Refused::Unusual => pyo3::exceptions::PyValueError::new_err(()),
            Refused::Raised(error) => error,
        }
    }
}
