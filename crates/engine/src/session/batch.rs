//! Executes batches: several statements in one request.

use std::sync::Arc;
use std::time::Instant;

use scylla::response::PagingStateResponse;
use scylla::statement::batch::{Batch, BatchStatement};
use turbocql_codec::RowBuffer;

use crate::error::attempts::Attempts;
use crate::error::effect::{Effect, has_condition};
use crate::error::{EngineError, ErrorKind, shown};
use crate::request::subject::{Subject, Text};
use crate::session::Session;
use crate::session::answer::answered;
use crate::session::condition::delay_before_conditional_write;
use crate::session::execute::{count_result, reported};
use crate::statement::seam::BatchRows;
use crate::statement::{BatchEntry, BatchKind, RequestOptions};
use crate::telemetry::counters::RequestKind;
use crate::terms::Response;

/// Executes a batch. Row `i` of `values` belongs to statement `i`; for a statement that is a text,
/// this row is empty. The batch is routed by the partition key of the first statement. If the call
/// first waited for the gate to admit the request, or prepared statements, `began` is the time at
/// which the call began.
pub(super) async fn batch(
    session: &Session,
    kind: BatchKind,
    statements: Vec<BatchEntry>,
    values: RowBuffer,
    options: &RequestOptions,
    began: Option<Instant>,
) -> Result<Response, EngineError> {
    check_batch(&statements, &values)?;
    let effect = batch_effect(kind, &statements, &values);
    let attempts = Attempts::counted(session.telemetry(), effect, RequestKind::Batch);
    let first = statements.first().map_or("", BatchEntry::text);
    attempts.describe(options.origin.as_ref(), first, None, None);
    let size = values.byte_len();
    let result =
        batch_uncounted(session, kind, &statements, values, options, began, &attempts).await;
    count_result(session, &result);
    attempts.ended(&result, |event| {
        let event = reported(session, event, &attempts, options, began, &result)
            .int("statements", statements.len())
            .int("sent_bytes", size);
        match statements.first() {
            Some(first) => event.text("statement", shown(first.text())),
            None => event,
        }
    });
    result
}

async fn batch_uncounted(
    session: &Session,
    kind: BatchKind,
    statements: &[BatchEntry],
    values: RowBuffer,
    options: &RequestOptions,
    began: Option<Instant>,
    attempts: &Arc<Attempts>,
) -> Result<Response, EngineError> {
    for statement in statements {
        if let BatchEntry::Prepared(prepared) = statement {
            prepared.check()?;
        }
    }
    let doing = format!(
        "executing a batch of {} statements with {} bytes of values",
        statements.len(),
        values.byte_len()
    );
    let time_left =
        began.map(|began| session.time_left(&doing, options, began)).transpose()?.flatten();
    let driver_statements = statements.iter().map(|statement| match statement {
        BatchEntry::Prepared(prepared) => BatchStatement::from(prepared.handle()),
        BatchEntry::Text(text) => BatchStatement::from(text.as_str()),
    });
    let mut batch = Batch::new_with_statements(kind.into_engine(), driver_statements.collect());
    batch.set_retry_policy(Some(session.profiles().default.retry.careful(attempts.effect())));
    options.apply(&mut batch, attempts, session.profiles())?;
    let doubles_lists = |statement: &BatchEntry| match statement {
        BatchEntry::Prepared(prepared) => prepared.doubles_lists(options),
        BatchEntry::Text(_) => false,
    };
    if statements.iter().any(doubles_lists) {
        batch.set_is_idempotent(false);
    }
    if let Some(time_left) = time_left {
        batch.set_request_timeout(Some(time_left.remaining));
    }
    let conditions = statements.iter().any(|statement| match statement {
        BatchEntry::Prepared(prepared) => prepared.has_condition,
        BatchEntry::Text(text) => has_condition(text),
    });
    if conditions {
        let routes = session.profiles().routes(options.profile.as_deref());
        batch.set_load_balancing_policy(Some(routes.conditional()));
        delay_before_conditional_write(session).await;
    }
    if let Some(near) = &options.near {
        let routes = session.profiles().routes(options.profile.as_deref());
        batch.set_load_balancing_policy(Some(routes.near(near)));
    }
    let answer = session.engine().batch(&batch, BatchRows(values)).await;
    let answer = answer.map(|result| (result, PagingStateResponse::NoMorePages));
    for statement in statements {
        if let BatchEntry::Prepared(prepared) = statement {
            prepared.note(&answer);
        }
    }
    let subject = Subject { doing: &doing, text: Text::Batch(statements), time_left, options };
    answered(session, &subject, answer, attempts, session.recent())
}

/// The [`Effect`] of a batch. An unlogged batch whose statements all write to one partition is one
/// write. With several partitions, some may have been written before the server refuses the batch.
fn batch_effect(kind: BatchKind, statements: &[BatchEntry], values: &RowBuffer) -> Effect {
    let effects = || {
        statements.iter().map(|statement| match statement {
            BatchEntry::Prepared(prepared) => prepared.effect,
            BatchEntry::Text(text) => Effect::of(text),
        })
    };
    match kind {
        BatchKind::Counter => Effect::Staged,
        _ if effects().any(|effect| effect == Effect::Staged) => Effect::Staged,
        BatchKind::Logged => Effect::Logged,
        BatchKind::Unlogged if statements.len() == 1 => Effect::Writes,
        BatchKind::Unlogged if one_partition(statements, values) => Effect::Writes,
        BatchKind::Unlogged => Effect::Staged,
    }
}

/// Whether all statements are prepared, and write to the same partition key in the same keyspace.
fn one_partition(statements: &[BatchEntry], values: &RowBuffer) -> bool {
    let mut first = None;
    statements.iter().zip(values.rows()).all(|(statement, row)| {
        let BatchEntry::Prepared(prepared) = statement else { return false };
        let key = prepared.partition_key();
        if key.is_empty() {
            return false;
        }
        let key = || key.iter().map(move |&at| row.cells().nth(at));
        let (keyspace, expected) =
            first.get_or_insert_with(|| (prepared.keyspace(), key().collect::<Vec<_>>()));
        *keyspace == prepared.keyspace() && key().eq(expected.iter().copied())
    })
}

/// Checks that each statement has a row with the right number of values. A text must have no
/// values, because the ScyllaDB driver would prepare a text with values again for every batch.
fn check_batch(statements: &[BatchEntry], values: &RowBuffer) -> Result<(), EngineError> {
    let refuse = |message| Err(EngineError::new(ErrorKind::Encode, message));
    if statements.len() != values.len() {
        let (statements, rows) = (statements.len(), values.len());
        return refuse(format!("batch: {statements} statements, but {rows} rows of values"));
    }
    for (i, (statement, row)) in statements.iter().zip(values.rows()).enumerate() {
        let expected = match statement {
            BatchEntry::Prepared(prepared) => prepared.markers().len(),
            BatchEntry::Text(_) => 0,
        };
        if expected != row.len() {
            let got = row.len();
            return refuse(format!("batch: statement {i}: expected {expected} values, got {got}"));
        }
    }
    Ok(())
}
