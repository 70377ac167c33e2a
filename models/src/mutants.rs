//! Changes that break turbocql's code, each of which a model must find. `build.rs` makes the
//! changes in the copies of the sources, and replaces `LEFT_OUT` by a call that returns whether the
//! mutant is chosen.

/// A change that breaks a source. `build.rs` uses the fields `name`, `source` and `changes`; the
/// tests use `name`, `model` and `message`.
pub struct Mutant {
    /// The step that the mutant leaves out, or makes in the wrong order.
    pub name: &'static str,
    #[cfg_attr(test, allow(dead_code, reason = "only build.rs reads it"))]
    pub source: &'static str,
    #[cfg_attr(test, allow(dead_code, reason = "only build.rs reads it"))]
    pub changes: &'static [(&'static str, &'static str)],
    /// The model that finds the mutant. The model must fail with an output that contains `message`.
    #[cfg_attr(not(test), allow(dead_code, reason = "only the tests read it"))]
    pub model: &'static str,
    #[cfg_attr(not(test), allow(dead_code, reason = "only the tests read it"))]
    pub message: &'static str,
}

const DEADLOCK: &str = "deadlock";

pub const MUTANTS: &[Mutant] = &[
    // The following mutants change `queue.rs`.
    Mutant {
        name: "look before parking",
        source: "queue",
        changes: &[(
            "        self.asleep.store(true, Ordering::SeqCst);
        self.wake_serve_if_waiting();",
            "        self.asleep.store(true, Ordering::SeqCst);
             if !LEFT_OUT { self.wake_serve_if_waiting(); }",
        )],
        model: "queue::a_submission_is_begun",
        message: DEADLOCK,
    },
    Mutant {
        name: "asleep before the look",
        source: "queue",
        changes: &[(
            "    pub(crate) fn before_park(&self) {",
            "    pub(crate) fn before_park(&self) {
                 if LEFT_OUT {
                     self.wake_serve_if_waiting();
                     self.asleep.store(true, Ordering::SeqCst);
                     return;
                 }",
        )],
        model: "queue::a_submission_is_begun",
        message: DEADLOCK,
    },
    Mutant {
        name: "one order of asleep and waiting",
        source: "queue",
        changes: &[(
            "    fn wake_serve_if_waiting(&self) {",
            "    fn wake_serve_if_waiting(&self) {
                 if LEFT_OUT {
                     if self.waiting.load(Ordering::Acquire) { self.changed.notify_one(); }
                     return;
                 }",
        ), (
            "    pub(crate) fn before_park(&self) {",
            "    pub(crate) fn before_park(&self) {
                 if LEFT_OUT {
                     self.asleep.store(true, Ordering::Release);
                     self.wake_serve_if_waiting();
                     return;
                 }",
        )],
        model: "queue::a_submission_is_begun",
        message: DEADLOCK,
    },
    Mutant {
        name: "waiting is reset under the lock",
        source: "queue",
        changes: &[(
            "            self.waiting.store(false, Ordering::SeqCst);
            std::mem::swap(&mut *queue, &mut burst);
            drop(queue);",
            "            if !LEFT_OUT { self.waiting.store(false, Ordering::SeqCst); }
            std::mem::swap(&mut *queue, &mut burst);
            drop(queue);
            if LEFT_OUT { self.waiting.store(false, Ordering::SeqCst); }",
        )],
        model: "queue::submissions_of_two_threads_are_begun",
        message: DEADLOCK,
    },
    Mutant {
        name: "closed is read under the lock",
        source: "queue",
        changes: &[(
            "        let mut queue = shared.queue();\n",
            "        let early = LEFT_OUT && shared.closed.load(Ordering::Acquire);
             let mut queue = shared.queue();\n",
        ), (
            "        if shared.closed.load(Ordering::Acquire) {",
            "        if if LEFT_OUT { early } else { shared.closed.load(Ordering::Acquire) } {",
        )],
        model: "queue::a_submission_at_the_close_is_answered_once",
        message: "neither begun nor refused",
    },
    Mutant {
        name: "a refused request is not in flight",
        source: "queue",
        changes: &[("        if request {", "        if request && !LEFT_OUT {")],
        model: "queue::a_submission_at_the_close_is_answered_once",
        message: "in flight",
    },
    Mutant {
        name: "a timer for held submissions",
        source: "queue",
        changes: &[(
            "                    if !armed {\n",
            "                    if !armed && !LEFT_OUT {\n",
        )],
        model: "queue::a_held_submission_is_begun_without_release",
        message: DEADLOCK,
    },
    Mutant {
        name: "the look is put off while submissions may be held",
        source: "queue",
        changes: &[(
            "armed = shared.may_hold();",
            "armed = shared.may_hold() && !LEFT_OUT;",
        )],
        model: "queue::the_look_is_put_off_by_a_later_answer",
        message: DEADLOCK,
    },
    Mutant {
        name: "release rings",
        source: "queue",
        changes: &[(
            "= HELD.take() {\n            shared.wake_if_asleep();",
            "= HELD.take() {\n            if !LEFT_OUT { shared.wake_if_asleep(); }",
        )],
        model: "queue::a_release_wakes_the_thread",
        message: DEADLOCK,
    },
    Mutant {
        name: "wakes that the end cuts off are made",
        source: "queue",
        changes: &[(
            "            pending.iter().for_each(|consumer| consumer.wake());",
            "            if !LEFT_OUT { pending.iter().for_each(|consumer| consumer.wake()); }",
        )],
        model: "queue::a_wake_at_the_close_is_made",
        message: "wakes",
    },
    // The following mutants change `lanes.rs`.
    Mutant {
        name: "the seat is looked at again",
        source: "lanes",
        changes: &[(
            "                seat.job().take().map_or(Poll::Pending, Poll::Ready)",
            "                if LEFT_OUT { return Poll::Pending; }
                 seat.job().take().map_or(Poll::Pending, Poll::Ready)",
        )],
        model: "lanes::a_handed_request_is_answered",
        message: DEADLOCK,
    },
    Mutant {
        name: "the lane of a seat is woken",
        source: "lanes",
        changes: &[("        seat.lane.wake();", "        if !LEFT_OUT { seat.lane.wake(); }")],
        model: "lanes::a_handed_request_is_answered",
        message: DEADLOCK,
    },
    Mutant {
        name: "a seat is taken by one",
        source: "lanes",
        changes: &[(
            "        let Some(seat) = self.idle().pop() else { return Some(job) };",
            "        let seat = if LEFT_OUT { self.idle().last().cloned() } else { self.idle().pop() };
             let Some(seat) = seat else { return Some(job) };",
        )],
        model: "lanes::two_requests_are_handed_at_once",
        message: "without an answer",
    },
    Mutant {
        name: "the ticket is looked at again",
        source: "lanes",
        changes: &[(
            "                if ticket.is_cancelled() { Poll::Ready(None) } else { Poll::Pending }",
            "                if !LEFT_OUT && ticket.is_cancelled() { Poll::Ready(None) }
                 else { Poll::Pending }",
        )],
        model: "lanes::a_cancelled_request_frees_its_lane",
        message: DEADLOCK,
    },
    Mutant {
        name: "a cancel wakes the lane",
        source: "lanes",
        changes: &[("        self.lane.wake();", "        if !LEFT_OUT { self.lane.wake(); }")],
        model: "lanes::a_cancelled_request_frees_its_lane",
        message: DEADLOCK,
    },
    Mutant {
        name: "an answered request is taken",
        source: "lanes",
        changes: &[(
            "(self.0.take(), answer) {",
            "(if LEFT_OUT { self.0.clone() } else { self.0.take() }, answer) {",
        )],
        model: "lanes::a_cancel_and_an_answer",
        message: "has no receiver",
    },
    // The following mutants change `gate.rs`.
    Mutant {
        name: "waiting requests are admitted first",
        source: "gate",
        changes: &[(
            "!state.waiting.is_empty() || !self.has_room(&state)",
            "!LEFT_OUT && !state.waiting.is_empty() || !self.has_room(&state)",
        )],
        model: "gate::no_request_overtakes",
        message: "overtaken",
    },
    Mutant {
        name: "a request waits under the lock",
        source: "gate",
        changes: &[(
            "        state.waiting.push_back(sender);",
            "        if LEFT_OUT { drop(state); state = self.state(); }
         state.waiting.push_back(sender);",
        )],
        model: "gate::the_bound_holds",
        message: DEADLOCK,
    },
    Mutant {
        name: "room is taken under the lock",
        source: "gate",
        changes: &[(
            "-> Option<Permit> {\n        let mut state = self.state();",
            "-> Option<Permit> {\n        let mut state = self.state();
             if LEFT_OUT && state.waiting.is_empty() && self.has_room(&state) {
                 drop(state);
                 self.state().admit();
                 return Some(self.permit());
             }",
        )],
        model: "gate::the_bound_holds_without_waiting",
        message: "bound",
    },
    Mutant {
        name: "a refused permit is given back",
        source: "gate",
        changes: &[(
            "                state.admitted -= 1;\n                state.unweighed -= 1;",
            "                if !LEFT_OUT { state.admitted -= 1; }
                 state.unweighed -= 1;",
        )],
        model: "gate::a_waiter_gives_up",
        message: "(1, 0)",
    },
    // The following mutants change `op/mod.rs`.
    Mutant {
        name: "a waiting thread is notified",
        source: "op",
        changes: &[(
            "            None => self.arrived.notify_all(),",
            "            None => if !LEFT_OUT { self.arrived.notify_all(); },",
        )],
        model: "op::a_thread_waits",
        message: DEADLOCK,
    },
    Mutant {
        name: "a waiting greenlet is woken",
        source: "op",
        changes: &[(
            "        let sleeper = inner.sleeper.take();
        drop(inner);
        drop(permit);",
            "        let sleeper = if LEFT_OUT { None } else { inner.sleeper.take() };
             drop(inner);
             drop(permit);",
        )],
        model: "op::a_greenlet_waits",
        message: DEADLOCK,
    },
    Mutant {
        name: "a greenlet waits only while nothing has arrived",
        source: "op",
        changes: &[(
            "        let is_running = matches!(inner.phase, Phase::Running);",
            "        let is_running = LEFT_OUT || matches!(inner.phase, Phase::Running);",
        )],
        model: "op::a_greenlet_waits",
        message: DEADLOCK,
    },
    Mutant {
        name: "an abandoned operation wakes its greenlet",
        source: "op",
        changes: &[(
            "        let sleeper = inner.sleeper.take();
        drop(inner);
        drop((awaiting, permit));",
            "        let sleeper = if LEFT_OUT { None } else { inner.sleeper.take() };
             drop(inner);
             drop((awaiting, permit));",
        )],
        model: "op::a_greenlet_waits_for_an_abandoned_operation",
        message: DEADLOCK,
    },
    Mutant {
        name: "a thread waits only while nothing has arrived",
        source: "op",
        changes: &[(
            "                if matches!(inner.phase, Phase::Running) {",
            "                if LEFT_OUT || matches!(inner.phase, Phase::Running) {",
        )],
        model: "op::a_thread_waits",
        message: DEADLOCK,
    },
    Mutant {
        name: "await_by looks for a completion",
        source: "op",
        changes: &[(
            "        let arrived = matches!(inner.phase, Phase::Arrived(_));",
            "        let arrived = !LEFT_OUT && matches!(inner.phase, Phase::Arrived(_));",
        )],
        model: "op::an_event_loop_waits",
        message: DEADLOCK,
    },
    Mutant {
        name: "await_by looks under the lock",
        source: "op",
        changes: &[(
            "        let replaced = inner.awaiting.replace(",
            "        if LEFT_OUT {
                 let arrived = matches!(inner.phase, Phase::Arrived(_));
                 drop(inner);
                 self.lock().awaiting = Some((queue.downgrade(), awaiting));
                 if arrived { queue.push(self.clone()); }
                 return;
             }
             let replaced = inner.awaiting.replace(",
        )],
        model: "op::an_event_loop_waits",
        message: DEADLOCK,
    },
    Mutant {
        // This mutant needs two changes, because the end of the operation also gives up the permit.
        name: "an answer gives up the permit",
        source: "op",
        changes: &[
            (
                "            _ => inner.permit.take(),",
                "            _ => if LEFT_OUT { None } else { inner.permit.take() },",
            ),
            (
                "        let permit = inner.permit.take();\n        drop(inner);",
                "        let permit = if LEFT_OUT { None } else { inner.permit.take() };
                 drop(inner);",
            ),
        ],
        model: "op::a_thread_waits",
        message: "permit",
    },
    Mutant {
        name: "an abandoned operation gives up its permit",
        source: "op",
        changes: &[(
            "(inner.awaiting.take(), inner.permit.take())",
            "(inner.awaiting.take(), if LEFT_OUT { None } else { inner.permit.take() })",
        )],
        model: "op::an_operation_is_abandoned",
        message: "permit",
    },
    Mutant {
        name: "an abandoned operation cancels its request",
        source: "op",
        changes: &[("        self.ticket.cancel();", "        if !LEFT_OUT { self.ticket.cancel(); }")],
        model: "op::an_abandoned_request_ends",
        message: DEADLOCK,
    },
    // The following mutants change `op/bridge.rs`, and one of them `op/mod.rs`.
    Mutant {
        name: "the descriptor is read before the queue",
        source: "bridge",
        changes: &[(
            "        if let Waker::Descriptor(descriptor) = &self.waker {\n",
            "        let early = LEFT_OUT.then(|| self.take());
             if let Waker::Descriptor(descriptor) = &self.waker {\n",
        ), (
            "        let mut burst = self.take().into_iter();",
            "        let mut burst = early.unwrap_or_else(|| self.take()).into_iter();",
        )],
        model: "op::an_event_loop_waits_for_two",
        message: DEADLOCK,
    },
    Mutant {
        name: "a notifier that is asked already does not wait",
        source: "bridge",
        changes: &[(
            "        while *current == NotifierState::Idle {",
            "        let mut waits = LEFT_OUT;
             while std::mem::take(&mut waits) || *current == NotifierState::Idle {",
        )],
        model: "op::a_notifier_is_asked_twice",
        message: DEADLOCK,
    },
    Mutant {
        name: "a queue that goes abandons its operations",
        source: "bridge",
        changes: &[(
            "        self.take().iter().for_each(|op| op.abandon());
        if let Waker",
            "        self.take().iter().for_each(|op| if !LEFT_OUT { op.abandon() });
        if let Waker",
        )],
        model: "op::an_event_loop_goes",
        message: "never abandoned",
    },
    Mutant {
        name: "a completion for a loop that is gone abandons",
        source: "op",
        changes: &[(
            "            Some(None) => self.abandon(),",
            "            Some(None) => if !LEFT_OUT { self.abandon() },",
        )],
        model: "op::an_event_loop_goes",
        message: "never abandoned",
    },
    // The following mutants change `src/classes/result/remaining.rs`.
    Mutant {
        name: "a page that begins waits behind the others",
        source: "remaining",
        changes: &[(
            "pages.push_back((rows, 0))",
            "{ if LEFT_OUT { pages.clear(); } pages.push_back((rows, 0)) }",
        )],
        model: "remaining::two_threads_begin_pages",
        message: "rows were lost",
    },
    Mutant {
        name: "only the page that ended is removed",
        source: "remaining",
        changes: &[("if is_first { pages", "if is_first || LEFT_OUT { pages")],
        model: "remaining::two_threads_begin_pages",
        message: "rows were lost",
    },
    Mutant {
        name: "the position moves under the lock",
        source: "remaining",
        changes: &[(
            "                    *at += 1;
                    Some((rows.clone_ref(py), *at - 1))
                })?;",
            "                    if !LEFT_OUT { *at += 1; }
                    Some((rows.clone_ref(py), *at - usize::from(!LEFT_OUT)))
                })?;
                if LEFT_OUT {
                    self.0.update(py, |pages| {
                        pages.front_mut().into_iter().for_each(|(_, at)| *at += 1)
                    });
                }",
        )],
        model: "remaining::two_threads_begin_pages",
        message: "rows were lost",
    },
];
