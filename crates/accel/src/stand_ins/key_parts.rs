//! The stand-in for `Statement._key_parts_packed`, which packs the values of a partition key, here
//! called parts. The driver joins the packed parts to a routing key.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyIterator};
use turbocql_codec::message::Body;
use turbocql_codec::token;

use super::counts::Counts;
use crate::ffi::call::{self, StandIn};
use turbocql_values::ffi::bytes;
use turbocql_values::memory::with_scratch;

/// Stands in for `_key_parts_packed(parts)`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct KeyPartsStandIn {
    original: Py<PyAny>,
    counts: Counts,
}

#[pymethods]
impl KeyPartsStandIn {
    #[new]
    fn new(original: Py<PyAny>) -> KeyPartsStandIn {
        KeyPartsStandIn { original, counts: Counts::default() }
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl StandIn for KeyPartsStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [statement, parts] = arguments else { return Ok(None) };
        let parts = PackedParts::new(stand_in.original.clone_ref(py), statement, parts);
        let result = Bound::new(py, parts)?.into_any();
        stand_in.counts.native();
        Ok(Some(result))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}

/// Whether `_key_parts_packed` of a statement is the driver's function `packer`, or the stand-in
/// for that function.
pub fn packs_as_driver(packer: &Py<PyAny>, statement: &Bound<'_, PyAny>) -> bool {
    let py = statement.py();
    let function = statement
        .getattr(pyo3::intern!(py, "_key_parts_packed"))
        .and_then(|method| method.getattr(pyo3::intern!(py, "__func__")));
    function.is_ok_and(|function| call::stands_for(&function, packer))
}

/// Makes the routing key from several parts; `None` if a part is longer than 65,535 bytes.
pub fn packed<'py>(
    py: Python<'py>,
    parts: &[Bound<'py, PyBytes>],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    with_scratch(|out| token::routing_key(&parts, out).ok().map(|()| bytes::copy(py, out)))
        .transpose()
}

/// An iterator over packed parts, in place of the generator that the driver's `_key_parts_packed`
/// returns. Each part is packed when the iterator reaches it.
#[pyclass(frozen, module = "turbocql._core")]
pub struct PackedParts {
    /// The driver's `_key_parts_packed`, which is called for each part that is not packed natively.
    original: Py<PyAny>,
    statement: Py<PyAny>,
    /// None while `__next__` runs.
    at: Mutex<Option<At>>,
}

enum At {
    /// The iterable of parts. It is not iterated over before the first call of `__next__`.
    Start(Py<PyAny>),
    Part(Py<PyIterator>),
    End,
}

#[pymethods]
impl PackedParts {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(at) = self.lock().take() else {
            // A generator raises the same error.
            return Err(PyValueError::new_err("generator already executing"));
        };
        let step = match at {
            At::Start(parts) => parts.bind(py).try_iter().map(Some),
            At::Part(parts) => Ok(Some(parts.into_bound(py))),
            At::End => Ok(None),
        };
        let step = step.and_then(|parts| {
            let Some(mut parts) = parts else { return Ok(None) };
            let Some(part) = parts.next() else { return Ok(None) };
            Ok(Some((self.pack(&part?)?, parts)))
        });
        // As with a generator, an error or the end of the parts ends the iteration.
        let (at, item) = match step {
            Ok(Some((item, parts))) => (At::Part(parts.unbind()), Ok(Some(item))),
            Ok(None) => (At::End, Ok(None)),
            Err(error) => (At::End, Err(error)),
        };
        *self.lock() = Some(at);
        item
    }

    /// Ends the iteration, as `close` of a generator does.
    fn close(&self) -> PyResult<()> {
        let mut at = self.lock();
        if at.is_none() {
            return Err(PyValueError::new_err("generator already executing"));
        }
        let before = at.replace(At::End);
        // The mutex is unlocked before the parts are dropped, because dropping them may run Python
        // code.
        drop(at);
        drop(before);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.original)?;
        visit.call(&self.statement)?;
        // The GC must not block on the mutex.
        match self.at.try_lock().as_deref() {
            Ok(Some(At::Start(parts))) => visit.call(parts),
            Ok(Some(At::Part(parts))) => visit.call(parts),
            _ => Ok(()),
        }
    }
}

impl PackedParts {
    fn new(
        original: Py<PyAny>,
        statement: &Bound<'_, PyAny>,
        parts: &Bound<'_, PyAny>,
    ) -> PackedParts {
        let at = Mutex::new(Some(At::Start(parts.clone().unbind())));
        PackedParts { original, statement: statement.clone().unbind(), at }
    }

    fn lock(&self) -> MutexGuard<'_, Option<At>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packs a part as `[uint16 length][bytes][0]`. If the part is not an exact `bytes`, or is too
    /// long, the driver's function packs it or raises its error.
    fn pack<'py>(&self, part: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = part.py();
        if let Ok(exact) = part.cast_exact::<PyBytes>()
            && let Ok(length) = u16::try_from(exact.as_bytes().len())
        {
            let item = bytes::build(py, 3 + usize::from(length), |item| {
                item.put(&length.to_be_bytes());
                item.put(exact.as_bytes());
                item.put(&[0]);
                true
            })?;
            if let Some(item) = item {
                return Ok(item.into_any());
            }
        }
        let items = self.original.bind(py).call1((&self.statement, (part,)))?;
        let mut items = items.try_iter()?;
        items.next().unwrap_or_else(|| Err(PyValueError::new_err("the driver packed no part")))
    }
}
