//! Reads token ranges of a table, several at a time, each page by page.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use turbocql_codec::RowBuffer;

use crate::error::{EngineError, ErrorKind};
use crate::io::queue::TaskHandle;
use crate::io::runtime::Runtime;
use crate::policies::near::Near;
use crate::session::Session;
use crate::statement::{Prepared, RequestOptions};
use crate::terms::PagingState;
use crate::terms::Response;

/// The maximum number of rows in the first page of a worker (a task that reads range after range).
const FEW_ROWS: i32 = 100;
/// The intended size of a page in bytes. The wider the rows, the fewer are requested.
const PAGE_BYTES: usize = 1 << 20;
/// The pauses between attempts at a page: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The ranges to read, and how to read them.
pub struct ScanPlan {
    pub prepared: Arc<Prepared>,
    pub ranges: Vec<ScanRange>,
    /// `page_size` is the maximum number of rows of a page.
    pub options: RequestOptions,
    /// The number of ranges that are read at a time.
    pub concurrency: usize,
    /// For how long a page is requested again after transient errors ([`EngineError::may_pass`]).
    pub patience: Duration,
}

/// A token range.
pub struct ScanRange {
    /// The statement's values, among them the bounds of the range.
    pub values: RowBuffer,
    /// Names a token of the range. Requests for the range go first to the token's replicas.
    pub near: Option<Near>,
}

/// The pages of ranges, in the order of their arrival. At most one page waits in the channel. Each
/// range that is being read holds at most one more page. Dropping the scan cancels its requests.
pub struct Scan {
    pages: Mutex<mpsc::Receiver<PageResult>>,
    task: TaskHandle,
    /// Whether the scan ended because its session is being closed.
    is_cut: Arc<AtomicBool>,
}

type PageResult = Result<Response, EngineError>;

impl Drop for Scan {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scan {
    /// Begins to read. At least one page arrives if a range can be read, but the page may have no
    /// rows.
    pub fn start(runtime: &Runtime, session: Session, plan: ScanPlan) -> Scan {
        let ScanPlan { prepared, ranges, options, concurrency, patience } = plan;
        let options = RequestOptions { idempotent: Some(true), ..options };
        let most_rows = options.page_size.filter(|&rows| rows > 0).unwrap_or(session.page_rows());
        let ranges = Arc::new(ranges);
        let count = ranges.len();
        let ask = move |range: usize, at: Option<PagingState>, rows: i32| {
            let (session, prepared) = (session.clone(), Arc::clone(&prepared));
            let (ranges, options) = (Arc::clone(&ranges), options.clone());
            async move {
                let range = &ranges[range];
                let near = range.near.clone();
                let options = RequestOptions { page_size: Some(rows), near, ..options };
                session.execute(&prepared, &range.values, &options, at).await
            }
        };
        Scan::over(runtime, ask, Limits { count, concurrency, patience, most_rows })
    }

