//! Lets concurrent calls that prepare the same text share one round trip.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::OnceCell;

/// The calls in progress, by key. A further call with the same key gets the result of the call in
/// progress.
///
/// No result is kept for later calls.
pub(crate) struct Merge<T> {
    under_way: Mutex<HashMap<String, Arc<OnceCell<T>>>>,
}

impl<T: Clone> Merge<T> {
    pub(crate) fn new() -> Merge<T> {
        Merge { under_way: Mutex::default() }
    }

    /// Returns the result of `work`, or of the `work` that another caller has begun for this key.
    /// If that caller drops its future, one of the waiting callers takes over with its own `work`.
    pub(crate) async fn run<F>(&self, key: &str, work: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T>,
    {
        let cell = Arc::clone(self.under_way().entry(key.to_owned()).or_default());
        let leave = Leave { merge: self, key, cell };
        leave.cell.get_or_init(work).await.clone()
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<T>>>> {
        self.under_way.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Held by each caller of [`Merge::run`]. When it is dropped, it removes the key if the result
/// exists, or if no other caller waits for the result.
struct Leave<'a, T: Clone> {
    merge: &'a Merge<T>,
    key: &'a str,
    cell: Arc<OnceCell<T>>,
}

impl<T: Clone> Drop for Leave<'_, T> {
    fn drop(&mut self) {
        let mut under_way = self.merge.under_way();
        let is_in_map = under_way.get(self.key).is_some_and(|cell| Arc::ptr_eq(cell, &self.cell));
        // A strong count of 2 means that the map and this caller have the only references. Other
        // callers take their references only under the lock.
        if is_in_map && (self.cell.initialized() || Arc::strong_count(&self.cell) == 2) {
            under_way.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn concurrent_calls_share_one_result_and_later_ones_do_not() {
        let (merge, calls) = (Merge::new(), AtomicUsize::new(0));
        let work = || async {
            tokio::task::yield_now().await;
            calls.fetch_add(1, Ordering::Relaxed)
        };
        block_on(async {
            let results = futures::future::join_all((0..10).map(|_| merge.run("a", work))).await;
            assert_eq!(results, [0; 10]);
            assert!(merge.under_way().is_empty());
            assert_eq!(merge.run("a", work).await, 1);
        });
    }

    #[test]
    fn a_waiting_caller_takes_over_if_the_first_gives_up() {
        let merge = Merge::new();
        block_on(async {
            let never = || std::future::pending::<u32>();
            let mut first = Box::pin(merge.run("a", never));
            let mut second = Box::pin(merge.run("a", || async { 2 }));
            assert!(futures::poll!(&mut first).is_pending());
            assert!(futures::poll!(&mut second).is_pending());
            drop(first);
            assert_eq!(second.await, 2);
            assert!(merge.under_way().is_empty());
        });
    }

    #[test]
    fn no_key_is_left_when_all_callers_give_up() {
        let merge: Merge<u32> = Merge::new();
        block_on(async {
            let mut only = Box::pin(merge.run("a", std::future::pending));
            assert!(futures::poll!(&mut only).is_pending());
            drop(only);
            assert!(merge.under_way().is_empty());
        });
    }
}
