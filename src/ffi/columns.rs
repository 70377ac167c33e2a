//! The columns of a page, some of which only Python can read.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::bytes;
use super::reference::{Reference, Ways, none};
use super::rows::{Stopped, Values};
use crate::value::HostPlan;

/// How the cells of a column become values.
pub enum Column {
    Native(Arc<HostPlan>),
    /// By a function of bytes and a protocol version.
    Python(Py<PyAny>),
    /// The same, of decimals.
    Decimal(Py<PyAny>),
}

/// The columns of a page.
pub struct Columns<'a, 'py> {
    py: Python<'py>,
    reference: Reference<'a, 'py>,
    columns: &'a [Column],
    version: i64,
}

impl<'a, 'py> Columns<'a, 'py> {
    /// `None` where nothing is to be read natively.
    pub fn new(
        py: Python<'py>,
        ways: &'a Ways,
        columns: &'a [Column],
        version: i64,
    ) -> Option<Self> {
        Some(Columns { py, reference: Reference::new(py, ways)?, columns, version })
    }
}

impl Values for Columns<'_, '_> {
    #[inline(always)]
    fn width(&self) -> usize {
        self.columns.len()
    }

    #[inline(always)]
    unsafe fn value(
        &self,
        column: usize,
        cell: Option<&[u8]>,
    ) -> Result<*mut ffi::PyObject, Stopped> {
        let Some(given) = cell else {
            // SAFETY: the caller's word.
            return Ok(unsafe { none() });
        };
        match &self.columns[column] {
            Column::Native(plan) => {
                // SAFETY: the caller's word.
                let value = unsafe { self.reference.value(plan, given) };
                if value.is_null() { Err(refused()) } else { Ok(value) }
            }
            // Compiled readers cannot negate the least scale.
            Column::Decimal(_) if given.starts_with(&i32::MIN.to_be_bytes()) => Err(refused()),
            Column::Python(read) | Column::Decimal(read) => {
                let given = bytes::copy(self.py, given)?;
                Ok(read.bind(self.py).call1((given, self.version))?.into_ptr())
            }
        }
    }
}

/// What is not usual is the driver's to read.
#[cold]
fn refused() -> Stopped {
    Stopped::Raised(PyValueError::new_err(()))
}
