//! Shuffles replicas as `random.shuffle` does.

use pyo3::prelude::*;
use pyo3::types::PyList;

/// Shuffles lists natively, by the same random bits as the driver's `shuffle`. After the same seed,
/// the lists have the same order.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Shuffle {
    /// The driver's `shuffle`.
    function: Py<PyAny>,
    /// The driver's `shuffle` is a method of a `random.Random`. This is the method `getrandbits` of
    /// the same object; None if the driver's `shuffle` must be called.
    bits: Option<Py<PyAny>>,
}

#[pymethods]
impl Shuffle {
    #[new]
    fn new(function: Py<PyAny>, bits: Option<Py<PyAny>>) -> Shuffle {
        Shuffle { function, bits }
    }

    /// Shuffles a list.
    #[pyo3(name = "__call__")]
    pub fn shuffle(&self, list: &Bound<'_, PyList>) -> PyResult<()> {
        let py = list.py();
        let Some(bits) = &self.bits else {
            return self.function.bind(py).call1((list,)).map(drop);
        };
        for last in (1..list.len()).rev() {
            let count = last + 1;
            let width = usize::BITS - count.leading_zeros();
            let chosen = loop {
                let number: usize = bits.bind(py).call1((width,))?.extract()?;
                if number < count {
                    break number;
                }
            };
            let (item, other) = (list.get_item(last)?, list.get_item(chosen)?);
            list.set_item(last, other)?;
            list.set_item(chosen, item)?;
        }
        Ok(())
    }
}
