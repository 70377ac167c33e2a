//! Makes the result object of a statement with several pages. The object begins with the first page
//! that has rows.

use std::sync::Arc;
use std::time::Instant;

use pyo3::prelude::*;
use turbocql_engine::{EngineError, PageSource, Response, first_with_rows};

use crate::classes::result::cursor::{Cursor, Following};
use crate::classes::session::state::{SessionState, out_of_turn};
use crate::error::raise_engine;
use crate::op::{Arrival, Next, OpState, Step};
use crate::options::{Options, or_default};
use turbocql_values::row::RowsAs;

/// A text that is sent without being prepared.
pub struct Plain {
    pub text: Arc<str>,
    pub options: Options,
    /// The keyspace of the session when the text was sent.
    pub keyspace: Option<String>,
}

impl Plain {
    /// Returns the source and the options with which the pages after the first are requested. A
    /// `USE` may change the session's keyspace before these pages are fetched. An unqualified
    /// statement, which does not name its keyspace, would then read tables of the new keyspace. So
    /// the source of such a statement contains the old keyspace, and the pager fails if the session
    /// has changed to another keyspace.
    pub fn source(self, response: &Response) -> (PageSource, Options) {
        let Plain { text, options, keyspace } = self;
        let keyspace = keyspace.filter(|keyspace| {
            let columns = response.page.as_ref().map_or(&[][..], |page| &page.columns);
            let is_of_it = columns.first().is_none_or(|column| *column.keyspace == **keyspace);
            let small = text.to_ascii_lowercase();
            let bare = format!("{}.", keyspace.to_ascii_lowercase());
            let quoted = format!("\"{}\".", keyspace.to_ascii_lowercase());
            is_of_it && !small.contains(&bare) && !small.contains(&quoted)
        });
        (PageSource::Text(text, keyspace), options)
    }
}

/// The data from which the result object of a statement with several pages is made.
pub struct FirstPage {
    pub session: Arc<SessionState>,
    pub rows: RowsAs,
    pub source: PageSource,
    pub options: Options,
}

impl FirstPage {
    /// Makes the result object. If `response` is a page without rows, first fetches further pages
    /// until one has rows. `began` is the time when the call began.
    pub fn of(
        self,
        py: Python<'_>,
        response: Response,
        began: Instant,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        if !response.is_empty_page() {
            return self.into_cursor(py, response);
        }
        let (engine, source, options) =
            (self.session.engine.clone(), self.source.clone(), self.options.clone());
        op.run(&self.session.runtime, async move {
            let first =
                first_with_rows(&engine, &source, or_default(&options), response, began).await;
            first.map(Arrival::Response)
        });
        Ok(Next::Again(Box::new(self)))
    }

    fn into_cursor(self, py: Python<'_>, mut response: Response) -> PyResult<Next> {
        let FirstPage { session, rows, source, options } = self;
        let next = response.next.take();
        let following = next.map(|next| Following { source, options, next });
        Cursor::make(py, &session, rows, response, following).map(Next::Done)
    }
}

impl Step for FirstPage {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        match arrival.map_err(|error| raise_engine(py, &error))? {
            Arrival::Response(response) => self.into_cursor(py, response),
            _ => Err(out_of_turn()),
        }
    }
}
