//! Sends the rows of a bulk: each in a request of its own, or the rows of one partition in a batch.

use std::sync::Arc;
use std::time::Instant;

use scylla::statement::batch::{Batch, BatchType};
use turbocql_codec::{Cell, RowBuffer, RowRef};

use super::intake::RequestRows;
use super::written_table::{
    Claims, ListState, Lists, Time, Times, WrittenList, WrittenTable, changed, compare, part_of,
    time_of,
};
use super::{BulkOutcome, Progress};
use crate::error::attempts::Attempts;
use crate::error::{EngineError, ErrorKind, shown};
use crate::request::subject::{Subject, Text};
use crate::session::{Session, delay_before_conditional_write, failed, unreadable};
use crate::statement::seam::{BatchRows, response};
use crate::statement::{Prepared, RequestOptions};
use crate::telemetry::counters::RequestKind;
use crate::telemetry::events::Event;
use crate::terms::{Consistency, Response};

/// The parts that the requests of all rows share.
pub(super) struct Request {
    pub(super) session: Session,
    pub(super) prepared: Arc<Prepared>,
    pub(super) options: RequestOptions,
    pub(super) keep_results: bool,
    pub(super) table: WrittenTable,
    /// Set if two requests must not write one row at the same time.
    pub(super) claims: Option<Arc<Claims>>,
}

impl Request {
    pub(super) async fn send(
        self: Arc<Self>,
        mut rows: RequestRows,
    ) -> Result<Option<Response>, EngineError> {
        let (session, options) = (&self.session, &self.options);
        let began = Instant::now();
        let (position, text) = (session.gate().join_queue(), self.prepared.text());
        let mut permit = session.admitted(position, text, options, began).await?;
        rows.admitted();
        permit.weigh(rows.bytes());
        let counted = self.counted(&rows);
        if rows.len() > 1 {
            return self.send_batch(rows, counted, began).await;
        }
        let mut attempts = Attempts::idle();
        let gone = || EngineError::new(ErrorKind::Internal, "executing: the row is gone");
        let values = rows.row(0).ok_or_else(gone)?;
        let adjusted_row;
        let (values, time) =
            match self.adjusted_to_stored_lists(values, rows.attempt(), began).await? {
                Some(Sent { row, time }) => {
                    adjusted_row = row;
                    (adjusted_row.row(0).ok_or_else(gone)?, time)
                }
                None => (values, counted),
            };
        let mut bound = self.prepared.bind(values, options, session.profiles(), &mut attempts)?;
        drop(rows);
        if time.is_some() {
            bound.set_timestamp(time);
        }
        let time_left = session.time_left("executing", options, began)?;
        if let Some(time_left) = time_left {
            bound.set_request_timeout(Some(time_left.remaining));
        }
        if self.prepared.has_condition {
            let routes = session.profiles().routes(options.profile.as_deref());
            bound.set_load_balancing_policy(Some(routes.conditional()));
            delay_before_conditional_write(session).await;
        }
        let answer = session.engine().execute_bound_unpaged(&bound).await;
        self.prepared.note(&answer);
        let subject = Subject { doing: "executing", text: Text::One(text), time_left, options };
        let result = answer.map_err(|error| failed(session, &subject, error, &attempts));
        attempts.part_ended(&result, |event| self.reported(event, 1));
        let result = result?;
        if !self.keep_results {
            return Ok(None);
        }
        let response = response(result, None, &self.prepared.recent);
        response.map(Some).map_err(|error| unreadable(session, &subject, error, &attempts))
    }

    /// Returns the write time of a request's rows if the times are [`Times::Counted`].
    fn counted(&self, rows: &RequestRows) -> Option<i64> {
        let Some(Lists { times: Times::Counted(first), .. }) = &self.table.lists else {
            return None;
        };
        let number = rows.rows().map(|(number, _)| number).max()?;
        Some(rows.time_from(first.saturating_add(number as i64)))
    }

