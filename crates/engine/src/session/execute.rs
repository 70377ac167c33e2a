//! Executes CQL texts, and prepared statements with one row of values each.

use scylla::response::PagingStateResponse;
use scylla::statement::unprepared::Statement;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::attempts::Attempts;
use crate::error::effect::{Effect, has_condition, is_one_of, text_after_comments};
use crate::error::{EngineError, ErrorKind, shown};
use crate::request::limit::{limit_of_steps, to_the_end};
use crate::request::subject::{Subject, Text};
use crate::session::answer::answered;
use crate::session::condition::delay_before_conditional_write;
use crate::session::{Request, Session};
use crate::statement::nulls::null_of;
use crate::statement::{Prepared, RequestOptions, has_steps, kind_of};
use crate::telemetry::counters::RequestKind;
use crate::telemetry::events::{Event, Field};
use crate::terms::{PagingState, Response};

/// Executes a prepared statement, like [`Session::execute`]. The attempts are recorded in
/// `attempts`, which can be used again afterwards.
pub(crate) async fn execute(
    request: &Request<'_>,
    paging: Option<PagingState>,
    attempts: &mut Arc<Attempts>,
) -> Result<Response, EngineError> {
    let result = execute_uncounted(request, paging, attempts).await;
    let &Request { session, prepared, row, options, began } = request;
    count_result(session, &result);
    attempts.ended(&result, |event| {
        let event = reported(session, event, attempts, options, began, &result)
            .text("statement", shown(prepared.text()))
            .int("sent_bytes", row.byte_len());
        match (prepared.keyspace(), prepared.table()) {
            (Some(keyspace), Some(table)) => event.text("keyspace", keyspace).text("table", table),
            _ => event,
        }
    });
    result
}

/// Counts the rows and the page of a response.
pub(super) fn count_result(session: &Session, result: &Result<Response, EngineError>) {
    if let Ok(Response { page: Some(page), .. }) = result {
        let telemetry = session.telemetry();
        telemetry.pages.fetch_add(1, Ordering::Relaxed);
        telemetry.rows.fetch_add(page.row_count as u64, Ordering::Relaxed);
    }
}

/// Reports a call that has ended before its request was sent, if the session's events include it.
/// `text` is empty for a batch.
pub(super) fn report_unsent(
    session: &Session,
    text: &str,
    prepared: Option<&Prepared>,
    options: &RequestOptions,
    began: Instant,
    error: &EngineError,
) {
    let events = &session.telemetry().events;
    // A request's duration counts from the time at which it is sent, so here it is zero.
    let Some((name, left_out)) = events.wants(Duration::ZERO, true) else { return };
    let effect = Effect::of(text);
    let kind = if text.is_empty() { RequestKind::Batch } else { kind_of(text, effect) };
    let attempts = Attempts::new(effect);
    let (error_kind, code) = error.counted_as();
    let mut event = Event::new(name, None)
        .text("kind", kind.name())
        .seconds("duration_s", Duration::ZERO)
        .int("left_out", left_out as usize)
        .text("error_kind", error_kind);
    event.fields.extend(code.map(|code| ("error_code", Field::Int(i64::from(code)))));
    event.fields.push(("attempts", Field::Attempts(Vec::new())));
    event = reported(session, event, &attempts, options, Some(began), &Err(error.clone()));
    event = event.text("statement", shown(text));
    if let Some((keyspace, table)) =
        prepared.and_then(|prepared| prepared.keyspace().zip(prepared.table()))
    {
        event = event.text("keyspace", keyspace).text("table", table);
    }
    events.push(event);
}

