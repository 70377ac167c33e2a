//! Days of the proleptic Gregorian calendar, in integer arithmetic.

use pyo3::prelude::*;
use pyo3::types::{PyDateAccess, PyDateTime, PyTimeAccess, PyTzInfo, PyTzInfoAccess};

pub const MILLISECONDS_PER_DAY: i64 = 86_400_000;
/// The days of Python's calendar, from 0001-01-01 to 9999-12-31, each as the number of days since
/// 1970-01-01.
pub const PYTHON_DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// Returns the number of days from 1970-01-01 to a day of the proleptic Gregorian calendar.
pub fn days_from_civil(year: i32, month: u8, day: u8) -> i32 {
    // Here, years begin in March, so that the leap day is the last day of a year.
    let (month, day) = (i32::from(month), i32::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns the year, month and day that are `days` days after 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u8, day as u8)
}

/// Returns the number of days from 1970-01-01 to a Python date.
pub fn days_of(date: &impl PyDateAccess) -> i32 {
    days_from_civil(date.get_year(), date.get_month(), date.get_day())
}

/// Returns the milliseconds since 1970-01-01T00:00:00Z of a `datetime` that has no time zone or is
/// in `datetime.timezone.utc`. Returns `None` for other time zones. Microseconds below a
/// millisecond are dropped. The caller checks that the class is `datetime` itself, not a subclass.
#[inline]
pub fn exact_timestamp(datetime: &Bound<'_, PyDateTime>) -> Option<i64> {
    let zone = datetime.get_tzinfo();
    if zone.is_some_and(|zone| !PyTzInfo::utc(datetime.py()).is_ok_and(|utc| zone.is(&*utc))) {
        return None;
    }
    let seconds = (i64::from(datetime.get_hour()) * 60 + i64::from(datetime.get_minute())) * 60
        + i64::from(datetime.get_second());
    let milliseconds = i64::from(datetime.get_microsecond() / 1000);
    Some(i64::from(days_of(datetime)) * MILLISECONDS_PER_DAY + seconds * 1000 + milliseconds)
}
