//! Decodes pages to lists of rows, in one pass.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use turbocql_codec::page::PageCells;
use turbocql_codec::{Malformed, page};

use super::make::{allocate_tuple, record};
use super::probe;
use super::quick_path::QuickPath;
use crate::failure::Failure;

type Object = *mut ffi::PyObject;

/// The kinds of Python objects that rows become.
pub enum Kind<'a, 'py> {
    Tuple,
    /// An instance of a named tuple class that turbocql made.
    Named(&'a Bound<'py, PyType>),
    /// A copy of a template: an exact dict with the names of the columns as keys and None as
    /// values. The second field has these names in the order of the columns.
    Dict(&'a Bound<'py, PyDict>, &'a [Py<PyString>]),
}

/// The reason why rows could not be made.
pub enum Stopped {
    /// A cell could not be decoded. The fields are the cell's column, counted from 0, and the
    /// failure.
    Cell(usize, Box<Failure>),
    Malformed(Malformed),
    Raised(PyErr),
}

impl From<PyErr> for Stopped {
    fn from(error: PyErr) -> Stopped {
        Stopped::Raised(error)
    }
}

/// Makes the values of rows.
pub trait Values<'py> {
    /// The number of values in a row.
    fn width(&self) -> usize;

    /// Makes the value of a cell; `None` is a null cell. `column` is below [`Values::width`].
    fn value(&self, column: usize, cell: Option<&[u8]>) -> Result<Bound<'py, PyAny>, Stopped>;
}

/// Decodes the next `count` rows of a page. If `atomic` is true, no value can form reference
/// cycles, so the quick path leaves tuples untracked by the GC.
pub fn rows<'py>(
    py: Python<'py>,
    values: &impl Values<'py>,
    cells: &mut PageCells<'_>,
    count: usize,
    kind: &Kind<'_, 'py>,
    atomic: bool,
) -> Result<Bound<'py, PyList>, Stopped> {
    if values.width() == 0 && count > 0 {
        return Err(Stopped::Malformed(Malformed::Invalid("rows without columns")));
    }
    if !QuickPath::Rows.is_on() {
        return safe_rows(py, values, cells, count, kind);
    }
    let (width, tracked) = (values.width() as isize, !atomic);
    match kind {
        Kind::Tuple => fill(py, values, cells, count, &Tuples { class: None, width, tracked }),
        Kind::Named(class) => {
            let class = class.as_type_ptr();
            // SAFETY: `PyType_HasFeature` needs a live class and the GIL. `kind` has a reference to
            // the class, and `py` shows that the GIL is held. Tests: unit/test_rows_decoder.py
            // (test_rows_as_named_tuples). Benchmark: "page: 5000x10 to named".
            let subclass =
                unsafe { ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_TUPLE_SUBCLASS) != 0 };
            if !subclass {
                let reason = "the class of a record must be a subclass of tuple";
                return Err(pyo3::exceptions::PyTypeError::new_err(reason).into());
            }
            fill(py, values, cells, count, &Tuples { class: Some(class), width, tracked })
        }
        Kind::Dict(template, names) => {
            fill(py, values, cells, count, &Dicts { template: template.as_ptr(), names })
        }
    }
}

/// The safe path of [`rows`]. It does not fill rows in place: it first makes all values of a row,
/// and then the row.
#[cold]
fn safe_rows<'py>(
    py: Python<'py>,
    values: &impl Values<'py>,
    cells: &mut PageCells<'_>,
    count: usize,
    kind: &Kind<'_, 'py>,
) -> Result<Bound<'py, PyList>, Stopped> {
    let list = PyList::empty(py);
    let mut row = Vec::with_capacity(values.width());
    for _ in 0..count {
        for column in 0..values.width() {
            let cell = cells.next_cell().map_err(Stopped::Malformed)?;
            row.push(values.value(column, cell)?);
        }
        let row = match kind {
            Kind::Tuple => PyTuple::new(py, row.drain(..))?.into_any(),
            Kind::Named(class) => record(class.as_any(), &mut row)?,
            Kind::Dict(template, names) => {
                let dict = template.copy()?;
                for (name, value) in names.iter().zip(row.drain(..)) {
                    dict.set_item(name, value)?;
                }
                dict.into_any()
            }
        };
        list.append(row)?;
    }
    Ok(list)
}

