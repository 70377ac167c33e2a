//! Checks that the session's events and figures show a fault, as docs/telemetry.md says.
//!
//! A fault is judged only if the session was connected to all nodes when it began, and no earlier
//! fault still had an effect then.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::{PORT, Refusal, Refused};
use crate::faults::{Fault, Happened};
use crate::observed::{INTERVAL, Observed, Sample, Seen};

/// The longest time from the first request that a node does not answer until the node is shown as
/// silent. The session's watch over its nodes waits for two full ticks after the tick in which the
/// request is sent, and then probes the node. It waits half a second for the probe's answer, longer
/// if the node's answers were slow before.
const SILENT: Duration = Duration::from_millis(950);

/// The longest such time for a node whose answers were slow before.
const SILENT_SLOW: Duration = Duration::from_millis(3800);

/// The watch does not probe a node again for this time after the node has answered a probe.
const ASKED: Duration = Duration::from_secs(1);
/// A fault that ended less than this time ago may have caused probes of any node. If a node has
/// answered such a probe, [`ASKED`] must pass before the next one.
const RECENT: Duration = Duration::from_secs(3);

/// The longest time from the end of a hang until the node is shown as answering: the longest pause
/// between two probes, and the time of a probe that began before the end.
const ANSWERS: Duration = Duration::from_millis(3000);

/// The longest time from the loss of a connection until the events about it.
const LOST: Duration = Duration::from_millis(200);

/// The longest time from the start of a killed node until the session is connected to it, if the
/// node was down for less than [`SOON_TRIED`].
const UP: Duration = Duration::from_millis(2500);
const SOON_TRIED: Duration = Duration::from_secs(20);

/// How long an answer of a node is on the way at most.
const ANSWERED: Duration = Duration::from_millis(100);

/// The time after a schema change within which every node learns of it, and its event arrives.
const SCHEMA: Duration = Duration::from_millis(2200);

/// What happened in a run.
pub struct Story<'a> {
    pub observed: &'a Observed,
    pub faults: &'a [Happened],
    pub refusals: &'a [Refusal],
    /// Tables that another client made, and when.
    pub made: &'a [(String, Instant)],
    /// When a `USE` failed or was given up, which closes connections.
    pub closed_by_use: &'a [Instant],
    pub has_speculation: bool,
}

/// Returns a sentence for each fault that the session does not show.
pub fn unseen(story: &Story<'_>) -> Vec<String> {
    let (events, samples) = (story.observed.events(), story.observed.samples());
    let mut unseen = Vec::new();
    for (number, fault) in story.faults.iter().enumerate() {
        let Some(before) = samples.iter().rfind(|sample| sample.at <= fault.began) else {
            continue;
        };
        let next = story.faults.get(number + 1);
        let view = View { story, events: &events, samples: &samples, fault, before, next };
        if before.is_whole && !view.is_disturbed() {
            view.judge(&mut |what| {
                unseen.push(format!("{:?} of {}: {what}", fault.fault, fault.at));
            });
        }
    }
    unseen.extend(unseen_changes(story, &events, &samples));
    unseen
}

/// Returns a sentence for each table that another client made, and that no event shows, although
/// the session was connected to all nodes and no fault happened.
fn unseen_changes(story: &Story<'_>, events: &[Seen], samples: &[Sample]) -> Vec<String> {
    let mut unseen = Vec::new();
    for (table, made) in story.made {
        let until = *made + SCHEMA;
        let is_disturbed = story.faults.iter().any(|fault| {
            fault.began < until && fault.ended.is_none_or(|ended| ended > *made)
                || fault.lingers(*made, until)
        });
        // An event that did not arrive on a lost control connection is not sent again on the next
        // one. And if a fault resets a connection in the middle of a frame, this frame can be the
        // event.
        let loses_control = events.iter().any(|event| {
            let is_it = event.name == "connection lost" && event.is("control");
            is_it && event.at >= *made && event.at <= until
        });
        let may_lose = story.faults.iter().any(|fault| fault.may_close(*made, until));
        let is_whole = |sample: &Sample| sample.at < *made || sample.at > until || sample.is_whole;
        if is_disturbed
            || (loses_control && may_lose)
            || !samples.iter().all(is_whole)
            || samples.last().is_none_or(|s| s.at < until)
        {
            continue;
        }
        let shown = events.iter().any(|event| {
            event.name == "schema changed"
                && event.text("object") == Some(table)
                && event.text("change") == Some("created")
                && event.at >= *made
                && event.at <= until
        });
        if !shown {
            unseen.push(format!("no event says that another client made the table {table}"));
        }
    }
    unseen
}

