//! Rows that may be at fault themselves, and whether others succeed meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A row whose error may be of its own.
#[derive(Debug)]
pub(super) struct Suspect {
    /// The nodes that have its partition.
    replicas: Vec<[u8; 16]>,
    others_succeeded: AtomicBool,
}

/// All suspects that are being tried again.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// So that requests that succeed cost nothing while there are no suspects.
    any: AtomicBool,
    all: Mutex<Vec<Weak<Suspect>>>,
}

impl Suspect {
    /// Whether another row of the same nodes has succeeded since this one has failed first.
    pub(super) fn others_succeeded(&self) -> bool {
        self.others_succeeded.load(Ordering::Relaxed)
    }
}

impl Suspects {
    pub(super) fn add(&self, replicas: Vec<[u8; 16]>) -> Arc<Suspect> {
        let suspect = Arc::new(Suspect { replicas, others_succeeded: AtomicBool::new(false) });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::downgrade(&suspect));
        self.any.store(true, Ordering::Relaxed);
        suspect
    }

    /// Notes that a row has succeeded.
    pub(super) fn others_succeeded(&self, replicas: impl FnOnce() -> Vec<[u8; 16]>) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let replicas = replicas();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|suspect| {
            let Some(suspect) = suspect.upgrade() else { return false };
            if suspect.replicas == replicas {
                suspect.others_succeeded.store(true, Ordering::Relaxed);
            }
            // Nothing more is to be learned about one that others have outdone.
            !suspect.others_succeeded()
        });
        self.any.store(!all.is_empty(), Ordering::Relaxed);
    }
}
