//! Completion queues, without the code that connects them to Python event loops.

use crate::op::OpState;
use crate::op::descriptor::Descriptor;
use crate::op::ready::{Burst, ReadyQueue, call_release_soon};
use crate::stand_ins::python::{PyException, PyResult, Python};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use turbocql_engine::{Runtime, Wake};

source!("bridge");

impl LoopQueue {
    /// Makes the queue of an event loop that watches a descriptor.
    pub fn watched() -> Arc<LoopQueue> {
        let waker = Waker::Descriptor(Descriptor::default());
        Arc::new(LoopQueue { completed: Mutex::default(), waker, ready_queue: None })
    }

    pub fn downgrade(self: &Arc<Self>) -> WeakQueue {
        WeakQueue(Arc::downgrade(self))
    }

    /// Runs a round of the event loop: blocks until it is woken, and handles the completions.
    pub fn round(&self) {
        if let Waker::Descriptor(descriptor) = &self.waker {
            descriptor.select();
        }
        self.handle();
    }

    /// Handles the completions in the queue.
    pub fn handle(&self) {
        self.drain(Python::attached()).unwrap();
        Runtime::release();
    }
}

/// A `Weak<LoopQueue>` whose upgrades loom sees: it tries each order of upgrades and other changes
/// of the reference count.
pub struct WeakQueue(Weak<LoopQueue>);

impl WeakQueue {
    pub fn upgrade(&self) -> Option<Arc<LoopQueue>> {
        counts_change();
        self.0.upgrade()
    }
}

loom::lazy_static! {
    static ref COUNTS: AtomicBool = AtomicBool::new(false);
}

/// Called before or after a change of the number of references to a queue. loom tries every order
/// of these calls, because they access the same atomic.
pub fn counts_change() {
    COUNTS.swap(true, Ordering::AcqRel);
}

/// Asks a Python thread to wake an event loop.
#[derive(Clone, Default)]
pub struct Asking(Arc<Notifier>);

impl Asking {
    pub fn ask(&self) {
        self.0.ask();
    }

    pub fn end(&self) {
        self.0.end();
    }

    pub fn next(&self) -> bool {
        self.0.next()
    }
}