/// One fault, and what the session shows around it.
struct View<'a> {
    story: &'a Story<'a>,
    events: &'a [Seen],
    samples: &'a [Sample],
    fault: &'a Happened,
    before: &'a Sample,
    next: Option<&'a Happened>,
}

impl View<'_> {
    /// Whether an earlier fault still has an effect on connections when this fault begins.
    fn is_disturbed(&self) -> bool {
        let earlier = self.story.faults.iter().filter(|other| other.began < self.fault.began);
        earlier.into_iter().any(|other| {
            other.lingers(self.fault.began, self.fault.began)
                || other.may_close(self.fault.began, self.fault.began)
                || other.ended.is_none()
        })
    }

    /// Whether a `USE` closed connections between two times.
    fn is_closed_by_use(&self, from: Instant, until: Instant) -> bool {
        let late = Duration::from_secs(6);
        self.story.closed_by_use.iter().any(|at| *at + late > from && *at <= until)
    }

    /// Returns the end of the fault or, if it has not ended, the end of the run.
    fn end(&self) -> Instant {
        let last = self.samples.last().map_or(self.fault.began, |sample| sample.at);
        self.fault.ended.unwrap_or(last)
    }

    /// Whether the next fault begins, and the run ends, only after this time.
    fn is_alone_until(&self, at: Instant) -> bool {
        self.next.is_none_or(|next| next.began > at)
            && self.samples.last().is_some_and(|sample| sample.at > at)
    }

    fn event(&self, name: &str, at: SocketAddr, from: Instant, until: Instant) -> Option<&Seen> {
        let is_it = |event: &&Seen| event.name == name && event.node == Some(at);
        let events = self.events.iter().filter(is_it);
        events.into_iter().find(|event| event.at >= from && event.at <= until)
    }

    fn judge(&self, report: &mut impl FnMut(&str)) {
        match self.fault.fault {
            Fault::Pause | Fault::PauseUnderLoad(_) | Fault::Cut(_) | Fault::CutUnderLoad(_) => {
                self.judge_hang(report);
            }
            Fault::PowerLoss => self.judge_hang(report),
            Fault::Kill | Fault::Move | Fault::Replace | Fault::Reshard(_) => {
                self.judge_kill(report);
            }
            Fault::Overload => self.judge_overload(report),
            Fault::ForgetStatements | Fault::FillCache => self.judge_forgotten(report),
            Fault::RefuseLogins(code) => self.judge_refused(code, report),
            Fault::DripUnderLoad(_)
            | Fault::Reset
            | Fault::Freeze(_)
            | Fault::ResetInFrame(_)
            | Fault::Slow(_)
            | Fault::Drip(..)
            | Fault::RemakeTable
            | Fault::HangShard(_)
            | Fault::MoveAll => {}
        }
    }

    /// Returns the longest time from the first request that the node does not answer until the node
    /// is shown as silent.
    fn time_to_silence(&self) -> Duration {
        let (at, began) = (self.fault.at, self.fault.began);
        let earlier = || self.story.faults.iter().filter(|other| other.began < began);
        if earlier().any(|other| other.at == at && other.is_slow()) {
            return SILENT_SLOW;
        }
        let is_recent = |other: &Happened| other.ended.is_none_or(|end| end + RECENT > began);
        let is_burst =
            matches!(self.fault.fault, Fault::PauseUnderLoad(_) | Fault::CutUnderLoad(_));
        if is_burst || earlier().any(is_recent) { SILENT + ASKED } else { SILENT }
    }

    /// Checks three things about a node that hangs: the first request to it is at once counted as
    /// in flight, the node is soon shown as silent, and after the hang it is shown as answering
    /// again.
    fn judge_hang(&self, report: &mut impl FnMut(&str)) {
        let (at, began, end) = (self.fault.at, self.fault.began, self.end());
        let during: Vec<_> =
            self.samples.iter().filter(|sample| sample.at >= began && sample.at < end).collect();
        let sent =
            during.windows(2).find(|pair| pair[1].node(at).attempts > pair[0].node(at).attempts);
        let Some([earlier, first]) = sent else { return };
        let (before, shown) = (earlier.node(at), first.node(at));
        // A `USE` that waited for the node may have closed the connection to it, so the requests on
        // that connection failed.
        let has_failed = self.is_closed_by_use(began, first.at) && shown.failed > before.failed;
        if shown.in_flight == 0 && shown.abandoned == before.abandoned && !has_failed {
            report("requests that it does not answer are not in flight");
        }
        let limit = self.time_to_silence();
        // A `USE` closes connections on which it is not answered, even if it succeeds on others.
        let until = first.at + limit;
        let is_lost = |sample: &&&Sample| sample.at <= until && !sample.node(at).is_connected;
        if self.is_closed_by_use(began, until) || during.iter().any(|of| is_lost(&of)) {
            return;
        }
        if end <= first.at + limit {
            return;
        }
        let silent = self.event("node silent", at, began, first.at + limit);
        let Some(silent) = silent else {
            return report("no event says that it is silent");
        };
        // If another node took the address earlier, the session may notice this only now, and then
        // the new node has figures of its own.
        if self.event("node removed", at, began, end + ANSWERS).is_some() {
            return;
        }
        let is_shown =
            during.iter().all(|sample| sample.at <= silent.at || sample.node(at).is_silent);
        if !is_shown {
            report("its state is not silent after the event");
        }
        if self.is_alone_until(end + ANSWERS)
            && self.event("node answers again", at, end, end + ANSWERS).is_none()
        {
            report("no event says that it answers again");
        }
    }

    /// Checks that the session shows at once that a killed node has lost its connections and is
    /// down, and soon after the node's start that it is up.
    fn judge_kill(&self, report: &mut impl FnMut(&str)) {
        let (at, began, end) = (self.fault.at, self.fault.began, self.end());
        if self.is_closed_by_use(began, end + UP) {
            return;
        }
        match self.event("connection lost", at, began, began + LOST) {
            None => report("no event says that its connection is lost"),
            Some(lost) if lost.is("repeated") => {
                report("the loss is said to repeat an earlier one")
            }
            Some(_) => {}
        }
        let seen = self.samples.iter().find(|sample| sample.at >= began + LOST);
        if let Some(seen) = seen
            && end > seen.at
            && (seen.node(at).lost == self.before.node(at).lost || seen.node(at).connections != 0)
        {
            report("its figures show no loss");
        }
        if end > began + LOST && self.event("node down", at, began, began + LOST).is_none() {
            report("no event says that it is down");
        }
        let is_judged = self.fault.fault == Fault::Kill
            && end < began + SOON_TRIED
            && self.is_alone_until(end + UP);
        if is_judged {
            for name in ["connection opened", "node up"] {
                if self.event(name, at, end, end + UP).is_none() {
                    report(&format!("no event {name:?} after its start"));
                }
            }
        }
    }

    /// Returns the refusals of this kind with which the node answered during the fault.
    fn refusals(&self, of: Refused) -> impl Iterator<Item = &Refusal> {
        let (node, began, end) = (self.fault.node, self.fault.began, self.end());
        self.story.refusals.iter().filter(move |refusal| {
            let is_in_time = refusal.at >= began && refusal.at <= end;
            refusal.node == node && refusal.what == of && is_in_time
        })
    }

    /// Checks that the answers of an overloaded node are counted as failed attempts as soon as they
    /// arrive.
    fn judge_overload(&self, report: &mut impl FnMut(&str)) {
        let at = self.fault.at;
        for sample in self.samples.iter().filter(|sample| sample.at <= self.end()) {
            let Some(arrived) = sample.at.checked_sub(ANSWERED) else { continue };
            let refused = self.refusals(Refused::Overloaded).filter(|of| of.at <= arrived).count();
            let (before, now) = (self.before.node(at), sample.node(at));
            let failed = now.failed - before.failed.min(now.failed);
            let abandoned = now.abandoned - before.abandoned.min(now.abandoned);
            let shown = if self.story.has_speculation { failed + abandoned } else { failed };
            if shown < refused as u64 {
                report(&format!("it refused {refused} requests, and {shown} are shown"));
                return;
            }
        }
    }

    /// Checks that a statement that a node has forgotten is prepared again, and that this is
    /// counted.
    fn judge_forgotten(&self, report: &mut impl FnMut(&str)) {
        let (at, began) = (self.fault.at, self.fault.began);
        let until = self.end() + ANSWERED;
        let refused = self.refusals(Refused::Unprepared).count();
        let is_it = |event: &&Seen| event.name == "prepared again" && event.node == Some(at);
        let prepared = self.events.iter().filter(is_it);
        let prepared = prepared.filter(|event| event.at >= began && event.at <= until).count();
        let counted = |at: Instant| {
            let sample = self.samples.iter().rfind(|sample| sample.at <= at);
            sample.map_or(0, |sample| sample.prepared_again)
        };
        let counted = counted(until + INTERVAL) - counted(began);
        if (refused > 0 && prepared == 0) || counted < prepared as u64 {
            report(&format!(
                "it had forgotten statements {refused} times, {prepared} events and {counted} \
                 counted"
            ));
        }
    }

    /// Checks that a refused login is shown as a failed connection, with the reason if the
    /// credentials were refused.
    fn judge_refused(&self, code: i32, report: &mut impl FnMut(&str)) {
        let (at, end) = (self.fault.at, self.end());
        let Some(refusal) = self.refusals(Refused::Login).next() else { return };
        let until = refusal.at + ANSWERED;
        if end <= until {
            return;
        }
        match self.event("connection failed", at, refusal.at, until) {
            None => report("no event says that a connection failed"),
            Some(failed) if failed.is("authentication") != (code == 0x0100) => {
                report("the event is wrong about the credentials");
            }
            Some(failed) if code == 0x0100 && failed.is("repeated") => {
                report("the first refusal of credentials is said to repeat another");
            }
            Some(_) => {}
        }
        let later = self.samples.iter().find(|sample| sample.at > until);
        if later.is_some_and(|sample| sample.node(at).refused == self.before.node(at).refused) {
            report("its figures show no refused connection");
        }
    }
}

