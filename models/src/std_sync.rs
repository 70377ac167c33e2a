//! Exports loom's types under the names that they have in `std::sync`.

use std::cell::RefCell;

pub use loom::sync::{Condvar, Mutex, MutexGuard};
// `Arc` comes from std, because loom's `Arc` cannot hold a trait object and has no `Weak`. So
// reference counts are not modeled.
pub use std::sync::{Arc, OnceLock, PoisonError, Weak};

pub mod atomic {
    //! Atomics whose `SeqCst` is at least as strong as Rust's. loom treats `SeqCst` as `AcqRel`,
    //! except in a fence. So here each `SeqCst` access has a fence before and after it. The fences
    //! make the access a little stronger than in Rust: it also orders accesses to other atomics.
    //!
    //! A `SeqCst` store is made as a swap. Suppose that one thread swaps in a value, then a second
    //! thread stores a value, and then a third thread swaps. If the store were a plain store, loom
    //! would allow the second swap to read the value of the first swap. Rust does not allow this: a
    //! swap reads the newest value of the atomic, which is the stored value. The swap in place of
    //! the store adds no order, because all `SeqCst` accesses to an atomic are in one order anyway.

    use loom::sync::atomic::fence;
    pub use std::sync::atomic::Ordering;

    fn fenced<T>(order: Ordering, access: impl FnOnce() -> T) -> T {
        if order != Ordering::SeqCst {
            return access();
        }
        fence(Ordering::SeqCst);
        let value = access();
        fence(Ordering::SeqCst);
        value
    }

    macro_rules! atomic {
        ($name:ident, $value:ty $(, $change:ident)*) => {
            #[derive(Debug, Default)]
            pub struct $name(loom::sync::atomic::$name);

            #[allow(dead_code, reason = "not every atomic uses every method")]
            impl $name {
                pub fn new(value: $value) -> $name {
                    $name(loom::sync::atomic::$name::new(value))
                }

                pub fn load(&self, order: Ordering) -> $value {
                    fenced(order, || self.0.load(order))
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    if order == Ordering::SeqCst {
                        self.swap(value, order);
                    } else {
                        self.0.store(value, order);
                    }
                }

                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    fenced(order, || self.0.swap(value, order))
                }

                $(pub fn $change(&self, value: $value, order: Ordering) -> $value {
                    fenced(order, || self.0.$change(value, order))
                })*
            }
        };
    }

    atomic!(AtomicBool, bool);
    atomic!(AtomicUsize, usize, fetch_add, fetch_sub);
    atomic!(AtomicU64, u64, fetch_add, fetch_max);
}

/// Methods of `std::thread::LocalKey` that loom's `LocalKey` lacks.
pub trait LocalRefCell<T> {
    fn with_borrow<R>(&'static self, read: impl FnOnce(&T) -> R) -> R;
    fn with_borrow_mut<R>(&'static self, change: impl FnOnce(&mut T) -> R) -> R;

    fn set(&'static self, value: T) {
        drop(self.with_borrow_mut(|old| std::mem::replace(old, value)));
    }

    fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with_borrow_mut(std::mem::take)
    }
}

impl<T: 'static> LocalRefCell<T> for loom::thread::LocalKey<RefCell<T>> {
    fn with_borrow<R>(&'static self, read: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| read(&cell.borrow()))
    }

    fn with_borrow_mut<R>(&'static self, change: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| change(&mut cell.borrow_mut()))
    }
}