/// Makes one kind of row.
trait Rows {
    /// Makes a row without values. Returns an owned reference, or null with an exception.
    ///
    /// # Safety
    /// The caller must ensure that the GIL is held.
    unsafe fn begin(&self) -> Object;
    /// Sets a value of a row and takes over the reference to the value, also on failure. Returns
    /// false with an exception on failure.
    ///
    /// # Safety
    /// The caller must ensure that `row` comes from [`Rows::begin`] of this object, that
    /// [`Rows::end`] was not called for it, that `column` is below the width of the row and not set
    /// yet, that `value` is an owned reference, and that the GIL is held.
    unsafe fn put(&self, row: Object, column: usize, value: Object) -> bool;
    /// Ends a row after all its values were set.
    ///
    /// # Safety
    /// The caller must ensure that `row` comes from [`Rows::begin`] of this object, that all values
    /// of the row are set, that `end` is called once for the row, and that the GIL is held.
    unsafe fn end(&self, row: Object);
}

/// Makes rows that are tuples, or instances of a named tuple class.
struct Tuples {
    class: Option<*mut ffi::PyTypeObject>,
    width: isize,
    /// Whether the GC must track the rows, because a row may be part of a reference cycle.
    tracked: bool,
}

impl Rows for Tuples {
    #[inline(always)]
    unsafe fn begin(&self) -> Object {
        // SAFETY: the GIL is held, as `# Safety` of `Rows` demands. turbocql's Python code made
        // `class`. `rows` has checked that `class` is a subclass of tuple, and the `Kind` that has
        // `class` keeps it alive. `width` is the number of columns, so not negative.
        // `PyObject_GC_UnTrack` accepts objects that are not tracked. Tests:
        // unit/test_quick_paths.py (rows), property/test_hostile_results.py. Benchmarks:
        // "page: 5000x10 to tuples", "page: 5000x10 to named".
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
        // SAFETY: `row` is a new tuple that no other code sees, and `column` is below its width and
        // still empty, as `# Safety` of `Rows` demands. The tuple takes over the reference. Tests:
        // property/test_safe_path_decode.py (test_random_pages). Benchmark:
        // "page: 5000x10 to tuples".
        unsafe { ffi::PyTuple_SET_ITEM(row, column as isize, value) };
        true
    }

    #[inline(always)]
    unsafe fn end(&self, row: Object) {
        if self.tracked {
            // SAFETY: `PyObject_GC_Track` demands an object that is untracked and valid: `begin`
            // has untracked the row, and all values are set, as `# Safety` of `Rows` demands. The
            // row is not the shared empty tuple: `page::cells` refuses rows without columns. Tests:
            // unit/test_rows_decoder.py (test_what_the_collector_knows_of_rows),
            // property/test_hostile_results.py (test_rows_in_cycles_are_collected).
            unsafe { ffi::PyObject_GC_Track(row.cast()) };
        }
    }
}

/// Makes rows that are dicts: each is a copy of the template, with the values set.
struct Dicts<'a> {
    template: Object,
    names: &'a [Py<PyString>],
}

impl Rows for Dicts<'_> {
    #[inline(always)]
    unsafe fn begin(&self) -> Object {
        // SAFETY: the GIL is held, as `# Safety` of `Rows` demands. `template` is an exact dict,
        // and the `Kind` that has it keeps it alive. The copy has all the keys already, so setting
        // values does not make it grow. Tests: unit/test_quick_paths.py (rows),
        // unit/test_rows_decoder.py (test_rows_as_dicts). Benchmark: "page: 5000x10 to dicts".
        unsafe { ffi::PyDict_Copy(self.template) }
    }

    #[inline(always)]
    unsafe fn put(&self, row: Object, column: usize, value: Object) -> bool {
        // SAFETY: `row` is an exact dict and `value` an owned reference, as `# Safety` of `Rows`
        // demands; `names` keeps the key alive. `PyDict_SetItem` takes references of its own, so
        // the reference to `value` is released here. Tests: unit/test_rows_decoder.py
        // (test_rows_as_dicts), property/test_memory_growth.py. Benchmark:
        // "page: 5000x10 to dicts".
        unsafe {
            let is_set = ffi::PyDict_SetItem(row, self.names[column].as_ptr(), value) == 0;
            ffi::Py_DECREF(value);
            is_set
        }
    }

    #[inline(always)]
    unsafe fn end(&self, _row: Object) {}
}

/// Decodes the next `count` rows of a page to tuples, with values that the accelerator makes.
/// `atomic` means the same as in [`rows`].
pub fn tuples<'py>(
    py: Python<'py>,
    values: &impl Values<'py>,
    cells: &mut PageCells<'_>,
    count: usize,
    atomic: bool,
) -> Result<Bound<'py, PyList>, Stopped> {
    let width = values.width() as isize;
    fill(py, values, cells, count, &Tuples { class: None, width, tracked: !atomic })
}

/// Decodes the next row of a page to a tuple, as [`tuples`] does. The GC tracks the tuple.
pub fn tuple<'py>(
    py: Python<'py>,
    values: &impl Values<'py>,
    cells: &mut PageCells<'_>,
) -> Result<Bound<'py, PyAny>, Stopped> {
    let kind = Tuples { class: None, width: values.width() as isize, tracked: true };
    row(py, values, cells, &kind)
}

