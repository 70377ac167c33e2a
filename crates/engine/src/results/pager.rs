//! Fetches the pages of a result. While one page is read, the next is fetched.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use tokio::sync::{Mutex, oneshot};
use turbocql_codec::RowBuffer;

use crate::error::{EngineError, ErrorKind};
use crate::io::queue::TaskHandle;
use crate::io::runtime::Runtime;
use crate::session::Session;
use crate::statement::{Prepared, RequestOptions};
use crate::terms::PagingState;
use crate::terms::Response;

/// The statement whose result is fetched page by page.
#[derive(Clone, Debug)]
pub enum PageSource {
    /// A prepared statement with its one row of values.
    Prepared(Arc<Prepared>, Arc<RowBuffer>),
    /// A CQL text, and the keyspace of its tables if the text itself does not name this keyspace.
    Text(Arc<str>, Option<String>),
}

/// The pages after the first. While the caller reads one page, the pager fetches the next page, but
/// no page after that. Dropping the pager cancels the fetch.
pub struct Pager {
    fetcher: Fetcher,
    ahead: Mutex<Ahead>,
}

struct Fetcher {
    runtime: Runtime,
    request: Request,
}

/// Requests the page at a paging state.
type Request = Box<dyn Fn(PagingState) -> BoxFuture<'static, PageResult> + Send + Sync>;

type PageResult = Result<Response, EngineError>;

/// The state of the page that follows the page returned last.
enum Ahead {
    Fetching {
        at: PagingState,
        fetch: Fetch,
    },
    /// The fetch has failed, and the error was returned.
    Failed {
        at: PagingState,
    },
    End,
}

