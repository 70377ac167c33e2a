//! Makes the messages of statements, with the attributes that the driver sets, in the driver's order.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString, PyType};

use super::creating::{Call, FutureMaker, Source};
use super::options::Options;

/// A message, with what the future of the message needs.
pub(super) struct Made<'py> {
    pub message: Bound<'py, PyAny>,
    /// The columns of the result, as the prepared statement had them when the message was made.
    /// The driver's object for "not set", if there is no prepared statement.
    pub columns: Bound<'py, PyAny>,
    /// The token of the partition; `None` if the driver computes no tokens for requests.
    pub token: Option<Bound<'py, PyAny>>,
}

/// What a message has of the session and of the options of its request.
pub(super) struct Settings<'a, 'py> {
    pub options: &'a Options<'py>,
    pub fetch_size: &'a Bound<'py, PyAny>,
    pub timestamp: &'a Bound<'py, PyAny>,
    pub version: &'a Bound<'py, PyAny>,
}

impl FutureMaker {
    /// Makes the EXECUTE message of a bound statement.
    pub(super) fn execute_message<'py>(
        &self,
        source: &Source<'_, 'py>,
        prepared: &Bound<'py, PyAny>,
        settings: &Settings<'_, 'py>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Made<'py>> {
        let (query, py) = (source.query, source.query.py());
        let message = self.new_object(py, &self.classes.execute_message)?;
        let id = pyo3::intern!(py, "query_id");
        let columns_id_name = pyo3::intern!(py, "result_metadata_id");
        let (columns, columns_id, token): (_, Bound<'py, PyAny>, _);
        if let Some(tokens) = &self.tokens {
            let routing = tokens.routing(source, &self.new_object)?;
            let pair = prepared.getattr(pyo3::intern!(py, "result_metadata_and_id"))?;
            (columns, columns_id) = pair.extract()?;
            message.setattr(id, prepared.getattr(id)?)?;
            message.setattr(columns_id_name, &columns_id)?;
            let block = tokens.version_block(source, &routing)?;
            message.setattr(pyo3::intern!(py, "tablet_version_block"), block)?;
            token = Some(routing.token);
        } else {
            columns = prepared.getattr(pyo3::intern!(py, "result_metadata"))?;
            columns_id = prepared.getattr(columns_id_name)?;
            message.setattr(id, prepared.getattr(id)?)?;
            message.setattr(columns_id_name, &columns_id)?;
            token = None;
        }
        let skips_columns =
            columns.is_truthy()? && (self.tokens.is_none() || !columns_id.is_none());
        let none = py.None().into_bound(py);
        let values = query.getattr(pyo3::intern!(py, "values"))?;
        self.set_parameters(&message, settings, call, (&values, skips_columns, &none))?;
        self.finish(source, &message, call)?;
        Ok(Made { message, columns, token })
    }

