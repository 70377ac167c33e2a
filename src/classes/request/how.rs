//! How a statement is executed: the options, the kind of rows, and the time when the call began.

use std::time::Instant;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;
use turbocql_values::error::config_error;
use turbocql_values::row::{RowKind, RowsAs};
use turbocql_values::value::describe::describe;

use crate::classes::session::state::SessionState;
use crate::options::Options;

/// Returns the kind of rows that the options `rows` and `row` select. Without these options,
/// returns the session's kind of rows.
pub fn rows_as(
    py: Python<'_>,
    session: &SessionState,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<RowsAs> {
    let Some(options) = options else { return Ok(session.row_kind.into()) };
    let option = |name| {
        let value = options.get_item(name)?;
        Ok::<_, PyErr>(value.filter(|value| !value.is_none()))
    };
    let rows = option(pyo3::intern!(py, "rows"))?;
    let Some(row) = option(pyo3::intern!(py, "row"))? else {
        let Some(rows) = rows else { return Ok(session.row_kind.into()) };
        let name = rows.extract::<PyBackedStr>().map_err(|_| {
            let got = describe(&rows);
            let reason =
                format!("rows must be 'named', 'tuple' or 'dict', got {got}: pass a class as row=");
            PyTypeError::new_err(reason)
        })?;
        return Ok(RowKind::parse(py, &name)?.into());
    };
    if rows.is_some() {
        return Err(config_error(py, "pass rows or row, not both"));
    }
    if !row.is_callable() {
        let got = describe(&row);
        let reason = format!("row must be a class or another callable, got {got}");
        return Err(PyTypeError::new_err(reason));
    }
    Ok(RowsAs { kind: RowKind::Tuple, factory: Some(row.unbind()) })
}

/// How a statement or a batch is executed.
pub struct How {
    pub options: Options,
    pub rows: RowsAs,
    /// When the call began. `None` if the call has neither waited in a full session nor prepared a
    /// statement.
    pub began: Option<Instant>,
}

impl How {
    pub fn clone_ref(&self, py: Python<'_>) -> How {
        How { options: self.options.clone(), rows: self.rows.clone_ref(py), began: self.began }
    }
}
