//! Sends the requests of the program's calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use turbocql_codec::{CqlType, RowBuffer};
use turbocql_engine::{
    BatchEntry, BatchKind, Bulk, BulkEvents, BulkOutcome, BulkPlan, EngineError, ErrorKind, Near,
    Node, Pace, PageSource, Pager, Permit, Prepared, Request, RequestOptions, Response, RowNumbers,
    Session, WrittenTable,
};

use super::{Keyspace, LIMIT, PATIENCE, Program, ROWS};
use crate::cluster::{
    CLAIM, CREATE, KEYSPACE, KEYSPACES, LAST_KEY, READ, REMADE, REORDERED, SCAN, WRITE,
    literal_write,
};
use crate::history::{Action, BATCH, Outcome, is_logged};

/// How many rows a page has.
const PAGE: i32 = 5;

/// How many pages a scan asks for at most, after the first. It asks for a page that failed again.
pub(super) const PAGES: u32 = 6;

/// How many rows of a bulk are in flight at the same time.
const CONCURRENCY: usize = 4;

/// How long connections may use different keyspaces after a `USE` that failed or was given up.
pub(super) const SETTLED: Duration = Duration::from_secs(10);

/// The longest time after a fault until the node must know a new table.
const RECOVERED: Duration = Duration::from_secs(20);

impl Program {
    pub(super) async fn request(
        &self,
        action: Action,
        key: i64,
        value: i64,
        variant: u64,
    ) -> Result<Outcome, EngineError> {
        let session = &self.0.session;
        let of_variant = |text: &str| format!("{text} /* {variant:x} */");
        match action {
            Action::Refresh => session.refresh().await.map(|()| Outcome::Done),
            Action::Agreement => session.agreement(Some(LIMIT)).await.map(|_| Outcome::Done),
            Action::UseKeyspace { gives_up } => {
                self.use_keyspace(variant as usize % KEYSPACES.len(), gives_up).await
            }
            Action::Keyspace => self.read_keyspace().await,
            Action::Create => self.create(value).await,
            Action::Scan => self.scan(&of_variant(SCAN)).await,
            Action::Remade => self.write_remade(key, value).await,
            Action::Batch { is_idempotent } => {
                let texts = [of_variant(WRITE), of_variant(REORDERED)];
                self.batch(key, value, is_idempotent, texts).await
            }
            Action::Write { is_idempotent } => {
                let row = row(&[key, value]);
                let options = options(is_idempotent.then_some(true));
                self.execute(&of_variant(WRITE), &row, options).await.map(|_| Outcome::Written)
            }
            Action::Read | Action::Burst => {
                let response = self.execute(&of_variant(READ), &row(&[key]), options(None)).await?;
                Ok(Outcome::Read(value_of(&response, key)))
            }
            Action::Claim => {
                let row = row(&[key, value]);
                let response = self.execute(&of_variant(CLAIM), &row, options(None)).await?;
                let cells = cells(&response);
                if cells[0].as_deref() == Some(&[1]) {
                    return Ok(Outcome::Claimed(None));
                }
                assert_eq!(bigint(&cells, 1), key, "the response is that of another claim");
                Ok(Outcome::Claimed(Some(bigint(&cells, 2))))
            }
            Action::Row => unreachable!("rows are written together"),
        }
    }

    /// Returns the prepared statement of a text. Prepares it if the program does not have it
    /// already.
    async fn prepare(
        &self,
        text: &str,
        options: &RequestOptions,
        began: std::time::Instant,
    ) -> Result<Arc<Prepared>, EngineError> {
        let kept = self.lock().prepared.get(text).filter(|kept| !kept.is_stale()).cloned();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let prepared = self.0.session.prepare(text, options, began).await?;
        self.lock().prepared.insert(text.to_owned(), Arc::clone(&prepared));
        Ok(prepared)
    }

    /// Prepares and executes a text within the time limit of the options, or within [`LIMIT`] if
    /// the options have no time limit.
    async fn execute(
        &self,
        text: &str,
        row: &RowBuffer,
        options: RequestOptions,
    ) -> Result<Response, EngineError> {
        let began = std::time::Instant::now();
        let _permit = self.admitted(text, row, &options, began).await?;
        let prepared = self.prepare(text, &options, began).await?;
        self.send(&prepared, row, &options, began).await
    }

