//! Checks that the session's events and figures show a fault, as docs/telemetry.md says.
//!
//! A fault is checked only if two conditions hold when it begins: the session is connected to all
//! nodes, and no earlier fault still has an effect.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::{PORT, Refusal, Refused};
use crate::faults::{Fault, Happened, RECONNECTED, SOON_TRIED};
use crate::observed::{INTERVAL, Observed, Sample, Seen};

/// The longest time from the first request that a node does not answer until the node is shown as
/// silent. The engine's watch over the nodes works in ticks. It waits for two full ticks after the
/// tick in which the request is sent, and then probes the node. It waits half a second for the
/// probe's answer, or longer if earlier answers of the node were slow.
const SILENT: Duration = Duration::from_millis(950);

/// The same limit for a node whose earlier answers were slow.
const SILENT_SLOW: Duration = Duration::from_millis(3800);

/// After a node has answered a probe, the watch does not probe it again for this time.
const ASKED: Duration = Duration::from_secs(1);
/// A fault that ended less than this time ago may have caused probes of any node. If a node has
/// answered such a probe, [`ASKED`] must pass before the watch probes it again.
const RECENT: Duration = Duration::from_secs(3);

/// The longest time from the end of a hang until the node is shown as answering. It is the sum of
/// the longest pause between two probes and the longest time of a probe that began before the end.
const ANSWERS: Duration = Duration::from_millis(3000);

/// The longest time from the loss of a connection until the events about it.
const LOST: Duration = Duration::from_millis(200);

/// The longest time until another control connection replaces one that has become half-open.
const CONTROLLED: Duration = Duration::from_secs(26);

/// The longest time that an answer of a node is on the way.
const ANSWERED: Duration = Duration::from_millis(100);

/// Within this time after a schema change, every node learns of the change, and the session gets
/// the event about it.
const SCHEMA: Duration = Duration::from_millis(2200);

/// What happened in a run.
pub struct Story<'a> {
    pub observed: &'a Observed,
    pub faults: &'a [Happened],
    pub refusals: &'a [Refusal],
    /// Tables that another client made, and when.
    pub made: &'a [(String, Instant)],
    /// The times when a `USE` failed or was given up. Both close connections.
    pub closed_by_use: &'a [Instant],
    /// When the program gave up calls.
    pub given_up: &'a [Instant],
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

/// For this time after a fault of a node, the node may answer late: it works on its backlog, or a
/// connection to it is half-open until the keepalive closes it.
const AFTERMATH: Duration = Duration::from_secs(25);

/// Returns a sentence for each event that says that a node is silent although no fault explains it.
pub fn wrongly_silent(observed: &Observed, faults: &[Happened]) -> Vec<String> {
    let mut wrong = Vec::new();
    for event in observed.events() {
        let (at, Some(node)) = (event.at, event.node) else { continue };
        let explains = |fault: &Happened| {
            let is_then = fault.began <= at && fault.ended.is_none_or(|end| at <= end + AFTERMATH);
            is_then && (fault.is_everywhere() || fault.at == node && fault.may_silence())
        };
        if event.name == "node silent" && !faults.iter().any(explains) {
            wrong.push(format!("{node} is shown as silent, but no fault explains it"));
        }
    }
    wrong
}

