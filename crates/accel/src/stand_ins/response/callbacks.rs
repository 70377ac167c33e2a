//! Adds callbacks, and errbacks (callbacks for errors), to futures of the driver.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::Responses;
use crate::stand_ins::arguments::sorted;
use crate::stand_ins::fields::State;

const PARAMETERS: [&str; 7] = [
    "self",
    "callback",
    "errback",
    "callback_args",
    "callback_kwargs",
    "errback_args",
    "errback_kwargs",
];

/// A callback or an errback, and its arguments. When the request has ended, the function is called
/// once: the outcome (a result or an error) is its first argument, and these arguments follow.
struct Call<'py> {
    function: Bound<'py, PyAny>,
    arguments: Bound<'py, PyTuple>,
    named: Bound<'py, PyDict>,
}

impl<'py> Call<'py> {
    /// Makes a `Call` from the arguments of `add_callback` or `add_errback`. Returns None if there
    /// is no function, or if a keyword argument has the name `self` or `fn`.
    fn of(
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Option<Call<'py>>> {
        let named = names.map_or(0, |names| names.len());
        let (positional, by_name) = arguments.split_at(arguments.len() - named);
        let [future, function, further @ ..] = positional else { return Ok(None) };
        let py = future.py();
        let keywords = PyDict::new(py);
        for (position, value) in by_name.iter().enumerate() {
            let Some(names) = names else { return Ok(None) };
            let name = names.get_borrowed_item(position)?;
            // `self` and `fn` were passed by position, and Python refuses a second value for them.
            let name = name.cast::<PyString>()?;
            // A name that is not valid Unicode is left to the driver too.
            if matches!(name.to_str(), Ok("self" | "fn") | Err(_)) {
                return Ok(None);
            }
            keywords.set_item(name, value)?;
        }
        let arguments = PyTuple::new(py, further)?;
        Ok(Some(Call { function: (**function).clone(), arguments, named: keywords }))
    }

    /// Makes a `Call` from a function, a tuple of arguments and a dict of keyword arguments.
    /// Returns None if the arguments are of other classes.
    fn with(
        function: &Bound<'py, PyAny>,
        arguments: Option<&Borrowed<'_, 'py, PyAny>>,
        named: Option<&Borrowed<'_, 'py, PyAny>>,
    ) -> PyResult<Option<Call<'py>>> {
        let py = function.py();
        let arguments = match arguments.map(|arguments| arguments.cast_exact::<PyTuple>()) {
            None => PyTuple::empty(py),
            Some(Ok(arguments)) => arguments.to_owned(),
            Some(Err(_)) => return Ok(None),
        };
        let named = match named.filter(|named| !named.is_none()) {
            None => PyDict::new(py),
            Some(named) => match named.cast_exact::<PyDict>() {
                Ok(named) => named.to_owned(),
                Err(_) => return Ok(None),
            },
        };
        Ok(Some(Call { function: function.clone(), arguments, named }))
    }

    /// Returns the tuple that stands for the call in a future's list of callbacks or errbacks.
    fn entry(&self) -> PyResult<Bound<'py, PyTuple>> {
        let Call { function, arguments, named } = self;
        PyTuple::new(function.py(), [function, arguments.as_any(), named.as_any()])
    }

    /// Passes the function and its arguments to a future's method.
    fn give(self, future: &Bound<'py, PyAny>, method: &Bound<'py, PyString>) -> PyResult<()> {
        let Call { function, arguments, named } = self;
        if arguments.is_empty() && named.is_empty() {
            return future.call_method1(method, (function,)).map(drop);
        }
        let arguments = after(&function, arguments)?;
        future.getattr(method)?.call(arguments, Some(&named)).map(drop)
    }
}

impl Responses {
    /// Does what the driver's `add_callback` does. Returns false if that method must be called.
    pub fn add_callback<'py>(
        &self,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<bool> {
        self.add_one(arguments, names, |py| {
            (pyo3::intern!(py, "_callbacks"), pyo3::intern!(py, "_final_result"))
        })
    }

