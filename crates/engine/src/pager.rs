//! Page after page, one of them always on its way.

use std::sync::Arc;

use tokio::sync::{Mutex, oneshot};
use turbocql_codec::RowBuffer;

use crate::error::{EngineError, ErrorKind};
use crate::runtime::{Runtime, TaskHandle};
use crate::session::{Response, Session};
use crate::statement::{PagingState, Prepared, RequestOptions};

/// What the pages are a result of.
#[derive(Clone, Debug)]
pub enum PageSource {
    /// With its one row of values.
    Prepared(Arc<Prepared>, Arc<RowBuffer>),
    Text(Arc<str>),
}

/// The pages after the first. While one is being read the next is being fetched, never more than
/// that; dropping the pager drops the fetch.
pub struct Pager {
    fetcher: Fetcher,
    ahead: Mutex<Ahead>,
}

struct Fetcher {
    runtime: Runtime,
    session: Session,
    source: PageSource,
    options: RequestOptions,
}

/// The page that comes next.
enum Ahead {
    Fetching {
        at: PagingState,
        fetch: Fetch,
    },
    /// Its fetch has failed, and the error was reported.
    Failed {
        at: PagingState,
    },
    End,
}

struct Fetch {
    response: oneshot::Receiver<Result<Response, EngineError>>,
    task: TaskHandle,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pager {
    /// Begins to fetch the page at `next`, which is where the last response said it goes on.
    pub fn start(
        runtime: &Runtime,
        session: Session,
        source: PageSource,
        options: RequestOptions,
        next: Option<PagingState>,
    ) -> Pager {
        let fetcher = Fetcher { runtime: runtime.clone(), session, source, options };
        let ahead = Mutex::new(fetcher.ahead(next));
        Pager { fetcher, ahead }
    }

    /// The next page, and `None` after the last. The fetch of the one after it begins at once.
    ///
    /// A page that could not be fetched is tried again by the next call. A call that is dropped
    /// loses nothing: the page is there for the next one.
    pub async fn next(&self) -> Result<Option<Response>, EngineError> {
        let mut ahead = self.ahead.lock().await;
        if let Ahead::Failed { at } = &*ahead {
            *ahead = self.fetcher.ahead(Some(at.clone()));
        }
        let Ahead::Fetching { at, fetch } = &mut *ahead else { return Ok(None) };
        let fetched = (&mut fetch.response).await;
        match fetched.unwrap_or_else(|_| Err(lost())) {
            Ok(response) => {
                *ahead = self.fetcher.ahead(response.next.clone());
                Ok(Some(response))
            }
            Err(error) => {
                *ahead = Ahead::Failed { at: at.clone() };
                Err(error)
            }
        }
    }
}

fn lost() -> EngineError {
    EngineError::new(ErrorKind::Internal, "fetching a page: the fetch ended without a result")
}

impl Fetcher {
    fn ahead(&self, next: Option<PagingState>) -> Ahead {
        let Some(at) = next else { return Ahead::End };
        let (session, source) = (self.session.clone(), self.source.clone());
        let (options, from) = (self.options.clone(), Some(at.clone()));
        let (sender, response) = oneshot::channel();
        let task = self.runtime.submit(async move {
            let response = match &source {
                PageSource::Prepared(prepared, row) => {
                    session.execute(prepared, row, &options, from).await
                }
                PageSource::Text(text) => session.query(text, &options, from).await,
            };
            let _ = sender.send(response);
        });
        Ahead::Fetching { at, fetch: Fetch { response, task } }
    }
}