/// Returns a sentence for each table that another client made without an event of the session about
/// it. Ignores tables that were made during a fault, or while the session was not connected to all
/// nodes.
fn unseen_changes(story: &Story<'_>, events: &[Seen], samples: &[Sample]) -> Vec<String> {
    let mut unseen = Vec::new();
    for (table, made) in story.made {
        let until = *made + SCHEMA;
        let is_disturbed = story.faults.iter().any(|fault| {
            fault.began < until && fault.ended.is_none_or(|ended| ended > *made)
                || fault.lingers(*made, until)
        });
        // If the control connection is lost before an event arrives on it, the event is not sent
        // again on the next control connection. The frame of the event may also be the frame in
        // whose middle a fault resets the connection.
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
        let began = self.fault.began;
        earlier.into_iter().any(|other| {
            let is_there = other.node == self.fault.node
                && (other.lingers(began, began) || other.may_close(began, began));
            is_there || other.ended.is_none()
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

    /// Whether the run lasts until after this time, and no other fault begins before it.
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
            Fault::Freeze(which) if which % 2 == 0 => self.judge_frozen_control(report),
            Fault::Freeze(_) => {}
            Fault::RefuseLogins(code) => self.judge_refused(code, report),
            Fault::DripUnderLoad(_)
            | Fault::Reset
            | Fault::ResetInFrame(_)
            | Fault::Slow(_)
            | Fault::Drip(..)
            | Fault::RemakeTable
            | Fault::HangShard(_)
            | Fault::MoveAll => {}
        }
    }

    /// Returns a limit for the time from the first request that the node does not answer (sent at
    /// `first`) until the session shows the node as silent.
    fn time_to_silence(&self, first: Instant) -> Duration {
        let (at, began) = (self.fault.at, self.fault.began);
        let earlier = || self.story.faults.iter().filter(|other| other.began < began);
        if earlier().any(|other| other.at == at && other.is_slow()) {
            return SILENT_SLOW;
        }
        let is_recent = |other: &Happened| other.ended.is_none_or(|end| end + RECENT > began);
        // The answer to an abandoned request may not count as an answer of the node. Then the node
        // is probed, and after a good answer it is not probed again for a second.
        let given_up = self.story.given_up.iter();
        let is_abandoned = given_up.filter(|at| **at + RECENT > began).any(|at| *at <= first);
        let is_later = self.is_burst() || is_abandoned || earlier().any(is_recent);
        if is_later { SILENT + ASKED } else { SILENT }
    }

    fn is_burst(&self) -> bool {
        matches!(self.fault.fault, Fault::PauseUnderLoad(_) | Fault::CutUnderLoad(_))
    }

    /// Checks what the session shows about a node that hangs. It must count the first request to
    /// the node as in flight at once, and soon show the node as silent. After the hang, it must
    /// show that the node answers again.
    fn judge_hang(&self, report: &mut impl FnMut(&str)) {
        let (at, began, end) = (self.fault.at, self.fault.began, self.end());
        let during: Vec<_> =
            self.samples.iter().filter(|sample| sample.at >= began && sample.at < end).collect();
        let sent =
            during.windows(2).find(|pair| pair[1].node(at).attempts > pair[0].node(at).attempts);
        let Some([earlier, first]) = sent else { return };
        let (before, shown) = (earlier.node(at), first.node(at));
        // A `USE` that waited for the node may have closed the connection to the node. Then the
        // requests on this connection have failed, and are no longer in flight.
        let has_failed = self.is_closed_by_use(began, first.at) && shown.failed > before.failed;
        if shown.in_flight == 0 && shown.abandoned == before.abandoned && !has_failed {
            report("requests that it does not answer are not in flight");
        }
        let limit = self.time_to_silence(first.at);
        // A `USE` closes the connections on which it gets no answer, even if it succeeds on other
        // connections. Without connections, the node need not be shown as silent.
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
        // A new node may have taken the address before this fault. If the session notices this only
        // now, the figures of this address begin again for the new node.
        if self.event("node removed", at, began, end + ANSWERS).is_some() {
            return;
        }
        let is_shown =
            during.iter().all(|sample| sample.at <= silent.at || sample.node(at).is_silent);
        if !is_shown {
            report("its state is not silent after the event");
        }
        // A node that has lost its statements works on a burst three times: it refuses each request,
        // prepares the text, and answers the request.
        let is_longer =
            self.is_burst() && self.event("prepared again", at, end, end + ANSWERS).is_some();
        let until = end + if is_longer { 3 * ANSWERS } else { ANSWERS };
        if self.is_alone_until(until) && self.event("node answers again", at, end, until).is_none()
        {
            report("no event says that it answers again");
        }
    }

    /// Checks that the session has another control connection soon after its control connection
    /// became half-open. Its other connections still get answers.
    fn judge_frozen_control(&self, report: &mut impl FnMut(&str)) {
        let (at, began) = (self.fault.at, self.fault.began);
        let is_opened = |event: &&Seen| event.name == "connection opened" && event.is("control");
        let last = self.events.iter().filter(is_opened).rfind(|event| event.at < began);
        let until = began + CONTROLLED;
        if last.is_none_or(|last| last.node != Some(at)) || !self.is_alone_until(until) {
            return;
        }
        let again = self.events.iter().filter(is_opened).any(|e| e.at > began && e.at <= until);
        if !again && !self.is_closed_by_use(began, until) {
            report("no control connection replaces the half-open one");
        }
    }

    /// Checks what the session shows about a killed node. It must show at once that the connections
    /// are lost and that the node is down. Soon after the node's start, it must show that the node
    /// is up.
    fn judge_kill(&self, report: &mut impl FnMut(&str)) {
        let (at, began, end) = (self.fault.at, self.fault.began, self.end());
        if self.is_closed_by_use(began, end + RECONNECTED) {
            return;
        }
        match self.event("connection lost", at, began, began + LOST) {
            None => report("no event says that its connection is lost"),
            // A further connection that was being opened may have failed first.
            Some(lost) if lost.is("repeated") && !self.is_failed(at, began, lost.at) => {
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
            && self.is_alone_until(end + RECONNECTED);
        if is_judged {
            for name in ["connection opened", "node up"] {
                if self.event(name, at, end, end + RECONNECTED).is_none() {
                    report(&format!("no event {name:?} after its start"));
                }
            }
        }
    }

    /// Whether an attempt to connect to the node failed between two times, and its event is the
    /// first of several failures.
    fn is_failed(&self, at: SocketAddr, from: Instant, until: Instant) -> bool {
        let failed = self.event("connection failed", at, from, until);
        failed.is_some_and(|failed| !failed.is("repeated"))
    }

    /// Returns how many attempts may have been abandoned between the fault's beginning and `until`
    /// although they were answered.
    fn given_up(&self, until: Instant) -> u64 {
        if self.story.has_speculation {
            return u64::MAX;
        }
        let given_up = self.story.given_up.iter();
        given_up.filter(|at| **at >= self.fault.began && **at <= until).count() as u64
    }

    /// Returns the refusals of this kind that the node sent during the fault.
    fn refusals(&self, of: Refused) -> impl Iterator<Item = &Refusal> {
        let (node, began, end) = (self.fault.node, self.fault.began, self.end());
        self.story.refusals.iter().filter(move |refusal| {
            let is_in_time = refusal.at >= began && refusal.at <= end;
            refusal.node == node && refusal.what == of && is_in_time
        })
    }

    /// Checks that the session counts a failed attempt as soon as it gets an error from an
    /// overloaded node.
    fn judge_overload(&self, report: &mut impl FnMut(&str)) {
        let at = self.fault.at;
        for sample in self.samples.iter().filter(|sample| sample.at <= self.end()) {
            let Some(arrived) = sample.at.checked_sub(ANSWERED) else { continue };
            let refused = self.refusals(Refused::Overloaded).filter(|of| of.at <= arrived).count();
            let (before, now) = (self.before.node(at), sample.node(at));
            let failed = now.failed - before.failed.min(now.failed);
            let abandoned = now.abandoned - before.abandoned.min(now.abandoned);
            let shown = failed + abandoned.min(self.given_up(sample.at));
            if shown < refused as u64 {
                report(&format!("it refused {refused} requests, and {shown} are shown"));
                return;
            }
        }
    }

    /// Checks that the session prepares a statement again after a node has forgotten it, and that
    /// the session counts this.
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
        // A call that was given up may not prepare its statement again.
        let is_unseen = refused as u64 > self.given_up(until) && prepared == 0;
        if is_unseen || counted < prepared as u64 {
            report(&format!(
                "it had forgotten statements {refused} times, {prepared} events and {counted} \
                 counted"
            ));
        }
    }

    /// Checks that the session shows a refused login as a failed connection. If the node refused
    /// the credentials, the event must say so.
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

/// Returns a sentence for each figure of the session that contradicts the number of its events.
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
        // When a node leaves its address, the figures of this address begin again at zero. So they
        // are not checked.
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