    fn over<A, F>(runtime: &Runtime, ask: A, limits: Limits) -> Scan
    where
        A: Fn(usize, Option<PagingState>, i32) -> F + Send + Sync + 'static,
        F: Future<Output = PageResult> + Send + 'static,
    {
        let workers = limits.concurrency.clamp(1, limits.count.max(1));
        // One page waits in the channel, and each worker holds one more.
        let (sender, pages) = mpsc::channel(1);
        let reading = Arc::new(Reading {
            ask,
            limits,
            next: AtomicUsize::new(0),
            has_sent: AtomicBool::new(false),
            empty: std::sync::Mutex::default(),
        });
        let read = Arc::clone(&reading);
        let is_cut = Arc::new(AtomicBool::new(false));
        let (cut, mut draining) = (Arc::clone(&is_cut), runtime.draining());
        let task = runtime.submit(async move {
            // If this future is dropped, the set aborts all workers.
            let mut reads = JoinSet::new();
            for _ in 0..workers {
                reads.spawn(Arc::clone(&reading).read_ranges(sender.clone()));
            }
            loop {
                let ended = tokio::select! {
                    ended = reads.join_next() => ended,
                    // The session is being closed. A page that the reader never takes would delay
                    // the closing, so the scan is cut.
                    _ = draining.wait_for(|&is_draining| is_draining) => {
                        cut.store(true, Ordering::Release);
                        break;
                    }
                };
                match ended {
                    Some(Err(error)) if error.is_panic() => {
                        std::panic::resume_unwind(error.into_panic());
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            // Even a result without rows needs a page, because a page shows the columns.
            let empty = read.empty.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(empty) = empty
                && !read.has_sent.load(Ordering::Relaxed)
                && !cut.load(Ordering::Relaxed)
            {
                tokio::select! {
                    _ = sender.send(Ok(empty)) => {}
                    _ = draining.wait_for(|&is_draining| is_draining) => {
                        cut.store(true, Ordering::Release);
                    }
                }
            }
            // The sender is kept until `cut` is set, so that a reader that sees the end also sees
            // `cut`.
            drop(sender);
        });
        Scan { pages: Mutex::new(pages), task, is_cut }
    }

    /// Returns the next page of any range, or `None` after the last page.
    ///
    /// After the error for a page that could not be read, the scan requests the page again. After
    /// the error for a repeated paging state, the scan continues with another range. After the
    /// error for a closed session, each further call returns this error. If this future is dropped,
    /// no page is lost, because the next call returns the page.
    pub async fn next(&self) -> Result<Option<Response>, EngineError> {
        let page = self.pages.lock().await.recv().await;
        if page.is_none() && self.is_cut.load(Ordering::Acquire) {
            let reason = "scanning: the session was closed before the last page";
            return Err(EngineError::new(ErrorKind::Closed, reason));
        }
        page.transpose()
    }
}

struct Limits {
    /// The number of ranges.
    count: usize,
    concurrency: usize,
    patience: Duration,
    most_rows: i32,
}

struct Reading<A> {
    ask: A,
    limits: Limits,
    /// The next range that no worker has begun.
    next: AtomicUsize,
    /// Whether a page with rows was handed out.
    has_sent: AtomicBool,
    /// A page without rows, which is handed out at the end if no page has rows.
    empty: std::sync::Mutex<Option<Response>>,
}

impl<A, F> Reading<A>
where
    A: Fn(usize, Option<PagingState>, i32) -> F,
    F: Future<Output = PageResult>,
{
    async fn read_ranges(self: Arc<Self>, pages: mpsc::Sender<PageResult>) {
        let mut rows = FEW_ROWS.min(self.limits.most_rows);
        loop {
            let range = self.next.fetch_add(1, Ordering::Relaxed);
            if range >= self.limits.count || self.read(range, &mut rows, &pages).await.is_err() {
                return;
            }
        }
    }

    /// Reads a range to its end. Returns an error if the receiver of the pages is gone.
    async fn read(
        &self,
        range: usize,
        rows: &mut i32,
        pages: &mpsc::Sender<PageResult>,
    ) -> Result<(), mpsc::error::SendError<PageResult>> {
        let mut at = None;
        loop {
            let response = loop {
                match self.page(range, at.as_ref(), *rows).await {
                    Ok(response) => break response,
                    Err(error) => pages.send(Err(error)).await?,
                }
            };
            *rows = self.rows_of_next(&response, *rows);
            let next = response.next.clone();
            let is_empty = response.page.as_ref().is_none_or(|page| page.row_count == 0);
            if is_empty {
                let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
                empty.get_or_insert(response);
            } else {
                self.has_sent.store(true, Ordering::Relaxed);
                pages.send(Ok(response)).await?;
            }
            if next.is_none() {
                return Ok(());
            }
            if next == at {
                let reason = "scanning: the server sent the paging state that it was asked for";
                pages.send(Err(EngineError::new(ErrorKind::Decode, reason))).await?;
                return Ok(());
            }
            at = next;
        }
    }

    /// Requests a page. After transient errors, requests the page again until `patience` is over.
    async fn page(&self, range: usize, at: Option<&PagingState>, rows: i32) -> PageResult {
        let (mut since, mut pause) = (None, PAUSES.0);
        loop {
            let error = match (self.ask)(range, at.cloned(), rows).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let since = *since.get_or_insert_with(Instant::now);
            if !error.may_pass() || since.elapsed() + pause > self.limits.patience {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// The number of rows to request next, computed from the bytes of the last page's rows.
    fn rows_of_next(&self, response: &Response, rows: i32) -> i32 {
        let Some(page) = response.page.as_ref().filter(|page| page.row_count > 0) else {
            return rows;
        };
        let row_bytes = (page.rows.len() / page.row_count).max(1);
        let fitting = i32::try_from(PAGE_BYTES / row_bytes).unwrap_or(i32::MAX);
        // The number grows at most eightfold, because the next rows may be wider.
        fitting.min(rows.saturating_mul(8)).clamp(1, self.limits.most_rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex as Locked;
    use std::sync::mpsc as std_mpsc;
    use turbocql_codec::Page;

    /// A page of `rows` rows of one int each. The int shows the row's range and page.
    fn page(range: usize, at: u8, last: u8, rows: usize) -> Response {
        let cell = [0, 0, 0, 4, 0, 0, u8::try_from(range).unwrap(), at];
        let rows =
            Page { columns: Arc::default(), rows: cell.repeat(rows).into(), row_count: rows };
        Response {
            page: Some(rows),
            next: (at < last).then(|| PagingState::from_bytes([at + 1])),
            ..Response::default()
        }
    }

    fn limits(count: usize, concurrency: usize, patience: Duration) -> Limits {
        Limits { count, concurrency, patience, most_rows: 100 }
    }

    fn wait<T: Send + 'static>(
        runtime: &Runtime,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (sender, receiver) = std_mpsc::channel();
        runtime.submit(async move { sender.send(future.await).unwrap() });
        receiver.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    /// Returns the range and the page number of each page that has rows, and the errors.
    fn read_all(runtime: &Runtime, scan: Scan) -> (Vec<(u8, u8)>, Vec<String>) {
        let scan = Arc::new(scan);
        wait(runtime, async move {
            let (mut pages, mut errors) = (Vec::new(), Vec::new());
            loop {
                match scan.next().await {
                    Ok(None) => return (pages, errors),
                    Ok(Some(response)) => {
                        let page = response.page.unwrap();
                        if page.row_count > 0 {
                            pages.push((page.rows[6], page.rows[7]));
                        }
                    }
                    Err(error) => errors.push(error.message),
                }
            }
        })
    }

    fn page_number(at: Option<&PagingState>) -> u8 {
        at.map_or(0, |at| at.as_bytes()[0])
    }

    #[test]
    fn each_page_of_each_range_is_read_once() {
        let runtime = Runtime::start(2).unwrap();
        let ask = |range, at: Option<PagingState>, _| async move {
            tokio::task::yield_now().await;
            // Some pages have no rows.
            let rows = if range % 5 == 4 { 0 } else { 3 };
            Ok(page(range, page_number(at.as_ref()), (range % 4) as u8, rows))
        };
        let scan = Scan::over(&runtime, ask, limits(40, 7, Duration::ZERO));
        let (mut pages, errors) = read_all(&runtime, scan);
        pages.sort_unstable();
        let ranges = (0..40u8).filter(|range| range % 5 < 4);
        let expected: Vec<_> =
            ranges.flat_map(|range| (0..=range % 4).map(move |at| (range, at))).collect();
        assert_eq!((pages, errors), (expected, Vec::<String>::new()));
    }

    #[test]
    fn a_page_that_fails_is_requested_again_and_no_page_is_returned_twice() {
        let runtime = Runtime::start(1).unwrap();
        let requests = Arc::new(Locked::new(Vec::new()));
        let log = Arc::clone(&requests);
        let ask = move |range, at: Option<PagingState>, _| {
            let at = page_number(at.as_ref());
            let nth = {
                let mut log = log.lock().unwrap();
                log.push((range, at));
                log.iter().filter(|&&request| request == (range, at)).count()
            };
            async move {
                match (range, at, nth) {
                    // The scan retries after this error without returning it.
                    (0, 1, 1 | 2) => Err(EngineError::new(ErrorKind::Timeout, "late")),
                    // The scan returns this error, and then requests the page again.
                    (1, 2, 1 | 2) => Err(EngineError::new(ErrorKind::Decode, "odd")),
                    _ => Ok(page(range, at, 3, 1)),
                }
            }
        };
        let scan = Scan::over(&runtime, ask, limits(2, 2, Duration::from_secs(5)));
        let (mut pages, errors) = read_all(&runtime, scan);
        pages.sort_unstable();
        let expected: Vec<_> = (0..2).flat_map(|range| (0..4).map(move |at| (range, at))).collect();
        assert_eq!((pages, errors), (expected, vec!["odd".to_owned(); 2]));
        let requests = requests.lock().unwrap();
        assert_eq!(requests.len(), 8 + 4);
    }

    #[test]
    fn without_patience_an_error_is_returned_at_once() {
        let runtime = Runtime::start(1).unwrap();
        let ask = |range, _: Option<PagingState>, _| async move {
            if range == 0 {
                return Err(EngineError::new(ErrorKind::Timeout, "late"));
            }
            Ok(page(range, 0, 0, 1))
        };
        let scan = Arc::new(Scan::over(&runtime, ask, limits(1, 3, Duration::ZERO)));
        let error = wait(&runtime, async move { scan.next().await }).unwrap_err();
        assert_eq!(error.message, "late");
    }

    #[test]
    fn few_pages_wait_and_dropping_the_scan_ends_it() {
        let runtime = Runtime::start(1).unwrap();
        let request_count = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&request_count);
        let ask = move |range, at: Option<PagingState>, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async move { Ok(page(range, page_number(at.as_ref()), 200, 1)) }
        };
        let scan = Scan::over(&runtime, ask, limits(9, 4, Duration::ZERO));
        wait(&runtime, async { tokio::time::sleep(Duration::from_millis(100)).await });
        // One page is in the channel, and each of four workers holds one.
        assert_eq!(request_count.load(Ordering::Relaxed), 5);
        drop(scan);
        let began = Instant::now();
        while runtime.in_flight() > 0 && began.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        assert_eq!(runtime.in_flight(), 0);
    }

    #[test]
    fn closing_ends_a_scan_with_an_error() {
        let runtime = Runtime::start(1).unwrap();
        let ask = |range, at: Option<PagingState>, _| async move {
            Ok(page(range, page_number(at.as_ref()), 200, 1))
        };
        let scan = Arc::new(Scan::over(&runtime, ask, limits(9, 4, Duration::ZERO)));
        let draining = runtime.clone();
        let began = Instant::now();
        wait(&runtime, async move { draining.drain(Duration::from_secs(10)).await });
        assert!(began.elapsed() < Duration::from_secs(5));
        let cut_scan = Arc::clone(&scan);
        let error = wait(&runtime, async move {
            loop {
                match cut_scan.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the end of a scan that was cut is no end"),
                    Err(error) => return error,
                }
            }
        });
        assert!(matches!(error.kind, ErrorKind::Closed), "{error:?}");
    }

    #[test]
    fn wide_rows_make_pages_of_few_rows() {
        let runtime = Runtime::start(1).unwrap();
        let sizes = Arc::new(Locked::new(Vec::new()));
        let log = Arc::clone(&sizes);
        let ask = move |range, at: Option<PagingState>, rows: i32| {
            log.lock().unwrap().push(rows);
            async move {
                let at = page_number(at.as_ref());
                let mut response = page(range, at, 3, 1);
                if at == 1 {
                    // The row of this page has 300,000 bytes.
                    response.page.as_mut().unwrap().rows = vec![0; 300_000].into();
                }
                Ok(response)
            }
        };
        let limits = Limits { most_rows: 5000, ..limits(1, 1, Duration::ZERO) };
        read_all(&runtime, Scan::over(&runtime, ask, limits));
        assert_eq!(*sizes.lock().unwrap(), [100, 800, 3, 24]);
    }
}