/// Adds to `event` the fields that the reports of all requests have.
pub(super) fn reported(
    session: &Session,
    mut event: Event,
    attempts: &Attempts,
    options: &RequestOptions,
    began: Option<Instant>,
    result: &Result<Response, EngineError>,
) -> Event {
    let waited = began.map(|began| began.elapsed().saturating_sub(attempts.elapsed()));
    event = event.seconds("waited_s", waited.unwrap_or_default());
    let profile = session.0.profiles.of(options.profile.as_deref());
    let consistency = options.consistency.unwrap_or(profile.consistency);
    event = event
        .text("consistency", consistency.to_string())
        .flag("idempotent", options.idempotent.unwrap_or(attempts.effect() == Effect::Reads));
    if let Some(profile) = &options.profile {
        event = event.text("profile", &**profile);
    }
    if let Ok(Response { page: Some(page), .. }) = result {
        event = event.int("rows", page.row_count).int("received_bytes", page.rows.len());
    }
    event.origin.clone_from(&options.origin);
    event
}

async fn execute_uncounted(
    request: &Request<'_>,
    paging: Option<PagingState>,
    attempts: &mut Arc<Attempts>,
) -> Result<Response, EngineError> {
    let &Request { session, prepared, row: rows, options, began } = request;
    let (Some(row), 1) = (rows.row(0), rows.len()) else {
        let message = format!("executing: expected one row of values, got {}", rows.len());
        return Err(EngineError::new(ErrorKind::Encode, message));
    };
    let mut bound = prepared.bind(row, options, &session.0.profiles, attempts)?;
    attempts.describe(
        options.origin.as_ref(),
        prepared.text(),
        prepared.keyspace(),
        prepared.table(),
    );
    if options.near.is_some() || prepared.has_condition {
        let routes = session.0.profiles.routes(options.profile.as_deref());
        let policy = match &options.near {
            Some(near) => routes.near(near),
            None => routes.conditional(),
        };
        bound.set_load_balancing_policy(Some(policy));
    }
    let paging = paging.or_else(|| options.paging.clone());
    if paging.is_some() && !prepared.has_result() {
        let message = "executing: a statement without a result takes no paging state";
        return Err(EngineError::new(ErrorKind::Config, message));
    }
    let time_left =
        began.map(|began| session.time_left("executing", options, began)).transpose()?.flatten();
    if let Some(time_left) = time_left {
        bound.set_request_timeout(Some(time_left.remaining));
    }
    let subject =
        Subject { doing: "executing", text: Text::One(prepared.text()), time_left, options };
    let engine = &session.0.engine;
    if prepared.has_condition {
        Box::pin(delay_before_conditional_write(session)).await;
    }
    // A statement without a result needs no page size, and the frame is smaller without it.
    let paged = paging.is_some() || prepared.has_result();
    let page_size = page_size(session, options, &paging)?.filter(|_| paged);
    if prepared.has_steps {
        // The clone keeps `work` from borrowing the caller's `attempts`.
        let attempts = Arc::clone(attempts);
        let work = async {
            let answer = engine.execute_bound_unpaged(&bound).await;
            let answer = answer.map(|result| (result, PagingStateResponse::NoMorePages));
            answered(session, &subject, answer, &attempts, &prepared.recent)
        };
        let limit = limit_of_steps(options, time_left);
        return Box::pin(to_the_end(&subject, limit, session, &attempts, work)).await;
    }
    let answer = match page_size {
        Some(page_size) => {
            bound.set_page_size(page_size);
            engine.execute_bound_single_page(&bound, start(paging)).await
        }
        None => engine
            .execute_bound_unpaged(&bound)
            .await
            .map(|result| (result, PagingStateResponse::NoMorePages)),
    };
    prepared.note(&answer);
    let answered = answered(session, &subject, answer, attempts, &prepared.recent);
    answered.map_err(|error| {
        let null = null_of(prepared.markers(), row, &error, session.0.hides);
        null.map_or_else(|| error.clone(), |null| error.clone().explained(&null))
    })
}

