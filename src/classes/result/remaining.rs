//! The rows that an iteration has decoded, but not returned yet.

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
    use std::collections::VecDeque;

    use super::*;

    /// The rows that have not been returned yet. Threads and tasks that share an iterator can fetch
    /// pages at the same time. So a page may be added while an earlier page still has rows.
    #[derive(Default)]
    pub struct Remaining {
        page: GilCell<Option<Page>>,
        /// The pages that follow `page`. There are none if `page` is `None`.
        later: GilCell<VecDeque<Page>>,
    }

    /// The rows of a page, and the number of the next row.
    type Page = (Py<PyList>, usize);

    impl Remaining {
        /// Returns the next row; `None` at the end of all pages.
        #[inline(always)]
        pub fn next<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
            let (rows, at) = self.page.take(py)?;
            if at >= rows.bind(py).len() {
                return self.next_of_later(py, rows);
            }
            let row = rows.bind(py).get_item(at).ok()?;
            self.page.replace(py, Some((rows, at + 1)));
            Some(row)
        }

        /// Replaces the page `ended`, which has no more rows, by the next page, and returns the
        /// first row of that page.
        #[cold]
        fn next_of_later<'py>(
            &self,
            py: Python<'py>,
            ended: Py<PyList>,
        ) -> Option<Bound<'py, PyAny>> {
            let mut later = self.later.take(py);
            let page = later.pop_front();
            let is_last = page.is_none();
            self.later.replace(py, later);
            self.page.replace(py, page);
            // The rows are dropped last, because this may run Python code. Meanwhile, other threads
            // may return rows and add pages.
            drop(ended);
            if is_last { None } else { self.next(py) }
        }

        pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
            let look = |page: &Option<Page>| visit.call(page.as_ref().map(|(rows, _)| rows));
            self.page.traverse(visit, look).unwrap_or(Ok(()))?;
            let look =
                |pages: &VecDeque<Page>| pages.iter().try_for_each(|(rows, _)| visit.call(rows));
            self.later.traverse(visit, look).unwrap_or(Ok(()))
        }

        pub fn clear(&self, py: Python<'_>) {
            drop((self.page.take(py), self.later.take(py)));
        }

        /// Adds a page with these rows.
        pub fn begin(&self, py: Python<'_>, rows: Bound<'_, PyList>) {
            let begun = (rows.unbind(), 0);
            let page = self.page.take(py);
            if page.is_none() {
                self.page.replace(py, Some(begun));
                return;
            }
            self.page.replace(py, page);
            let mut later = self.later.take(py);
            later.push_back(begun);
            self.later.replace(py, later);
        }
    }
}

#[cfg(Py_GIL_DISABLED)]
mod without_gil {
    use std::collections::VecDeque;

    use super::*;

    /// The rows that have not been returned yet, in a queue of pages. Several pages may be in the
    /// queue, because threads that share an iterator can fetch pages at the same time.
    #[derive(Default)]
    pub struct Remaining(GilCell<VecDeque<(Py<PyList>, usize)>>);

    impl Remaining {
        /// Returns the next row; `None` if no page in the queue has another row.
        #[inline]
        pub fn next<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
            loop {
                let (rows, at) = self.0.update(py, |pages| {
                    let (rows, at) = pages.front_mut()?;
                    *at += 1;
                    Some((rows.clone_ref(py), *at - 1))
                })?;
                // The lock of the cell is not held here, because `get_item` may wait for the lock
                // of the list.
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

        /// Adds a page with these rows at the end of the queue.
        pub fn begin(&self, py: Python<'_>, rows: Bound<'_, PyList>) {
            let rows = rows.unbind();
            self.0.update(py, |pages| pages.push_back((rows, 0)));
        }
    }
}
