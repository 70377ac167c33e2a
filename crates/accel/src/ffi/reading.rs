//! Reads values by their readers.

use std::cell::RefCell;

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyTuple, PyType};
use turbocql_codec::{Plan, types};

use super::reference::{Reference, none};
use crate::reader::{Empty, Kind, MapClass, SetClass, UdtClass, ValueReader};
use turbocql_values::ffi::bytes;
use turbocql_values::ffi::make;
use turbocql_values::ffi::rows::{Stopped, Values};
use turbocql_values::value::HostPlan;

type Object = *mut ffi::PyObject;

/// Why there is no value.
pub enum Refused {
    /// The driver is to look.
    Unusual,
    Raised(PyErr),
}

impl From<PyErr> for Refused {
    /// Errors are the driver's to raise; what is none goes on.
    fn from(error: PyErr) -> Refused {
        Python::attach(|py| match error.is_instance_of::<PyException>(py) {
            true => Refused::Unusual,
            false => Refused::Raised(error),
        })
    }
}

/// Reads values.
pub struct Reading<'a, 'py> {
    py: Python<'py>,
    reference: Reference<'a, 'py>,
    /// Whether a null within a list is for the driver to refuse.
    strict_nulls: bool,
    version: Bound<'py, PyInt>,
    /// What has been found of user-defined types.
    forms: RefCell<Vec<(*const UdtClass, UdtForm<'py>)>>,
}

impl<'a, 'py> Reading<'a, 'py> {
    pub fn new(reference: Reference<'a, 'py>, strict_nulls: bool, version: i64) -> Self {
        let py = reference.py;
        let Ok(version) = version.into_pyobject(py);
        Reading { py, reference, strict_nulls, version, forms: RefCell::default() }
    }

    /// As `deserialize` of the driver's types.
    pub fn object(&self, reader: &ValueReader, bytes: &[u8]) -> Result<Bound<'py, PyAny>, Refused> {
        Ok(self.owned(self.read(reader, bytes)?))
    }

    /// As `from_binary` of the driver's types: the value of bytes that may be none.
    #[inline(always)]
    fn value(&self, reader: &ValueReader, bytes: &[u8]) -> Result<Object, Refused> {
        if bytes.is_empty() {
            match &reader.empty {
                Empty::Read => {}
                // SAFETY: the lock is held.
                Empty::None => return Ok(unsafe { none() }),
                Empty::Object(empty) => return Ok(empty.clone_ref(self.py).into_ptr()),
            }
        }
        self.read(reader, bytes)
    }

    #[inline(always)]
    fn read(&self, reader: &ValueReader, bytes: &[u8]) -> Result<Object, Refused> {
        match &reader.kind {
            Kind::Leaf(plan) => {
                // SAFETY: the lock is held, as `py` shows.
                let value = unsafe { self.reference.value(plan, bytes) };
                if value.is_null() { Err(Refused::Unusual) } else { Ok(value) }
            }
            _ => self.compound(reader, bytes),
        }
    }

