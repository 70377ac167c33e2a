//! Encodes Python dates, times and durations, in integer arithmetic.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDate, PyDateTime, PyDelta, PyDeltaAccess, PyInt, PyTime, PyTimeAccess, PyTzInfo,
    PyTzInfoAccess,
};
use turbocql_codec::types::duration::Duration;

use super::encode::{mismatch, raised};
use super::foreign;
use super::numbers::{self, unread_part};
use crate::calendar::{MILLISECONDS_PER_DAY, civil_from_days, days_from_civil, days_of};
use crate::failure::{Failure, Outcome};
use crate::plan::HostPlan;
use crate::python;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// Returns an integer attribute of an instance of a subclass of `date`, `time` or `datetime`. The
/// instance's C fields are not read, because they can differ from its attributes. For example,
/// pandas has timestamps beyond Python's range of years, and NaT, which is not a time.
fn attribute<T: TryFrom<i64>>(plan: &HostPlan, value: &Bound<'_, PyAny>, name: &str) -> Outcome<T> {
    let number = value.getattr(name).and_then(|number| number.extract::<i64>());
    let number = number.map_err(|error| unread_part(plan, value, error))?;
    T::try_from(number).map_err(|_| numbers::out_of_range(plan, value))
}

/// Returns the days since 1970-01-01 of an instance of a subclass of `date` or `datetime`.
fn days_by_attributes(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<i32> {
    let year: i32 = attribute(plan, value, "year")?;
    let (month, day) = (attribute(plan, value, "month")?, attribute(plan, value, "day")?);
    let calendar = (1..=12).contains(&month) && (1..=31).contains(&day);
    // The years are limited, because the microseconds of years far beyond 200,000 do not fit 64
    // bits.
    if !(-200_000..200_000).contains(&year) || !calendar {
        return Err(numbers::out_of_range(plan, value));
    }
    let days = days_from_civil(year, month, day);
    // A date that does not exist, such as April 31, gets the same number from `days_from_civil` as
    // May 1. So the number is converted back to a date, and compared.
    if civil_from_days(days.into()) != (year.into(), month, day) {
        return Err(numbers::out_of_range(plan, value));
    }
    Ok(days)
}

/// Returns the nanoseconds since midnight of an instance of a subclass of `time` or `datetime`.
fn clock_by_attributes(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<i64> {
    let [hour, minute, second, microsecond]: [u32; 4] = [
        attribute(plan, value, "hour")?,
        attribute(plan, value, "minute")?,
        attribute(plan, value, "second")?,
        attribute(plan, value, "microsecond")?,
    ];
    if hour > 23 || minute > 59 || second > 59 || microsecond > 999_999 {
        return Err(numbers::out_of_range(plan, value));
    }
    let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
    Ok(seconds * 1_000_000_000 + i64::from(microsecond) * 1000)
}

/// Whether the value is taken as a raw number: an `int` or an object with `__index__`, but not a
/// `bool`.
fn is_integer(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<PyBool>() {
        return Ok(false);
    }
    Ok(value.is_instance_of::<PyInt>() || value.hasattr(pyo3::intern!(value.py(), "__index__"))?)
}

/// Returns the number of days from 1970-01-01 to a date.
pub fn date(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<i32> {
    let py = value.py();
    if value.is_instance_of::<PyDateTime>() {
        return Err(mismatch(plan, "datetime.date; of a datetime pass its .date()", value));
    }
    if let Ok(date) = value.cast_exact::<PyDate>() {
        return Ok(days_of(date));
    }
    if value.is_instance_of::<PyDate>() {
        return days_by_attributes(plan, value);
    }
    if value.is_instance(python::cql_date(py)?)? {
        let days = value.getattr(pyo3::intern!(py, "days"));
        return days
            .and_then(|days| days.extract())
            .map_err(|error| unread_part(plan, value, error));
    }
    if !is_integer(value)? {
        if foreign::is(value, "Date")? {
            let days = foreign::part::<i64>(value, "days_from_epoch");
            let days = days.map_err(|error| unread_part(plan, value, error))?;
            return i32::try_from(days).map_err(|_| numbers::out_of_range(plan, value));
        }
        return Err(mismatch(plan, "datetime.date, turbocql.Date or the raw int", value));
    }
    let raw: u32 = numbers::integer(plan, value)?;
    Ok((raw ^ (1 << 31)) as i32)
}

/// Returns the nanoseconds since midnight of a time of day. The caller checks that they are within
/// a day.
pub fn time(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<i64> {
    let py = value.py();
    if let Ok(time) = value.cast::<PyTime>() {
        if time.get_tzinfo().is_some() {
            return Err(mismatch(plan, "a datetime.time without a time zone", value));
        }
        if !value.is_exact_instance_of::<PyTime>() {
            return clock_by_attributes(plan, value);
        }
        let seconds = (i64::from(time.get_hour()) * 60 + i64::from(time.get_minute())) * 60
            + i64::from(time.get_second());
        return Ok(seconds * 1_000_000_000 + i64::from(time.get_microsecond()) * 1000);
    }
    if value.is_instance(python::cql_time(py)?)? {
        let nanoseconds = value.getattr(pyo3::intern!(py, "nanoseconds"));
        return nanoseconds
            .and_then(|nanoseconds| nanoseconds.extract())
            .map_err(|error| unread_part(plan, value, error));
    }
    if !is_integer(value)? {
        if foreign::is(value, "Time")? {
            let nanoseconds = foreign::part(value, "nanosecond_time");
            return nanoseconds.map_err(|error| unread_part(plan, value, error));
        }
        return Err(mismatch(plan, "datetime.time, turbocql.Time or int nanoseconds", value));
    }
    numbers::integer(plan, value)
}

/// Returns the milliseconds since 1970-01-01T00:00:00Z. A datetime is rounded down to a whole
/// millisecond.
pub fn timestamp(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<i64> {
    let py = value.py();
    if let Ok(datetime) = value.cast::<PyDateTime>() {
        let microseconds = if value.is_exact_instance_of::<PyDateTime>() {
            let seconds = (i64::from(datetime.get_hour()) * 60 + i64::from(datetime.get_minute()))
                * 60
                + i64::from(datetime.get_second());
            i64::from(days_of(datetime)) * MICROSECONDS_PER_DAY
                + seconds * 1_000_000
                + i64::from(datetime.get_microsecond())
        } else {
            i64::from(days_by_attributes(plan, value)?) * MICROSECONDS_PER_DAY
                + clock_by_attributes(plan, value)? / 1000
        };
        let offset = match datetime.get_tzinfo() {
            None => 0,
            Some(zone) if zone.is(&*PyTzInfo::utc(py)?) => 0,
            Some(_) => utc_offset(plan, value)?,
        };
        return Ok((microseconds - offset).div_euclid(1000));
    }
    if let Ok(date) = value.cast::<PyDate>() {
        let exact = value.is_exact_instance_of::<PyDate>();
        let days = if exact { days_of(date) } else { days_by_attributes(plan, value)? };
        return Ok(i64::from(days) * MILLISECONDS_PER_DAY);
    }
    if value.is_instance(python::cql_timestamp(py)?)? {
        let milliseconds = value.getattr(pyo3::intern!(py, "milliseconds"));
        return milliseconds
            .and_then(|milliseconds| milliseconds.extract())
            .map_err(|error| unread_part(plan, value, error));
    }
    let expected = "datetime, date, turbocql.Timestamp or int milliseconds";
    if is_integer(value)? {
        return numbers::integer(plan, value);
    }
    Err(mismatch(plan, expected, value))
}

/// Returns the offset from UTC of an aware datetime, in microseconds.
fn utc_offset(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<i64> {
    let offset = value
        .call_method0(pyo3::intern!(value.py(), "utcoffset"))
        .map_err(|error| unread_part(plan, value, error))?;
    // `utcoffset()` may return None. The datetime is then treated as naive, that is, as UTC.
    if offset.is_none() {
        return Ok(0);
    }
    let delta = offset.cast::<PyDelta>().map_err(|error| raised(plan, value, error.into()))?;
    let seconds = i64::from(delta.get_days()) * 86_400 + i64::from(delta.get_seconds());
    // `datetime` guarantees this range, but a subclass may return any offset.
    if !(-86_400 < seconds && seconds < 86_400) {
        return Err(mismatch(plan, "an offset from UTC of less than a day", value));
    }
    Ok(seconds * 1_000_000 + i64::from(delta.get_microseconds()))
}

/// Returns the duration of a value. A `timedelta` becomes whole days and the remaining nanoseconds,
/// both with the sign of the `timedelta`.
pub fn duration(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<Duration> {
    let py = value.py();
    if let Ok(delta) = value.cast::<PyDelta>() {
        if !value.is_exact_instance_of::<PyDelta>() {
            check_delta(plan, value, delta)?;
        }
        // A timedelta of 999,999,999 days has 8.64e19 microseconds, which do not fit 64 bits.
        let total = (i128::from(delta.get_days()) * 86_400 + i128::from(delta.get_seconds()))
            * 1_000_000
            + i128::from(delta.get_microseconds());
        let per_day = i128::from(MICROSECONDS_PER_DAY);
        let days = i32::try_from(total / per_day);
        let nanoseconds = i64::try_from(total % per_day * 1000);
        return match (days, nanoseconds) {
            (Ok(days), Ok(nanoseconds)) => Ok(Duration { months: 0, days, nanoseconds }),
            _ => Err(Failure::out_of_range("duration", "a timedelta beyond the range of duration")),
        };
    }
    if value.is_instance(python::cql_duration(py)?)? || foreign::is(value, "Duration")? {
        let read = || {
            Ok(Duration {
                months: value.getattr(pyo3::intern!(py, "months"))?.extract()?,
                days: value.getattr(pyo3::intern!(py, "days"))?.extract()?,
                nanoseconds: value.getattr(pyo3::intern!(py, "nanoseconds"))?.extract()?,
            })
        };
        return read().map_err(|error| unread_part(plan, value, error));
    }
    Err(mismatch(plan, "turbocql.Duration or datetime.timedelta", value))
}

/// Refuses an instance of a subclass of `timedelta` if its days, seconds and microseconds are not
/// its whole duration. A pandas Timedelta can have nanoseconds or be longer than any `timedelta`,
/// and instances of other subclasses can have months.
fn check_delta(
    plan: &HostPlan,
    value: &Bound<'_, PyAny>,
    delta: &Bound<'_, PyDelta>,
) -> Outcome<()> {
    let py = value.py();
    let (days, seconds) = (delta.get_days(), delta.get_seconds());
    let plain = PyDelta::new(py, days, seconds, delta.get_microseconds(), false)?;
    let mut same = value.eq(plain)?;
    for name in ["years", "months"] {
        if let Some(part) = value.getattr_opt(name)? {
            same = same && !part.is_truthy()?;
        }
    }
    if same {
        return Ok(());
    }
    Err(mismatch(plan, "a timedelta without years, months or nanoseconds", value))
}
