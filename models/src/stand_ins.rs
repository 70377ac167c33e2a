//! Stands in for the code that the copied sources use: modules of turbocql, and parts of pyo3.

pub mod engine {
    //! Stands in for the modules of the engine that the sources name.

    use crate::executor::block_on;
    use crate::queue::Shared;
    use crate::sync::{Arc, Mutex, Notify};
    use crate::time::Instant;

    #[derive(Clone, Debug)]
    pub struct EngineError;

    #[derive(Clone, Debug, Default)]
    pub struct RowBuffer;

    impl RowBuffer {
        pub fn byte_len(&self) -> usize {
            1
        }
    }

    pub struct Prepared;

    #[derive(Clone, Default)]
    pub struct RequestOptions;

    impl RequestOptions {
        pub fn payload_len(&self) -> usize {
            0
        }
    }

    #[derive(Debug)]
    pub struct Response;

    pub struct Attempts;

    impl Attempts {
        pub fn idle() -> Arc<Attempts> {
            Arc::new(Attempts)
        }

        pub fn close(&self) {}
    }

    pub struct BulkOutcome;

    pub struct Trace;

    #[allow(dead_code, reason = "the sources name it, the models do not read it")]
    pub enum PageSource {
        Prepared(Arc<Prepared>, Arc<RowBuffer>),
    }

    /// A session. Its server answers one request for each call of [`Session::answer`].
    #[derive(Default)]
    pub struct Session {
        answers: Notify,
    }

    impl Session {
        pub fn answer(&self) {
            self.answers.notify_one();
        }

        /// Called when an operation executes its statement again.
        pub async fn send(request: &Request<'_>) -> Result<Response, EngineError> {
            execute(request, None, &mut Attempts::idle()).await
        }
    }

    /// The arguments of [`execute`].
    #[allow(dead_code, reason = "the sources name it, the models do not read it")]
    pub struct Request<'a> {
        pub session: &'a Session,
        pub prepared: &'a Arc<Prepared>,
        pub row: &'a RowBuffer,
        pub options: &'a RequestOptions,
        pub began: Option<Instant>,
    }

    pub async fn execute(
        request: &Request<'_>,
        _: Option<()>,
        _: &mut Arc<Attempts>,
    ) -> Result<Response, EngineError> {
        request.session.answers.notified().await;
        Ok(Response)
    }

    /// Stands in for the `Runtime` of `runtime.rs`. It runs and ends the I/O thread in the same way
    /// as `Runtime::start` and `Inner::shutdown` in `runtime.rs`.
    #[derive(Clone)]
    pub struct Runtime(Arc<Inner>);

    struct Inner {
        shared: Arc<Shared>,
        thread: Mutex<Option<loom::thread::JoinHandle<()>>>,
    }

    impl Runtime {
        /// If `several` is true, the runtime behaves like one with several I/O threads: its thread
        /// does not call `before_park` and `after_unpark`.
        ///
        /// If `time_passes` is true, a timer fires when the I/O thread has nothing else to do. If
        /// it is false, timers never fire.
        pub fn start(several: bool, time_passes: bool) -> Runtime {
            let shared = Arc::new(Shared::new(several));
            let thread = loom::thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let (parks, unparks) = (Arc::clone(&shared), Arc::clone(&shared));
                    let before = move || {
                        if !several {
                            parks.before_park()
                        }
                    };
                    let after = move || {
                        if !several {
                            unparks.after_unpark()
                        }
                    };
                    block_on(Arc::clone(&shared).live(), time_passes, before, after);
                    shared.end();
                }
            });
            Runtime(Arc::new(Inner { shared, thread: Mutex::new(Some(thread)) }))
        }

        pub(crate) fn shared(&self) -> &Arc<Shared> {
            &self.0.shared
        }

        pub fn in_flight(&self) -> usize {
            self.0.shared.in_flight()
        }

        pub fn shutdown(&self) {
            self.0.shared.close();
            self.0.shared.wake();
            let thread = self.0.thread.lock().unwrap().take();
            thread.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}

pub mod python {
    //! Stands in for pyo3, without an interpreter. The GIL is not modeled. So loom tries all
    //! interleavings that are possible with the GIL, and others too.

    use std::marker::PhantomData;

    use crate::sync::Arc;