/// Returns a sentence for each figure that does not agree with the events.
pub fn miscounted(observed: &Observed) -> Vec<String> {
    let events = observed.events();
    let mut wrong = Vec::new();
    let Some(last) = observed.samples().pop() else { return wrong };
    if last.dropped_events > 0 {
        return wrong;
    }
    let count = |name: &str, at: SocketAddr| {
        let of_node = events.iter().filter(|event| event.name == name && event.node == Some(at));
        of_node.filter(|event| event.at <= last.at).count() as u64
    };
    for (at, node) in &last.nodes {
        if at.port() != PORT {
            wrong.push(format!("{at} has figures of its own, and is no node"));
        }
        // When a node leaves its address, the figures of that address begin again.
        let is_it =
            |event: &Seen| event.node == Some(*at) || event.text("was") == Some(&at.to_string());
        let has_left = |event: &Seen| matches!(event.name, "node removed" | "node moved");
        if events.iter().any(|event| has_left(event) && is_it(event)) {
            continue;
        }
        for (name, figure) in [("connection lost", node.lost), ("connection failed", node.refused)]
        {
            let events = count(name, *at);
            if events != figure {
                wrong.push(format!("{at}: {events} events {name:?}, and {figure} are counted"));
            }
        }
    }
    let again = events.iter().filter(|event| event.name == "prepared again");
    let again = again.filter(|event| event.at <= last.at).count() as u64;
    if again != last.prepared_again {
        wrong.push(format!(
            "{again} statements prepared again, and {} counted",
            last.prepared_again
        ));
    }
    wrong
}
