//! Creates model instances through query sets, copies query sets, composes qualified table names,
//! and passes statements to a session.

use std::sync::PoisonError;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyType};

use super::Mapper;
use super::plan::TableName;

/// The value of `logging.DEBUG`.
const DEBUG: u8 = 10;
/// Attributes of a query set that belong to one execution. A copy has None for each of them.
const OF_ONE_EXECUTION: [&str; 6] =
    ["_con", "_cur", "_result_cache", "_result_idx", "_result_generator", "_construct_result"];

impl Mapper {
    /// Does the work of `BaseModel.create`; `None` if the driver's function must do it.
    pub fn create<'py>(
        &self,
        model: &Bound<'py, PyAny>,
        named: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = model.py();
        let Ok(class) = model.cast::<PyType>() else { return Ok(None) };
        let Some(plan) = self.plan(class)? else { return Ok(None) };
        for name in named.keys().iter() {
            if !plan.has(&name)? {
                return Ok(None);
            }
        }
        let objects = model.getattr(pyo3::intern!(py, "objects"))?;
        objects.getattr(pyo3::intern!(py, "create"))?.call((), Some(named)).map(Some)
    }

    /// Does the work of `AbstractQuerySet.create`: makes an instance with the options of the query
    /// set, and saves the instance. Returns `None` if the driver's function must do the work.
    pub fn create_in<'py>(
        &self,
        set: &Bound<'py, PyAny>,
        named: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = set.py();
        let model = set.getattr(pyo3::intern!(py, "model"))?;
        let Ok(class) = model.cast::<PyType>() else { return Ok(None) };
        let is_planned = self.plan(class)?.is_some();
        if !is_planned || set.getattr(pyo3::intern!(py, "_connection"))?.is_truthy()? {
            return Ok(None);
        }
        let instance = model.call((), Some(named))?;
        // The loop below sets the attributes of the instance without the model's descriptors. If an
        // `__init__` has set a timeout or a connection, or if the instance is not exactly of the
        // model's class, `save_with_options` is called instead, which uses the descriptors.
        let timeout = instance.getattr(pyo3::intern!(py, "_timeout"))?;
        let connection = instance.getattr(pyo3::intern!(py, "_connection"))?;
        if !instance.get_type().is(class) || !timeout.is(&self.not_set) || connection.is_truthy()? {
            let save_with_options = self.save_with_options.bind(py);
            return save_with_options.call1((set, instance)).map(Some);
        }
        for (from, to) in [
            (pyo3::intern!(py, "_batch"), pyo3::intern!(py, "_batch")),
            (pyo3::intern!(py, "_ttl"), pyo3::intern!(py, "_ttl")),
            (pyo3::intern!(py, "_consistency"), pyo3::intern!(py, "__consistency__")),
            (pyo3::intern!(py, "_if_not_exists"), pyo3::intern!(py, "_if_not_exists")),
            (pyo3::intern!(py, "_timestamp"), pyo3::intern!(py, "_timestamp")),
            (pyo3::intern!(py, "_if_exists"), pyo3::intern!(py, "_if_exists")),
        ] {
            instance.setattr(to, set.getattr(from)?)?;
        }
        instance.call_method0(pyo3::intern!(py, "save")).map(Some)
    }

    /// Does the work of `BaseModel.column_family_name`: returns the table's qualified name,
    /// `keyspace.table`. Returns `None` if the driver's function must do the work.
    pub fn table_name<'py>(
        &self,
        model: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = model.py();
        let Ok(class) = model.cast::<PyType>() else { return Ok(None) };
        let Some(plan) = self.plan(class)? else { return Ok(None) };
        let table = model.call_method0(pyo3::intern!(py, "_raw_column_family_name"))?;
        let keyspace = model.call_method0(pyo3::intern!(py, "_get_keyspace"))?;
        let (Ok(keyspace), Ok(table)) =
            (keyspace.cast_exact::<PyString>(), table.cast_exact::<PyString>())
        else {
            return Ok(None);
        };
        // Names with lone surrogates are left to the driver.
        if keyspace.is_empty()? || keyspace.to_str().is_err() || table.to_str().is_err() {
            return Ok(None);
        }
        let cached = || plan.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &*cached()
            && cached.keyspace.bind(py).as_any().eq(keyspace)?
            && cached.table.bind(py).as_any().eq(table)?
        {
            return Ok(Some(cached.written.bind(py).clone().into_any()));
        }
        let protect_name = |name: &Bound<'py, PyString>| self.protect_name.bind(py).call1((name,));
        let written =
            PyString::new(py, &format!("{}.{}", protect_name(keyspace)?, protect_name(table)?));
        *cached() = Some(TableName {
            keyspace: keyspace.clone().unbind(),
            table: table.clone().unbind(),
            written: written.clone().unbind(),
        });
        Ok(Some(written.into_any()))
    }

    /// Does the work of `connection.execute`, without its debug message. Returns `None` if debug
    /// messages are logged, or if the driver's function must be called for another reason.
    pub fn execute<'py>(
        &self,
        statement: &Bound<'py, PyAny>,
        parameters: &Bound<'py, PyAny>,
        named: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = statement.py();
        let module = self.connection.bind(py);
        let timeout = named.get_item(pyo3::intern!(py, "timeout"))?;
        let connection = named.get_item(pyo3::intern!(py, "connection"))?;
        let (Some(timeout), Some(connection), 2) = (timeout, connection, named.len()) else {
            return Ok(None);
        };
        if !statement.get_type().is(&self.simple) {
            return Ok(None);
        }
        let log = module.getattr(pyo3::intern!(py, "log"))?;
        let attributes = log.getattr_opt(pyo3::intern!(py, "__dict__"))?;
        let attributes =
            attributes.and_then(|attributes| attributes.cast_into_exact::<PyDict>().ok());
        let is_usual = log.get_type().is(&self.logger)
            && attributes.is_some_and(|attributes| {
                !attributes.contains(pyo3::intern!(py, "debug")).unwrap_or(true)
            });
        if !is_usual
            || log.call_method1(pyo3::intern!(py, "isEnabledFor"), (DEBUG,))?.is_truthy()?
        {
            return Ok(None);
        }
        let connection = module.call_method1(pyo3::intern!(py, "get_connection"), (connection,))?;
        let session = connection.getattr(pyo3::intern!(py, "session"))?;
        if !session.is_truthy()? {
            return Ok(None);
        }
        let arguments = PyDict::new(py);
        arguments.set_item(pyo3::intern!(py, "timeout"), timeout)?;
        let execute = session.getattr(pyo3::intern!(py, "execute"))?;
        execute.call((statement, parameters), Some(&arguments)).map(Some)
    }

    /// Does the work of `AbstractQuerySet.__deepcopy__`; `None` if the driver's function must do
    /// it.
    pub fn copy_of_set<'py>(
        &self,
        set: &Bound<'py, PyAny>,
        memo: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = set.py();
        let name = pyo3::intern!(py, "__dict__");
        let (attributes, memo) = (set.getattr(name)?, memo.cast_exact::<PyDict>());
        let (Ok(attributes), Ok(memo)) = (attributes.cast_exact::<PyDict>(), memo) else {
            return Ok(None);
        };
        let clone = set.get_type().call1((set.getattr(pyo3::intern!(py, "model"))?,))?;
        let copies = clone.getattr(name)?.cast_into_exact::<PyDict>()?;
        // Iterates over a copy of the attributes: an application's `__deepcopy__` method may change
        // them.
        for (name, value) in attributes.copy()?.iter() {
            let text = name.cast::<PyString>()?.to_str()?;
            let copy = if OF_ONE_EXECUTION.contains(&text) {
                py.None().into_bound(py)
            } else if text == "_batch" || text == "_timeout" {
                value
            } else {
                self.part(value, memo)?
            };
            copies.set_item(name, copy)?;
        }
        Ok(Some(clone))
    }

    /// Returns a copy of the value of a query set's attribute.
    fn part<'py>(
        &self,
        value: Bound<'py, PyAny>,
        memo: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        // `copy.deepcopy`, which the driver calls, does not copy classes either.
        if self.values.is_immutable(&value) || value.is_instance_of::<PyType>() {
            return Ok(value);
        }
        // An empty collection is copied here, without a call. Another attribute may refer to the
        // same collection, so the copy is stored in the memo, as `copy.deepcopy` does.
        let key = value.as_ptr() as usize;
        let new_collection =
            if value.cast_exact::<PyList>().is_ok_and(|collection| collection.is_empty()) {
                PyList::empty(py).into_any()
            } else if value.cast_exact::<PySet>().is_ok_and(|collection| collection.is_empty()) {
                PySet::empty(py)?.into_any()
            } else if value.cast_exact::<PyDict>().is_ok_and(|collection| collection.is_empty()) {
                PyDict::new(py).into_any()
            } else {
                return self.values.deepcopy.bind(py).call1((value, memo));
            };
        if let Some(copied) = memo.get_item(key)? {
            return Ok(copied);
        }
        memo.set_item(key, &new_collection)?;
        Ok(new_collection)
    }
}