    /// Makes the QUERY message of a simple statement, or the message of a batch.
    pub(super) fn unprepared_message<'py>(
        &self,
        source: &Source<'_, 'py>,
        settings: &Settings<'_, 'py>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Made<'py>> {
        let (query, py) = (source.query, source.query.py());
        let token = match &self.tokens {
            Some(tokens) => Some(tokens.routing(source, &self.new_object)?.token),
            None => None,
        };
        let keyspace = self.keyspace(query, settings)?;
        let message = if query.get_type().is(&self.classes.batch_statement) {
            self.batch_message(query, settings, &keyspace)?
        } else {
            self.query_message(source, settings, call, &keyspace)?
        };
        self.finish(source, &message, call)?;
        Ok(Made { message, columns: self.values.not_set.bind(py).clone(), token })
    }

    fn query_message<'py>(
        &self,
        source: &Source<'_, 'py>,
        settings: &Settings<'_, 'py>,
        call: &Call<'_, 'py>,
        keyspace: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = keyspace.py();
        let mut text = source.query.getattr(pyo3::intern!(py, "query_string"))?;
        if call.parameters.is_truthy()? {
            let encoder = source.session.getattr(pyo3::intern!(py, "encoder"))?;
            let bind = self.global(py, pyo3::intern!(py, "bind_params"))?;
            text = bind.call1((text, call.parameters, encoder))?;
        }
        let message = self.new_object(py, &self.classes.query_message)?;
        message.setattr(pyo3::intern!(py, "query"), text)?;
        let none = py.None().into_bound(py);
        self.set_parameters(&message, settings, call, (&none, false, keyspace))?;
        Ok(message)
    }

    fn batch_message<'py>(
        &self,
        query: &Bound<'py, PyAny>,
        settings: &Settings<'_, 'py>,
        keyspace: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (options, py) = (settings.options, query.py());
        let message = self.new_object(py, &self.classes.batch_message)?;
        let kind = pyo3::intern!(py, "batch_type");
        message.setattr(kind, query.getattr(kind)?)?;
        let queries = query.getattr(pyo3::intern!(py, "_statements_and_parameters"))?;
        message.setattr(pyo3::intern!(py, "queries"), queries)?;
        message.setattr(pyo3::intern!(py, "consistency_level"), &options.consistency)?;
        let serial = pyo3::intern!(py, "serial_consistency_level");
        message.setattr(serial, &options.serial_consistency)?;
        message.setattr(pyo3::intern!(py, "timestamp"), settings.timestamp)?;
        message.setattr(pyo3::intern!(py, "keyspace"), keyspace)?;
        Ok(message)
    }

    /// Returns the keyspace of a message whose statement was not prepared; Python's None if the
    /// version of the protocol has no such keyspace.
    fn keyspace<'py>(
        &self,
        query: &Bound<'py, PyAny>,
        settings: &Settings<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = query.py();
        let versions = self.global(py, pyo3::intern!(py, "ProtocolVersion"))?;
        let uses_keyspace = pyo3::intern!(py, "uses_keyspace_flag");
        if versions.call_method1(uses_keyspace, (settings.version,))?.is_truthy()? {
            query.getattr(pyo3::intern!(py, "keyspace"))
        } else {
            Ok(py.None().into_bound(py))
        }
    }

    /// Returns a global name of the driver's module `cassandra.cluster`.
    fn global<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.names.bind(py).as_any().get_item(name)
    }

    /// Makes an object without calling the `__init__` of its class.
    pub(super) fn new_object<'py>(
        &self,
        py: Python<'py>,
        class: &Py<PyType>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.new_object.bind(py).call1((class,))
    }

    /// Sets the attributes of an EXECUTE or QUERY message that are the parameters of its query.
    fn set_parameters<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        settings: &Settings<'_, 'py>,
        call: &Call<'_, 'py>,
        (values, skips_columns, keyspace): (&Bound<'py, PyAny>, bool, &Bound<'py, PyAny>),
    ) -> PyResult<()> {
        let (options, py) = (settings.options, message.py());
        message.setattr(pyo3::intern!(py, "query_params"), values)?;
        message.setattr(pyo3::intern!(py, "consistency_level"), &options.consistency)?;
        let serial = pyo3::intern!(py, "serial_consistency_level");
        message.setattr(serial, &options.serial_consistency)?;
        message.setattr(pyo3::intern!(py, "fetch_size"), settings.fetch_size)?;
        message.setattr(pyo3::intern!(py, "paging_state"), &call.paging_state)?;
        message.setattr(pyo3::intern!(py, "timestamp"), settings.timestamp)?;
        message.setattr(pyo3::intern!(py, "skip_meta"), PyBool::new(py, skips_columns))?;
        if !self.responses.get().is_scylla {
            message.setattr(pyo3::intern!(py, "continuous_paging_options"), py.None())?;
        }
        message.setattr(pyo3::intern!(py, "keyspace"), keyspace)
    }

    /// Sets the attributes that all messages have.
    fn finish<'py>(
        &self,
        source: &Source<'_, 'py>,
        message: &Bound<'py, PyAny>,
        call: &Call<'_, 'py>,
    ) -> PyResult<()> {
        let (query, py) = (source.query, source.query.py());
        message.setattr(pyo3::intern!(py, "tracing"), call.trace)?;
        for payload in [&query.getattr(pyo3::intern!(py, "custom_payload"))?, call.payload] {
            if payload.is_truthy()? {
                message.call_method1(pyo3::intern!(py, "update_custom_payload"), (payload,))?;
            }
        }
        let beta = pyo3::intern!(py, "allow_beta_protocol_version");
        message.setattr(beta, source.cluster.getattr(beta)?)
    }
}
