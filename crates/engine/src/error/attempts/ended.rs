//! Counts a request when it ends, and reports it if the session's events include it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Attempts, Canceled};
use crate::error::{EngineError, ErrorKind};
use crate::telemetry::counters::TimeoutPhase;
use crate::telemetry::events::{AttemptTimes, Event, Field};

/// The end of a request.
struct End {
    /// The time from the beginning of the request to the end of the attempt that succeeded.
    answered: Option<Duration>,
    /// Whether the request had several attempts.
    is_unusual: bool,
}

impl Attempts {
    /// Counts the request as canceled if it has not ended.
    pub(crate) fn close(&self) {
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        let Some(telemetry) = &self.telemetry else { return };
        let times = telemetry.events.wants_requests().then(|| self.times());
        if self.end().is_none() {
            return;
        }
        telemetry.canceled();
        let took = self.elapsed();
        let subject = self.subject.get();
        if let Some(times) = times
            && let Some((name, left_out)) = telemetry.events.wants(took, true)
            && (subject.is_some() || name == "slow request")
        {
            let mut event = Event::new(name, self.node())
                .text("kind", self.kind.name())
                .seconds("duration_s", took)
                .int("left_out", left_out as usize)
                .text("error_kind", "canceled");
            event.fields.push(("attempts", Field::Attempts(times)));
            if let Some(Canceled { origin, statement, keyspace, table }) = subject.map(Box::as_ref)
            {
                event = event.text("statement", statement);
                if let (Some(keyspace), Some(table)) = (keyspace, table) {
                    event = event.text("keyspace", keyspace).text("table", table);
                }
                event.origin = Some(origin.clone());
            }
            telemetry.events.push(event);
        }
    }

    /// Counts the end of the request, if it was not counted before, and reports the request if the
    /// session's events include it. `describe` adds fields to the report.
    pub(crate) fn ended<T>(
        &self,
        result: &Result<T, EngineError>,
        describe: impl FnOnce(Event) -> Event,
    ) {
        self.ended_as(result, false, describe);
    }

    /// Like [`Attempts::ended`], for a request of a bulk. Such a request is reported only if it
    /// failed, had several attempts or was slow, because the bulk itself is reported at its end.
    pub(crate) fn part_ended<T>(
        &self,
        result: &Result<T, EngineError>,
        describe: impl FnOnce(Event) -> Event,
    ) {
        self.ended_as(result, true, describe);
    }

    fn ended_as<T>(
        &self,
        result: &Result<T, EngineError>,
        is_part: bool,
        describe: impl FnOnce(Event) -> Event,
    ) {
        let Some(telemetry) = &self.telemetry else { return };
        let Some(End { answered, is_unusual }) = self.end() else { return };
        let took = answered.filter(|_| result.is_ok()).unwrap_or_else(|| self.elapsed());
        let error = result.as_ref().err();
        telemetry.ended(self.kind, took, error.map(EngineError::counted_as));
        if error.is_some_and(|error| error.kind == ErrorKind::Timeout) {
            let phase = answered.map_or(TimeoutPhase::Answer, |_| TimeoutPhase::Agreement);
            telemetry.timed_out(phase);
        }
        let is_unusual = is_unusual || error.is_some();
        let wanted = telemetry.events.wants(took, is_unusual);
        let Some((name, left_out)) =
            wanted.filter(|(name, _)| !is_part || is_unusual || *name == "slow request")
        else {
            return;
        };
        let mut event = Event::new(name, self.node())
            .text("kind", self.kind.name())
            .seconds("duration_s", took)
            .int("left_out", left_out as usize)
            .int("speculative", self.seen().speculative);
        if let Some((kind, code)) = error.map(EngineError::counted_as) {
            event = event.text("error_kind", kind);
            event.fields.extend(code.map(|code| ("error_code", Field::Int(i64::from(code)))));
        }
        event.fields.push(("attempts", Field::Attempts(self.times())));
        telemetry.events.push(describe(event));
    }

    /// Notes that the request has ended. Returns `None` if it had ended before. Attempts that are
    /// still open count as abandoned.
    fn end(&self) -> Option<End> {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return None;
        }
        let mut seen = self.seen();
        if let Some(open) = &mut seen.open {
            open.counted = None;
        }
        seen.also_open.iter_mut().for_each(|open| open.counted = None);
        let answered = seen.succeeded.map(|attempt| attempt.ended);
        Some(End { answered, is_unusual: seen.count > 1 })
    }

    /// All attempts, in the order of their beginning. Only the part of an error's text before the
    /// first colon is kept, because the rest may contain values.
    fn times(&self) -> Vec<AttemptTimes> {
        let general = |answer: &str| answer.split(": ").next().unwrap_or_default().to_owned();
        let history = self.history();
        let failed_or_open = history.iter().map(|tried| AttemptTimes {
            node: tried.node,
            shard: tried.shard,
            began: tried.began.as_secs_f64(),
            ended: tried.ended.map(|ended| ended.as_secs_f64()),
            error: tried.answer.as_deref().map(general),
        });
        let succeeded = self.seen().succeeded.map(|attempt| AttemptTimes {
            node: attempt.node,
            shard: attempt.shard,
            began: attempt.began.as_secs_f64(),
            ended: Some(attempt.ended.as_secs_f64()),
            error: None,
        });
        let mut times: Vec<_> = failed_or_open.chain(succeeded).collect();
        times.sort_by(|a, b| a.began.total_cmp(&b.began));
        times
    }
}