    /// If the caller has chosen the write times, compares the row's lists with the stored lists,
    /// and returns a changed row to send. In that row, lists that are stored already are unset. Its
    /// write time is increased until no different list is stored with that time. Returns `None` if
    /// the caller has not chosen the write times.
    async fn adjusted_to_stored_lists(
        &self,
        row: RowRef<'_>,
        attempt: i64,
        began: Instant,
    ) -> Result<Option<Sent>, EngineError> {
        let Some(Lists { times: Times::Chosen { time, reads }, .. }) = &self.table.lists else {
            return Ok(None);
        };
        let Some(first) = time_of(*time, row) else { return Ok(None) };
        let options = RequestOptions { timestamp: None, ..self.options.clone() };
        let options = RequestOptions { consistency: readable(options.consistency), ..options };
        let row_cells: Vec<Cell<'_>> = row.cells().collect();
        let (mut unset, mut lists) = (Vec::new(), Vec::<WrittenList<'_>>::new());
        for read in reads {
            let is_set = |marker: usize| !matches!(row_cells.get(marker), Some(Cell::Unset) | None);
            if !read.lists.iter().any(|&marker| is_set(marker)) {
                continue;
            }
            let key = part_of(row, &read.key);
            let time_left = self.session.time_left("reading lists", &options, began)?;
            let options = RequestOptions {
                timeout: time_left.map(|time_left| Some(time_left.remaining)).or(options.timeout),
                ..options.clone()
            };
            let response = self.session.execute(&read.prepared, &key, &options, None).await?;
            let Some(page) = response.page.filter(|page| page.row_count > 0) else { continue };
            let unreadable =
                |_| EngineError::new(ErrorKind::Decode, "reading lists: not the bytes of lists");
            let mut cells = page.cells().map_err(unreadable)?;
            for &marker in &read.lists {
                let stored = cells.next_cell().map_err(unreadable)?.map(<[u8]>::to_vec);
                let times = cells.next_cell().map_err(unreadable)?.map(<[u8]>::to_vec);
                let written = match row_cells.get(marker) {
                    Some(Cell::Value(bytes)) => Some(*bytes),
                    Some(Cell::Null) => None,
                    Some(Cell::Unset) | None => continue,
                };
                lists.push(WrittenList { marker, written, stored, times });
            }
        }
        // An earlier attempt may still be carried out, so each attempt begins with a later time.
        let mut time_now = first.saturating_add(attempt);
        'times: loop {
            unset.clear();
            for list in &lists {
                let (stored, times) = (list.stored.as_deref(), list.times.as_deref());
                match compare(list.written, time_now, stored, times) {
                    Some(ListState::Free) => {}
                    Some(ListState::Same) => unset.push(list.marker),
                    Some(ListState::Conflict) if time_now < i64::MAX => {
                        time_now += 1;
                        continue 'times;
                    }
                    Some(ListState::Conflict) | None => {
                        let name =
                            self.prepared.markers().get(list.marker).map(|column| &*column.name);
                        let message = format!(
                            "column \"{}\": expected a write time that is left for a list, got \
                             {time_now}",
                            name.unwrap_or_default()
                        );
                        return Err(EngineError::new(ErrorKind::Encode, message));
                    }
                }
            }
            break;
        }
        Ok(Some(match *time {
            Time::Constant(_) => Sent { row: changed(row, &unset, None), time: Some(time_now) },
            Time::Marker(marker) => {
                Sent { row: changed(row, &unset, Some((marker, time_now))), time: None }
            }
        }))
    }

    /// Sends rows of one partition as an unlogged batch, which is retried like a single write.
    async fn send_batch(
        &self,
        rows: RequestRows,
        time: Option<i64>,
        began: Instant,
    ) -> Result<Option<Response>, EngineError> {
        let (session, options, prepared) = (&self.session, &self.options, &self.prepared);
        prepared.check()?;
        let statements = (0..rows.len()).map(|_| prepared.handle().into()).collect();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        let count = rows.len();
        let attempts = Attempts::counted(session.telemetry(), prepared.effect, RequestKind::Batch);
        options.apply(&mut batch, &attempts, session.profiles())?;
        if time.is_some() {
            batch.set_timestamp(time);
        }
        let doing = "executing rows of one partition in a batch";
        let time_left = session.time_left(doing, options, began)?;
        if let Some(time_left) = time_left {
            batch.set_request_timeout(Some(time_left.remaining));
        }
        let answer = if self.table.statics.is_empty() {
            session.engine().batch(&batch, BatchRows(rows)).await
        } else {
            session.engine().batch(&batch, BatchRows(self.with_statics_once(&rows))).await
        };
        prepared.note(&answer);
        let subject = Subject { doing, text: Text::One(prepared.text()), time_left, options };
        let result =
            answer.map(|_| None).map_err(|error| failed(session, &subject, error, &attempts));
        attempts.part_ended(&result, |event| self.reported(event, count));
        result
    }

