//! Makes and validates instances of models, and marks them as saved.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PySet};

use super::Mapper;
use super::convert::{Method, Values};
use super::plan::{Column, Plan};
use turbocql_values::ffi::make;

/// The manager of one value of a model instance. Its class is exactly the driver's
/// `BaseValueManager`.
pub struct Manager<'py>(pub Bound<'py, PyAny>);

impl<'py> Manager<'py> {
    pub fn value(&self) -> PyResult<Bound<'py, PyAny>> {
        self.0.getattr(pyo3::intern!(self.0.py(), "value"))
    }

    pub fn previous(&self) -> PyResult<Bound<'py, PyAny>> {
        self.0.getattr(pyo3::intern!(self.0.py(), "previous_value"))
    }

    pub fn is_explicit(&self) -> PyResult<bool> {
        self.0.getattr(pyo3::intern!(self.0.py(), "explicit"))?.is_truthy()
    }

    pub fn set_explicit(&self, is_explicit: bool) -> PyResult<()> {
        self.0.setattr(pyo3::intern!(self.0.py(), "explicit"), is_explicit)
    }

    /// Returns what the manager's property `changed` returns.
    pub fn is_changed(&self, values: &Values, column: &Column) -> PyResult<bool> {
        let py = self.0.py();
        let differs = |from: &Bound<'py, PyAny>| {
            let value = self.value()?;
            // This branch avoids a comparison, which would run Python code for a `UUID`.
            if from.is_none() && values.is_immutable(&value) {
                return Ok(!value.is_none());
            }
            value.ne(from)
        };
        if self.is_explicit()? {
            return differs(&self.previous()?);
        }
        if !column.is_container {
            return Ok(false);
        }
        let default = made_default(column, py)?;
        let default = match default {
            Some(default) if default.is_truthy()? => Some(default),
            _ => None,
        };
        match default {
            None => Ok(self.value()?.is_truthy()? && differs(&self.previous()?)?),
            Some(default) => {
                let previous = self.previous()?;
                differs(if previous.is_none() { &default } else { &previous })
            }
        }
    }
}

/// Returns whether the column's property `has_default` is true.
pub fn has_default(column: &Column, py: Python<'_>) -> PyResult<bool> {
    if column.calls_default {
        let answer = column.column.bind(py).getattr(pyo3::intern!(py, "has_default"))?;
        return answer.is_truthy();
    }
    let default = column.attribute(pyo3::intern!(py, "default"))?;
    Ok(default.is_some_and(|default| !default.is_none()))
}

/// Returns the default of a column; `None` if the column has none. If the default is a function,
/// calls it and returns its result.
pub fn default_of<'py>(column: &Column, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if column.calls_default && !has_default(column, py)? {
        return Ok(None);
    }
    made_default(column, py)
}

/// Returns what the column's method `get_default` returns.
fn made_default<'py>(column: &Column, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if column.calls_default {
        return column.column.bind(py).call_method0(pyo3::intern!(py, "get_default")).map(Some);
    }
    let default =
        column.attribute(pyo3::intern!(py, "default"))?.filter(|default| !default.is_none());
    match default {
        Some(default) if default.is_callable() => default.call0().map(Some),
        default => Ok(default),
    }
}

/// Whether a value counts as null for the column.
pub fn is_null(column: &Column, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if column.empty_is_null {
        value.is_truthy().map(|is_true| !is_true)
    } else {
        Ok(value.is_none())
    }
}

