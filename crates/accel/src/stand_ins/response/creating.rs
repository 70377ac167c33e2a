//! Makes the messages and the futures of statements, for `Session._create_response_future`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::Responses;
use super::message::{Made, Settings};
use super::token::Tokens;
use crate::ffi::call::{self, StandIn};
use crate::stand_ins::arguments::{Arguments, sorted};
use crate::stand_ins::counts::Counts;
use crate::stand_ins::fields::{Fields, integer};
use crate::stand_ins::usual::Usual;

const PARAMETERS: [&str; 9] = [
    "self",
    "query",
    "parameters",
    "trace",
    "custom_payload",
    "timeout",
    "execution_profile",
    "paging_state",
    "host",
];
/// The driver's `_ConfigMode.LEGACY`: the cluster has no execution profiles.
const LEGACY: i64 = 1;
/// The first version of the protocol in which the driver pages results and sends timestamps.
const OLDEST_VERSION: i64 = 3;

/// What native code uses of the driver when it makes messages and futures.
#[pyclass(frozen, module = "turbocql._core")]
pub struct FutureMaker {
    pub(super) responses: Py<Responses>,
    pub(super) classes: Classes,
    pub(super) values: Values,
    /// `object.__new__`.
    pub(super) new_object: Py<PyAny>,
    /// Only releases of scylla-driver that compute a token for each request have it.
    pub(super) tokens: Option<Tokens>,
    /// The global names of the driver's module `cassandra.cluster`.
    pub(super) names: Py<PyDict>,
}

/// Classes of the driver.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Classes {
    session: Py<PyType>,
    prepared_statement: Py<PyType>,
    bound_statement: Py<PyType>,
    simple_statement: Py<PyType>,
    pub(super) batch_statement: Py<PyType>,
    pub(super) profile: Py<PyType>,
    pub(super) execute_message: Py<PyType>,
    pub(super) query_message: Py<PyType>,
    pub(super) batch_message: Py<PyType>,
    future: Py<PyType>,
}

/// The driver's objects for the default execution profile, for a timeout or columns that are not
/// set, and for a page size that is not set.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Values {
    pub(super) default_profile: Py<PyAny>,
    pub(super) not_set: Py<PyAny>,
    no_fetch_size: Py<PyAny>,
}

#[pymethods]
impl FutureMaker {
    /// `classes` and `values` are dicts. `token_classes` are the driver's classes of metadata,
    /// tokens and tablets. `names` are the global names of `cassandra.cluster`.
    #[new]
    fn new(
        py: Python<'_>,
        responses: Py<Responses>,
        classes: Classes,
        values: Values,
        new_object: Py<PyAny>,
        token_classes: Option<(Py<PyType>, Py<PyType>, Py<PyType>)>,
        names: Py<PyDict>,
    ) -> FutureMaker {
        let tokens = token_classes.map(|(metadata, token, tablets)| Tokens {
            metadata,
            token,
            tablets,
            names: names.clone_ref(py),
        });
        FutureMaker { responses, classes, values, new_object, tokens, names }
    }
}

/// The arguments of a call, without the statement.
pub(super) struct Call<'a, 'py> {
    /// The values of a simple statement.
    pub(super) parameters: &'a Bound<'py, PyAny>,
    pub(super) trace: &'a Bound<'py, PyAny>,
    pub(super) payload: &'a Bound<'py, PyAny>,
    pub(super) timeout: &'a Bound<'py, PyAny>,
    pub(super) profile: Option<&'a Bound<'py, PyAny>>,
    pub(super) paging_state: Bound<'py, PyAny>,
    host: Option<&'a Bound<'py, PyAny>>,
}

/// A statement, and the session and the cluster for which its message is made.
pub struct Source<'a, 'py> {
    pub session: &'a Bound<'py, PyAny>,
    pub of_session: &'a Fields<'a, 'py>,
    pub cluster: &'a Bound<'py, PyAny>,
    pub query: &'a Bound<'py, PyAny>,
}

