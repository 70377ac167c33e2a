//! Pages by column: numbers as one array each, other values as lists.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList};
use turbocql_codec::page::PageCells;

use turbocql_values::ffi::rows::{Stopped, Values};

enum Column<'py> {
    /// Numbers of as many bytes, and of each whether it is null.
    Numbers(usize, Vec<u8>, Vec<u8>),
    Values(Vec<Bound<'py, PyAny>>),
}

/// Per column of `widths`: where numbers of that many bytes stand in it, a bytearray of them in the
/// machine's order and one that has 1 for each null; else a list of values.
///
/// `None` where a number has another width.
pub fn columns<'py>(
    py: Python<'py>,
    values: &impl Values,
    cells: &mut PageCells<'_>,
    count: usize,
    widths: &[Option<usize>],
) -> Result<Option<Vec<Bound<'py, PyAny>>>, Stopped> {
    let mut columns: Vec<_> = widths
        .iter()
        .map(|width| match width {
            Some(width) => Column::Numbers(*width, vec![0; count * width], vec![0; count]),
            None => Column::Values(Vec::with_capacity(count)),
        })
        .collect();
    for row in 0..count {
        for (i, column) in columns.iter_mut().enumerate() {
            let cell = cells.next_cell().map_err(Stopped::Malformed)?;
            match (column, cell) {
                (Column::Numbers(width, numbers, _), Some(cell)) => {
                    if cell.len() != *width {
                        return Ok(None);
                    }
                    let place = &mut numbers[row * *width..][..*width];
                    place.copy_from_slice(cell);
                    if cfg!(target_endian = "little") {
                        place.reverse();
                    }
                }
                (Column::Numbers(_, _, nulls), None) => nulls[row] = 1,
                (Column::Values(found), cell) => {
                    // SAFETY: the lock is held, as `py` shows, and the value is ours.
                    let value = unsafe {
                        let value = values.value(i, cell)?;
                        Bound::from_owned_ptr(py, value)
                    };
                    found.push(value);
                }
            }
        }
    }
    let made = columns.into_iter().map(|column| match column {
        Column::Numbers(_, numbers, nulls) => {
            let both = (PyByteArray::new(py, &numbers), PyByteArray::new(py, &nulls));
            Ok(both.into_pyobject(py)?.into_any())
        }
        Column::Values(found) => Ok(PyList::new(py, found)?.into_any()),
    });
    Ok(Some(made.collect::<PyResult<_>>()?))
}
