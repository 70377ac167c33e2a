//! Result objects: the current page of a result, and the requests for the next pages.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use turbocql_codec::Page;
use turbocql_engine::{EngineError, Entries, PageSource, Pager, PagingState, Response, Scan};

use crate::classes::result::columns::RawPage;
use crate::classes::session::cluster;
use crate::classes::session::state::SessionState;
use crate::classes::statement::prepared::describe_columns;
use crate::error::raise_engine;
use crate::op::{Arrival, Next, Op, OpState, Step};
use crate::options::{Options, or_default};
use crate::python;
use turbocql_values::ending::Inside;
use turbocql_values::error;
use turbocql_values::row::{RowKind, RowsAs};

/// The data with which the pages after the first are requested: the statement, the options, and the
/// position of the next page.
pub struct Following {
    pub source: PageSource,
    pub options: Options,
    pub next: PagingState,
}

enum NextPage {
    /// The next page is not requested yet.
    Following(Following),
    /// The next page is being fetched. While the application reads a page, the page after it is
    /// fetched.
    Ahead(Ahead),
    /// There is no next page.
    End,
}

/// Fetches the pages of a result in the background.
#[derive(Clone)]
enum Ahead {
    Pager(Arc<Pager>),
    /// The pages of a scan have no order, and no position from which the scan could continue.
    Scan(Arc<Scan>),
}

impl Ahead {
    async fn next(&self) -> Result<Option<Response>, EngineError> {
        match self {
            Ahead::Pager(pager) => pager.next().await,
            Ahead::Scan(scan) => scan.next().await,
        }
    }
}

/// The current page of a result, and the data with which the next page is fetched. The result
/// objects that users get are instances of Python classes derived from this class.
#[pyclass(frozen, subclass, module = "turbocql._core")]
pub struct Cursor(Mutex<Option<Current>>);

struct Current {
    session: Arc<SessionState>,
    rows: RowsAs,
    /// The current page. It is not decoded: a row is decoded when the application asks for it.
    /// `None` if the statement returns no rows.
    page: Option<Page>,
    next: NextPage,
    coordinator: Option<SocketAddr>,
    warnings: Vec<String>,
    /// The position of the page after the current one.
    paging_state: Option<PagingState>,
    trace_id: Option<[u8; 16]>,
    /// The custom payload of the current page's response.
    custom_payload: Option<Box<Entries>>,
    /// The number of pages that iterations have finished.
    pages_passed: u64,
}

impl Cursor {
    /// Makes the result object that users get.
    pub fn make(
        py: Python<'_>,
        session: &Arc<SessionState>,
        rows_as: RowsAs,
        response: Response,
        following: Option<Following>,
    ) -> PyResult<Py<PyAny>> {
        let paging_state = following.as_ref().map(|following| following.next.clone());
        let next = following.map_or(NextPage::End, NextPage::Following);
        Cursor::with_next(py, session, rows_as, response, next, paging_state)
    }

    /// Makes the result object of a scan. `response` has the scan's first page.
    pub fn of_scan(
        py: Python<'_>,
        session: &Arc<SessionState>,
        rows_as: RowsAs,
        response: Response,
        scan: Arc<Scan>,
    ) -> PyResult<Py<PyAny>> {
        let next = NextPage::Ahead(Ahead::Scan(scan));
        Cursor::with_next(py, session, rows_as, response, next, None)
    }

    fn with_next(
        py: Python<'_>,
        session: &Arc<SessionState>,
        rows_as: RowsAs,
        mut response: Response,
        next: NextPage,
        paging_state: Option<PagingState>,
    ) -> PyResult<Py<PyAny>> {
        let rows = session.rows_class.bind(py).call0()?;
        let current = Current {
            session: session.clone(),
            rows: rows_as,
            paging_state,
            trace_id: response.tracing_id.take(),
            page: response.page,
            next,
            coordinator: response.coordinator,
            warnings: response.warnings,
            custom_payload: response.custom_payload,
            pages_passed: 0,
        };
        *rows.cast::<Cursor>()?.get().lock() = Some(current);
        Ok(rows.unbind())
    }

    /// Locks the current page. The lock must not be held while Python code may run. Such code may
    /// release the GIL. If another thread then takes the GIL and waits for the lock, neither thread
    /// can continue.
    fn lock(&self) -> MutexGuard<'_, Option<Current>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the lock held. Returns an error if the object was not made by a session.
    fn with<T>(&self, work: impl FnOnce(&mut Current) -> T) -> PyResult<T> {
        let result = self.lock().as_mut().map(work);
        result.ok_or_else(|| PyTypeError::new_err("only a session makes result objects"))
    }

