//! Finds the tablet of a token in the driver's tablets.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyType};

use crate::stand_ins::fields::Fields;

/// What the tablets of a table say about a token.
pub enum Tablet<'py> {
    Of(Bound<'py, PyAny>),
    /// The table has no tablets, or none of its tablets includes the token.
    None,
    /// The driver must look the tablet up.
    Unknown,
}

/// Does what the driver's `get_tablet_for_key` does with the tablets of `metadata`, if they are an
/// object of exactly the class `class`.
pub fn tablet<'py>(
    metadata: &Bound<'py, PyAny>,
    class: &Py<PyType>,
    keyspace: &Bound<'py, PyAny>,
    table: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    token: i64,
) -> PyResult<Tablet<'py>> {
    let py = metadata.py();
    let tablets = metadata.getattr(pyo3::intern!(py, "_tablets"))?;
    if !tablets.get_type().is(class) {
        return Ok(Tablet::Unknown);
    }
    let Some(tablets) = Fields::of(&tablets) else { return Ok(Tablet::Unknown) };
    if tablets.has(pyo3::intern!(py, "get_tablet_for_key"))? {
        return Ok(Tablet::Unknown);
    }
    let by_table = tablets.get(pyo3::intern!(py, "_tablets"))?;
    let Ok(by_table) = by_table.cast_into_exact::<PyDict>() else { return Ok(Tablet::Unknown) };
    if by_table.is_empty() {
        return Ok(Tablet::None);
    }
    let Some(of_table) = by_table.get_item((keyspace, table()?))? else {
        return Ok(Tablet::None);
    };
    let Ok(of_table) = of_table.cast_into_exact::<PyList>() else { return Ok(Tablet::Unknown) };
    if of_table.is_empty() {
        return Ok(Tablet::None);
    }
    let last_token = pyo3::intern!(py, "last_token");
    let position = bisect_left(&of_table, token, |tablet| integer(tablet, last_token))?;
    let Some(position) = position else { return Ok(Tablet::Unknown) };
    let Ok(tablet) = of_table.get_item(position) else { return Ok(Tablet::None) };
    match integer(&tablet, pyo3::intern!(py, "first_token"))? {
        Some(first) if token > first => Ok(Tablet::Of(tablet)),
        Some(_) => Ok(Tablet::None),
        None => Ok(Tablet::Unknown),
    }
}

/// Returns the value of an attribute; None if it is not an `int` of at most 64 bits.
pub fn integer(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<Option<i64>> {
    let value = object.getattr(name)?;
    Ok(value.cast_exact::<PyInt>().ok().and_then(|value| value.extract().ok()))
}

/// Returns the position of the first item whose number is not less than `number`, like Python's
/// `bisect_left`. Returns None if an item has no number, or if the list became
/// shorter meanwhile.
pub fn bisect_left<'py>(
    list: &Bound<'py, PyList>,
    number: i64,
    value: impl Fn(&Bound<'py, PyAny>) -> PyResult<Option<i64>>,
) -> PyResult<Option<usize>> {
    let (mut low, mut high) = (0, list.len());
    while low < high {
        let middle = low.midpoint(high);
        // Another thread may have shortened the list.
        let Ok(item) = list.get_item(middle) else { return Ok(None) };
        match value(&item)? {
            Some(value) if value < number => low = middle + 1,
            Some(_) => high = middle,
            None => return Ok(None),
        }
    }
    Ok(Some(low))
}
