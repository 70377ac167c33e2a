//! The stand-in for `bind_params`, which writes the parameters of simple statements as literals.

use std::fmt::Write;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateAccess, PyDateTime, PyDict, PyFloat, PyFrozenSet,
    PyInt, PyList, PySet, PyString, PyTimeAccess, PyTuple, PyType, PyTzInfoAccess,
};

use super::counts::Counts;
use super::dependence::Dependence;
use crate::ffi::call::{self, StandIn};
use turbocql_values::calendar::days_of;

/// The maximum depth of nested collections that are written natively.
const DEEPEST: usize = 32;

/// Stands in for `bind_params`, which formats parameters into the text of a statement.
///
/// `bind_params` gets an encoder, whose attribute `mapping` maps the classes of values to functions
/// that write literals. As the driver does, the stand-in looks up each value's class there. For
/// a class that `mapping` lacks, the function is `cql_encode_object`. If the function is one of the
/// driver's, and native code supports the value, the literal is written natively. Otherwise the
/// stand-in calls the function. Native code does not support instances of subclasses.
#[pyclass(frozen, module = "turbocql._core")]
pub struct LiteralsStandIn {
    original: Py<PyAny>,
    encoder: Dependence,
    class: Py<PyType>,
    uuid: Py<PyAny>,
    decimal: Py<PyAny>,
    /// Python's class of bound methods.
    method: Py<PyAny>,
    /// The driver's own functions, and the kind of literal that each writes.
    functions: Vec<(Py<PyAny>, Kind)>,
    /// Whether the driver computes timestamps in binary64.
    float_time: bool,
    counts: Counts,
}

#[derive(Clone, Copy)]
enum Kind {
    Null,
    Text,
    /// The literal is `str()` of the value.
    Object,
    Float,
    Bytes,
    DateTime,
    Date,
    Decimal,
    Map,
    List,
    Set,
}