pub(super) async fn query(
    session: &Session,
    doing: &str,
    text: &str,
    options: &RequestOptions,
    paging: Option<PagingState>,
    began: Option<Instant>,
) -> Result<Response, EngineError> {
    let effect = Effect::of(text);
    let attempts = Attempts::counted(session.telemetry(), effect, kind_of(text, effect));
    attempts.describe(options.origin.as_ref(), text, None, None);
    let asked = Asked { doing, text, options, began };
    let result = query_uncounted(session, asked, paging, &attempts).await;
    count_result(session, &result);
    attempts.ended(&result, |event| {
        reported(session, event, &attempts, options, began, &result).text("statement", shown(text))
    });
    result
}

/// The arguments of [`query`].
struct Asked<'a> {
    doing: &'a str,
    text: &'a str,
    options: &'a RequestOptions,
    began: Option<Instant>,
}

async fn query_uncounted(
    session: &Session,
    Asked { doing, text, options, began }: Asked<'_>,
    paging: Option<PagingState>,
    attempts: &Arc<Attempts>,
) -> Result<Response, EngineError> {
    let is_use = is_one_of(text, &["USE"]);
    // The ScyllaDB driver recognizes a `USE` only if the text begins with this word
    // (`edits/use.patch`).
    let mut statement = Statement::new(if is_use { text_after_comments(text) } else { text });
    let paging = paging.or_else(|| options.paging.clone());
    if attempts.effect() == Effect::Staged {
        let retry = session.0.profiles.default.retry;
        statement.set_retry_policy(Some(retry.careful(Effect::Staged)));
    } else {
        statement.set_serial_consistency(None);
    }
    options.apply(&mut statement, attempts, &session.0.profiles)?;
    if let Some(near) = &options.near {
        let routes = session.0.profiles.routes(options.profile.as_deref());
        statement.set_load_balancing_policy(Some(routes.near(near)));
    }
    let time_left =
        began.map(|began| session.time_left(doing, options, began)).transpose()?.flatten();
    if let Some(time_left) = time_left {
        statement.set_request_timeout(Some(time_left.remaining));
    }
    let engine = &session.0.engine;
    let page_size = page_size(session, options, &paging)?;
    let subject = Subject { doing, text: Text::One(text), time_left, options };
    if has_condition(text) {
        delay_before_conditional_write(session).await;
    }
    let work = async {
        let _alone = if is_use { Some(session.0.using.lock().await) } else { None };
        let answer = match page_size {
            Some(page_size) => {
                statement.set_page_size(page_size);
                engine.query_single_page(statement, (), start(paging)).await
            }
            None => engine
                .query_unpaged(statement, ())
                .await
                .map(|result| (result, PagingStateResponse::NoMorePages)),
        };
        answered(session, &subject, answer, attempts, &session.0.recent)
    };
    let response = if is_use {
        let limit =
            time_left.map(|time_left| time_left.remaining).or_else(|| session.limit(options));
        to_the_end(&subject, limit, session, attempts, work).await
    } else if has_steps(text) {
        to_the_end(&subject, limit_of_steps(options, time_left), session, attempts, work).await
    } else {
        work.await
    };
    note_keyspace(session);
    response
}

/// Returns the number of rows per page, or `None` if paging is off.
fn page_size(
    session: &Session,
    options: &RequestOptions,
    paging: &Option<PagingState>,
) -> Result<Option<i32>, EngineError> {
    let size = Some(options.page_size.unwrap_or(session.0.page_size)).filter(|&size| size > 0);
    if size.is_none() && paging.is_some() {
        let message = "executing: a paging state requires a page size above 0";
        return Err(EngineError::new(ErrorKind::Config, message));
    }
    Ok(size)
}

/// Copies the ScyllaDB driver's keyspace to `session`. A `USE` that is executed as a text changes
/// the driver's keyspace.
pub(super) fn note_keyspace(session: &Session) {
    let Some(theirs) = session.0.engine.get_keyspace() else { return };
    let mut ours = session.0.keyspace.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if ours.as_deref() != Some(theirs.as_str()) {
        *ours = Some(theirs.as_str().to_owned());
    }
}

fn start(paging: Option<PagingState>) -> scylla::response::PagingState {
    paging.map_or_else(scylla::response::PagingState::start, PagingState::into_engine)
}