impl Mapper {
    /// Returns the managers of an instance's values, in the order of the plan's columns. Returns
    /// `None` if the instance's columns or managers are not as the plan expects.
    pub fn managers<'py>(
        &self,
        plan: &Plan,
        instance: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Vec<Manager<'py>>>> {
        let py = instance.py();
        let columns = instance.getattr(pyo3::intern!(py, "_columns"))?;
        if !columns.is(plan.columns_of_class(py)) {
            return Ok(None);
        }
        let all = instance.getattr(pyo3::intern!(py, "_values"))?;
        let Ok(all) = all.cast_exact::<PyDict>() else { return Ok(None) };
        if all.len() != plan.columns.len() {
            return Ok(None);
        }
        let mut managers = Vec::with_capacity(plan.columns.len());
        for column in &plan.columns {
            let Some(manager) = all.get_item(&column.name)? else { return Ok(None) };
            let of = pyo3::intern!(py, "column");
            if !manager.get_type().is(&self.manager) || !manager.getattr(of)?.is(&column.column) {
                return Ok(None);
            }
            managers.push(Manager(manager));
        }
        Ok(Some(managers))
    }

    /// Does the work of `BaseModel.__init__`; `None` if the driver's function must do it.
    pub fn init<'py>(
        &self,
        instance: &Bound<'py, PyAny>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = instance.py();
        let Some(plan) = self.plan(&instance.get_type())? else { return Ok(None) };
        let none = py.None();
        let no = PyBool::new(py, false);
        for name in [
            pyo3::intern!(py, "_ttl"),
            pyo3::intern!(py, "_timestamp"),
            pyo3::intern!(py, "_conditional"),
            pyo3::intern!(py, "_batch"),
        ] {
            instance.setattr(name, &none)?;
        }
        instance.setattr(pyo3::intern!(py, "_timeout"), &self.not_set)?;
        instance.setattr(pyo3::intern!(py, "_is_persisted"), no)?;
        instance.setattr(pyo3::intern!(py, "_connection"), &none)?;
        let values = PyDict::new(py);
        instance.setattr(pyo3::intern!(py, "_values"), &values)?;
        // A model may override the attribute `_values`.
        if !instance.getattr(pyo3::intern!(py, "_values"))?.is(&values) {
            return Ok(None);
        }
        for column in &plan.columns {
            // As in the driver, a default that is a function is called even if an argument gives
            // the column a value.
            let default = default_of(column, py)?;
            let argument = match named {
                Some(named) => named.get_item(&column.name)?,
                None => None,
            };
            let is_explicit = argument.is_some();
            let mut value = argument.or(default).unwrap_or_else(|| none.bind(py).clone());
            if !value.is_none() || column.is_container {
                value = self.values.convert(column, Method::ToPython, &value)?;
            }
            let manager = make::instance(self.manager.bind(py).as_any())?;
            manager.setattr(pyo3::intern!(py, "instance"), instance)?;
            manager.setattr(pyo3::intern!(py, "column"), &column.column)?;
            manager.setattr(pyo3::intern!(py, "value"), value)?;
            manager.setattr(pyo3::intern!(py, "previous_value"), &none)?;
            manager.setattr(pyo3::intern!(py, "explicit"), is_explicit)?;
            values.set_item(&column.name, manager)?;
        }
        Ok(Some(none.into_bound(py)))
    }

    /// Does the work of `BaseModel._set_persisted`; `None` if the driver's function must do it.
    pub fn set_persisted<'py>(
        &self,
        instance: &Bound<'py, PyAny>,
        force: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = instance.py();
        let Some(plan) = self.plan(&instance.get_type())? else { return Ok(None) };
        let Some(managers) = self.managers(&plan, instance)? else { return Ok(None) };
        let mut changed = Vec::with_capacity(managers.len());
        for (manager, column) in managers.iter().zip(&plan.columns) {
            // The driver evaluates the property `changed` even if `force` is true. Here, the
            // evaluation is left out if it would run no code of the application.
            let has_changed = if force && is_quiet(&self.values, manager, column, py)? {
                true
            } else {
                manager.is_changed(&self.values, column)? || force
            };
            if has_changed {
                changed.push(manager);
            }
        }
        for manager in changed {
            let copy = self.values.copied(&manager.value()?)?;
            manager.0.setattr(pyo3::intern!(py, "previous_value"), copy)?;
            manager.set_explicit(false)?;
        }
        instance.setattr(pyo3::intern!(py, "_is_persisted"), true)?;
        Ok(Some(py.None().into_bound(py)))
    }

    /// Does the work of `BaseModel.validate`; `None` if the driver's function must do it.
    pub fn validate<'py>(
        &self,
        instance: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = instance.py();
        let Some(plan) = self.plan(&instance.get_type())? else { return Ok(None) };
        let Some(managers) = self.managers(&plan, instance)? else { return Ok(None) };
        for (manager, column) in managers.iter().zip(&plan.columns) {
            let mut value = manager.value()?;
            if value.is_none()
                && !manager.is_explicit()?
                && let Some(default) = default_of(column, py)?
            {
                value = default;
            }
            let valid = self.values.convert(column, Method::Validate, &value)?;
            manager.0.setattr(pyo3::intern!(py, "value"), valid)?;
        }
        Ok(Some(py.None().into_bound(py)))
    }
}

/// Whether a call of [`Manager::is_changed`] can be left out, because it would run no code of the
/// application, except perhaps the `__bool__` or `__eq__` of values.
fn is_quiet(
    values: &Values,
    manager: &Manager<'_>,
    column: &Column,
    py: Python<'_>,
) -> PyResult<bool> {
    if manager.is_explicit()? {
        // Comparing a mutable value may run code of the application.
        return Ok(values.is_immutable(&manager.value()?));
    }
    if !column.is_container {
        return Ok(true);
    }
    if column.calls_default {
        return Ok(false);
    }
    let default = column.attribute(pyo3::intern!(py, "default"))?;
    Ok(default.is_some_and(|default| {
        default.is_none()
            || default.is(py.get_type::<PySet>())
            || default.is(py.get_type::<PyList>())
            || default.is(py.get_type::<PyDict>())
    }))
}
