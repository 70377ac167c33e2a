//! Converts the ScyllaDB driver's answers and errors to this crate's types.

use scylla::errors::ExecutionError;
use scylla::response::PagingStateResponse;
use uuid::Uuid;

use crate::error::attempts::Attempts;
use crate::error::effect::Effect;
use crate::error::{EngineError, ErrorKind, executing};
use crate::policies::near::Near;
use crate::request::limit::{Knows, TimeLeft};
use crate::request::subject::{Subject, few};
use crate::session::Session;
use crate::statement::RequestOptions;
use crate::statement::descriptions::RecentColumns;
use crate::statement::seam;
use crate::terms::PagingState;
use crate::terms::Response;

pub(crate) type Answer = (scylla::response::query_result::QueryResult, PagingStateResponse);

/// Converts the ScyllaDB driver's answer to a [`Response`], or its error to an
/// [`EngineError`].
pub(crate) fn answered(
    session: &Session,
    subject: &Subject<'_>,
    answer: Result<Answer, ExecutionError>,
    attempts: &Attempts,
    recent: &RecentColumns,
) -> Result<Response, EngineError> {
    let (result, next) = answer.map_err(|error| failed(session, subject, error, attempts))?;
    let next = match &next {
        PagingStateResponse::HasMorePages { state } => PagingState::from_engine(state),
        PagingStateResponse::NoMorePages => None,
    };
    let mut response = seam::response(result, next, recent)
        .map_err(|error| unreadable(session, subject, error, attempts))?;
    response.custom_payload = attempts.received_payload();
    Ok(response)
}

/// The error for an answer that cannot be read. The server has answered, so it may have applied the
/// request.
pub(crate) fn unreadable(
    session: &Session,
    subject: &Subject<'_>,
    error: EngineError,
    attempts: &Attempts,
) -> EngineError {
    let failure = EngineError {
        may_have_applied: attempts.effect() != Effect::Reads,
        attempts: Some(attempts.count()),
        coordinator: attempts.node().map(|node| node.to_string().into()),
        history: attempts.history(),
        ..error
    };
    subject.text.of(failure, session.hides())
}

pub(crate) fn failed(
    session: &Session,
    subject: &Subject<'_>,
    error: ExecutionError,
    attempts: &Attempts,
) -> EngineError {
    let &Subject { doing, text, time_left, options } = subject;
    let mut failure = match (&error, time_left) {
        (ExecutionError::RequestTimeout(_), Some(TimeLeft { limit, .. })) => {
            executing(doing, &ExecutionError::RequestTimeout(limit), attempts)
        }
        _ => executing(doing, &error, attempts),
    };
    match (&error, failure.kind) {
        (ExecutionError::SchemaAgreementError(_) | ExecutionError::RequestTimeout(_), _) => {
            failure.message += &session.not_answering();
        }
        (ExecutionError::EmptyPlan, _) => failure.message = excluded(session, doing, options),
        (ExecutionError::ConnectionPoolError(_), ErrorKind::Unavailable) => {
            name_unconnected(session, doing, &mut failure);
        }
        _ => {}
    }
    text.of(failure, session.hides())
}

/// Rewrites the message of `failure`, which gives only the driver's last connection error. The new
/// message names up to five unconnected nodes, and the number of the others.
pub(crate) fn name_unconnected(session: &Session, doing: &str, failure: &mut EngineError) {
    let split = failure.message.split_once("any node asked: ");
    let reasons = unconnected(session, split.map_or("", |(_, why)| why));
    if !reasons.is_empty() {
        let reasons = few(&reasons, "; ");
        failure.message = format!("{doing}: no working connection to any node: {reasons}");
    }
}

/// Returns a text `address: reason` for each node that has no connection and is allowed to have
/// one. The reason is the failure of the node's last probe. If that probe did not fail, the reason
/// is `last`, the driver's last connection error.
fn unconnected(session: &Session, last: &str) -> Vec<String> {
    let failures = session.endpoints().failures();
    let nodes = session.nodes().into_iter().filter(|node| node.enabled && !node.connected);
    let reasons = nodes.map(|node| {
        let at = session.endpoints().reached_at(node.address);
        let probe_failure = failures.iter().find(|(failed, _)| *failed == at);
        let why = probe_failure.map_or(last, |(_, why)| why);
        format!("{at}: {why}")
    });
    reasons.collect()
}

/// The message for a request that can go to no node: its target is not a node of the cluster, or
/// `rank_nodes` or the profile excludes every node.
fn excluded(session: &Session, doing: &str, options: &RequestOptions) -> String {
    if let Some(Near::Node { host_id, .. }) = &options.near {
        let host_id = Uuid::from_bytes(*host_id);
        return format!("{doing}: the target is not a node of the cluster: host id {host_id}");
    }
    let nodes = session.nodes();
    if session.profiles().ranks.exclude_all(nodes.iter().map(|node| Uuid::from_bytes(node.host_id)))
    {
        return format!("{doing}: rank_nodes excludes every node");
    }
    let balancing = &session.profiles().of(options.profile.as_deref()).balancing;
    let mut message = format!("{doing}: the profile's balancing excludes every node");
    if let Some(datacenter) = &balancing.datacenter {
        let mut datacenters: Vec<String> =
            nodes.iter().filter_map(|node| node.datacenter.clone()).collect();
        datacenters.sort_unstable();
        datacenters.dedup();
        let datacenters = few(&datacenters, ", ");
        message.push_str(&format!(
            ": its datacenter is {datacenter:?}, the cluster's are: {datacenters}"
        ));
    }
    if !balancing.allowed.is_empty() {
        let nodes: Vec<_> = nodes.iter().map(|node| node.address.to_string()).collect();
        let nodes = few(&nodes, ", ");
        let allowed: Vec<_> = balancing.allowed.iter().map(ToString::to_string).collect();
        let allowed = few(&allowed, ", ");
        message.push_str(&format!("; only {allowed} may be asked, and the nodes are: {nodes}"));
    }
    message
}