    /// Does what the driver's `add_errback` does. Returns false if that method must be called.
    pub fn add_errback<'py>(
        &self,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<bool> {
        self.add_one(arguments, names, |py| {
            (pyo3::intern!(py, "_errbacks"), pyo3::intern!(py, "_final_exception"))
        })
    }

    /// Adds a call to one of a future's lists. `attributes` returns the names of two attributes of
    /// the future: the list, and the outcome that triggers the call.
    fn add_one<'py>(
        &self,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
        attributes: impl Fn(Python<'py>) -> (&'py Bound<'py, PyString>, &'py Bound<'py, PyString>),
    ) -> PyResult<bool> {
        let [future, ..] = arguments else { return Ok(false) };
        let Some(call) = Call::of(arguments, names)? else { return Ok(false) };
        let (list, outcome) = attributes(future.py());
        // The tuple is made before the list is read: see `events`.
        let entry = call.entry()?;
        let Some(calls) = self.list(future, list)? else { return Ok(false) };
        calls.append(entry)?;
        self.call_if_ended(future, call, outcome)?;
        Ok(true)
    }

    /// Does what the driver's `add_callbacks` does. Returns false if that method must be called.
    pub fn add_callbacks<'py>(
        &self,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<bool> {
        let Some(values) = sorted(arguments, names, &PARAMETERS) else { return Ok(false) };
        let [Some(future), Some(callback), Some(errback), ..] = values else { return Ok(false) };
        let py = future.py();
        let Some(callback) = Call::with(callback, values[3], values[4])? else { return Ok(false) };
        let Some(errback) = Call::with(errback, values[5], values[6])? else { return Ok(false) };
        callback.give(future, pyo3::intern!(py, "add_callback"))?;
        errback.give(future, pyo3::intern!(py, "add_errback"))?;
        Ok(true)
    }

    /// Does what the driver's `clear_callbacks` does. Returns false if that method must be called.
    pub fn clear_callbacks(&self, future: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = future.py();
        let lock = future.getattr(pyo3::intern!(py, "_callback_lock"))?;
        let (callbacks, errbacks) = (PyList::empty(py), PyList::empty(py));
        if !self.events.get().is_free(&lock)? {
            return Ok(false);
        }
        future.setattr(pyo3::intern!(py, "_callbacks"), callbacks)?;
        future.setattr(pyo3::intern!(py, "_errbacks"), errbacks)?;
        Ok(true)
    }

    /// Returns the list of a future's callbacks or errbacks, if no thread holds the future's lock.
    fn list<'py>(
        &self,
        future: &Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let state = State::of(future, self.is_scylla);
        let list = state.get(name)?;
        let lock = state.get(pyo3::intern!(future.py(), "_callback_lock"))?;
        if !self.events.get().is_free(&lock)? {
            return Ok(None);
        }
        Ok(list.cast_into_exact().ok())
    }

    /// Calls a function that was just added to a list, if the request has ended already.
    fn call_if_ended<'py>(
        &self,
        future: &Bound<'py, PyAny>,
        call: Call<'py>,
        outcome: &Bound<'py, PyString>,
    ) -> PyResult<()> {
        let py = future.py();
        let Call { function, arguments, named } = call;
        let value = future.getattr(outcome)?;
        let has_ended = if outcome.is(pyo3::intern!(py, "_final_result")) {
            !value.is(&self.not_set)
        } else {
            value.is_truthy()?
        };
        if has_ended {
            function.call(after(&value, arguments)?, Some(&named))?;
        }
        Ok(())
    }
}

/// Returns a tuple of `first` and the items of `rest`.
pub fn after<'py>(
    first: &Bound<'py, PyAny>,
    rest: Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyTuple>> {
    let first = PyTuple::new(first.py(), [first])?;
    if rest.is_empty() {
        return Ok(first);
    }
    Ok(first.into_any().add(rest)?.cast_into()?)
}