    /// Executes a prepared statement for a call that began at this time.
    async fn send(
        &self,
        prepared: &Arc<Prepared>,
        row: &RowBuffer,
        options: &RequestOptions,
        began: std::time::Instant,
    ) -> Result<Response, EngineError> {
        let session = &self.0.session;
        Session::send(&Request { session, prepared, row, options, began: Some(began) }).await
    }

    /// Waits until the session's gate admits a request. The gate limits the requests in flight. A
    /// Python session waits for it before each request.
    async fn admitted(
        &self,
        text: &str,
        rows: &RowBuffer,
        options: &RequestOptions,
        began: std::time::Instant,
    ) -> Result<Permit, EngineError> {
        let position = self.0.session.gate().join_queue();
        let mut permit = self.0.session.admitted(position, text, options, began).await?;
        permit.weigh(rows.byte_len());
        Ok(permit)
    }

    async fn use_keyspace(
        &self,
        index: usize,
        gives_up: Option<Duration>,
    ) -> Result<Outcome, EngineError> {
        let number = {
            let mut state = self.lock();
            let number = state.keyspace.number + 1;
            state.keyspace = Keyspace { chosen: None, number, is_changing: true, settled: None };
            number
        };
        let using = self.0.session.use_keyspace(KEYSPACES[index], true);
        let used = match gives_up {
            None => using.await,
            // At this timeout, the future is dropped, as if its task were canceled.
            Some(after) => tokio::time::timeout(after, using).await.unwrap_or_else(|_| {
                Err(EngineError::new(ErrorKind::Timeout, "the program gave up a USE"))
            }),
        };
        // If the `USE` failed, the session may still have the old keyspace. So its keyspace is
        // read.
        let kept = self.0.session.keyspace();
        let chosen = kept.and_then(|kept| KEYSPACES.iter().position(|name| *name == kept));
        let settled =
            tokio::time::Instant::now() + if used.is_ok() { Duration::ZERO } else { SETTLED };
        let mut state = self.lock();
        state.keyspace = Keyspace { chosen, number, is_changing: false, settled: Some(settled) };
        if used.is_err() {
            state.use_failed = Some(settled);
        }
        drop(state);
        used.map(|()| Outcome::Done)
    }

    async fn read_keyspace(&self) -> Result<Outcome, EngineError> {
        let (before, began) = (self.lock().keyspace, tokio::time::Instant::now());
        let answer = self.0.session.query(KEYSPACE, &options(None), None, None).await;
        let is_settled = before.settled.is_some_and(|settled| began > settled);
        let chosen = before.chosen.filter(|_| is_settled && self.lock().keyspace == before);
        match answer {
            Ok(response) => {
                let of_answer = Some(bigint(&cells(&response), 0) as usize);
                Ok(Outcome::Keyspace { of_answer, chosen })
            }
            Err(error) if error.message.contains("No keyspace") => {
                Ok(Outcome::Keyspace { of_answer: None, chosen })
            }
            Err(error) => Err(error),
        }
    }

    async fn create(&self, number: i64) -> Result<Outcome, EngineError> {
        let text = format!("{CREATE}{number} (k bigint PRIMARY KEY)");
        let began = tokio::time::Instant::now();
        let connected = |nodes: Vec<Node>| {
            let connected = nodes.into_iter().filter(|node| node.connected);
            // A node that replaced node n has the host id n + 100 (or n + 200, and so on).
            connected.map(|node| (usize::from(node.host_id[15]) - 1) % 100).collect::<Vec<_>>()
        };
        let connected = connected(self.0.session.nodes());
        self.lock().is_creating = true;
        let created = self.0.session.query(&text, &options(None), None, None).await;
        self.lock().is_creating = false;
        created?;
        let unaware = self.0.cluster.unaware_of(number);
        let since = tokio::time::Instant::now() - RECOVERED;
        // The session does not ask nodes without connections for their schema version. A failed
        // `USE` closes connections, so after it some nodes may not be asked.
        let is_settled = self.lock().use_failed.is_none_or(|settled| settled < began);
        // A node that still works on the requests of a burst may be silent for a moment. The
        // session does not wait until a silent node knows the new schema.
        let is_settled = is_settled && !self.0.log.has_burst(since);
        let is_healthy = |node: &usize| {
            is_settled && connected.contains(node) && !self.0.log.is_faulty(*node, since)
        };
        Ok(Outcome::Created { unaware: unaware.into_iter().filter(is_healthy).collect() })
    }

