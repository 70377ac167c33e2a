//! Tracks rows that may cause their errors themselves, and whether other rows succeed on the same
//! replicas.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A row that may be the cause of its error.
#[derive(Debug)]
pub(super) struct Suspect {
    /// The replicas of the row's partition.
    replicas: Vec<[u8; 16]>,
    others_succeeded: AtomicBool,
}

/// The suspects that are being tried again. A suspect is removed when another row has succeeded on
/// the same replicas.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Whether there are suspects. While there are none, a success does not take the lock.
    any: AtomicBool,
    all: Mutex<Vec<Weak<Suspect>>>,
}

impl Suspect {
    /// Whether a row with the same replicas has succeeded since this row first failed.
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

    /// Notes that a row with these replicas has succeeded.
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
            // A suspect whose flag is set need not be tracked any longer.
            !suspect.others_succeeded()
        });
        self.any.store(!all.is_empty(), Ordering::Relaxed);
    }
}
