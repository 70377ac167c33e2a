//! Serializes timestamps, dates and times of day.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyFloat, PyInt, PyString,
    PyTime, PyTimeAccess, PyType, PyTzInfoAccess,
};
use turbocql_codec::types;
use turbocql_values::calendar::{self, MILLISECONDS_PER_DAY, PYTHON_DAYS};

use super::refused::python;
use super::{has_none_in_dict, has_usual, numbers};
use crate::ffi::{attribute, version};

const SECONDS_PER_DAY: i64 = MILLISECONDS_PER_DAY / 1000;
const NANOSECONDS_PER_DAY: i64 = SECONDS_PER_DAY * 1_000_000_000;

/// Returns the milliseconds since 1970 of a `datetime` in any time zone, of a `date`, or of an
/// exact `int` or `float`. If `FLOAT_TIME` is true, the milliseconds of a `datetime` are computed
/// in binary64.
pub fn timestamp<const FLOAT_TIME: bool>(object: &Bound<'_, PyAny>) -> Option<i64> {
    if let Ok(datetime) = object.cast::<PyDateTime>() {
        if !is_usual(datetime, &["utctimetuple", "microsecond"]) {
            return None;
        }
        let microsecond = i64::from(datetime.get_microsecond());
        let local = i64::from(calendar::days_of(datetime)) * SECONDS_PER_DAY
            + (i64::from(datetime.get_hour()) * 60 + i64::from(datetime.get_minute())) * 60
            + i64::from(datetime.get_second());
        // An offset from UTC can include microseconds, so the second in UTC depends on them. The
        // drivers compute the second in UTC with the whole offset, but then add the microsecond of
        // the local time.
        let seconds = match instant(datetime) {
            Some(seconds) => seconds,
            None => {
                let (east, fraction) = offset(datetime)?;
                local - east + (microsecond - fraction).div_euclid(1_000_000)
            }
        };
        // Python cannot represent times in UTC outside `PYTHON_DAYS`: for such a time, the driver
        // raises OverflowError.
        if !PYTHON_DAYS.contains(&seconds.div_euclid(SECONDS_PER_DAY)) {
            return None;
        }
        return Some(if FLOAT_TIME {
            (seconds as f64 * 1e3 + microsecond as f64 / 1e3) as i64
        } else {
            seconds * 1000 + microsecond / 1000
        });
    }
    if let Ok(date) = object.cast::<PyDate>() {
        let py = object.py();
        let own = python(attribute::optional(object, pyo3::intern!(py, "utctimetuple")))?;
        let is_usual = own.is_none() && is_usual_date(date);
        return is_usual.then(|| i64::from(calendar::days_of(date)) * MILLISECONDS_PER_DAY);
    }
    if object.is_exact_instance_of::<PyInt>() {
        return python(object.extract::<i64>());
    }
    let number = object.cast_exact::<PyFloat>().ok()?.value().trunc();
    // The upper bound is the smallest binary64 number that is too large for 64 bits.
    (-(2f64.powi(63)) <= number && number < 2f64.powi(63)).then_some(number as i64)
}

/// Returns the seconds since 1970 of a pandas `Timestamp` with a time zone of `zoneinfo`, `pytz` or
/// `dateutil`; `None` for any other object. Does not compute the offset of the time zone, because
/// this takes pandas long.
fn instant(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
    let zone = datetime.get_tzinfo()?;
    if !is_pandas(&datetime.get_type()) {
        return None;
    }
    // Offsets of other time zones can include microseconds, which need the computation in
    // `timestamp`.
    let module = python(zone.get_type().module())?;
    let package = module.to_str().ok()?.split('.').next()?;
    if !["zoneinfo", "pytz", "dateutil"].contains(&package) {
        return None;
    }
    // `Timestamp.value` raises if the nanoseconds do not fit 64 bits.
    let nanoseconds = python(datetime.getattr(pyo3::intern!(datetime.py(), "value")))?;
    Some(python(nanoseconds.extract::<i64>())?.div_euclid(1_000_000_000))
}

/// Returns the offset from UTC in seconds and microseconds; zero for a `datetime` without a time
/// zone.
fn offset(datetime: &Bound<'_, PyDateTime>) -> Option<(i64, i64)> {
    static UTCOFFSET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = datetime.py();
    if datetime.get_tzinfo().is_none() {
        return Some((0, 0));
    }
    // `utcoffset` of the base class is called, even if the object's class overrides it: the drivers
    // call `utctimetuple`, which ignores such an override.
    let load = || Ok::<_, PyErr>(py.get_type::<PyDateTime>().getattr("utcoffset")?.unbind());
    let utcoffset = python(UTCOFFSET.get_or_try_init(py, load))?;
    let offset = python(utcoffset.bind(py).call1((datetime,)))?;
    if offset.is_none() {
        return Some((0, 0));
    }
    let offset = offset.cast::<PyDelta>().ok()?;
    let seconds = i64::from(offset.get_days()) * SECONDS_PER_DAY + i64::from(offset.get_seconds());
    Some((seconds, offset.get_microseconds().into()))
}