    /// Decodes at most `limit` rows of the current page.
    fn decode<'py>(&self, py: Python<'py>, limit: usize) -> PyResult<Bound<'py, PyList>> {
        // This call may run the application's row class, which may decode rows of a result too.
        let _inside = Inside::nested(py)?;
        let (page, rows, session) = self.with(|current| {
            (current.page.clone(), current.rows.clone_ref(py), current.session.clone())
        })?;
        let Some(page) = page else { return Ok(PyList::empty(py)) };
        let shape = session.shape(py, &page.columns)?;
        error::guarded(|| shape.decode(py, (&page).into(), limit, &rows, session.choices))
    }

    /// Decodes at most `limit` rows of the current page as tuples, regardless of the row class.
    fn tuples<'py>(&self, py: Python<'py>, limit: usize) -> PyResult<Bound<'py, PyList>> {
        let _inside = Inside::nested(py)?;
        let (page, session) =
            self.with(|current| (current.page.clone(), current.session.clone()))?;
        let Some(page) = page else { return Ok(PyList::empty(py)) };
        let (shape, block) = (session.shape(py, &page.columns)?, (&page).into());
        let choices = session.choices;
        error::guarded(|| shape.decode_as(py, block, limit, RowKind::Tuple, choices))
    }
}

fn misused(py: Python<'_>, reason: &str) -> PyErr {
    let instance = python::error(py).and_then(|class| class.call1((reason,)));
    instance.map_or_else(|error| error, PyErr::from_value)
}

fn overtaken(py: Python<'_>) -> PyErr {
    misused(py, "another iteration of these rows has moved to a later page")
}

impl Current {
    /// Returns the object that fetches the next page, or `None` if there is no next page. The first
    /// call starts to fetch the page.
    fn ahead(&mut self) -> Option<Ahead> {
        let session = &self.session;
        let following = match std::mem::replace(&mut self.next, NextPage::End) {
            NextPage::End => return None,
            NextPage::Ahead(ahead) => {
                self.next = NextPage::Ahead(ahead.clone());
                return Some(ahead);
            }
            NextPage::Following(following) => following,
        };
        let ahead = Ahead::Pager(Arc::new(Pager::start(
            &session.runtime,
            session.engine.clone(),
            following.source,
            or_default(&following.options).clone(),
            Some(following.next),
        )));
        self.next = NextPage::Ahead(ahead.clone());
        Some(ahead)
    }

    /// Makes the page of a response the current page.
    fn load(&mut self, response: Response) {
        if !matches!(self.next, NextPage::Ahead(Ahead::Scan(_))) {
            if response.next.is_none() {
                self.next = NextPage::End;
            }
            self.paging_state = response.next;
        }
        self.trace_id = response.tracing_id.or(self.trace_id);
        self.page = response.page;
        self.custom_payload = response.custom_payload;
        self.coordinator = response.coordinator;
        self.warnings.extend(response.warnings);
    }
}

#[pymethods]
impl Cursor {
    /// Makes an empty cursor; [`Cursor::make`] fills it.
    #[new]
    fn new() -> Cursor {
        Cursor(Mutex::new(None))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // If the lock is held, this object is in use. So it is not garbage, and the GC may skip it.
        match self.0.try_lock() {
            Ok(current) => {
                visit.call(current.as_ref().and_then(|current| current.rows.factory.as_ref()))
            }
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let factory = self.lock().as_mut().and_then(|current| current.rows.factory.take());
        drop(factory);
    }

    /// Decodes and returns the rows of the current page.
    fn _decode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.decode(py, usize::MAX)
    }

    /// Returns the current page, not decoded.
    fn _raw(&self) -> PyResult<RawPage> {
        self.with(|current| RawPage(current.page.clone()))
    }

