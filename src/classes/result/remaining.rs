//! The rows that an iteration has decoded and not returned yet.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::ffi::gil_cell::GilCell;

#[cfg(not(Py_GIL_DISABLED))]
pub use with_gil::Remaining;
#[cfg(Py_GIL_DISABLED)]
pub use without_gil::Remaining;

#[cfg(not(Py_GIL_DISABLED))]
mod with_gil {
    use super::*;

    /// The rows of the current page that have not been returned yet.
    #[derive(Default)]
    pub struct Remaining(GilCell<Option<(Py<PyList>, usize)>>);

    impl Remaining {
        /// Returns the next row; `None` at the end of the page.
        #[inline(always)]
        pub fn next<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
            let (rows, at) = self.0.take(py)?;
            let row = rows.bind(py).get_item(at).ok()?;
            self.0.replace(py, Some((rows, at + 1)));
            Some(row)
        }

        pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
            let look = |page: &Option<(Py<PyList>, usize)>| {
                visit.call(page.as_ref().map(|(rows, _)| rows))
            };
            self.0.traverse(visit, look).unwrap_or(Ok(()))
        }

        pub fn clear(&self, py: Python<'_>) {
            drop(self.0.take(py));
        }

        /// Begins a page with these rows.
        pub fn begin(&self, py: Python<'_>, rows: Bound<'_, PyList>) {
            drop(self.0.replace(py, Some((rows.unbind(), 0))));
        }
    }
}

#[cfg(Py_GIL_DISABLED)]
mod without_gil {
    use std::collections::VecDeque;

    use super::*;

    /// The rows that have not been returned yet, in a queue of pages: threads that share an
    /// iterator can fetch pages at the same time. Each new page is queued behind the earlier ones.
    #[derive(Default)]
    pub struct Remaining(GilCell<VecDeque<(Py<PyList>, usize)>>);

    impl Remaining {
        /// Returns the next row; `None` at the end of all pages.
        #[inline]
        pub fn next<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
            loop {
                let (rows, at) = self.0.update(py, |pages| {
                    let (rows, at) = pages.front_mut()?;
                    *at += 1;
                    Some((rows.clone_ref(py), *at - 1))
                })?;
                // The cell's lock is released here, because `get_item` may wait for the lock of the
                // list.
                if let Ok(row) = rows.bind(py).get_item(at) {
                    return Some(row);
                }
                let ended = self.0.update(py, |pages| {
                    let is_first = pages.front().is_some_and(|(first, _)| first.is(&rows));
                    if is_first { pages.pop_front() } else { None }
                });
                drop(ended);
            }
        }

        pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
            let look = |pages: &VecDeque<(Py<PyList>, usize)>| {
                pages.iter().try_for_each(|(rows, _)| visit.call(rows))
            };
            self.0.traverse(visit, look).unwrap_or(Ok(()))
        }

        pub fn clear(&self, py: Python<'_>) {
            drop(self.0.take(py));
        }

        /// Adds a page with these rows.
        pub fn begin(&self, py: Python<'_>, rows: Bound<'_, PyList>) {
            let rows = rows.unbind();
            self.0.update(py, |pages| pages.push_back((rows, 0)));
        }
    }
}