struct Fetch {
    response: oneshot::Receiver<PageResult>,
    task: TaskHandle,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pager {
    /// Begins to fetch the page at `next`, the paging state of the last response.
    pub fn start(
        runtime: &Runtime,
        session: Session,
        source: PageSource,
        options: RequestOptions,
        next: Option<PagingState>,
    ) -> Pager {
        let request: Request = Box::new(move |at| {
            let (session, source, options) = (session.clone(), source.clone(), options.clone());
            Box::pin(async move { page_at(&session, &source, &options, at).await })
        });
        Pager::over(runtime, request, next)
    }

    fn over(runtime: &Runtime, request: Request, next: Option<PagingState>) -> Pager {
        let fetcher = Fetcher { runtime: runtime.clone(), request };
        let ahead = Mutex::new(fetcher.ahead(next));
        Pager { fetcher, ahead }
    }

    /// Returns the next page, and at once begins to fetch the page after it. Returns `None` after
    /// the last page.
    ///
    /// If a page could not be fetched, the next call fetches it again. If this future is dropped,
    /// no page is lost, because the next call returns the page.
    pub async fn next(&self) -> Result<Option<Response>, EngineError> {
        let mut ahead = self.ahead.lock().await;
        if let Ahead::Failed { at } = &*ahead {
            *ahead = self.fetcher.ahead(Some(at.clone()));
        }
        let Ahead::Fetching { at, fetch } = &mut *ahead else { return Ok(None) };
        let fetched = (&mut fetch.response).await;
        match fetched.unwrap_or_else(|_| Err(lost())) {
            Ok(response) => {
                if response.next.as_ref() == Some(at) {
                    *ahead = Ahead::End;
                    return Err(endless());
                }
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

/// Requests the page at a paging state.
async fn page_at(
    session: &Session,
    source: &PageSource,
    options: &RequestOptions,
    at: PagingState,
) -> PageResult {
    match source {
        PageSource::Prepared(prepared, row) => {
            session.execute(prepared, row, options, Some(at)).await
        }
        PageSource::Text(text, keyspace) => {
            same_keyspace(keyspace.as_deref(), session)?;
            session.query(text, options, Some(at), None).await
        }
    }
}

/// Fetches the pages after an empty page, until a page has rows or is the last one. Servers send
/// empty pages when they have read many tombstones. `began` is the time at which the user's call
/// that returns the page began. If the call's time limit passes first, returns the last empty page
/// that was fetched.
///
/// # Errors
/// Fails if fetching a page fails before the time limit passes, or if the server repeats a paging
/// state.
pub async fn first_with_rows(
    session: &Session,
    source: &PageSource,
    options: &RequestOptions,
    mut response: Response,
    began: Instant,
) -> PageResult {
    while response.is_empty_page()
        && let Some(at) = response.next.clone()
    {
        let page = page_at(session, source, options, at.clone());
        let next = match session.remaining_time(options, began) {
            None => page.await?,
            Some(remaining) => match tokio::time::timeout(remaining, page).await {
                Ok(next) => next?,
                Err(_) => break,
            },
        };
        if next.next.as_ref() == Some(&at) {
            return Err(endless());
        }
        let mut warnings = std::mem::take(&mut response.warnings);
        warnings.extend(next.warnings);
        let tracing_id = next.tracing_id.or(response.tracing_id);
        response = Response { warnings, tracing_id, ..next };
    }
    Ok(response)
}

/// Fails if the session no longer uses the keyspace `was`, because another keyspace may have tables
/// with the same names.
fn same_keyspace(was: Option<&str>, session: &Session) -> Result<(), EngineError> {
    match (was, session.keyspace()) {
        (Some(was), now) if now.as_deref() != Some(was) => {
            let reason = format!(
                "fetching a page: the session has changed from keyspace {was} to {}; name the \
                 keyspace in the statement's text, or prepare the statement",
                now.as_deref().unwrap_or("none")
            );
            Err(EngineError::new(ErrorKind::Config, reason))
        }
        _ => Ok(()),
    }
}

/// The error for a page whose next paging state is the page's own. Such a result would have no end.
fn endless() -> EngineError {
    let reason = "fetching a page: the server sent the paging state that it was asked for";
    EngineError::new(ErrorKind::Decode, reason)
}

fn lost() -> EngineError {
    EngineError::new(ErrorKind::Internal, "fetching a page: the fetch ended without a result")
}

impl Fetcher {
    fn ahead(&self, next: Option<PagingState>) -> Ahead {
        let Some(at) = next else { return Ahead::End };
        let (sender, response) = oneshot::channel();
        let page = (self.request)(at.clone());
        let task = self.runtime.submit(async move {
            let _ = sender.send(page.await);
        });
        Ahead::Fetching { at, fetch: Fetch { response, task } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    fn wait<T: Send + 'static>(
        runtime: &Runtime,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (sender, receiver) = mpsc::channel();
        runtime.submit(async move { sender.send(future.await).unwrap() });
        receiver.recv_timeout(Duration::from_secs(5)).unwrap()
    }

    fn page(next: Option<u8>) -> Response {
        Response { next: next.map(|at| PagingState::from_bytes([at])), ..Response::default() }
    }

    /// A pager over pages 1 to 3. If `flaky` is true, the first request for each page fails.
    fn pager(runtime: &Runtime, flaky: bool) -> (Arc<Pager>, Arc<AtomicUsize>) {
        let request_count = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&request_count);
        let request: Request = Box::new(move |at| {
            let nth = count.fetch_add(1, Ordering::SeqCst);
            let at = at.as_bytes()[0];
            Box::pin(async move {
                if flaky && nth.is_multiple_of(2) {
                    return Err(EngineError::new(ErrorKind::Server, format!("page {at}")));
                }
                Ok(page((at < 3).then_some(at + 1)))
            })
        });
        let next = Some(PagingState::from_bytes([1]));
        (Arc::new(Pager::over(runtime, request, next)), request_count)
    }

    fn next(runtime: &Runtime, pager: &Arc<Pager>) -> Result<Option<Response>, EngineError> {
        let pager = Arc::clone(pager);
        wait(runtime, async move { pager.next().await })
    }

    #[test]
    fn one_page_ahead_and_no_more() {
        let runtime = Runtime::start(1).unwrap();
        let (pager, request_count) = pager(&runtime, false);
        for handed_out in 1..=3 {
            assert!(next(&runtime, &pager).unwrap().is_some());
            wait(&runtime, async { tokio::time::sleep(Duration::from_millis(20)).await });
            assert_eq!(request_count.load(Ordering::SeqCst), (handed_out + 1).min(3));
        }
        assert!(next(&runtime, &pager).unwrap().is_none());
        assert!(next(&runtime, &pager).unwrap().is_none());
    }

    #[test]
    fn a_page_that_failed_is_tried_again() {
        let runtime = Runtime::start(1).unwrap();
        let (pager, _) = pager(&runtime, true);
        for at in 1..=3 {
            let error = next(&runtime, &pager).unwrap_err();
            assert_eq!(error.message, format!("page {at}"));
            assert!(next(&runtime, &pager).unwrap().is_some());
        }
        assert!(next(&runtime, &pager).unwrap().is_none());
    }

    #[test]
    fn dropping_the_pager_drops_the_fetch() {
        let runtime = Runtime::start(1).unwrap();
        let request: Request = Box::new(|_| Box::pin(std::future::pending()));
        let pager = Pager::over(&runtime, request, Some(PagingState::from_bytes([1])));
        assert_eq!(runtime.in_flight(), 1);
        drop(pager);
        let began = Instant::now();
        while runtime.in_flight() > 0 && began.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        assert_eq!(runtime.in_flight(), 0);
    }
}