    /// Decodes only the first row of the first page, and returns it. Returns None if the page has
    /// no rows.
    fn _first<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self._check_first(py)?;
        let rows = self.decode(py, 1)?;
        if rows.is_empty() { Ok(None) } else { rows.get_item(0).map(Some) }
    }

    /// Whether the current page has no rows, and another page may follow.
    fn _must_skip_empty_page(&self) -> PyResult<bool> {
        self.with(|current| {
            let is_empty = current.page.as_ref().is_some_and(|page| page.row_count == 0);
            is_empty && !matches!(current.next, NextPage::End)
        })
    }

    /// Whether another page may follow the current one.
    #[getter]
    fn _may_have_more(&self) -> PyResult<bool> {
        self.with(|current| !matches!(current.next, NextPage::End))
    }

    /// Raises if an iteration has moved past the first page.
    fn _check_first(&self, py: Python<'_>) -> PyResult<()> {
        if self.with(|current| current.pages_passed == 0)? {
            return Ok(());
        }
        Err(misused(
            py,
            "the first page of these rows is no longer kept: their iteration has gone beyond it; keep \
             the rows with all(), or execute the statement again",
        ))
    }

    /// Raises if another iteration has moved past page number `page`.
    fn _check_page(&self, py: Python<'_>, page: u64) -> PyResult<()> {
        if page == 0 {
            return self._check_first(py);
        }
        if self.with(|current| current.pages_passed == page)? { Ok(()) } else { Err(overtaken(py)) }
    }

    /// Claims the next page for the iteration that has finished page number `page`. Returns false
    /// if there is no next page. Raises if another iteration has claimed the next page.
    fn _leave(&self, py: Python<'_>, page: u64) -> PyResult<bool> {
        let claimed = self.with(|current| {
            if current.pages_passed != page {
                return None;
            }
            let has_next = !matches!(current.next, NextPage::End);
            current.pages_passed += u64::from(has_next);
            Some(has_next)
        })?;
        claimed.ok_or_else(|| overtaken(py))
    }

    /// Returns a list with `(keyspace, table, name, type)` for each column.
    #[getter]
    fn _columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let page = self.with(|current| current.page.clone())?;
        describe_columns(py, page.as_ref().map_or(&[][..], |page| &page.columns))
    }

    #[getter]
    fn _coordinator(&self) -> PyResult<Option<String>> {
        self.with(|current| current.coordinator.map(|address| address.to_string()))
    }

    #[getter]
    fn _warnings(&self) -> PyResult<Vec<String>> {
        self.with(|current| current.warnings.clone())
    }

    /// The position of the page after the current page, or None if there is no such page.
    #[getter]
    fn _paging_state<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let state = self.with(|current| current.paging_state.clone())?;
        Ok(state.map(|state| PyBytes::new(py, state.as_bytes())))
    }

    /// The id of the latest trace, as 16 bytes. None if no request of this result was traced.
    #[getter]
    fn _trace_id<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.with(|current| current.trace_id)?.map(|id| PyBytes::new(py, &id)))
    }

    /// The custom payload of the current page's response, as a dict. None if the response has no
    /// custom payload.
    #[getter]
    fn _custom_payload<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(entries) = self.with(|current| current.custom_payload.clone())? else {
            return Ok(None);
        };
        let payload = PyDict::new(py);
        for (name, value) in *entries {
            payload.set_item(name, PyBytes::new(py, &value))?;
        }
        Ok(Some(payload))
    }

    /// Reads the trace whose id is `_trace_id`. The operation's result is a
    /// `turbocql.cluster.Trace`, or None.
    fn _trace(&self) -> PyResult<Op> {
        let (session, id) = self.with(|current| (current.session.clone(), current.trace_id))?;
        session.check_open()?;
        Ok(Op(cluster::trace(&session, id)))
    }

    /// Returns the first row of the current page as a tuple, or None if the page has no rows.
    fn _plain_first<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let rows = self.tuples(py, 1)?;
        if rows.is_empty() { Ok(None) } else { rows.get_item(0).map(Some) }
    }

    /// Returns the rows of the current page as tuples.
    fn _tuples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.tuples(py, usize::MAX)
    }

    /// Begins to fetch the next page. Does nothing if the page is being fetched already, or if
    /// there is no next page.
    fn _prefetch(&self) -> PyResult<()> {
        self.with(|current| drop(current.ahead()))
    }

    /// Moves to the next page. The operation's result says whether there was a next page.
    fn _advance(this: &Bound<'_, Self>) -> PyResult<Op> {
        let session = this.get().with(|current| current.session.clone())?;
        session.check_open()?;
        let op = OpState::new(Box::new(Advance { cursor: this.clone().unbind() }));
        let ahead = this.get().with(Current::ahead)?;
        op.run(&session.runtime, async move {
            match ahead {
                Some(ahead) => ahead.next().await.map(Arrival::Page),
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
        let arrival = arrival.map_err(|error| raise_engine(py, &error))?;
        let cursor = self.cursor.get();
        let has_page = match arrival {
            Arrival::Page(Some(response)) => {
                cursor.with(|current| current.load(response))?;
                true
            }
            _ => {
                cursor.with(|current| current.next = NextPage::End)?;
                false
            }
        };
        Ok(Next::Done(pyo3::types::PyBool::new(py, has_page).to_owned().into_any().unbind()))
    }
}
