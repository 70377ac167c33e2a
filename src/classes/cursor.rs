//! A result, page by page.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyList;
use turbocql_codec::Page;
use turbocql_engine::{EngineError, PageSource, Pager, PagingState, RequestOptions, Response};

use super::prepared::describe_columns;
use super::session::SessionState;
use crate::ending::Inside;
use crate::error;
use crate::op::{Arrival, Next, Op, OpState, Step};
use crate::row::{RowKind, Shape};

/// What the pages after the first are fetched with.
pub struct Following {
    pub source: PageSource,
    pub options: Arc<RequestOptions>,
    pub next: PagingState,
}

enum NextPage {
    /// Not asked for yet.
    Following(Following),
    /// On its way, and each one after it while the one before is read.
    Ahead(Arc<Pager>),
    /// There is none.
    End,
}

/// The current page of a result, and the way to the next.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Cursor {
    session: Arc<SessionState>,
    kind: RowKind,
    current: Mutex<Current>,
}

struct Current {
    /// The page and its shape; none when the statement returns no rows.
    page: Option<(Page, Arc<Shape>)>,
    next: NextPage,
    coordinator: Option<SocketAddr>,
    warnings: Vec<String>,
}

impl Cursor {
    pub fn new(
        py: Python<'_>,
        session: Arc<SessionState>,
        kind: RowKind,
        response: Response,
        following: Option<Following>,
    ) -> PyResult<Cursor> {
        let mut current =
            Current { page: None, next: NextPage::End, coordinator: None, warnings: Vec::new() };
        let shape = shape_of(py, &session, &response)?;
        current.load(response, shape);
        current.next = following.map_or(NextPage::End, NextPage::Following);
        Ok(Cursor { session, kind, current: Mutex::new(current) })
    }

    /// At most `limit` rows of the current page.
    fn decode<'py>(&self, py: Python<'py>, limit: usize) -> PyResult<Bound<'py, PyList>> {
        let _inside = Inside::enter(py);
        let page = self.lock().page.clone();
        match page {
            Some((page, shape)) => error::guarded(|| {
                shape.decode(py, (&page).into(), limit, self.kind, self.session.choices)
            }),
            None => Ok(PyList::empty(py)),
        }
    }

    /// Never held while Python code may run: whoever waits for it holds the interpreter.
    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    /// The pager, started when it is first asked for; none at the end.
    fn pager(&mut self, session: &SessionState) -> Option<Arc<Pager>> {
        let following = match std::mem::replace(&mut self.next, NextPage::End) {
            NextPage::End => return None,
            NextPage::Ahead(pager) => {
                self.next = NextPage::Ahead(pager.clone());
                return Some(pager);
            }
            NextPage::Following(following) => following,
        };
        let pager = Arc::new(Pager::start(
            &session.runtime,
            session.engine.clone(),
            following.source,
            (*following.options).clone(),
            Some(following.next),
        ));
        self.next = NextPage::Ahead(pager.clone());
        Some(pager)
    }

    /// Makes the page of a response the current one.
    fn load(&mut self, response: Response, shape: Option<Arc<Shape>>) {
        self.page = response.page.zip(shape);
        self.coordinator = response.coordinator;
        self.warnings.extend(response.warnings);
    }
}

/// The shape of a response's rows. Making one runs Python code, so no lock may be held.
fn shape_of(
    py: Python<'_>,
    session: &SessionState,
    response: &Response,
) -> PyResult<Option<Arc<Shape>>> {
    response.page.as_ref().map(|page| session.shape(py, &page.columns)).transpose()
}

#[pymethods]
impl Cursor {
    /// The rows of the current page, decoded now.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.decode(py, usize::MAX)
    }

    /// The first row of the current page alone.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let rows = self.decode(py, 1)?;
        if rows.is_empty() { Ok(None) } else { rows.get_item(0).map(Some) }
    }

    /// Whether pages may follow the current one.
    #[getter]
    fn has_more(&self) -> bool {
        !matches!(self.lock().next, NextPage::End)
    }

    /// `(keyspace, table, name, type)` of each column.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let page = self.lock().page.clone();
        describe_columns(py, page.as_ref().map_or(&[][..], |(page, _)| &page.columns))
    }

    #[getter]
    fn coordinator(&self) -> Option<String> {
        self.lock().coordinator.map(|address| address.to_string())
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.lock().warnings.clone()
    }

    /// Begins fetching the next page now, unless that has begun.
    fn prefetch(&self) {
        let _ = self.lock().pager(&self.session);
    }

    /// Moves to the next page: true, or false at the end.
    fn advance(this: &Bound<'_, Self>) -> PyResult<Op> {
        let cursor = this.get();
        cursor.session.check_open()?;
        let op = OpState::new(Box::new(Advance { cursor: this.clone().unbind() }));
        let pager = cursor.lock().pager(&cursor.session);
        op.run(&cursor.session.runtime, async move {
            match pager {
                Some(pager) => pager.next().await.map(Arrival::Page),
                None => Ok(Arrival::Page(None)),
            }
        });
        Ok(Op(op))
    }
}

struct Advance {
    cursor: Py<Cursor>,
}

impl Step for Advance {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        let arrival = arrival.map_err(|error| error::raise_engine(py, &error))?;
        let cursor = self.cursor.get();
        let more = match arrival {
            Arrival::Page(Some(response)) => {
                let last = response.next.is_none();
                let shape = shape_of(py, &cursor.session, &response)?;
                let mut current = cursor.lock();
                current.load(response, shape);
                if last {
                    current.next = NextPage::End;
                }
                true
            }
            _ => {
                cursor.lock().next = NextPage::End;
                false
            }
        };
        Ok(Next::Done(pyo3::types::PyBool::new(py, more).to_owned().into_any().unbind()))
    }
}