/// Makes a list of `count` rows.
#[inline(always)]
fn fill<'py>(
    py: Python<'py>,
    values: &impl Values<'py>,
    cells: &mut PageCells<'_>,
    count: usize,
    kind: &impl Rows,
) -> Result<Bound<'py, PyList>, Stopped> {
    // SAFETY: `py` shows that the GIL is held. The list is new and has `count` empty items; each is
    // set once to an owned reference, which the list takes over. The list is untracked until all
    // items are set, so Python code that runs meanwhile cannot reach it. If a row fails, the list
    // is freed with empty items, which its deallocation skips. Tests:
    // property/test_hostile_results.py, property/test_safe_path_decode.py
    // (test_damaged_results_have_the_same_outcome). Benchmark: "page: 5000x10 to tuples".
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

/// Makes one row.
#[inline(always)]
fn row<'py>(
    py: Python<'py>,
    values: &impl Values<'py>,
    cells: &mut PageCells<'_>,
    kind: &impl Rows,
) -> Result<Bound<'py, PyAny>, Stopped> {
    // SAFETY: `py` shows that the GIL is held. `begin` makes a row of `values.width()` values; each
    // column is set once to an owned reference, and `end` is called after the last. A tuple is
    // untracked until then, so Python code that runs meanwhile cannot reach it; a dict is valid at
    // any time. If a value fails, the row is freed with empty items, which its deallocation skips.
    // Tests: property/test_hostile_results.py, property/test_safe_path_decode.py
    // (test_damaged_results_have_the_same_outcome). Benchmark: "page: 5000x10 to tuples".
    unsafe {
        let row = Bound::from_owned_ptr_or_err(py, kind.begin())?;
        for column in 0..values.width() {
            let cell = cells.next_cell().map_err(Stopped::Malformed)?;
            let value = values.value(column, cell)?;
            if !kind.put(row.as_ptr(), column, value.into_ptr()) {
                return Err(PyErr::fetch(py).into());
            }
        }
        kind.end(row.as_ptr());
        Ok(row)
    }
}

/// Probes whether rows are made correctly. If they are not, returns what is wrong.
pub fn probe_rows(py: Python<'_>) -> PyResult<Option<String>> {
    let wrong = probe::classes(py)?;
    if wrong.is_some() {
        return Ok(wrong);
    }
    let sample = c"__import__('collections').namedtuple('Sample', ['one', 'other'])";
    let class = py.eval(sample, None, None)?.cast_into::<PyType>()?;
    let parts = [PyString::new(py, "a part of a row"), PyString::new(py, "another part")];
    let expected = [class.call1((&parts[0], &parts[1]))?, PyTuple::new(py, &parts)?.into_any()];
    // The block has two rows of two empty cells. `Parts` returns one of its two strings as the
    // value of each cell.
    let block = [0; 16];
    for (class, expected) in [Some(class.as_type_ptr()), None].into_iter().zip(&expected) {
        for tracked in [true, false] {
            let before = parts.each_ref().map(|part| probe::references(part));
            let mut cells = page::cells(2, 2, &block).map_err(|_| PyErr::fetch(py))?;
            let kind = Tuples { class, width: 2, tracked };
            let Ok(list) = fill(py, &Parts(&parts), &mut cells, 2, &kind) else {
                return Ok(Some("rows could not be made".to_owned()));
            };
            let expected_list = PyList::new(py, [expected, expected])?;
            let wrong = probe::check_object(
                QuickPath::Rows,
                "a list of rows",
                &list,
                &expected_list,
                true,
            )?;
            if wrong.is_some() {
                return Ok(wrong);
            }
            // The row is checked after the list is freed, because `probe::check_object` expects one
            // reference to the row.
            let last = list.get_item(1)?;
            drop(list);
            let wrong = probe::check_object(QuickPath::Rows, "a row", &last, expected, tracked)?;
            if wrong.is_some() {
                return Ok(wrong);
            }
            drop(last);
            if before != parts.each_ref().map(|part| probe::references(part)) {
                return Ok(Some("rows did not release their references".to_owned()));
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
    Ok(probe::check_value(
        QuickPath::Rows,
        "a dict",
        list.eq(PyList::new(py, [&expected, &expected])?)?,
        true,
    ))
}

/// Has a string for each of two columns. Returns this string as the value of each of the column's
/// cells, whatever the cell contains.
struct Parts<'a, 'py>(&'a [Bound<'py, PyString>; 2]);

impl<'py> Values<'py> for Parts<'_, 'py> {
    fn width(&self) -> usize {
        self.0.len()
    }

    fn value(&self, column: usize, _cell: Option<&[u8]>) -> Result<Bound<'py, PyAny>, Stopped> {
        Ok(self.0[column].clone().into_any())
    }
}
