//! Converts the ScyllaDB driver's answer to a request, or its error.

use std::borrow::Cow;

use scylla::errors::ExecutionError;
use scylla::response::PagingStateResponse;

use crate::attempts::Attempts;
use crate::descriptions::RecentColumns;
use crate::effect::Effect;
use crate::error::{EngineError, ErrorKind, executing};
use crate::limit::{Knows, Rest};
use crate::seam;
use crate::session::{Response, Session};
use crate::statement::{BatchEntry, PagingState, RequestOptions};

pub(crate) type Answer = (scylla::response::query_result::QueryResult, PagingStateResponse);

/// What is said in the error of a request.
pub(crate) struct Said<'a> {
    pub(crate) doing: &'a str,
    pub(crate) text: Text<'a>,
    pub(crate) rest: Option<Rest>,
    pub(crate) options: &'a RequestOptions,
}

/// The text of a request.
#[derive(Clone, Copy)]
pub(crate) enum Text<'a> {
    One(&'a str),
    Batch(&'a [BatchEntry]),
}

impl<'a> Text<'a> {
    /// The text, or the first of a batch, for messages.
    pub(crate) fn first(self) -> &'a str {
        match self {
            Text::One(text) => text,
            Text::Batch(statements) => statements.first().map_or("", BatchEntry::text),
        }
    }

    /// The text, with all statements of a batch.
    fn all(self) -> Cow<'a, str> {
        match self {
            Text::One(text) => Cow::Borrowed(text),
            Text::Batch(statements) => {
                let texts: Vec<_> = statements.iter().map(BatchEntry::text).collect();
                Cow::Owned(texts.join("; "))
            }
        }
    }

    /// Adds the text to an error. Literals of all statements are removed.
    pub(crate) fn of(self, error: EngineError, hides: bool) -> EngineError {
        error.without(&self.all(), hides).naming(self.first())
    }
}

impl Session {
    /// Converts the ScyllaDB driver's answer to a [`Response`], or its error to an
    /// [`EngineError`].
    pub(crate) fn answered(
        &self,
        said: &Said<'_>,
        answer: Result<Answer, ExecutionError>,
        attempts: &Attempts,
        recent: &RecentColumns,
    ) -> Result<Response, EngineError> {
        let (result, next) = answer.map_err(|error| self.failed(said, error, attempts))?;
        let next = match &next {
            PagingStateResponse::HasMorePages { state } => PagingState::from_engine(state),
            PagingStateResponse::NoMorePages => None,
        };
        seam::response(result, next, recent).map_err(|error| self.unreadable(said, error, attempts))
    }

    /// The failure for an answer that cannot be read. The server has answered, so it may have
    /// applied the request.
    pub(crate) fn unreadable(
        &self,
        said: &Said<'_>,
        error: EngineError,
        attempts: &Attempts,
    ) -> EngineError {
        let told = EngineError {
            may_have_applied: attempts.effect() != Effect::Reads,
            attempts: Some(attempts.count()),
            coordinator: attempts.node().map(|node| node.to_string().into()),
            history: attempts.history(),
            ..error
        };
        said.text.of(told, self.hides())
    }

    pub(crate) fn failed(
        &self,
        said: &Said<'_>,
        error: ExecutionError,
        attempts: &Attempts,
    ) -> EngineError {
        let &Said { doing, text, rest, options } = said;
        let mut told = match (&error, rest) {
            (ExecutionError::RequestTimeout(_), Some(Rest { whole, .. })) => {
                executing(doing, &ExecutionError::RequestTimeout(whole), attempts)
            }
            _ => executing(doing, &error, attempts),
        };
        match (&error, told.kind) {
            (ExecutionError::SchemaAgreementError(_), _) => told.message += &self.not_answering(),
            (ExecutionError::EmptyPlan, _) => told.message = self.excluded(doing, options),
            (ExecutionError::ConnectionPoolError(_), ErrorKind::Unavailable) => {
                self.name_unconnected(doing, &mut told);
            }
            _ => {}
        }
        text.of(told, self.hides())
    }

    /// Names all nodes without a connection in an error that names the last one that was asked.
    pub(crate) fn name_unconnected(&self, doing: &str, told: &mut EngineError) {
        let asked = told.message.split_once("any node asked: ");
        let reasons = self.unconnected(asked.map_or("", |(_, why)| why));
        if !reasons.is_empty() {
            let reasons = few(&reasons, "; ");
            told.message = format!("{doing}: no working connection to any node: {reasons}");
        }
    }

    /// The nodes without a connection, with what was found when they were last greeted. For a node
    /// that has answered then, it is `last`: the driver's last error of a connection.
    fn unconnected(&self, last: &str) -> Vec<String> {
        let failures = self.doors().failures();
        let nodes = self.nodes().into_iter().filter(|node| node.enabled && !node.connected);
        let reasons = nodes.map(|node| {
            let at = self.doors().reached_at(node.address);
            let found = failures.iter().find(|(failed, _)| *failed == at);
            let why = found.map_or(last, |(_, why)| why);
            format!("{at}: {why}")
        });
        reasons.collect()
    }

    /// The message for a request that may go to no node.
    fn excluded(&self, doing: &str, options: &RequestOptions) -> String {
        let balancing = &self.profiles().of(options.profile.as_deref()).balancing;
        let mut message = format!("{doing}: the profile's balancing excludes every node");
        let nodes = self.nodes();
        if let Some(datacenter) = &balancing.datacenter {
            let mut known: Vec<String> =
                nodes.iter().filter_map(|node| node.datacenter.clone()).collect();
            known.sort_unstable();
            known.dedup();
            let known = few(&known, ", ");
            message.push_str(&format!(
                ": its datacenter is {datacenter:?}, the cluster's are: {known}"
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
}

/// The first of these texts, and how many more there are.
pub(crate) fn few(texts: &[String], between: &str) -> String {
    const SHOWN: usize = 5;
    let more = texts.len().saturating_sub(SHOWN);
    let shown = texts[..texts.len() - more].join(between);
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