    fn compound(&self, reader: &ValueReader, bytes: &[u8]) -> Result<Object, Refused> {
        let made = match &reader.kind {
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
                let given = bytes::copy(self.py, bytes)?;
                let read = pyo3::intern!(self.py, "deserialize");
                class.bind(self.py).call_method1(read, (given, &self.version))?
            }
        };
        Ok(made.into_ptr())
    }

    /// The value of an element that may be null.
    #[inline(always)]
    fn element(&self, reader: &ValueReader, bytes: Option<&[u8]>) -> Result<Object, Refused> {
        match bytes {
            Some(bytes) => self.value(reader, bytes),
            // SAFETY: the lock is held.
            None if !self.strict_nulls => Ok(unsafe { none() }),
            None => Err(Refused::Unusual),
        }
    }

    fn list(&self, element: &ValueReader, bytes: &[u8]) -> Result<Bound<'py, PyList>, Refused> {
        let mut elements = types::list::decode(bytes).map_err(|_| Refused::Unusual)?;
        let list = self.filled(elements.count(), || {
            let bytes = elements.next_value().map_err(|_| Refused::Unusual)?;
            self.element(element, bytes)
        })?;
        elements.finish().map_err(|_| Refused::Unusual)?;
        Ok(list)
    }

    /// A list of so many.
    #[inline(always)]
    fn filled(
        &self,
        count: usize,
        mut next: impl FnMut() -> Result<Object, Refused>,
    ) -> Result<Bound<'py, PyList>, Refused> {
        // SAFETY: the list is new, and not tracked until it is full; places that are still empty
        // when it goes are passed over. What is put there is ours to give.
        unsafe {
            let list = Bound::from_owned_ptr_or_err(self.py, ffi::PyList_New(count as isize))?;
            ffi::PyObject_GC_UnTrack(list.as_ptr().cast());
            for i in 0..count {
                ffi::PyList_SET_ITEM(list.as_ptr(), i as isize, next()?);
            }
            ffi::PyObject_GC_Track(list.as_ptr().cast());
            Ok(list.cast_into_unchecked())
        }
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
        let list = self.filled(dimension, || {
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
        let list = self.filled(elements.count(), || {
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
        let items = self.filled(entries.count(), || {
            let given = entries.next_value().map_err(|_| Refused::Unusual)?;
            let key = self.owned(self.element(key.get(), given)?);
            let flat = match given {
                Some(given) => bytes::copy(py, given)?.into_any(),
                None => py.None().into_bound(py),
            };
            let given = entries.next_value().map_err(|_| Refused::Unusual)?;
            let value = self.owned(self.element(value.get(), given)?);
            index.set_item(flat, number)?;
            number += 1;
            Ok((key, value).into_pyobject(py)?.into_ptr())
        })?;
        entries.finish().map_err(|_| Refused::Unusual)?;
        let map = make::instance(class.class.bind(py))?;
        make::set(&map, pyo3::intern!(py, "_items"), &items)?;
        make::set(&map, pyo3::intern!(py, "_index"), &index)?;
        make::set(&map, pyo3::intern!(py, "cass_key_type"), class.key.bind(py))?;
        make::set(&map, pyo3::intern!(py, "protocol_version"), &self.version)?;
        Ok(map)
    }

    fn owned(&self, object: Object) -> Bound<'py, PyAny> {
        // SAFETY: a new reference, not null, as all that are made here.
        unsafe { Bound::from_owned_ptr(self.py, object) }
    }

    /// Of a class of named tuples, if not of tuples themselves. Bytes after the last part are passed
    /// over, as the driver does.
    fn tuple(
        &self,
        parts: &[Py<ValueReader>],
        class: Option<&Bound<'py, PyType>>,
        bytes: &[u8],
    ) -> Result<Bound<'py, PyAny>, Refused> {
        let mut components = types::tuple::decode(bytes);
        let width = parts.len() as isize;
        // SAFETY: as for `filled`. A class has been found to be a subclass of tuple that Python code
        // made, of which memory is asked for as `tuple.__new__` asks.
        unsafe {
            let tuple = match class.map(Bound::as_type_ptr) {
                None => ffi::PyTuple_New(width),
                Some(class) => make::allocate_tuple(class, width),
            };
            let tuple = Bound::from_owned_ptr_or_err(self.py, tuple)?;
            if parts.is_empty() {
                // There is one such tuple.
                return Ok(tuple);
            }
            ffi::PyObject_GC_UnTrack(tuple.as_ptr().cast());
            for (i, part) in parts.iter().enumerate() {
                let value = match components.next_value().map_err(|_| Refused::Unusual)? {
                    Some(bytes) => self.value(part.get(), bytes)?,
                    None => none(),
                };
                ffi::PyTuple_SET_ITEM(tuple.as_ptr(), i as isize, value);
            }
            ffi::PyObject_GC_Track(tuple.as_ptr().cast());
            Ok(tuple)
        }
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

    /// What values of a type become, looked up once for a page.
    fn form(&self, udt: &UdtClass) -> PyResult<UdtForm<'py>> {
        let place = std::ptr::from_ref(udt);
        let known =
            self.forms.borrow().iter().find(|(of, _)| *of == place).map(|(_, it)| it.clone());
        if let Some(known) = known {
            return Ok(known);
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
        self.forms.borrow_mut().push((place, form.clone()));
        Ok(form)
    }
}

/// What values of a user-defined type become.
#[derive(Clone)]
enum UdtForm<'py> {
    /// Called with fields by their names.
    Mapped(Bound<'py, PyAny>),
    /// Called with fields.
    Named(Bound<'py, PyAny>),
    /// A class of named tuples.
    Plain(Bound<'py, PyType>),
    Tuple,
}

/// Whether a value of these bytes has a place in the order of its type's values: not so `nan`.
fn is_ordered(plan: &HostPlan, bytes: &[u8]) -> bool {
    is_text(plan)
        || is_compared(plan)
            && !bytes.is_empty()
            && (!matches!(plan, Plan::Float | Plan::Double)
                || number(plan, bytes).is_some_and(|number| !number.is_nan()))
}

fn is_text(plan: &HostPlan) -> bool {
    matches!(plan, Plan::Text | Plan::Ascii | Plan::Blob)
}

/// Whether Python's order of values is that of their bytes, read as this is read here.
fn is_compared(plan: &HostPlan) -> bool {
    is_text(plan)
        || matches!(
            plan,
            Plan::Int
                | Plan::BigInt
                | Plan::Counter
                | Plan::SmallInt
                | Plan::TinyInt
                | Plan::Timestamp
                | Plan::Date
                | Plan::Time
                | Plan::Uuid
                | Plan::TimeUuid
                | Plan::Float
                | Plan::Double
        )
}

fn number(plan: &HostPlan, bytes: &[u8]) -> Option<f64> {
    match plan {
        Plan::Float => Some(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        _ => Some(f64::from_be_bytes(bytes.try_into().ok()?)),
    }
}

/// Whether Python finds the value of one below that of the other; no more than a hint where it
/// does not.
fn is_below(plan: &HostPlan, one: &[u8], other: &[u8]) -> bool {
    match plan {
        _ if !is_compared(plan) => false,
        // Code points stand in the order of their UTF-8.
        _ if is_text(plan) => one < other,
        _ if one.is_empty() || one.len() != other.len() => false,
        Plan::Float | Plan::Double => number(plan, one) < number(plan, other),
        Plan::Date | Plan::Time | Plan::Uuid | Plan::TimeUuid => one < other,
        _ => (one[0] ^ 0x80, &one[1..]) < (other[0] ^ 0x80, &other[1..]),
    }
}

/// The columns of a page.
pub struct Columns<'a, 'py> {
    reading: Reading<'a, 'py>,
    columns: Vec<Column<'a, 'py>>,
}

/// One of them.
pub enum Column<'a, 'py> {
    Clear(&'a ValueReader),
    /// A policy's function of a description and bytes comes first.
    Encrypted(Py<ValueReader>, Bound<'py, PyAny>, Bound<'py, PyAny>),
}

impl<'a, 'py> Columns<'a, 'py> {
    pub fn new(reading: Reading<'a, 'py>, columns: Vec<Column<'a, 'py>>) -> Self {
        Columns { reading, columns }
    }
}

impl Values for Columns<'_, '_> {
    #[inline(always)]
    fn width(&self) -> usize {
        self.columns.len()
    }

    #[inline(always)]
    unsafe fn value(&self, column: usize, cell: Option<&[u8]>) -> Result<Object, Stopped> {
        let value = match (&self.columns[column], cell) {
            (Column::Clear(reader), Some(given)) => self.reading.value(reader, given),
            // SAFETY: the caller's word.
            (Column::Clear(_), None) => Ok(unsafe { none() }),
            (Column::Encrypted(reader, described, decrypt), Some(given)) => {
                self.decrypted(reader.get(), described, decrypt, given)
            }
            (Column::Encrypted(..), None) => Err(Refused::Unusual),
        };
        value.map_err(|refused| Stopped::Raised(refused.into_error()))
    }
}

impl Columns<'_, '_> {
    fn decrypted(
        &self,
        reader: &ValueReader,
        described: &Bound<'_, PyAny>,
        decrypt: &Bound<'_, PyAny>,
        given: &[u8],
    ) -> Result<Object, Refused> {
        let given = bytes::copy(decrypt.py(), given)?;
        let clear = decrypt.call1((described, given))?;
        let clear = clear.cast_exact::<PyBytes>().map_err(|_| Refused::Unusual)?;
        self.reading.value(reader, clear.as_bytes())
    }
}

impl Refused {
    /// Of `Unusual`, one that callers know from what is to go on by its class.
    #[cold]
    fn into_error(self) -> PyErr {
        match self {
            Refused::Unusual => pyo3::exceptions::PyValueError::new_err(()),
            Refused::Raised(error) => error,
        }
    }
}
