//! Pages to lists of rows, in one pass.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyType};
use turbocql_codec::Malformed;
use turbocql_codec::page::PageCells;

use crate::value::decode::Decoder;
use crate::value::{Failure, HostPlan};

type Object = *mut ffi::PyObject;

/// What rows are made as.
pub enum Kind<'a, 'py> {
    Tuple,
    /// A named tuple class of ours.
    Named(&'a Bound<'py, PyType>),
    /// A dict with the names of the columns as keys and None as values, and these names.
    Dict(&'a Bound<'py, PyDict>, &'a [Py<PyString>]),
}

/// Why rows could not be made.
pub enum Stopped {
    /// A cell of this column, counted from 0.
    Cell(usize, Box<Failure>),
    Malformed(Malformed),
    Raised(PyErr),
}

impl From<PyErr> for Stopped {
    fn from(error: PyErr) -> Stopped {
        Stopped::Raised(error)
    }
}

/// The next `count` rows of a page. `atomic` says that no cell can hold a reference to another
/// object.
pub fn rows<'py>(
    decoder: &Decoder<'py>,
    plans: &[HostPlan],
    cells: &mut PageCells<'_>,
    count: usize,
    kind: &Kind<'_, 'py>,
    atomic: bool,
) -> Result<Bound<'py, PyList>, Stopped> {
    if plans.is_empty() && count > 0 {
        return Err(Stopped::Malformed(Malformed::Invalid("rows without columns")));
    }
    let width = plans.len() as isize;
    match kind {
        Kind::Tuple => fill(
            decoder.py,
            &Decoded { decoder, plans },
            cells,
            count,
            &Tuples { class: None, width, tracked: !atomic },
        ),
        Kind::Named(class) => {
            let class = class.as_type_ptr();
            // SAFETY: a class that is alive.
            let subclass =
                unsafe { ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_TUPLE_SUBCLASS) != 0 };
            if !subclass {
                let reason = "a record is of a subclass of tuple";
                return Err(pyo3::exceptions::PyTypeError::new_err(reason).into());
            }
            let tracked = !atomic;
            fill(
                decoder.py,
                &Decoded { decoder, plans },
                cells,
                count,
                &Tuples { class: Some(class), width, tracked },
            )
        }
        Kind::Dict(template, names) => {
            let template = template.as_ptr();
            fill(decoder.py, &Decoded { decoder, plans }, cells, count, &Dicts { template, names })
        }
    }
}

/// One kind of row.
trait Rows {
    /// A new row without values, or null with an exception.
    unsafe fn begin(&self) -> Object;
    /// Puts a value, of which the reference is the row's from then on, or gone.
    unsafe fn put(&self, row: Object, column: usize, value: Object) -> bool;
    /// Says that all values are there.
    unsafe fn end(&self, row: Object);
}

struct Tuples {
    class: Option<*mut ffi::PyTypeObject>,
    width: isize,
    /// Whether a row may be part of a cycle, for which the collector must know it.
    tracked: bool,
}

impl Rows for Tuples {
    #[inline(always)]
    unsafe fn begin(&self) -> Object {
        // SAFETY: memory as the class gives it, empty; the collector does not see it unfinished.
        unsafe {
            let row = match self.class {
                None => ffi::PyTuple_New(self.width),
                Some(class) => match (*class).tp_alloc {
                    Some(allocate) => allocate(class, self.width),
                    None => ffi::PyErr_NoMemory(),
                },
            };
            if !row.is_null() {
                ffi::PyObject_GC_UnTrack(row.cast());
            }
            row
        }
    }

    #[inline(always)]
    unsafe fn put(&self, row: Object, column: usize, value: Object) -> bool {
        // SAFETY: a new tuple of as many places.
        unsafe { ffi::PyTuple_SET_ITEM(row, column as isize, value) };
        true
    }

    #[inline(always)]
    unsafe fn end(&self, row: Object) {
        if self.tracked {
            // SAFETY: it was not tracked before.
            unsafe { ffi::PyObject_GC_Track(row.cast()) };
        }
    }
}

struct Dicts<'a> {
    template: Object,
    names: &'a [Py<PyString>],
}