#[pymethods]
impl LiteralsStandIn {
    /// `functions` maps the name of each function of the class `encoder` to the function.
    /// `is_usual` returns whether the methods that these functions call are still the driver's own.
    /// `classes` are the classes of UUIDs, decimals and bound methods.
    #[new]
    fn new(
        original: Py<PyAny>,
        encoder: Py<PyType>,
        is_usual: Py<PyAny>,
        functions: &Bound<'_, PyDict>,
        classes: (Py<PyAny>, Py<PyAny>, Py<PyAny>),
        float_time: bool,
    ) -> PyResult<LiteralsStandIn> {
        const KINDS: [(&str, Kind); 11] = [
            ("cql_encode_none", Kind::Null),
            ("cql_encode_str", Kind::Text),
            ("cql_encode_object", Kind::Object),
            ("cql_encode_float", Kind::Float),
            ("cql_encode_bytes", Kind::Bytes),
            ("cql_encode_datetime", Kind::DateTime),
            ("cql_encode_date", Kind::Date),
            ("cql_encode_decimal", Kind::Decimal),
            ("cql_encode_map_collection", Kind::Map),
            ("cql_encode_list_collection", Kind::List),
            ("cql_encode_set_collection", Kind::Set),
        ];
        let mut encoder_functions = Vec::new();
        for (name, kind) in KINDS {
            if let Some(function) = functions.get_item(name)? {
                encoder_functions.push((function.unbind(), kind));
            }
        }
        let py = functions.py();
        let (uuid, decimal, method) = classes;
        Ok(LiteralsStandIn {
            original,
            encoder: Dependence::new(encoder.clone_ref(py), is_usual),
            class: encoder,
            uuid,
            decimal,
            method,
            functions: encoder_functions,
            float_time,
            counts: Counts::default(),
        })
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl StandIn for LiteralsStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [query, params, encoder] = arguments else { return Ok(None) };
        if !query.is_exact_instance_of::<PyString>() || !encoder.get_type().is(&stand_in.class) {
            return Ok(None);
        }
        let attributes = encoder.getattr(pyo3::intern!(py, "__dict__"))?;
        let Ok(attributes) = attributes.cast_exact::<PyDict>() else { return Ok(None) };
        let mapping = attributes.get_item(pyo3::intern!(py, "mapping"))?;
        let Some(mapping) = mapping.and_then(|mapping| mapping.cast_into_exact::<PyDict>().ok())
        else {
            return Ok(None);
        };
        // The encoder's dict must only have `mapping`, because another attribute could shadow a
        // function of the encoder's class.
        if attributes.len() != 1 || !stand_in.encoder.is_as_usual(py)? {
            return Ok(None);
        }
        let literals = Literals { stand_in, encoder, mapping: &mapping };
        let parameters = if let Ok(values) = params.cast_exact::<PyTuple>() {
            literals.all(values.iter())?
        } else if let Ok(values) = params.cast_exact::<PyList>() {
            literals.all(values.iter())?
        } else if let Ok(named) = params.cast_exact::<PyDict>() {
            let written = PyDict::new(py);
            for item in named.items().iter() {
                let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
                written.set_item(name, literals.literal(&value)?)?;
            }
            written.into_any()
        } else {
            return Ok(None);
        };
        stand_in.counts.native();
        query.rem(parameters).map(Some)
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}

/// An encoder, and its current mapping from classes to functions.
struct Literals<'a, 'py> {
    stand_in: &'a LiteralsStandIn,
    encoder: &'a Bound<'py, PyAny>,
    mapping: &'a Bound<'py, PyDict>,
}

/// The function that writes a value's literal.
enum Writer<'py> {
    /// The driver's own function, which writes this kind of literal. The function is `None` if the
    /// mapping has none for the value's class; the literal is then `str()` of the value.
    Own(Kind, Option<Bound<'py, PyAny>>),
    /// Any other function.
    Other(Bound<'py, PyAny>),
}

impl<'py> Literals<'_, 'py> {
    fn all(&self, values: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let literals = values.map(|value| self.literal(&value)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(self.encoder.py(), literals)?.into_any())
    }

    /// Returns the literal of a parameter. It is a string, or any object if a function that is not
    /// the driver's has made it.
    fn literal(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        match self.writer(value)? {
            Writer::Own(kind, function) => {
                let mut out = String::new();
                if self.write(kind, value, 0, &mut out)? {
                    return Ok(PyString::new(py, &out).into_any());
                }
                match function {
                    Some(function) => function.call1((value,)),
                    None => value.str().map(Bound::into_any),
                }
            }
            Writer::Other(function) => function.call1((value,)),
        }
    }

    fn writer(&self, value: &Bound<'py, PyAny>) -> PyResult<Writer<'py>> {
        let py = value.py();
        let Some(function) = self.mapping.get_item(value.get_type())? else {
            return Ok(Writer::Own(Kind::Object, None));
        };
        if function.get_type().is(&self.stand_in.method)
            && function.getattr(pyo3::intern!(py, "__self__"))?.is(self.encoder)
        {
            let function_of_class = function.getattr(pyo3::intern!(py, "__func__"))?;
            let function_and_kind =
                self.stand_in.functions.iter().find(|(function, _)| function_of_class.is(function));
            if let Some((_, kind)) = function_and_kind {
                return Ok(Writer::Own(*kind, Some(function)));
            }
        }
        Ok(Writer::Other(function))
    }

    /// Appends the literal of a value. Returns false if the driver's function must be called; `out`
    /// may then end with a part of a literal, which the caller must remove.
    fn write(
        &self,
        kind: Kind,
        value: &Bound<'py, PyAny>,
        depth: usize,
        out: &mut String,
    ) -> PyResult<bool> {
        match kind {
            Kind::Null => {
                out.push_str("NULL");
                Ok(value.is_none())
            }
            Kind::Text => {
                let Ok(text) = value.cast_exact::<PyString>() else { return Ok(false) };
                // A text with lone surrogates is left to the driver's function.
                let Ok(text) = text.to_str() else { return Ok(false) };
                out.push('\'');
                for part in text.split_inclusive('\'') {
                    out.push_str(part);
                    if part.ends_with('\'') {
                        out.push('\'');
                    }
                }
                out.push('\'');
                Ok(true)
            }
            Kind::Object => self.write_object(value, out),
            Kind::Float => match value.cast_exact::<PyFloat>() {
                Ok(number) => write_float(number, out),
                Err(_) => Ok(false),
            },
            Kind::Decimal => {
                if !value.get_type().is(&self.stand_in.decimal) {
                    return Ok(false);
                }
                write_float(&PyFloat::new(value.py(), value.extract()?), out)
            }
            Kind::Bytes => {
                if let Ok(bytes) = value.cast_exact::<PyBytes>() {
                    write_hex(bytes.as_bytes(), out);
                } else if let Ok(bytes) = value.cast_exact::<PyByteArray>() {
                    write_hex(&bytes.to_vec(), out);
                } else {
                    return Ok(false);
                }
                Ok(true)
            }
            Kind::DateTime => Ok(self.write_datetime(value, out)),
            Kind::Date => {
                let Ok(date) = value.cast_exact::<PyDate>() else { return Ok(false) };
                // The driver calls `strftime`, whose text for years before 1000 depends on the
                // platform.
                if date.get_year() < 1000 {
                    return Ok(false);
                }
                let (year, month, day) = (date.get_year(), date.get_month(), date.get_day());
                write!(out, "'{year:04}-{month:02}-{day:02}'").expect("a String takes all");
                Ok(true)
            }
            // Deeper nesting is left to the driver's function, which raises an error at Python's
            // recursion limit.
            Kind::Map | Kind::List | Kind::Set if depth >= DEEPEST => Ok(false),
            Kind::Map => self.write_items(pairs(value), '{', '}', true, depth, out),
            Kind::List => self.write_items(sequence(value), '[', ']', false, depth, out),
            Kind::Set => self.write_items(members(value), '{', '}', false, depth, out),
        }
    }

    fn write_object(&self, value: &Bound<'py, PyAny>, out: &mut String) -> PyResult<bool> {
        if value.get_type().is(&self.stand_in.uuid) {
            let number: u128 = value.getattr(pyo3::intern!(value.py(), "int"))?.extract()?;
            let digits = format!("{number:032x}");
            let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
            let (d, e) = (&digits[16..20], &digits[20..]);
            write!(out, "{a}-{b}-{c}-{d}-{e}").expect("a String takes all");
            return Ok(true);
        }
        if !value.is_exact_instance_of::<PyInt>() && !value.is_exact_instance_of::<PyBool>() {
            return Ok(false);
        }
        out.push_str(value.str()?.to_str()?);
        Ok(true)
    }

    /// Appends a datetime without a time zone, as milliseconds since the epoch. Returns false for
    /// any other value.
    fn write_datetime(&self, value: &Bound<'py, PyAny>, out: &mut String) -> bool {
        let Ok(moment) = value.cast_exact::<PyDateTime>() else { return false };
        if moment.get_tzinfo().is_some() {
            return false;
        }
        let seconds = seconds(moment);
        let micros = moment.get_microsecond();
        let millis = if self.stand_in.float_time {
            // As in the driver, two binary64 numbers are added, and the sum is truncated.
            (seconds as f64 * 1e3 + f64::from(micros) / 1e3) as i64
        } else {
            seconds * 1000 + i64::from(micros / 1000)
        };
        write!(out, "{millis}").expect("a String takes all");
        true
    }

    /// Appends a collection. `items` are its elements or, for a map, its keys and values in turn.
    /// They are a copy, because a function that is not the driver's may change the collection
    /// meanwhile.
    ///
    /// Returns false if `items` is `None`, which means that the value is not of a supported class,
    /// or if the literal of an item has lone surrogates.
    fn write_items(
        &self,
        items: Option<Vec<Bound<'py, PyAny>>>,
        begin: char,
        end: char,
        is_map: bool,
        depth: usize,
        out: &mut String,
    ) -> PyResult<bool> {
        let Some(items) = items else { return Ok(false) };
        out.push(begin);
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                out.push_str(if is_map && number % 2 == 1 { ": " } else { ", " });
            }
            if !self.write_item(item, (!is_map).then_some(number), depth + 1, out)? {
                return Ok(false);
            }
        }
        out.push(end);
        Ok(true)
    }

