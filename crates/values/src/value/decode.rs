//! The bytes of one CQL type to one Python value.

use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBytes, PyDate, PyDateTime, PyDict, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple,
    PyTzInfo,
};
use turbocql_codec::plan::{UdtPlan, VectorPlan};
use turbocql_codec::types::{self, inet, list, vector};
use turbocql_codec::{Malformed, Plan, Segment};

use crate::ffi::buffer::fill_array;
use crate::ffi::decode::Maker;
use crate::ffi::make;

use super::numbers::widen;
use super::record::Record;
use super::temporal::civil_from_days;
use super::{Failure, HostPlan, Outcome, interned, list_of, room, tuple_of};

/// What Python values the caller wants where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// `timestamp` without a time zone.
    pub naive_timestamps: bool,
    /// Vectors of numbers as NumPy arrays.
    pub numpy_vectors: bool,
}

pub const MILLISECONDS_PER_DAY: i64 = 86_400_000;
/// 0001-01-01 and 9999-12-31, the first and last day of Python's calendar.
pub const PYTHON_DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// Decodes values for one interpreter and one caller's choices.
#[derive(Clone, Copy)]
pub struct Decoder<'py> {
    pub py: Python<'py>,
    choices: Choices,
    /// Makes values the short way; none where that is not to be.
    pub maker: Option<Maker>,
}

impl<'py> Decoder<'py> {
    pub fn new(py: Python<'py>, choices: Choices) -> Decoder<'py> {
        Decoder { py, choices, maker: Maker::new(py, choices) }
    }

    /// A cell: `None` for null.
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

    /// A value; `hashable` where it will be an element of a set or a key of a map.
    fn value(&self, plan: &HostPlan, bytes: &[u8], hashable: bool) -> Outcome<Bound<'py, PyAny>> {
        if bytes.is_empty() && empty_is_null(plan) {
            return Ok(self.none());
        }
        let py = self.py;
        if let Some(maker) = &self.maker
            && !(hashable && matches!(plan, Plan::List(_)))
            && let Some(made) = maker.make(py, plan, bytes)
        {
            return Ok(made);
        }
        Ok(match plan {
            Plan::Ascii | Plan::Text => self.text(bytes)?,
            Plan::TinyInt => int(py, good(plan, types::tinyint::decode(bytes))?),
            Plan::SmallInt => int(py, good(plan, types::smallint::decode(bytes))?),
            Plan::Int => int(py, good(plan, types::int::decode(bytes))?),
            Plan::BigInt => int(py, good(plan, types::bigint::decode(bytes))?),
            Plan::Counter => int(py, good(plan, types::counter::decode(bytes))?),
            Plan::VarInt => self.varint(plan, bytes)?,
            Plan::Float => float(py, widen(good(plan, types::float::decode(bytes))?)),
            Plan::Double => float(py, good(plan, types::double::decode(bytes))?),
            Plan::Decimal => self.decimal(plan, bytes)?,
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
                let time = make::instance(interned::cql_time(py)?)?;
                make::set(&time, pyo3::intern!(py, "nanoseconds"), &nanoseconds)?;
                time
            }
            Plan::Timestamp => self.timestamp(good(plan, types::timestamp::decode(bytes))?)?,
            Plan::Duration => {
                let value = good(plan, types::duration::decode(bytes))?;
                interned::cql_duration(py)?.call1((value.months, value.days, value.nanoseconds))?
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

    /// Raises `MemoryError` where a plain `PyBytes::new` would panic.
    fn bytes(&self, bytes: &[u8]) -> Outcome<Bound<'py, PyAny>> {
        let copy = |target: &mut [u8]| {
            target.copy_from_slice(bytes);
            Ok(())
        };
        Ok(PyBytes::new_with(self.py, bytes.len(), copy)?.into_any())
    }

    /// Bytes that are not UTF-8, some of which the server's own check lets pass, are kept as lone
    /// surrogates (Python's `surrogateescape`): a page does not fail because of them.
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

    fn varint(&self, plan: &HostPlan, bytes: &[u8]) -> Outcome<Bound<'py, PyAny>> {
        if let Some(small) = good(plan, types::varint::decode_i128(bytes))? {
            return Ok(int(self.py, small));
        }
        let py = self.py;
        let signed = PyDict::new(py);
        signed.set_item(pyo3::intern!(py, "signed"), true)?;
        let arguments = (PyBytes::new(py, bytes), pyo3::intern!(py, "big"));
        let from_bytes = pyo3::intern!(py, "from_bytes");
        Ok(py.get_type::<PyInt>().call_method(from_bytes, arguments, Some(&signed))?)
    }

    fn decimal(&self, plan: &HostPlan, bytes: &[u8]) -> Outcome<Bound<'py, PyAny>> {
        let parts = good(plan, types::decimal::decode(bytes))?;
        let sign = if parts.negative { "-" } else { "" };
        let exponent = -i64::from(parts.scale);
        let text = format!("{sign}{}E{exponent}", parts.digits);
        Ok(interned::decimal(self.py)?.call1((text,))?)
    }