/// Whether the attributes `names` of a `datetime` are those of the class `datetime` or of pandas'
/// `Timestamp`. If they are, they agree with the C fields of the object.
fn is_usual(datetime: &Bound<'_, PyDateTime>, names: &'static [&'static str]) -> bool {
    let (py, class) = (datetime.py(), datetime.get_type());
    let base = py.get_type::<PyDateTime>();
    if class.is(&base) {
        return true;
    }
    if is_pandas(&class) {
        // If `datetime` does not support the year of a `Timestamp`, the C fields have another year.
        let year = python(datetime.getattr(pyo3::intern!(py, "year")));
        let year = year.and_then(|year| python(year.extract::<i32>()));
        return year == Some(datetime.get_year()) && has_none_in_dict(datetime, names);
    }
    has_usual(datetime, &base, names)
}

/// Whether `timetuple` of a `date`, a `datetime` or an instance of a subclass returns the day of
/// the C fields.
fn is_usual_date(date: &Bound<'_, PyDate>) -> bool {
    if let Ok(datetime) = date.cast::<PyDateTime>() {
        return is_usual(datetime, &["timetuple"]);
    }
    let (class, base) = (date.get_type(), date.py().get_type::<PyDate>());
    class.is(&base) || has_usual(date, &base, &["timetuple"])
}

/// Whether a class is pandas' `Timestamp`, and the attributes of its instances agree with their C
/// fields.
fn is_pandas(class: &Bound<'_, PyType>) -> bool {
    /// The version of the class when `agrees` last compared it with `datetime`, times two, plus 1
    /// if they agreed.
    static COMPARED: AtomicU64 = AtomicU64::new(0);
    static TIMESTAMP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = class.py();
    if TIMESTAMP.get(py).is_none() {
        let modules = python(py.import("sys").and_then(|sys| sys.getattr("modules")));
        let modules = modules.and_then(|modules| modules.cast_into::<PyDict>().ok());
        let pandas = modules.and_then(|modules| python(modules.get_item("pandas")).flatten());
        let timestamp = pandas.and_then(|pandas| python(pandas.getattr_opt("Timestamp")).flatten());
        // It is possible that pandas is not imported, or only in part.
        let timestamp = timestamp.filter(|timestamp| timestamp.is(class));
        let Some(timestamp) = timestamp else { return false };
        let _ = TIMESTAMP.set(py, timestamp.unbind());
    }
    if !TIMESTAMP.get(py).is_some_and(|timestamp| timestamp.is(class)) {
        return false;
    }
    let (now, compared) = (version::of(class), COMPARED.load(Ordering::Relaxed));
    if now != 0 && compared >> 1 == u64::from(now) {
        return compared & 1 == 1;
    }
    let is_usual = python(agrees(class)).unwrap_or(false);
    let compared = u64::from(version::of(class)) << 1 | u64::from(is_usual);
    COMPARED.store(compared, Ordering::Relaxed);
    is_usual
}

/// Whether, for two samples, the methods of pandas' `Timestamp` return the same as those of
/// `datetime`.
fn agrees(timestamp: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = timestamp.py();
    let base = py.get_type::<PyDateTime>();
    for text in ["1969-12-31 23:59:59.999999999", "2020-02-29 12:30:15.123456+05:30"] {
        let sample = timestamp.call1((text,))?;
        for name in ["utctimetuple", "timetuple"] {
            let expected = base.call_method1(name, (&sample,))?;
            if !sample.call_method0(name)?.eq(expected)? {
                return Ok(false);
            }
        }
        let microsecond = sample.cast::<PyDateTime>()?.get_microsecond();
        if sample.getattr("microsecond")?.extract::<u32>()? != microsecond {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the bytes of a CQL date, from a `date`, a `datetime`, an `int` that is the number on the
/// wire, or a text like 2020-01-31.
pub fn date(object: &Bound<'_, PyAny>) -> Option<[u8; 4]> {
    let py = object.py();
    if python(attribute::optional(object, pyo3::intern!(py, "days_from_epoch")))?.is_some() {
        return None;
    }
    if let Ok(date) = object.cast::<PyDate>() {
        let days = is_usual_date(date).then(|| calendar::days_of(date))?;
        return Some(types::date::to_bytes(days));
    }
    if object.is_instance_of::<PyInt>() {
        // The driver accepts the number on the wire, which counts days from -5877641-06-23.
        return numbers::narrowed::<u32>(object).map(u32::to_be_bytes);
    }
    let text = object.cast_exact::<PyString>().ok()?;
    day_of_text(python(text.to_str())?).map(types::date::to_bytes)
}

/// Parses a text of exactly four, two and two digits with hyphens between them, and returns the
/// day as days since 1970. Returns `None` for any other text, which the driver parses.
fn day_of_text(text: &str) -> Option<i32> {
    let bytes: &[u8; 10] = text.as_bytes().try_into().ok()?;
    let digits = |part: &[u8]| {
        part.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0'))
        })
    };
    if bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&bytes[..4])?, digits(&bytes[5..7])?, digits(&bytes[8..])?);
    let days = calendar::days_from_civil(year, month as u8, day as u8);
    // For a day that the month does not have, `days_from_civil` returns a day of another month.
    let again = calendar::civil_from_days(days.into());
    (year > 0 && again == (year.into(), month as u8, day as u8)).then_some(days)
}

/// Returns the nanoseconds since midnight of an exact `datetime.time`. Returns an exact `int`
/// unchanged if it is less than the number of nanoseconds in a day.
pub fn time(object: &Bound<'_, PyAny>) -> Option<i64> {
    if let Ok(time) = object.cast_exact::<PyTime>() {
        let seconds = (i64::from(time.get_hour()) * 60 + i64::from(time.get_minute())) * 60
            + i64::from(time.get_second());
        return Some((seconds * 1_000_000 + i64::from(time.get_microsecond())) * 1000);
    }
    if !object.is_exact_instance_of::<PyInt>() {
        return None;
    }
    python(object.extract::<i64>()).filter(|time| *time < NANOSECONDS_PER_DAY)
}
