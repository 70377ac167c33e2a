//! Decodes the bytes of one CQL value to a Python object.

use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBytes, PyDate, PyDateTime, PyDict, PyFrozenSet, PyInt, PySet, PyString, PyTuple, PyTzInfo,
};
use turbocql_codec::plan::{UdtPlan, VectorPlan};
use turbocql_codec::types::{self, inet, list, vector};
use turbocql_codec::{Malformed, Plan, Segment};

use super::decode_numbers;
use super::encode::unless_serious;
use crate::ffi::buffer::fill_array;
use crate::ffi::decode::Maker;
use crate::ffi::make;

use crate::binary32::widen;
use crate::calendar::{MILLISECONDS_PER_DAY, PYTHON_DAYS, civil_from_days};
use crate::failure::{Failure, Outcome};
use crate::memory::{list_of, room, tuple_of};
use crate::plan::Choices;
use crate::plan::HostPlan;
use crate::plan::Record;
use crate::python;
use crate::traits::{Numeric, traits};

/// Decodes values according to the user's choices, while the GIL is held.
#[derive(Clone, Copy)]
pub struct Decoder<'py> {
    pub py: Python<'py>,
    choices: Choices,
    /// The quick path; `None` if it is off.
    pub maker: Option<Maker>,
}

impl<'py> Decoder<'py> {
    pub fn new(py: Python<'py>, choices: Choices) -> Decoder<'py> {
        Decoder { py, choices, maker: Maker::new(py, choices) }
    }

    /// Returns the value of a cell. It is None for a null cell. It is also None for a cell of zero
    /// bytes, if every value of the type has at least one byte.
    #[inline]
    pub fn cell(&self, plan: &HostPlan, cell: Option<&[u8]>) -> Outcome<Bound<'py, PyAny>> {
        match cell {
            Some(bytes) => self.value(plan, bytes, false),
            None => Ok(self.none()),
        }
    }