    /// Without `UUID.__init__`, which spends a microsecond on looking at its arguments.
    fn uuid(&self, bytes: [u8; 16]) -> Outcome<Bound<'py, PyAny>> {
        let py = self.py;
        let class = interned::uuid(py)?;
        let uuid = make::instance(class)?;
        make::set(&uuid, pyo3::intern!(py, "int"), &int(py, u128::from_be_bytes(bytes)))?;
        make::set(&uuid, pyo3::intern!(py, "is_safe"), interned::safe_uuid_unknown(py)?)?;
        Ok(uuid)
    }

    fn inet(&self, plan: &HostPlan, bytes: &[u8]) -> Outcome<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match good(plan, inet::decode(bytes))? {
            // Without its `__init__`, which looks at what it was given for a microsecond.
            std::net::IpAddr::V4(address) => {
                let made = make::instance(interned::ipv4_address(py)?)?;
                make::set(&made, pyo3::intern!(py, "_ip"), &int(py, u32::from(address)))?;
                made
            }
            std::net::IpAddr::V6(address) => {
                interned::ipv6_address(py)?.call1((u128::from(address),))?
            }
        })
    }

    fn date(&self, days: i32) -> Outcome<Bound<'py, PyAny>> {
        if !PYTHON_DAYS.contains(&i64::from(days)) {
            return Ok(interned::cql_date(self.py)?.call1((days,))?);
        }
        let (year, month, day) = civil_from_days(days.into());
        Ok(PyDate::new(self.py, year as i32, month, day)?.into_any())
    }

    fn timestamp(&self, milliseconds: i64) -> Outcome<Bound<'py, PyAny>> {
        let days = milliseconds.div_euclid(MILLISECONDS_PER_DAY);
        if !PYTHON_DAYS.contains(&days) {
            return Ok(interned::cql_timestamp(self.py)?.call1((milliseconds,))?);
        }
        let rest = milliseconds.rem_euclid(MILLISECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let seconds = rest / 1000;
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
            (rest % 1000 * 1000) as u32,
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
        Ok(if hashable { interned::frozen_map(self.py)?.call1((map,))? } else { map.into_any() })
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

    /// As many components as there are: a composite may end early.
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

    /// Fields that were added after the value was written are null; fields that the plan does not
    /// know yet are passed over.
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
        let made = make.bind(self.py).call1((&record,));
        let made = made.map_err(|error| super::failure::not_the_end(self.py, error))?;
        // As an element of a set it has to be hashable, which the record is.
        if hashable && made.hash().is_err() { Ok(record) } else { Ok(made) }
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
        if !hashable && let Some(list) = self.numbers(&vector.element, bytes)? {
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

    /// A list of the numbers of a vector, of which the size has been checked.
    fn numbers(&self, element: &HostPlan, bytes: &[u8]) -> PyResult<Option<Bound<'py, PyList>>> {
        fn of<const N: usize>(bytes: &[u8]) -> (usize, impl Fn(usize) -> [u8; N]) {
            let (numbers, _) = bytes.as_chunks::<N>();
            (numbers.len(), |i| numbers[i])
        }
        let py = self.py;
        Ok(Some(match element {
            Plan::Float => {
                let (count, number) = of::<4>(bytes);
                make::floats(py, count, |i| widen(f32::from_be_bytes(number(i))))?
            }
            Plan::Double => {
                let (count, number) = of::<8>(bytes);
                make::floats(py, count, |i| f64::from_be_bytes(number(i)))?
            }
            Plan::Int => {
                let (count, number) = of::<4>(bytes);
                make::ints(py, count, |i| i32::from_be_bytes(number(i)).into())?
            }
            Plan::BigInt => {
                let (count, number) = of::<8>(bytes);
                make::ints(py, count, |i| i64::from_be_bytes(number(i)))?
            }
            _ => return Ok(None),
        }))
    }

    /// A NumPy array of the machine's byte order, for elements that stand bare as numbers.
    fn array(
        &self,
        plan: &HostPlan,
        vector: &VectorPlan<Record>,
        bytes: &[u8],
    ) -> Outcome<Option<Bound<'py, PyAny>>> {
        let (dtype, width) = match vector.element {
            Plan::Float => (interned::numpy_float32(self.py)?, 4),
            Plan::Double => (interned::numpy_float64(self.py)?, 8),
            Plan::Int => (interned::numpy_int32(self.py)?, 4),
            Plan::BigInt => (interned::numpy_int64(self.py)?, 8),
            _ => return Ok(None),
        };
        good(plan, vector::decode(bytes, vector.dimension, Some(width)))?;
        let array = interned::numpy_empty(self.py)?.call1((vector.dimension, dtype))?;
        let filled = match width {
            4 => fill_array::<4>(&array, bytes),
            _ => fill_array::<8>(&array, bytes),
        };
        if !filled {
            let reason = "NumPy's new array has other memory than asked for";
            return Err(Failure::refused(plan.cql_type(), reason));
        }
        Ok(Some(array))
    }
}

/// Types of which no value has zero bytes: such a cell, which Cassandra allows, reads as null.
fn empty_is_null(plan: &HostPlan) -> bool {
    match plan {
        // Text and bytes may be empty; tuples and fields may all be missing.
        Plan::Ascii
        | Plan::Text
        | Plan::Blob
        | Plan::Custom(_)
        | Plan::Tuple(_)
        | Plan::Composite(_)
        | Plan::Udt(_) => false,
        Plan::Vector(vector) => vector.dimension > 0,
        Plan::TinyInt
        | Plan::SmallInt
        | Plan::Int
        | Plan::BigInt
        | Plan::Counter
        | Plan::VarInt
        | Plan::Float
        | Plan::Double
        | Plan::Decimal
        | Plan::Boolean
        | Plan::Uuid
        | Plan::TimeUuid
        | Plan::Inet
        | Plan::Date
        | Plan::Time
        | Plan::Timestamp
        | Plan::Duration
        | Plan::List(_)
        | Plan::Set(_)
        | Plan::Map(_) => true,
    }
}

fn good<T>(plan: &HostPlan, decoded: Result<T, Malformed>) -> Outcome<T> {
    decoded.map_err(|malformed| Failure::malformed(plan.cql_type(), malformed))
}

/// The same for a part, at its place.
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
