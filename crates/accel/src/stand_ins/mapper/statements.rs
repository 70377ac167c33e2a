//! Makes the statements that save an instance, and composes their text.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::Mapper;
use super::convert::Method;
use super::instances::{has_default, is_null};
use super::plan::Column;
use turbocql_values::ffi::make;

impl Mapper {
    /// Does the work of `DMLQuery.save`; `None` if the driver's function must do it.
    pub fn save<'py>(&self, query: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = query.py();
        let instance = query.getattr(pyo3::intern!(py, "instance"))?;
        let class = instance.get_type();
        if instance.is_none() || !query.getattr(pyo3::intern!(py, "model"))?.is(&class) {
            return Ok(None);
        }
        let Some(plan) = self.plan(&class)? else { return Ok(None) };
        let Some(managers) = self.managers(&plan, &instance)? else { return Ok(None) };
        if instance.getattr(pyo3::intern!(py, "_has_counter"))?.is_truthy()? {
            return Ok(None);
        }
        if instance.getattr(pyo3::intern!(py, "_is_persisted"))?.is_truthy()? {
            let mut is_same_key = true;
            for &number in &plan.primary {
                is_same_key &= !managers[number].is_changed(&self.values, &plan.columns[number])?;
            }
            if is_same_key {
                return query.call_method0(pyo3::intern!(py, "update")).map(Some);
            }
        }
        let mut is_static_only = !plan.clustering.is_empty();
        for &number in &plan.clustering {
            is_static_only =
                is_static_only && is_null(&plan.columns[number], &managers[number].value()?)?;
        }
        let (insert, assignments) = self.empty_insert(query)?;
        for (manager, column) in managers.iter().zip(&plan.columns) {
            if is_static_only && !is_set(column, pyo3::intern!(py, "static"))? {
                let key = pyo3::intern!(py, "partition_key");
                if !is_set(column, key)? {
                    continue;
                }
            }
            let value = manager.value()?;
            if is_null(column, &value)? {
                continue;
            }
            // As the driver does, marks the value as explicit if it is a default that is now saved.
            if has_default(column, py)? && !manager.is_changed(&self.values, column)? {
                manager.set_explicit(true)?;
            }
            let value = self.values.convert(column, Method::ToDatabase, &manager.value()?)?;
            let clause = make::instance(self.clause.bind(py).as_any())?;
            clause.setattr(pyo3::intern!(py, "field"), field(column, py)?)?;
            clause.setattr(pyo3::intern!(py, "value"), value)?;
            clause.setattr(pyo3::intern!(py, "context_id"), assignments.len())?;
            assignments.append(clause)?;
        }
        insert.setattr(pyo3::intern!(py, "context_counter"), assignments.len())?;
        if !assignments.is_empty() {
            query.call_method1(pyo3::intern!(py, "_execute"), (insert,))?;
        }
        if !is_static_only {
            query.call_method0(pyo3::intern!(py, "_delete_null_columns"))?;
        }
        Ok(Some(py.None().into_bound(py)))
    }

    /// Makes an `InsertStatement` from the options of the query, as the class `InsertStatement`
    /// does. Returns the statement, and the statement's empty list of assignments.
    fn empty_insert<'py>(
        &self,
        query: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let py = query.py();
        let insert = make::instance(self.insert.bind(py).as_any())?;
        let table = query.getattr(pyo3::intern!(py, "column_family_name"))?;
        insert.setattr(pyo3::intern!(py, "table"), table)?;
        insert.setattr(pyo3::intern!(py, "context_id"), 0)?;
        insert.setattr(pyo3::intern!(py, "context_counter"), 0)?;
        let timestamp = query.getattr(pyo3::intern!(py, "_timestamp"))?;
        insert.setattr(pyo3::intern!(py, "timestamp"), timestamp)?;
        insert.setattr(pyo3::intern!(py, "fetch_size"), &self.no_size)?;
        insert.setattr(pyo3::intern!(py, "where_clauses"), PyList::empty(py))?;
        insert.setattr(pyo3::intern!(py, "conditionals"), PyList::empty(py))?;
        insert.setattr(pyo3::intern!(py, "ttl"), query.getattr(pyo3::intern!(py, "_ttl"))?)?;
        let assignments = PyList::empty(py);
        insert.setattr(pyo3::intern!(py, "assignments"), &assignments)?;
        let if_not_exists = pyo3::intern!(py, "if_not_exists");
        insert.setattr(if_not_exists, query.getattr(pyo3::intern!(py, "_if_not_exists"))?)?;
        Ok((insert, assignments))
    }

    /// Does the work of `DMLQuery._delete_null_columns` if there is nothing to delete; otherwise
    /// returns `None`.
    pub fn delete_nulls<'py>(
        &self,
        query: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = query.py();
        let instance = query.getattr(pyo3::intern!(py, "instance"))?;
        if instance.is_none() {
            return Ok(None);
        }
        let Some(plan) = self.plan(&instance.get_type())? else { return Ok(None) };
        let Some(managers) = self.managers(&plan, &instance)? else { return Ok(None) };
        for (manager, column) in managers.iter().zip(&plan.columns) {
            let is_null_now = is_null(column, &manager.value()?)?;
            let needs_work = if is_null_now {
                manager.is_explicit()? || !is_null(column, &manager.previous()?)?
            } else {
                column.is_map && manager.previous()?.is_truthy()?
            };
            if needs_work {
                return Ok(None);
            }
        }
        Ok(Some(py.None().into_bound(py)))
    }

    /// Returns the assignments of an insert that has no WHERE clauses. Returns `None` for any other
    /// statement, or if an assignment is not exactly an `AssignmentClause`.
    fn assignments<'py>(
        &self,
        statement: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let py = statement.py();
        if !statement.get_type().is(&self.insert) {
            return Ok(None);
        }
        let wheres = statement.getattr(pyo3::intern!(py, "where_clauses"))?;
        let assignments = statement.getattr(pyo3::intern!(py, "assignments"))?;
        let (Ok(wheres), Ok(assignments)) =
            (wheres.cast_exact::<PyList>(), assignments.cast_exact::<PyList>())
        else {
            return Ok(None);
        };
        let assignments: Vec<_> = assignments.iter().collect();
        let is_plain = wheres.is_empty()
            && assignments.iter().all(|clause| clause.get_type().is(&self.clause));
        Ok(is_plain.then_some(assignments))
    }

    /// Does the work of `InsertStatement.__unicode__`; `None` if the driver's function must do it.
    pub fn text<'py>(&self, statement: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = statement.py();
        let Some(assignments) = self.assignments(statement)? else { return Ok(None) };
        for name in [
            pyo3::intern!(py, "if_not_exists"),
            pyo3::intern!(py, "ttl"),
            pyo3::intern!(py, "timestamp"),
        ] {
            if statement.getattr(name)?.is_truthy()? {
                return Ok(None);
            }
        }
        let table = statement.getattr(pyo3::intern!(py, "table"))?;
        let (Ok(table), false) = (table.cast_exact::<PyString>(), assignments.is_empty()) else {
            return Ok(None);
        };
        let (mut names, mut values) = (String::new(), String::new());
        for (number, clause) in assignments.iter().enumerate() {
            let field = clause.getattr(pyo3::intern!(py, "field"))?;
            let id = clause.getattr(pyo3::intern!(py, "context_id"))?;
            let (Ok(field), id) = (field.cast_exact::<PyString>(), id.str()?) else {
                return Ok(None);
            };
            // Names with lone surrogates are left to the driver.
            let Ok(field) = field.to_str() else { return Ok(None) };
            let between = if number == 0 { "" } else { ", " };
            names.extend([between, "\"", field, "\""]);
            values.extend([between, "%(", id.to_str()?, ")s"]);
        }
        let Ok(table) = table.to_str() else { return Ok(None) };
        let text = format!("INSERT INTO {table} ({names}) VALUES ({values})");
        Ok(Some(PyString::new(py, &text).into_any()))
    }

    /// Does the work of `AssignmentStatement.get_context` for an insert; `None` if the driver's
    /// function must do it.
    pub fn context<'py>(
        &self,
        statement: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = statement.py();
        let Some(assignments) = self.assignments(statement)? else { return Ok(None) };
        let context = PyDict::new(py);
        for clause in assignments {
            let id = clause.getattr(pyo3::intern!(py, "context_id"))?.str()?;
            context.set_item(id, clause.getattr(pyo3::intern!(py, "value"))?)?;
        }
        Ok(Some(context.into_any()))
    }

    /// Does the work of `AssignmentStatement.partition_key_values` for an insert; `None` if the
    /// driver's function must do it.
    pub fn key_values<'py>(
        &self,
        statement: &Bound<'py, PyAny>,
        positions: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = statement.py();
        let Some(assignments) = self.assignments(statement)? else { return Ok(None) };
        let Ok(positions) = positions.cast_exact::<PyDict>() else { return Ok(None) };
        let parts = PyList::new(py, (0..positions.len()).map(|_| py.None()).collect::<Vec<_>>())?;
        for clause in assignments {
            let position = positions.get_item(clause.getattr(pyo3::intern!(py, "field"))?)?;
            if let Some(position) = position {
                parts.as_any().set_item(position, clause.getattr(pyo3::intern!(py, "value"))?)?;
            }
        }
        Ok(Some(parts.into_any()))
    }
}

/// Returns the name that a column has in the database.
fn field<'py>(column: &Column, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    let db_field = column.attribute(pyo3::intern!(py, "db_field"))?;
    match db_field.filter(|name| !name.is_none()) {
        Some(name) => Ok(name),
        None => column.column.bind(py).getattr(pyo3::intern!(py, "column_name")),
    }
}

fn is_set(column: &Column, name: &Bound<'_, PyString>) -> PyResult<bool> {
    column.column.bind(name.py()).getattr(name)?.is_truthy()
}