    /// Adds the statement, its table, the consistency and the number of rows to the event that
    /// reports a request or the whole bulk.
    fn reported(&self, mut event: Event, rows: usize) -> Event {
        let profile = self.session.profiles().of(self.options.profile.as_deref());
        let consistency = self.options.consistency.unwrap_or(profile.consistency);
        event.origin.clone_from(&self.options.origin);
        event = event
            .flag("bulk", true)
            .int("statements", rows)
            .text("statement", shown(self.prepared.text()))
            .text("consistency", consistency.to_string());
        match (self.prepared.keyspace(), self.prepared.table()) {
            (Some(keyspace), Some(table)) => event.text("keyspace", keyspace).text("table", table),
            _ => event,
        }
    }

    /// Reports the whole bulk, which began at `began`, if all requests are to be reported.
    fn report(&self, began: Instant, end: &End) {
        let events = &self.session.telemetry().events;
        if !events.wants_every() {
            return;
        }
        let failed = usize::try_from(end.failed).unwrap_or(usize::MAX);
        let rows = usize::try_from(end.succeeded).unwrap_or(usize::MAX).saturating_add(failed);
        let event = Event::new("bulk", None)
            .text("kind", self.prepared.kind.name())
            .seconds("duration_s", began.elapsed())
            .int("failed", failed)
            .flag("stopped", end.stopped)
            .flag("canceled", end.canceled);
        events.push(self.reported(event, rows));
    }

    /// Returns the rows of a batch, with the values of static columns only in the first row. These
    /// values are equal in all rows. A static list in every row would be written several times with
    /// one write time, and would then contain its elements several times.
    fn with_statics_once(&self, rows: &RequestRows) -> RowBuffer {
        let mut once = RowBuffer::with_capacity(rows.bytes(), rows.len());
        for (nth, row) in (0..rows.len()).filter_map(|nth| Some((nth, rows.row(nth)?))) {
            if nth == 0 {
                once.push_row(row);
            } else if let Some(row) = changed(row, &self.table.statics, None).row(0) {
                once.push_row(row);
            }
        }
        once
    }
}

/// A row to send. `time` is its write time, or `None` if one of the row's cells contains the write
/// time.
struct Sent {
    row: RowBuffer,
    time: Option<i64>,
}

/// Returns a consistency for reads: `ANY`, which is only for writes, becomes `ONE`.
pub(super) fn readable(consistency: Option<Consistency>) -> Option<Consistency> {
    consistency.map(
        |consistency| if consistency == Consistency::Any { Consistency::One } else { consistency },
    )
}

/// How a bulk has ended.
#[derive(Default)]
struct End {
    succeeded: u64,
    failed: u64,
    stopped: bool,
    canceled: bool,
}

/// Reports a bulk at its end, or when the bulk is dropped before its end.
pub(super) struct Reporting {
    pub(super) request: Arc<Request>,
    pub(super) began: Instant,
    /// Has the counts to report if the bulk is dropped before its end. If it is `None`, zero rows
    /// are reported.
    pub(super) progress: Option<Arc<Progress>>,
    pub(super) has_ended: bool,
}

impl Reporting {
    pub(super) fn ended(mut self, outcome: &BulkOutcome) {
        self.has_ended = true;
        let (succeeded, failed) = (outcome.succeeded, outcome.failed.len() as u64);
        let end = End { succeeded, failed, stopped: outcome.stopped, canceled: false };
        self.request.report(self.began, &end);
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        if !self.has_ended {
            let counts = self.progress.as_ref().map(|progress| progress.snapshot());
            let (succeeded, failed) =
                counts.map_or((0, 0), |counts| (counts.succeeded, counts.failed));
            let end = End { succeeded, failed, canceled: true, ..End::default() };
            self.request.report(self.began, &end);
        }
    }
}