    #[derive(Clone, Copy)]
    pub struct Python<'py>(PhantomData<&'py ()>);

    impl Python<'_> {
        pub fn attached() -> Python<'static> {
            Python(PhantomData)
        }

        pub fn detach<T>(self, run: impl FnOnce() -> T) -> T {
            run()
        }

        pub fn check_signals(self) -> PyResult<()> {
            Ok(())
        }
    }

    pub struct PyAny;

    pub struct Py<T>(pub Arc<T>);

    impl<T> Py<T> {
        pub fn bind(&self, _: Python<'_>) -> &Arc<T> {
            &self.0
        }

        pub fn clone_ref(&self, _: Python<'_>) -> Py<T> {
            Py(Arc::clone(&self.0))
        }

        pub fn is(&self, other: &Py<T>) -> bool {
            Arc::ptr_eq(&self.0, &other.0)
        }
    }

    pub struct Bound<'py, T>(Py<T>, PhantomData<&'py ()>);

    impl<T> Bound<'_, T> {
        pub fn new(value: T) -> Self {
            Bound(Py(Arc::new(value)), PhantomData)
        }

        pub fn unbind(self) -> Py<T> {
            self.0
        }
    }

    /// A list of numbers.
    pub struct PyList(pub Vec<usize>);

    impl PyList {
        pub fn get_item(&self, index: usize) -> PyResult<usize> {
            self.0.get(index).copied().ok_or(PyErr)
        }
    }

    /// Stands in for the visitor that the GC passes to `traverse`. The GC does not run in the
    /// models.
    pub struct PyVisit<'a>(PhantomData<&'a ()>);

    impl PyVisit<'_> {
        pub fn call(&self, _: &Py<PyList>) -> Result<(), PyTraverseError> {
            Ok(())
        }
    }

    pub struct PyTraverseError;

    #[derive(Debug)]
    pub struct PyErr;

    pub type PyResult<T> = Result<T, PyErr>;

    impl PyErr {
        #[allow(clippy::extra_unused_type_parameters, reason = "the parameter is that of pyo3")]
        pub fn is_instance_of<T>(&self, _: Python<'_>) -> bool {
            true
        }
    }

    /// Stands in for `ending::Inside`.
    pub struct Inside;

    impl Inside {
        pub fn enter(_: Python<'_>) -> Inside {
            Inside
        }
    }

    pub struct PyException;

    pub struct PyRuntimeError;

    impl PyRuntimeError {
        pub fn new_err(_: &str) -> PyErr {
            PyErr
        }
    }
}

pub mod awaiting {
    //! Stands in for `OpAwait`, as far as `OpState` uses it.

    use super::python::PyResult;
    use super::ready::Burst;
    use crate::op::OpState;
    use crate::sync::Arc;
    use crate::sync::atomic::{AtomicUsize, Ordering};

    /// A coroutine that counts the calls of `finish`.
    #[derive(Default)]
    pub struct OpAwait(AtomicUsize);

    impl OpAwait {
        pub fn of(_: Arc<OpState>) -> OpAwait {
            OpAwait::default()
        }

        pub fn finish(this: &Arc<OpAwait>, _: &mut Burst<'_, '_>) -> PyResult<bool> {
            this.0.fetch_add(1, Ordering::AcqRel);
            Ok(true)
        }

        pub fn finished(&self) -> usize {
            self.0.load(Ordering::Acquire)
        }
    }
}

pub mod greenlets {
    //! Stands in for the hub of gevent, which watches a descriptor for its greenlets.

    use super::descriptor::Descriptor;
    use super::python::{PyResult, Python};
    use crate::op::OpState;
    use crate::sync::Arc;

    pub struct Sleeper(Arc<Descriptor>);

    impl Sleeper {
        pub fn of(descriptor: &Arc<Descriptor>) -> Sleeper {
            Sleeper(Arc::clone(descriptor))
        }

        pub fn wake(self) {
            self.0.wake();
        }
    }

    /// Returns false, so that `Op.wait` blocks a thread. Greenlets call `wait_in_hub`.
    pub fn may_run() -> bool {
        false
    }

    pub fn wait(_: Python<'_>, _: &Arc<OpState>) -> PyResult<bool> {
        Ok(false)
    }
}

pub mod ready {
    //! Stands in for the batch of tasks that are woken in one round of an event loop.

    use std::marker::PhantomData;

    use super::python::{PyResult, Python};

    pub struct ReadyQueue;

    pub struct Burst<'a, 'py>(PhantomData<(&'a (), &'py ())>);

    impl Burst<'_, '_> {
        pub fn new(_: Option<&ReadyQueue>) -> Burst<'_, '_> {
            Burst(PhantomData)
        }

        pub fn schedule(self, _: Python<'_>) -> PyResult<()> {
            Ok(())
        }
    }

    pub fn call_release_soon(_: Python<'_>) -> PyResult<()> {
        Ok(())
    }
}

pub mod descriptor {
    //! Stands in for the descriptor that an event loop or a hub watches. It behaves like an
    //! eventfd.

    use crate::sync::{Condvar, Mutex};

    #[derive(Default)]
    pub struct Descriptor {
        count: Mutex<u64>,
        readable: Condvar,
    }

    impl Descriptor {
        /// Blocks until the descriptor is readable, as an event loop does between two rounds.
        pub fn select(&self) {
            let mut count = self.count.lock().unwrap();
            while *count == 0 {
                count = self.readable.wait(count).unwrap();
            }
        }

        pub fn clear(&self) {
            *self.count.lock().unwrap() = 0;
        }

        pub fn wake(&self) {
            *self.count.lock().unwrap() += 1;
            self.readable.notify_one();
        }
    }
}