    /// Appends the literal of an element, or of a map's key or value. `number` is the index of an
    /// element; it is `None` for a map. If the literal of an element is not a string, raises as the
    /// driver does. Returns false if the literal has lone surrogates, which a `String` cannot have.
    fn write_item(
        &self,
        item: &Bound<'py, PyAny>,
        number: Option<usize>,
        depth: usize,
        out: &mut String,
    ) -> PyResult<bool> {
        let literal = match self.writer(item)? {
            Writer::Own(kind, function) => {
                let before = out.len();
                if self.write(kind, item, depth, out)? {
                    return Ok(true);
                }
                out.truncate(before);
                match function {
                    Some(function) => function.call1((item,))?,
                    None => item.str()?.into_any(),
                }
            }
            Writer::Other(function) => function.call1((item,))?,
        };
        let literal = match (literal.cast_into::<PyString>(), number) {
            (Ok(literal), _) => literal,
            (Err(other), None) => other.into_inner().str()?,
            (Err(other), Some(number)) => {
                let got = other.into_inner().get_type().name()?;
                let reason = format!("sequence item {number}: expected str instance, {got} found");
                return Err(PyTypeError::new_err(reason));
            }
        };
        let Ok(literal) = literal.to_str() else { return Ok(false) };
        out.push_str(literal);
        Ok(true)
    }
}

/// Returns the seconds since 1970 of a datetime without a time zone.
pub fn seconds(moment: &Bound<'_, PyDateTime>) -> i64 {
    let (hour, minute) = (i64::from(moment.get_hour()), i64::from(moment.get_minute()));
    i64::from(days_of(moment)) * 86_400 + hour * 3600 + minute * 60 + i64::from(moment.get_second())
}

/// Returns the keys and values of a dict, in turn; `None` for a value of another class.
fn pairs<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    let map = value.cast_exact::<PyDict>().ok()?;
    Some(map.iter().flat_map(|(key, value)| [key, value]).collect())
}

fn sequence<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    match value.cast_exact::<PyList>() {
        Ok(list) => Some(list.iter().collect()),
        Err(_) => Some(value.cast_exact::<PyTuple>().ok()?.iter().collect()),
    }
}

fn members<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    match value.cast_exact::<PySet>() {
        Ok(set) => Some(set.iter().collect()),
        Err(_) => Some(value.cast_exact::<PyFrozenSet>().ok()?.iter().collect()),
    }
}

fn write_float(number: &Bound<'_, PyFloat>, out: &mut String) -> PyResult<bool> {
    let value = number.value();
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    } else {
        out.push_str(number.repr()?.to_str()?);
    }
    Ok(true)
}

fn write_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 + 2 * bytes.len());
    out.push_str("0x");
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}
