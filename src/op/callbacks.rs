//! The done callbacks of a coroutine that asyncio uses as a future.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The callbacks that run when the coroutine's operation is over. Most coroutines have only one.
#[derive(Default)]
pub struct Callbacks {
    pub first: Option<Callback>,
    pub further: Vec<Callback>,
}

pub struct Callback {
    pub call: Py<PyAny>,
    pub context: Option<Py<PyAny>>,
}

impl Callbacks {
    pub fn add(&mut self, callback: Callback) {
        match self.first {
            None => self.first = Some(callback),
            Some(_) => self.further.push(callback),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Callback> {
        self.first.iter().chain(&self.further)
    }
}

impl Callback {
    /// Schedules the callback for the next round of the event loop.
    pub fn run_soon(
        &self,
        event_loop: &Bound<'_, PyAny>,
        awaiting: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = awaiting.py();
        let options = PyDict::new(py);
        options.set_item(pyo3::intern!(py, "context"), &self.context)?;
        let arguments = (&self.call, awaiting);
        event_loop.call_method(pyo3::intern!(py, "call_soon"), arguments, Some(&options))?;
        Ok(())
    }
}
