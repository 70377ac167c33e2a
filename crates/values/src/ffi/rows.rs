//! Pages to lists of rows, in one pass.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use turbocql_codec::page::PageCells;
use turbocql_codec::{Malformed, page};

use super::make::{allocate_tuple, record};
use super::probe;
use super::quick_path::QuickPath;
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
    if !QuickPath::Rows.is_on() {
        return safe_rows(decoder, plans, cells, count, kind);
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

/// The same, by functions that are there for everybody.
#[cold]
fn safe_rows<'py>(
    decoder: &Decoder<'py>,
    plans: &[HostPlan],
    cells: &mut PageCells<'_>,
    count: usize,
    kind: &Kind<'_, 'py>,
) -> Result<Bound<'py, PyList>, Stopped> {
    let (py, list) = (decoder.py, PyList::empty(decoder.py));
    let mut values = Vec::with_capacity(plans.len());
    for _ in 0..count {
        for (column, plan) in plans.iter().enumerate() {
            let cell = cells.next_cell().map_err(Stopped::Malformed)?;
            let value = decoder.cell(plan, cell);
            values.push(value.map_err(|failure| Stopped::Cell(column, failure))?);
        }
        let row = match kind {
            Kind::Tuple => PyTuple::new(py, values.drain(..))?.into_any(),
            Kind::Named(class) => record(class.as_any(), &mut values)?,
            Kind::Dict(template, names) => {
                let row = template.copy()?;
                for (name, value) in names.iter().zip(values.drain(..)) {
                    row.set_item(name, value)?;
                }
                row.into_any()
            }
        };
        list.append(row)?;
    }
    Ok(list)
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
                Some(class) => allocate_tuple(class, self.width),
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

/// Tries how pages become rows.
pub fn probe_rows(py: Python<'_>) -> PyResult<Option<String>> {
    let wrong = probe::classes(py)?;
    if wrong.is_some() {
        return Ok(wrong);
    }
    let sample = c"__import__('collections').namedtuple('Sample', ['one', 'other'])";
    let class = py.eval(sample, None, None)?.cast_into::<PyType>()?;
    let parts = [PyString::new(py, "a part of a row"), PyString::new(py, "another part")];
    let expected = [class.call1((&parts[0], &parts[1]))?, PyTuple::new(py, &parts)?.into_any()];
    // Two rows of two empty cells, in place of which the parts are given.
    let block = [0; 16];
    for (class, expected) in [Some(class.as_type_ptr()), None].into_iter().zip(&expected) {
        for tracked in [true, false] {
            let before = parts.each_ref().map(|part| probe::references(part));
            let mut cells = page::cells(2, 2, &block).map_err(|_| PyErr::fetch(py))?;
            let kind = Tuples { class, width: 2, tracked };
            let Ok(list) = fill(py, &Parts(&parts), &mut cells, 2, &kind) else {
                return Ok(Some("rows could not be made".to_owned()));
            };
            let made = PyList::new(py, [expected, expected])?;
            // What the list holds has a reference too many for this.
            let wrong = probe::made(QuickPath::Rows, "a list of rows", &list, &made, true)?;
            if wrong.is_some() {
                return Ok(wrong);
            }
            let last = list.get_item(1)?;
            drop(list);
            let wrong = probe::made(QuickPath::Rows, "a row", &last, expected, tracked)?;
            if wrong.is_some() {
                return Ok(wrong);
            }
            drop(last);
            if before != parts.each_ref().map(|part| probe::references(part)) {
                return Ok(Some("rows did not give up what they held".to_owned()));
            }
        }
    }
    let names = parts.each_ref().map(|part| part.clone().unbind());
    let template = PyDict::new(py);
    for part in &parts {
        template.set_item(part, py.None())?;
    }
    let mut cells = page::cells(2, 2, &block).map_err(|_| PyErr::fetch(py))?;
    let kind = Dicts { template: template.as_ptr(), names: &names };
    let Ok(list) = fill(py, &Parts(&parts), &mut cells, 2, &kind) else {
        return Ok(Some("rows could not be made".to_owned()));
    };
    let expected = PyDict::new(py);
    for part in &parts {
        expected.set_item(part, part)?;
    }
    Ok(probe::read(
        QuickPath::Rows,
        "a dict",
        list.eq(PyList::new(py, [&expected, &expected])?)?,
        true,
    ))
}

/// Known objects in the place of cells.
struct Parts<'a, 'py>(&'a [Bound<'py, PyString>; 2]);

impl Values for Parts<'_, '_> {
    fn width(&self) -> usize {
        self.0.len()
    }

    unsafe fn value(&self, column: usize, _cell: Option<&[u8]>) -> Result<Object, Stopped> {
        Ok(self.0[column].clone().into_any().into_ptr())
    }
}