    async fn scan(&self, text: &str) -> Result<Outcome, EngineError> {
        let (began, began_at) = (std::time::Instant::now(), tokio::time::Instant::now());
        let options = RequestOptions { page_size: Some(PAGE), ..options(None) };
        let prepared = self.prepare(text, &options, began).await?;
        let (session, row) = (&self.0.session, Arc::new(row(&[])));
        let first = session.execute(&prepared, &row, &options, None).await?;
        let mut scanned = Vec::new();
        let mut add = |response: &Response| {
            let cells = cells(response);
            scanned.extend(
                (0..cells.len() / 2)
                    .map(|index| (bigint(&cells, 2 * index), bigint(&cells, 2 * index + 1))),
            );
        };
        add(&first);
        let source = PageSource::Prepared(prepared, row);
        let pager =
            Pager::start(&self.0.runtime, session.clone(), source, options, first.next.clone());
        let mut failed = None;
        for _ in 0..PAGES {
            match pager.next().await {
                Ok(Some(page)) => add(&page),
                Ok(None) => {
                    let scanned = Outcome::Scanned(scanned);
                    let Some(error) = failed else { return Ok(scanned) };
                    // All rows must have arrived, as if no page had failed.
                    self.add(Action::Scan, began_at, scanned);
                    return Err(error);
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed
            .unwrap_or_else(|| EngineError::new(ErrorKind::Internal, "a scan has too many pages")))
    }

    /// Writes to the table `remade`. The value has the type of the prepared statement's second
    /// marker. The statement becomes stale when the table is made again. Then this function
    /// prepares it again, as a Python session does.
    async fn write_remade(&self, key: i64, value: i64) -> Result<Outcome, EngineError> {
        let began = std::time::Instant::now();
        let options = options(Some(true));
        loop {
            let prepared = self.prepare(REMADE, &options, began).await?;
            let mut row = RowBuffer::new();
            row.push_value(&key.to_be_bytes());
            // With both types, the encoded value has eight bytes.
            match prepared.markers()[1].cql_type {
                CqlType::BigInt => row.push_value(&value.to_be_bytes()),
                _ => row.push_value(format!("v{value:07}").as_bytes()),
            }
            row.finish_row();
            match self.send(&prepared, &row, &options, began).await {
                Err(_) if prepared.is_stale() => {}
                answer => return answer.map(|_| Outcome::Done),
            }
        }
    }

    async fn batch(
        &self,
        key: i64,
        value: i64,
        is_idempotent: bool,
        [write, reordered]: [String; 2],
    ) -> Result<Outcome, EngineError> {
        let began = std::time::Instant::now();
        let options = options(is_idempotent.then_some(true));
        let (mut rows, mut entries) = (RowBuffer::new(), Vec::new());
        for index in 0..BATCH {
            let (key, value) = ((key + index) % (LAST_KEY + 1), value + index);
            // The statements differ, so a batch whose statements are mixed up writes wrong rows.
            entries.push(match index {
                0 => {
                    push_row(&mut rows, &[key, value]);
                    BatchEntry::Prepared(self.prepare(&write, &options, began).await?)
                }
                1 => {
                    push_row(&mut rows, &[value, key]);
                    BatchEntry::Prepared(self.prepare(&reordered, &options, began).await?)
                }
                _ => {
                    push_row(&mut rows, &[]);
                    BatchEntry::Text(literal_write(key, value))
                }
            });
        }
        let _permit = self.admitted(&write, &rows, &options, began).await?;
        let kind = if is_logged(value) { BatchKind::Logged } else { BatchKind::Unlogged };
        let session = &self.0.session;
        session.batch(kind, entries, rows, &options, Some(began)).await.map(|_| Outcome::Written)
    }

    /// Reads a key from one node.
    pub(super) async fn read_from(
        &self,
        node: usize,
        limit: Duration,
        text: &str,
    ) -> Result<Outcome, EngineError> {
        let at = self.0.cluster.address(node);
        let nodes = self.0.session.nodes();
        let host_id = nodes.iter().find(|node| node.address == at).map(|node| node.host_id);
        let near = host_id.map(|host_id| Near::Node { host_id, shard: None });
        let options = RequestOptions { near, timeout: Some(Some(limit)), ..options(None) };
        let began = std::time::Instant::now();
        let prepared = self.prepare(text, &options, began).await?;
        let response = self.send(&prepared, &row(&[0]), &options, began).await?;
        Ok(Outcome::Read(value_of(&response, 0)))
    }

    /// Writes the rows of a bulk. Each row is a call in the history. Returns whether all rows
    /// succeeded.
    pub(super) async fn write_rows(&self, key: i64, variant: u64) -> bool {
        let row_count = if variant == 0 { 1 } else { ROWS };
        // A row waits for the rows before it, so the limit grows with the number of rows.
        let limit = match row_count {
            1 => LIMIT * 2 + PATIENCE,
            _ => (LIMIT * 2 + PATIENCE) * (ROWS as u32 / CONCURRENCY as u32),
        };
        let mut rows = RowBuffer::new();
        let mut numbers = Vec::new();
        for index in 0..row_count {
            let key = (key + index) % (LAST_KEY + 1);
            let (number, value) = self.begin(Action::Row, key, limit);
            push_row(&mut rows, &[key, value]);
            numbers.push(number);
        }
        let text = format!("{WRITE} /* {variant:x} */");
        let options = options(Some(true));
        let prepared = match self.prepare(&text, &options, std::time::Instant::now()).await {
            Ok(prepared) => prepared,
            Err(error) => {
                numbers.iter().for_each(|number| _ = self.end(*number, Err(error.clone())));
                return false;
            }
        };
        let plan = BulkPlan {
            prepared,
            options,
            concurrency: CONCURRENCY,
            max_failures: usize::MAX,
            failures: Arc::default(),
            keep_results: false,
            pace: Pace { adaptive: true, ..Pace::default() },
            batches: None,
            patience: PATIENCE,
            progress: None,
            table: WrittenTable { key: vec![0], ..WrittenTable::default() },
        };
        let (completed, outcome) = oneshot::channel();
        let events = Box::new(Events(completed));
        let bulk = Bulk::start(&self.0.runtime, self.0.session.clone(), plan, events);
        bulk.push(rows, RowNumbers::From(0));
        bulk.finish();
        let Ok(outcome) = outcome.await else { return false };
        let failed_count = outcome.failed.len();
        let mut failed: HashMap<u64, EngineError> = outcome.failed.into_iter().collect();
        if failed.len() < failed_count {
            self.lock().broken.push("a row of a bulk ended twice".into());
        }
        let ended = outcome.succeeded + failed_count as u64;
        if ended != row_count as u64 {
            self.lock().broken.push(format!("a bulk of {row_count} rows counts {ended} as ended"));
        }
        let mut all = true;
        for (index, number) in numbers.into_iter().enumerate() {
            let ended = failed.remove(&(index as u64)).map_or(Ok(Outcome::Written), Err);
            all &= self.end(number, ended);
        }
        all
    }
}

struct Events(oneshot::Sender<BulkOutcome>);

impl BulkEvents for Events {
    fn wants_more(&self) {}

    fn completed(self: Box<Self>, outcome: BulkOutcome) {
        let _ = self.0.send(outcome);
    }
}

fn options(idempotent: Option<bool>) -> RequestOptions {
    RequestOptions { timeout: Some(Some(LIMIT)), idempotent, ..Default::default() }
}

fn row(values: &[i64]) -> RowBuffer {
    let mut rows = RowBuffer::new();
    push_row(&mut rows, values);
    rows
}

fn push_row(rows: &mut RowBuffer, values: &[i64]) {
    values.iter().for_each(|value| rows.push_value(&value.to_be_bytes()));
    rows.finish_row();
}

/// Returns the cells of a response, row after row.
fn cells(response: &Response) -> Vec<Option<Vec<u8>>> {
    let page = response.page.as_ref().expect("the response has rows");
    let mut cells = page.cells().expect("a page of the model is well formed");
    let count = page.row_count * page.columns.len();
    let next = |_| cells.next_cell().expect("a cell of the model is well formed");
    (0..count).map(next).map(|cell| cell.map(<[u8]>::to_vec)).collect()
}

fn bigint(cells: &[Option<Vec<u8>>], index: usize) -> i64 {
    i64::from_be_bytes(cells[index].as_deref().unwrap().try_into().unwrap())
}

/// Returns the value of a key from the response to a read. Panics if the response belongs to a read
/// of another key. The panic ends the run with a report.
fn value_of(response: &Response, key: i64) -> Option<i64> {
    let cells = cells(response);
    if cells.is_empty() {
        return None;
    }
    assert_eq!(bigint(&cells, 0), key, "the response is that of another read");
    Some(bigint(&cells, 1))
}
