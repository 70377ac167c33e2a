//! Decodes the columns of pages: a column of numbers becomes two bytearrays, any other column a
//! list.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList};
use turbocql_codec::page::PageCells;

use turbocql_values::ffi::rows::{Stopped, Values};

enum Column<'py> {
    /// The width of a number in bytes, the numbers, and one byte per row, which is 1 for a null and
    /// 0 for a number.
    Numbers(usize, Vec<u8>, Vec<u8>),
    Values(Vec<Bound<'py, PyAny>>),
}

/// Returns one object per column. A column for which `widths` has a width becomes two bytearrays:
/// its numbers, in the byte order of the machine, and one byte per row, which is 1 for a null and 0
/// for a number. The number of a null is 0. Any other column becomes a list of values.
///
/// Returns `None` if a number does not have the width of its column.
pub fn columns<'py>(
    py: Python<'py>,
    values: &impl Values<'py>,
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
                    let slot = &mut numbers[row * *width..][..*width];
                    slot.copy_from_slice(cell);
                    if cfg!(target_endian = "little") {
                        slot.reverse();
                    }
                }
                (Column::Numbers(_, _, nulls), None) => nulls[row] = 1,
                (Column::Values(column_values), cell) => {
                    column_values.push(values.value(i, cell)?);
                }
            }
        }
    }
    let objects = columns.into_iter().map(|column| match column {
        Column::Numbers(_, numbers, nulls) => {
            let both = (PyByteArray::new(py, &numbers), PyByteArray::new(py, &nulls));
            Ok(both.into_pyobject(py)?.into_any())
        }
        Column::Values(values) => Ok(PyList::new(py, values)?.into_any()),
    });
    Ok(Some(objects.collect::<PyResult<_>>()?))
}
