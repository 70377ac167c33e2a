//! Models of `Remaining`, which has the rows that an iteration has not returned yet. They test its
//! version for Python without the GIL. Threads that share an iteration return each row once.

use loom::thread;

use crate::interleaved;
use crate::remaining::Remaining;
use crate::stand_ins::python::{Bound, PyList, Python};
use crate::sync::Arc;

/// Begins a page, and returns the rows that this thread gets until none is left.
fn rows_of(remaining: &Remaining, page: [usize; 2]) -> Vec<usize> {
    let py = Python::attached();
    remaining.begin(py, Bound::new(PyList(page.to_vec())));
    std::iter::from_fn(|| remaining.next(py)).collect()
}

#[test]
fn two_threads_begin_pages() {
    interleaved(|| {
        let remaining = Arc::new(Remaining::default());
        let other = thread::spawn({
            let remaining = Arc::clone(&remaining);
            move || rows_of(&remaining, [2, 3])
        });
        let mut rows = rows_of(&remaining, [0, 1]);
        rows.extend(other.join().unwrap());
        rows.sort_unstable();
        assert_eq!(rows, [0, 1, 2, 3], "rows were lost or returned twice");
    });
}

/// One thread drops the rows, another reads them: no row comes twice.
#[test]
fn an_iteration_is_cleared() {
    interleaved(|| {
        let remaining = Arc::new(Remaining::default());
        let other = thread::spawn({
            let remaining = Arc::clone(&remaining);
            move || remaining.clear(Python::attached())
        });
        let rows = rows_of(&remaining, [0, 1]);
        assert!([0, 1].starts_with(&rows), "rows were returned twice or in another order");
        other.join().unwrap();
        assert_eq!(remaining.next(Python::attached()), None, "a row is left");
    });
}