impl FutureMaker {
    /// Does what `_create_response_future` does with a bound or simple statement or a batch.
    /// Returns `None` if that method must be called; nothing has happened then.
    fn make<'py>(
        &self,
        session: &Bound<'py, PyAny>,
        query: &Bound<'py, PyAny>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = session.py();
        let Some(of_session) = Fields::of(session) else { return Ok(None) };
        let prepared = if query.get_type().is(&self.classes.bound_statement) {
            let prepared = query.getattr(pyo3::intern!(py, "prepared_statement"))?;
            if !prepared.get_type().is(&self.classes.prepared_statement) {
                return Ok(None);
            }
            Some(prepared)
        } else {
            None
        };
        // Native code does the work of these methods, unless the session has its own.
        if of_session.has(pyo3::intern!(py, "_maybe_get_execution_profile"))?
            || of_session.has(pyo3::intern!(py, "get_execution_profile"))?
            || of_session.has(pyo3::intern!(py, "_compute_tablet_version_block"))?
        {
            return Ok(None);
        }
        let cluster = of_session.get(pyo3::intern!(py, "cluster"))?;
        let mode = integer(&cluster.getattr(pyo3::intern!(py, "_config_mode"))?);
        let options = match mode {
            None => return Ok(None),
            Some(LEGACY) => self.legacy_options(session, &cluster, query, call)?,
            Some(_) => self.options(&cluster, query, call)?,
        };
        let Some(options) = options else { return Ok(None) };
        if !options.paging.is_none() {
            return Ok(None);
        }
        let version = of_session.get(pyo3::intern!(py, "_protocol_version"))?;
        if integer(&version).is_none_or(|version| version < OLDEST_VERSION) {
            return Ok(None);
        }
        let mut fetch_size = query.getattr(pyo3::intern!(py, "fetch_size"))?;
        if fetch_size.is(&self.values.no_fetch_size) {
            fetch_size = of_session.get(pyo3::intern!(py, "default_fetch_size"))?;
        }
        let start = self.responses.get().now(py)?;
        let none = py.None().into_bound(py);
        let timestamp = if of_session.get(pyo3::intern!(py, "use_client_timestamp"))?.is_truthy()? {
            cluster.call_method0(pyo3::intern!(py, "timestamp_generator"))?
        } else {
            none.clone()
        };
        let source = Source { session, of_session: &of_session, cluster: &cluster, query };
        let (fetch_size, timestamp, version) = (&fetch_size, &timestamp, &version);
        let settings = Settings { options: &options, fetch_size, timestamp, version };
        let Made { message, columns, token } = match &prepared {
            Some(prepared) => self.execute_message(&source, prepared, &settings, call)?,
            None => self.unprepared_message(&source, &settings, call)?,
        };
        let mut plan = none.clone();
        if query.getattr(pyo3::intern!(py, "is_idempotent"))?.is_truthy()?
            && options.speculation.is_truthy()?
        {
            let keyspace = keyspace(&of_session, query)?;
            let name = pyo3::intern!(py, "new_plan");
            plan = options.speculation.call_method1(name, (keyspace, query))?;
        }
        let future = self.new_object(py, &self.classes.future)?;
        let metrics = of_session.get(pyo3::intern!(py, "_metrics"))?;
        let values = [
            Some(&future),
            Some(session),
            Some(&message),
            Some(query),
            Some(&options.timeout),
            Some(&metrics),
            prepared.as_ref(),
            Some(&options.retry_policy),
            Some(&options.row_factory),
            Some(&options.load_balancer),
            Some(&start),
            Some(&plan),
            Some(&none),
            call.host,
            Some(&columns).filter(|_| self.tokens.is_some()),
            token.as_ref(),
        ];
        self.responses.get().initialize(&values)?;
        Ok(Some(future))
    }
}

/// Returns the keyspace of a statement, or, if the statement has none, the session's.
pub fn keyspace<'py>(
    session: &Fields<'_, 'py>,
    query: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = pyo3::intern!(query.py(), "keyspace");
    let keyspace = query.getattr(name)?;
    if keyspace.is_truthy()? { Ok(keyspace) } else { session.get(name) }
}

/// Stands in for `Session._create_response_future`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct CreateStandIn {
    original: Py<PyAny>,
    usual: Py<Usual>,
    maker: Py<FutureMaker>,
    counts: Counts,
}

#[pymethods]
impl CreateStandIn {
    #[new]
    fn new(original: Py<PyAny>, usual: Py<Usual>, maker: Py<FutureMaker>) -> CreateStandIn {
        CreateStandIn { original, usual, maker, counts: Counts::default() }
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

impl CreateStandIn {
    fn run<'py>(
        &self,
        py: Python<'py>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let values: Option<Arguments<'_, 'py, 9>> = sorted(arguments, names, &PARAMETERS);
        let Some(values) = values else { return Ok(None) };
        let [
            Some(session),
            Some(query),
            Some(parameters),
            Some(trace),
            Some(payload),
            Some(timeout),
            ..,
        ] = values
        else {
            return Ok(None);
        };
        let maker = self.maker.get();
        if !session.get_type().is(&maker.classes.session) || !self.usual.get().holds(py)? {
            return Ok(None);
        }
        let [.., profile, paging_state, host] = values.map(|value| value.map(|value| &**value));
        let call = Call {
            parameters,
            trace,
            payload,
            timeout,
            profile,
            paging_state: paging_state.map_or_else(|| py.None().into_bound(py), Bound::clone),
            host,
        };
        let class = query.get_type();
        let classes = &maker.classes;
        let is_made = |class: &Bound<'py, PyType>| {
            class.is(&classes.bound_statement)
                || class.is(&classes.simple_statement)
                || class.is(&classes.batch_statement)
        };
        if is_made(&class) {
            let future = maker.make(session, query, &call)?;
            if future.is_some() {
                self.counts.native();
            }
            return Ok(future);
        }
        // The driver's method binds a prepared statement first, or makes a simple statement of a
        // text. Native code does so only once, even if that method must be called.
        let statement = if class.is(&classes.prepared_statement) {
            query.call_method1(pyo3::intern!(py, "bind"), (parameters,))?
        } else if query.is_exact_instance_of::<PyString>() {
            classes.simple_statement.bind(py).call1((query,))?
        } else {
            return Ok(None);
        };
        if is_made(&statement.get_type())
            && let Some(future) = maker.make(session, &statement, &call)?
        {
            self.counts.native();
            return Ok(Some(future));
        }
        self.counts.fallback();
        let profile = profile.unwrap_or(maker.values.default_profile.bind(py));
        let arguments = (
            session,
            &statement,
            parameters,
            trace,
            payload,
            timeout,
            profile,
            call.paging_state,
            host,
        );
        self.original.bind(py).call1(arguments).map(Some)
    }
}

impl StandIn for CreateStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        this.get().run(this.py(), arguments, None)
    }

    fn call_named<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        this.get().run(this.py(), arguments, Some(names))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
