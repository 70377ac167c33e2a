//! Bounds the number and the bytes of a session's requests in flight.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Admits requests, first come first served, while fewer than `maximum` are in flight and their
/// values have fewer than `maximum_bytes` bytes.
#[derive(Debug)]
pub struct Gate {
    maximum: usize,
    maximum_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    admitted: usize,
    bytes: usize,
    /// The number of admitted requests whose bytes are not known yet.
    unweighed: usize,
    /// The number of bytes that an unweighed request is expected to have. It is the number of bytes
    /// of the largest recent request, but decreases by at most an eighth per request.
    expected: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// A request's place among the requests in flight. Dropping the permit admits waiting requests if
/// there is room.
#[derive(Debug)]
pub struct Permit {
    /// The field is `None` if the place was released already.
    gate: Option<Arc<Gate>>,
    bytes: usize,
    is_weighed: bool,
}

impl State {
    fn admit(&mut self) {
        self.admitted += 1;
        self.unweighed += 1;
    }
}

/// A request's place in the queue. A request that is admitted at once has its permit already.
pub enum QueuePosition {
    First(Permit),
    Queued(Arc<Gate>, oneshot::Receiver<Permit>),
}

impl Gate {
    pub fn new(maximum: usize, maximum_bytes: usize) -> Arc<Gate> {
        Arc::new(Gate { maximum, maximum_bytes, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more request may be admitted. A request's bytes are known only after it is
    /// encoded. Until then, its expected size is used: otherwise all waiting requests would be
    /// admitted at once.
    fn has_room(&self, state: &State) -> bool {
        let unweighed = state.unweighed.saturating_mul(state.expected);
        state.admitted < self.maximum && state.bytes.saturating_add(unweighed) < self.maximum_bytes
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit { gate: Some(Arc::clone(self)), bytes: 0, is_weighed: false }
    }

    /// Admits a request if there is room, and no earlier request waits.
    pub fn try_enter(self: &Arc<Self>) -> Option<Permit> {
        let mut state = self.state();
        if !state.waiting.is_empty() || !self.has_room(&state) {
            return None;
        }
        state.admit();
        drop(state);
        Some(self.permit())
    }

    /// Joins the queue at once. Dropping the returned position leaves the queue.
    pub fn join_queue(self: &Arc<Self>) -> QueuePosition {
        let mut state = self.state();
        if state.waiting.is_empty() && self.has_room(&state) {
            state.admit();
            drop(state);
            return QueuePosition::First(self.permit());
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push_back(sender);
        QueuePosition::Queued(Arc::clone(self), receiver)
    }

    /// Waits until the request is admitted. If the future is dropped, the request gives up its
    /// place in the queue.
    pub async fn enter(self: &Arc<Self>) -> Permit {
        self.join_queue().admitted().await
    }

    /// The maximum number of requests, and the maximum number of bytes.
    pub fn limits(&self) -> (usize, usize) {
        (self.maximum, self.maximum_bytes)
    }

    /// The number of admitted requests, and the number of bytes of their values.
    pub fn admitted(&self) -> (usize, usize) {
        let state = self.state();
        (state.admitted, state.bytes)
    }

    /// The number of requests that wait to be admitted.
    pub fn waiting(&self) -> usize {
        self.state().waiting.iter().filter(|position| !position.is_closed()).count()
    }

    fn leave(self: &Arc<Self>, bytes: usize, is_weighed: bool) {
        let mut state = self.state();
        state.admitted -= 1;
        state.bytes -= bytes;
        state.unweighed -= usize::from(!is_weighed);
        self.admit_waiting(state);
    }

    /// Adds bytes of an admitted request, and admits waiting requests if there is room.
    fn weigh(self: &Arc<Self>, bytes: usize, is_weighed: bool) {
        let mut state = self.state();
        state.bytes += bytes;
        if !is_weighed {
            state.unweighed -= 1;
            state.expected = bytes.max(state.expected - state.expected / 8);
        }
        self.admit_waiting(state);
    }

    fn admit_waiting<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        while self.has_room(&state)
            && let Some(next) = state.waiting.pop_front()
        {
            // A request that has left the queue needs no room.
            if next.is_closed() {
                continue;
            }
            state.admit();
            let permit = self.permit();
            drop(state);
            // The request may leave the queue at this moment. Dropping its permit must not admit
            // the next request: in a long queue of such requests, the calls would nest too deeply.
            let refused = next.send(permit).err();
            state = self.state();
            if let Some(mut permit) = refused {
                state.admitted -= 1;
                state.unweighed -= 1;
                permit.gate = None;
            }
        }
    }
}

impl QueuePosition {
    /// Waits until the request is admitted.
    pub async fn admitted(mut self) -> Permit {
        loop {
            match self {
                QueuePosition::First(permit) => return permit,
                // The sender lives as long as the gate, and the position keeps the gate alive.
                QueuePosition::Queued(gate, receiver) => match receiver.await {
                    Ok(permit) => return permit,
                    Err(_) => self = gate.join_queue(),
                },
            }
        }
    }
}

impl Permit {
    /// Adds bytes of the request's values.
    pub fn weigh(&mut self, bytes: usize) {
        if let Some(gate) = &self.gate {
            self.bytes += bytes;
            gate.weigh(bytes, std::mem::replace(&mut self.is_weighed, true));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.leave(self.bytes, self.is_weighed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn requests_are_admitted_in_their_order() {
        let gate = Gate::new(1, 100);
        let first = gate.try_enter().unwrap();
        assert!(gate.try_enter().is_none());
        let (mut second, mut third) = (pin!(gate.enter()), pin!(gate.enter()));
        assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
        drop(first);
        // There is room, but it is reserved for the second request.
        assert!(gate.try_enter().is_none() && poll(third.as_mut()).is_none());
        let second = poll(second).unwrap();
        assert_eq!(gate.admitted(), (1, 0));
        drop(second);
        drop(poll(third).unwrap());
        assert_eq!(gate.admitted(), (0, 0));
    }

    #[test]
    fn bytes_count_too() {
        let gate = Gate::new(10, 100);
        let mut large = gate.try_enter().unwrap();
        large.weigh(60);
        let mut larger = gate.try_enter().unwrap();
        larger.weigh(60);
        assert!(gate.try_enter().is_none());
        drop(large);
        assert_eq!(gate.admitted(), (1, 60));
        assert!(gate.try_enter().is_some());
    }

    #[test]
    fn one_answer_does_not_admit_all_that_wait() {
        let gate = Gate::new(100, 100);
        let mut first = gate.try_enter().unwrap();
        first.weigh(100);
        let mut waiting: Vec<_> = (0..50).map(|_| Box::pin(gate.enter())).collect();
        assert!(waiting.iter_mut().all(|entering| poll(entering.as_mut()).is_none()));
        drop(first);
        let mut last: Option<Permit> = None;
        for entering in &mut waiting {
            // A request is admitted when the previous one has ended, or is smaller than expected.
            drop(last.take());
            assert_eq!(gate.admitted().0, 1);
            let mut permit = poll(entering.as_mut()).unwrap();
            permit.weigh(100);
            assert_eq!(gate.admitted(), (1, 100));
            last = Some(permit);
        }
        drop(last);
        assert_eq!(gate.admitted(), (0, 0));
        // Small requests do not wait for long after large ones.
        let mut large = gate.try_enter().unwrap();
        large.weigh(100);
        let mut waiting: Vec<_> = (0..50).map(|_| Box::pin(gate.enter())).collect();
        assert!(waiting.iter_mut().all(|entering| poll(entering.as_mut()).is_none()));
        drop(large);
        let mut small = Vec::new();
        for entering in &mut waiting {
            let mut permit = poll(entering.as_mut()).unwrap();
            permit.weigh(1);
            small.push(permit);
        }
        assert_eq!(gate.admitted(), (50, 50));
    }

    #[test]
    fn requests_that_give_up_are_passed_over() {
        let gate = Gate::new(1, 100);
        let first = gate.try_enter().unwrap();
        {
            let mut abandoned: Vec<_> = (0..100_000).map(|_| Box::pin(gate.enter())).collect();
            assert!(abandoned.iter_mut().all(|entering| poll(entering.as_mut()).is_none()));
        }
        let mut patient = pin!(gate.enter());
        assert!(poll(patient.as_mut()).is_none());
        drop(first);
        assert!(poll(patient).is_some());
        // A permit that was sent but not received is given back.
        let first = gate.try_enter().unwrap();
        {
            let mut abandoned = pin!(gate.enter());
            assert!(poll(abandoned.as_mut()).is_none());
            drop(first);
        }
        assert_eq!(gate.admitted(), (0, 0));
    }
}
