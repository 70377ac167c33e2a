//! Assigns the arguments of a call to the parameters of the driver's function.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

/// The values of the first `N` parameters; `None` for a parameter without a value.
pub type Arguments<'a, 'py, const N: usize> = [Option<&'a Borrowed<'a, 'py, PyAny>>; N];

/// Assigns positional and keyword arguments to parameters. Returns `None` if Python would refuse
/// the arguments.
pub fn sorted<'a, 'py, const N: usize>(
    arguments: &'a [Borrowed<'a, 'py, PyAny>],
    names: Option<&Bound<'py, PyTuple>>,
    parameters: &[&str; N],
) -> Option<Arguments<'a, 'py, N>> {
    let named = names.map_or(0, |names| names.len());
    let (positional, by_name) = arguments.split_at(arguments.len() - named);
    let mut values = [None; N];
    for (position, argument) in positional.iter().enumerate() {
        *values.get_mut(position)? = Some(argument);
    }
    for (position, argument) in by_name.iter().enumerate() {
        let name = names?.get_borrowed_item(position).ok()?;
        let name = name.cast_exact::<PyString>().ok()?;
        let name = name.to_str().ok()?;
        let value = &mut values[parameters.iter().position(|parameter| *parameter == name)?];
        if value.is_some() {
            return None;
        }
        *value = Some(argument);
    }
    Some(values)
}