    fn none(&self) -> Bound<'py, PyAny> {
        self.py.None().into_bound(self.py)
    }

    /// Returns the value that `bytes` encode. `hashable` is true for an element of a set or a key
    /// of a map, and for the parts of such an element or key.
    fn value(&self, plan: &HostPlan, bytes: &[u8], hashable: bool) -> Outcome<Bound<'py, PyAny>> {
        if bytes.is_empty() && traits(plan).empty_is_null {
            return Ok(self.none());
        }
        let py = self.py;
        if let Some(maker) = &self.maker
            && (!hashable || traits(plan).hashable)
            && let Some(value) = maker.make(py, plan, bytes)
        {
            return Ok(value);
        }
        Ok(match plan {
            Plan::Ascii | Plan::Text => self.text(bytes)?,
            Plan::TinyInt => int(py, good(plan, types::tinyint::decode(bytes))?),
            Plan::SmallInt => int(py, good(plan, types::smallint::decode(bytes))?),
            Plan::Int => int(py, good(plan, types::int::decode(bytes))?),
            Plan::BigInt => int(py, good(plan, types::bigint::decode(bytes))?),
            Plan::Counter => int(py, good(plan, types::counter::decode(bytes))?),
            Plan::VarInt => {
                decode_numbers::varint(py, good(plan, types::varint::decode_i128(bytes))?, bytes)?
            }
            Plan::Float => float(py, widen(good(plan, types::float::decode(bytes))?)),
            Plan::Double => float(py, good(plan, types::double::decode(bytes))?),
            Plan::Decimal => {
                decode_numbers::decimal(py, &good(plan, types::decimal::decode(bytes))?)?
            }
            Plan::Boolean => good(plan, types::boolean::decode(bytes))?
                .into_pyobject(py)
                .map(|boolean| boolean.to_owned().into_any())
                .unwrap_or_else(|never| match never {}),
            Plan::Blob | Plan::Custom(_) => self.bytes(bytes)?,
            Plan::Uuid | Plan::TimeUuid => self.uuid(good(plan, types::uuid::decode(bytes))?)?,
            Plan::Inet => self.inet(plan, bytes)?,
            Plan::Date => self.date(good(plan, types::date::decode(bytes))?)?,
            Plan::Time => {
                let nanoseconds = int(py, good(plan, types::time::decode(bytes))?);
                let time = make::instance(python::cql_time(py)?)?;
                make::set(&time, pyo3::intern!(py, "nanoseconds"), &nanoseconds)?;
                time
            }
            Plan::Timestamp => self.timestamp(good(plan, types::timestamp::decode(bytes))?)?,
            Plan::Duration => {
                let value = good(plan, types::duration::decode(bytes))?;
                python::cql_duration(py)?.call1((value.months, value.days, value.nanoseconds))?
            }
            Plan::List(element) => self.list(plan, element, bytes, hashable)?,
            Plan::Set(element) => self.set(plan, element, bytes, hashable)?,
            Plan::Map(entry) => self.map(plan, &entry.0, &entry.1, bytes, hashable)?,
            Plan::Tuple(components) => self.tuple(plan, components, bytes, hashable)?,
            Plan::Udt(udt) => self.udt(plan, udt, bytes, hashable)?,
            Plan::Vector(vector) => self.vector(plan, vector, bytes, hashable)?,
            Plan::Composite(components) => self.composite(plan, components, bytes, hashable)?,
        })
    }

    fn part(
        &self,
        plan: &HostPlan,
        cell: Option<&[u8]>,
        hashable: bool,
        segment: impl FnOnce() -> Segment,
    ) -> Outcome<Bound<'py, PyAny>> {
        match cell {
            Some(bytes) => self.value(plan, bytes, hashable).map_err(|f| f.at(segment)),
            None => Ok(self.none()),
        }
    }

    /// Makes a `bytes` object. If there is no memory, returns a `MemoryError`, where `PyBytes::new`
    /// would panic.
    fn bytes(&self, bytes: &[u8]) -> Outcome<Bound<'py, PyAny>> {
        let copy = |target: &mut [u8]| {
            target.copy_from_slice(bytes);
            Ok(())
        };
        Ok(PyBytes::new_with(self.py, bytes.len(), copy)?.into_any())
    }

    /// Makes a `str`. Bytes that are not UTF-8 become lone surrogates (Python's `surrogateescape`),
    /// so that a page with such bytes can be read. The server's own check accepts some bytes that
    /// are not UTF-8.
    fn text(&self, bytes: &[u8]) -> Outcome<Bound<'py, PyAny>> {
        let py = self.py;
        match PyString::from_bytes(py, bytes) {
            Ok(text) => Ok(text.into_any()),
            Err(error) if error.is_instance_of::<PyUnicodeDecodeError>(py) => Ok(self
                .bytes(bytes)?
                .call_method1(pyo3::intern!(py, "decode"), ("utf-8", "surrogateescape"))?),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a UUID without `UUID.__init__`, which takes a microsecond to check its arguments.
    fn uuid(&self, bytes: [u8; 16]) -> Outcome<Bound<'py, PyAny>> {
        let py = self.py;
        let class = python::uuid(py)?;
        let uuid = make::instance(class)?;
        make::set(&uuid, pyo3::intern!(py, "int"), &int(py, u128::from_be_bytes(bytes)))?;
        make::set(&uuid, pyo3::intern!(py, "is_safe"), python::safe_uuid_unknown(py)?)?;
        Ok(uuid)
    }

    fn inet(&self, plan: &HostPlan, bytes: &[u8]) -> Outcome<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match good(plan, inet::decode(bytes))? {
            // The address is made without `__init__`, which takes a microsecond to check its
            // argument.
            std::net::IpAddr::V4(address) => {
                let instance = make::instance(python::ipv4_address(py)?)?;
                make::set(&instance, pyo3::intern!(py, "_ip"), &int(py, u32::from(address)))?;
                instance
            }
            std::net::IpAddr::V6(address) => {
                python::ipv6_address(py)?.call1((u128::from(address),))?
            }
        })
    }

    fn date(&self, days: i32) -> Outcome<Bound<'py, PyAny>> {
        if !PYTHON_DAYS.contains(&i64::from(days)) {
            return Ok(python::cql_date(self.py)?.call1((days,))?);
        }
        let (year, month, day) = civil_from_days(days.into());
        Ok(PyDate::new(self.py, year as i32, month, day)?.into_any())
    }

    fn timestamp(&self, milliseconds: i64) -> Outcome<Bound<'py, PyAny>> {
        let days = milliseconds.div_euclid(MILLISECONDS_PER_DAY);
        if !PYTHON_DAYS.contains(&days) {
            return Ok(python::cql_timestamp(self.py)?.call1((milliseconds,))?);
        }
        let millisecond_of_day = milliseconds.rem_euclid(MILLISECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let seconds = millisecond_of_day / 1000;
        let utc = PyTzInfo::utc(self.py)?;
        let zone = if self.choices.naive_timestamps { None } else { Some(&*utc) };
        let datetime = PyDateTime::new(
            self.py,
            year as i32,
            month,
            day,
            (seconds / 3600) as u8,
            (seconds / 60 % 60) as u8,
            (seconds % 60) as u8,
            (millisecond_of_day % 1000 * 1000) as u32,
            zone,
        )?;
        Ok(datetime.into_any())
    }

    fn elements(
        &self,
        plan: &HostPlan,
        element: &HostPlan,
        bytes: &[u8],
        hashable: bool,
    ) -> Outcome<Vec<Bound<'py, PyAny>>> {
        let mut elements = good(plan, list::decode(bytes))?;
        let mut parts = Vec::new();
        room(&mut parts, elements.count())?;
        for i in 0..elements.count() {
            let cell = at_index(plan, i, elements.next_value())?;
            parts.push(self.part(element, cell, hashable, || Segment::Index(i))?);
        }
        good(plan, elements.finish())?;
        Ok(parts)
    }

    fn list(
        &self,
        plan: &HostPlan,
        element: &HostPlan,
        bytes: &[u8],
        hashable: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let parts = self.elements(plan, element, bytes, hashable)?;
        self.sequence(parts, hashable)
    }

    fn sequence(
        &self,
        parts: Vec<Bound<'py, PyAny>>,
        hashable: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        Ok(if hashable {
            tuple_of(self.py, parts)?.into_any()
        } else {
            list_of(self.py, parts)?.into_any()
        })
    }

    fn set(
        &self,
        plan: &HostPlan,
        element: &HostPlan,
        bytes: &[u8],
        hashable: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let parts = self.elements(plan, element, bytes, true)?;
        Ok(if hashable {
            PyFrozenSet::new(self.py, parts)?.into_any()
        } else {
            PySet::new(self.py, parts)?.into_any()
        })
    }

    fn map(
        &self,
        plan: &HostPlan,
        key_plan: &HostPlan,
        value_plan: &HostPlan,
        bytes: &[u8],
        hashable: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let mut entries = good(plan, types::map::decode(bytes))?;
        let map = PyDict::new(self.py);
        for i in 0..entries.count() {
            let cell = good(plan, entries.next_value())
                .map_err(|failure| failure.at(|| Segment::MapKey(i)))?;
            let key = self.part(key_plan, cell, true, || Segment::MapKey(i))?;
            let shown = || Segment::MapValue(super::describe::describe_key(&key));
            let cell = good(plan, entries.next_value()).map_err(|failure| failure.at(shown))?;
            let value = self.part(value_plan, cell, hashable, shown)?;
            map.set_item(key, value)?;
        }
        good(plan, entries.finish())?;
        Ok(if hashable { python::frozen_map(self.py)?.call1((map,))? } else { map.into_any() })
    }

    fn tuple(
        &self,
        plan: &HostPlan,
        components: &[HostPlan],
        bytes: &[u8],
        hashable: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let mut cells = types::tuple::decode(bytes);
        let mut parts = Vec::with_capacity(components.len());
        for (i, component) in components.iter().enumerate() {
            let cell = at_index(plan, i, cells.next_value())?;
            parts.push(self.part(component, cell, hashable, || Segment::Index(i))?);
        }
        good(plan, cells.finish())?;
        Ok(PyTuple::new(self.py, parts)?.into_any())
    }

    /// Makes a tuple of the components that are present. A composite may lack its last components.
    fn composite(
        &self,
        plan: &HostPlan,
        components: &[HostPlan],
        bytes: &[u8],
        hashable: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let mut cells = types::composite::decode(bytes);
        let mut parts = Vec::with_capacity(components.len());
        for (i, component) in components.iter().enumerate() {
            let Some(cell) = at_index(plan, i, cells.next_value())? else { break };
            parts.push(self.part(component, Some(cell), hashable, || Segment::Index(i))?);
        }
        good(plan, cells.finish())?;
        Ok(PyTuple::new(self.py, parts)?.into_any())
    }

    /// Decodes a value of a user-defined type. Fields that were added after the value was written
    /// are null. Fields that were added after the plan was compiled are ignored.
    fn udt(
        &self,
        plan: &HostPlan,
        udt: &UdtPlan<Record>,
        bytes: &[u8],
        hashable: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        let mut cells = types::udt::decode(bytes);
        let mut parts = Vec::with_capacity(udt.fields.len());
        for (i, field) in udt.fields.iter().enumerate() {
            let segment = || Segment::Field(udt.udt.fields[i].0.clone());
            let cell = good(plan, cells.next_value()).map_err(|failure| failure.at(segment))?;
            parts.push(self.part(field, cell, hashable, segment)?);
        }
        let record = make::record(udt.host.class.bind(self.py), &mut parts)?;
        let Some(make) = &udt.host.make else { return Ok(record) };
        let instance = make.bind(self.py).call1((&record,));
        let instance = instance.map_err(|error| crate::failure::not_the_end(self.py, error))?;
        // An element of a set, or a key of a map, must be hashable. If the user's object is not
        // hashable, the record is used instead.
        if hashable && let Err(error) = instance.hash() {
            unless_serious::<()>(self.py, error)?;
            return Ok(record);
        }
        Ok(instance)
    }

    fn vector(
        &self,
        plan: &HostPlan,
        vector: &VectorPlan<Record>,
        bytes: &[u8],
        hashable: bool,
    ) -> Outcome<Bound<'py, PyAny>> {
        if self.choices.numpy_vectors
            && !hashable
            && let Some(array) = self.array(plan, vector, bytes)?
        {
            return Ok(array);
        }
        let mut elements = good(plan, vector::decode(bytes, vector.dimension, vector.width))?;
        if !hashable && let Some(list) = decode_numbers::numbers(self.py, vector, bytes)? {
            return Ok(list.into_any());
        }
        let mut parts = Vec::new();
        room(&mut parts, vector.dimension)?;
        for i in 0..vector.dimension {
            let cell = at_index(plan, i, elements.next_value())?;
            let part = self.part(&vector.element, Some(cell), hashable, || Segment::Index(i))?;
            parts.push(part);
        }
        good(plan, elements.finish())?;
        self.sequence(parts, hashable)
    }

    /// Makes a NumPy array in the machine's byte order if the elements are numbers written without
    /// lengths. Returns `None` for other elements.
    fn array(
        &self,
        plan: &HostPlan,
        vector: &VectorPlan<Record>,
        bytes: &[u8],
    ) -> Outcome<Option<Bound<'py, PyAny>>> {
        let Some(numeric) = traits(&vector.element).numeric else { return Ok(None) };
        let dtype = match numeric {
            Numeric::Float => python::numpy_float32(self.py)?,
            Numeric::Double => python::numpy_float64(self.py)?,
            Numeric::Int => python::numpy_int32(self.py)?,
            Numeric::BigInt => python::numpy_int64(self.py)?,
            // In a vector, a length precedes each number of these types, so the numbers cannot be
            // copied as an array.
            Numeric::TinyInt | Numeric::SmallInt => return Ok(None),
        };
        let width = numeric.width();
        good(plan, vector::decode(bytes, vector.dimension, Some(width)))?;
        let array = python::numpy_empty(self.py)?.call1((vector.dimension, dtype))?;
        let filled = match width {
            4 => fill_array::<4>(&array, bytes),
            _ => fill_array::<8>(&array, bytes),
        };
        if !filled {
            let reason = "the new NumPy array does not have the expected size or layout";
            return Err(Failure::refused(plan.cql_type(), reason));
        }
        Ok(Some(array))
    }
}

fn good<T>(plan: &HostPlan, decoded: Result<T, Malformed>) -> Outcome<T> {
    decoded.map_err(|malformed| Failure::malformed(plan.cql_type(), malformed))
}

/// Like [`good`], with the index of a part added to the failure's path.
fn at_index<T>(plan: &HostPlan, index: usize, decoded: Result<T, Malformed>) -> Outcome<T> {
    good(plan, decoded).map_err(|failure| failure.at(|| Segment::Index(index)))
}

fn int<'py, T>(py: Python<'py>, value: T) -> Bound<'py, PyAny>
where
    T: IntoPyObject<
            'py,
            Target = PyInt,
            Output = Bound<'py, PyInt>,
            Error = std::convert::Infallible,
        >,
{
    match value.into_pyobject(py) {
        Ok(int) => int.into_any(),
        Err(never) => match never {},
    }
}

fn float(py: Python<'_>, value: f64) -> Bound<'_, PyAny> {
    pyo3::types::PyFloat::new(py, value).into_any()
}
