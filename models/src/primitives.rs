//! Stands in for the parts of `tokio::sync` and `futures` that the engine uses, with the simplest
//! code that has the documented guarantees.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};

/// Stands in for `tokio::sync::Notify`. At most one task can wait. The `bool` says whether a
/// notification is stored, and the waker is that of the waiting task.
#[derive(Default)]
pub struct Notify(Mutex<(bool, Option<Waker>)>);

impl Notify {
    pub fn new() -> Notify {
        Notify::default()
    }

    pub fn notify_one(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    pub fn notified(&self) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if std::mem::take(&mut state.0) {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
    }
}

/// Stands in for `tokio::select!`. It accepts only arms like those of the `select!` in `queue.rs`.
#[macro_export]
macro_rules! select {
    (biased; () = $first:expr => $one:block () = $second:expr, if $enabled:expr => $two:block) => {
        let (enabled, is_first) = ($enabled, {
            let (mut first, mut second) = (std::pin::pin!($first), $second);
            let enabled = $enabled;
            std::future::poll_fn(|context| {
                if first.as_mut().poll(context).is_ready() {
                    return std::task::Poll::Ready(true);
                }
                if enabled && std::pin::Pin::new(&mut second).poll(context).is_ready() {
                    return std::task::Poll::Ready(false);
                }
                std::task::Poll::Pending
            })
            .await
        });
        if is_first $one else if enabled $two
    };
}

pub mod oneshot {
    //! Stands in for `tokio::sync::oneshot`.

    use super::*;

    #[derive(Debug)]
    struct State<T> {
        value: Option<T>,
        waker: Option<Waker>,
        sender_gone: bool,
        closed: bool,
    }

    #[derive(Debug)]
    pub struct Sender<T>(Arc<Mutex<State<T>>>);

    pub struct Receiver<T>(Arc<Mutex<State<T>>>);

    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let state = State { value: None, waker: None, sender_gone: false, closed: false };
        let state = Arc::new(Mutex::new(state));
        (Sender(Arc::clone(&state)), Receiver(state))
    }

    impl<T> Sender<T> {
        pub fn is_closed(&self) -> bool {
            self.0.lock().unwrap().closed
        }

        pub fn send(self, value: T) -> Result<(), T> {
            let mut state = self.0.lock().unwrap();
            if state.closed {
                return Err(value);
            }
            state.value = Some(value);
            Ok(())
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            let mut state = self.0.lock().unwrap();
            state.sender_gone = true;
            let waker = state.waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    impl<T> Future for Receiver<T> {
        type Output = Result<T, ()>;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            let mut state = self.0.lock().unwrap();
            if let Some(value) = state.value.take() {
                return Poll::Ready(Ok(value));
            }
            if state.sender_gone {
                return Poll::Ready(Err(()));
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            let mut state = self.0.lock().unwrap();
            state.closed = true;
            let value = state.value.take();
            drop(state);
            drop(value);
        }
    }
}

/// Stands in for `futures::task::AtomicWaker`.
#[derive(Debug, Default)]
pub struct AtomicWaker(Mutex<Option<Waker>>);

impl AtomicWaker {
    pub fn register(&self, waker: &Waker) {
        let replaced = self.0.lock().unwrap().replace(waker.clone());
        drop(replaced);
    }

    pub fn wake(&self) {
        let waker = self.0.lock().unwrap().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Stands in for `futures::future::abortable`.
pub fn abortable<F: Future>(future: F) -> (Abortable<F>, AbortHandle) {
    let state = Arc::<AbortState>::default();
    (Abortable { future: Box::pin(future), state: Arc::clone(&state) }, AbortHandle(state))
}

#[derive(Default)]
struct AbortState {
    aborted: AtomicBool,
    waker: AtomicWaker,
}

pub struct Abortable<F> {
    future: Pin<Box<F>>,
    state: Arc<AbortState>,
}

pub struct AbortHandle(Arc<AbortState>);

impl AbortHandle {
    pub fn abort(&self) {
        self.0.aborted.store(true, Ordering::Release);
        self.0.waker.wake();
    }
}

impl<F: Future> Future for Abortable<F> {
    type Output = Result<F::Output, ()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.state.aborted.load(Ordering::Acquire) {
            return Poll::Ready(Err(()));
        }
        if let Poll::Ready(value) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        self.state.waker.register(context.waker());
        if self.state.aborted.load(Ordering::Acquire) {
            return Poll::Ready(Err(()));
        }
        Poll::Pending
    }
}