impl Rows for Dicts<'_> {
    #[inline(always)]
    unsafe fn begin(&self) -> Object {
        // SAFETY: an exact dict. Its copy has all keys where they belong, so that putting values
        // neither hashes nor grows.
        unsafe { ffi::PyDict_Copy(self.template) }
    }

    #[inline(always)]
    unsafe fn put(&self, row: Object, column: usize, value: Object) -> bool {
        // SAFETY: an exact dict, a key that is alive, and a reference that is ours to give up.
        unsafe {
            let done = ffi::PyDict_SetItem(row, self.names[column].as_ptr(), value) == 0;
            ffi::Py_DECREF(value);
            done
        }
    }

    #[inline(always)]
    unsafe fn end(&self, _row: Object) {}
}

/// What makes the values of a row.
pub trait Values {
    fn width(&self) -> usize;

    /// A new reference to the value of a cell.
    ///
    /// # Safety
    /// The interpreter's lock is held, and the column one of so many.
    unsafe fn value(&self, column: usize, cell: Option<&[u8]>) -> Result<Object, Stopped>;
}

struct Decoded<'a, 'py> {
    decoder: &'a Decoder<'py>,
    plans: &'a [HostPlan],
}

impl Values for Decoded<'_, '_> {
    #[inline(always)]
    fn width(&self) -> usize {
        self.plans.len()
    }

    #[inline(always)]
    unsafe fn value(&self, column: usize, cell: Option<&[u8]>) -> Result<Object, Stopped> {
        let plan = &self.plans[column];
        let value = match (cell, &self.decoder.maker) {
            // SAFETY: the caller's word.
            (Some(bytes), Some(maker)) => unsafe { maker.value(plan, bytes) },
            _ => ptr::null_mut(),
        };
        if !value.is_null() {
            return Ok(value);
        }
        let decoded = self.decoder.cell(plan, cell);
        Ok(decoded.map_err(|failure| Stopped::Cell(column, failure))?.into_ptr())
    }
}

/// The next `count` rows of a page, as tuples of what somebody else makes of their cells.
pub fn tuples<'py>(
    py: Python<'py>,
    values: &impl Values,
    cells: &mut PageCells<'_>,
    count: usize,
    atomic: bool,
) -> Result<Bound<'py, PyList>, Stopped> {
    let width = values.width() as isize;
    fill(py, values, cells, count, &Tuples { class: None, width, tracked: !atomic })
}

/// The next row, as [`tuples`] makes them.
pub fn tuple<'py>(
    py: Python<'py>,
    values: &impl Values,
    cells: &mut PageCells<'_>,
) -> Result<Bound<'py, PyAny>, Stopped> {
    let kind = Tuples { class: None, width: values.width() as isize, tracked: true };
    row(py, values, cells, &kind)
}

#[inline(always)]
fn fill<'py>(
    py: Python<'py>,
    values: &impl Values,
    cells: &mut PageCells<'_>,
    count: usize,
    kind: &impl Rows,
) -> Result<Bound<'py, PyList>, Stopped> {
    // SAFETY: the lock is held, as `py` shows. The list is new, and the collector does not see it
    // before it is full; a list and a tuple pass over places that are still empty when they go.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(count as isize))?;
        ffi::PyObject_GC_UnTrack(list.as_ptr().cast());
        for number in 0..count {
            let row = row(py, values, cells, kind)?;
            ffi::PyList_SET_ITEM(list.as_ptr(), number as isize, row.into_ptr());
        }
        ffi::PyObject_GC_Track(list.as_ptr().cast());
        Ok(list.cast_into_unchecked())
    }
}

#[inline(always)]
fn row<'py>(
    py: Python<'py>,
    values: &impl Values,
    cells: &mut PageCells<'_>,
    kind: &impl Rows,
) -> Result<Bound<'py, PyAny>, Stopped> {
    // SAFETY: the lock is held, as `py` shows; a row is of as many values, and the collector does not
    // see it before all are there.
    unsafe {
        let row = Bound::from_owned_ptr_or_err(py, kind.begin())?;
        for column in 0..values.width() {
            let cell = cells.next_cell().map_err(Stopped::Malformed)?;
            let value = values.value(column, cell)?;
            if !kind.put(row.as_ptr(), column, value) {
                return Err(PyErr::fetch(py).into());
            }
        }
        kind.end(row.as_ptr());
        Ok(row)
    }
}
