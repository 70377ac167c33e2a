//! Makes the message and the future of a bound statement, for `Session._create_response_future`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple, PyType};

use super::Responses;
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
    responses: Py<Responses>,
    classes: Classes,
    values: Values,
    /// `object.__new__`.
    new_object: Py<PyAny>,
    /// Only releases of scylla-driver that compute a token for each request have it.
    tokens: Option<Tokens>,
}

/// The driver's classes of sessions, prepared statements, bound statements, execution profiles,
/// EXECUTE messages, and futures.
type Classes = (Py<PyType>, Py<PyType>, Py<PyType>, Py<PyType>, Py<PyType>, Py<PyType>);

/// The driver's values for the default execution profile, for a timeout that is not set, and for a
/// page size that is not set.
type Values = (Py<PyAny>, Py<PyAny>, Py<PyAny>);

#[pymethods]
impl FutureMaker {
    /// `token_classes` are the driver's classes of metadata, tokens and tablets. `names` are the
    /// global names of `cassandra.cluster`.
    #[new]
    fn new(
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
            names,
        });
        FutureMaker { responses, classes, values, new_object, tokens }
    }
}

/// What a request takes from its statement, or from the execution profile, or, without execution
/// profiles, from the session and the cluster.
struct Options<'py> {
    timeout: Bound<'py, PyAny>,
    consistency: Bound<'py, PyAny>,
    serial_consistency: Bound<'py, PyAny>,
    paging: Bound<'py, PyAny>,
    retry_policy: Bound<'py, PyAny>,
    row_factory: Bound<'py, PyAny>,
    load_balancer: Bound<'py, PyAny>,
    speculation: Bound<'py, PyAny>,
}

/// The arguments of a call that are not part of the statement.
struct Call<'a, 'py> {
    trace: &'a Bound<'py, PyAny>,
    payload: &'a Bound<'py, PyAny>,
    timeout: &'a Bound<'py, PyAny>,
    profile: Option<&'a Bound<'py, PyAny>>,
    paging_state: Bound<'py, PyAny>,
    host: Option<&'a Bound<'py, PyAny>>,
}

/// A statement, and the session and the cluster for which its message is made.
pub struct Source<'a, 'py> {
    pub session: &'a Bound<'py, PyAny>,
    pub of_session: &'a Fields<'a, 'py>,
    pub cluster: &'a Bound<'py, PyAny>,
    pub query: &'a Bound<'py, PyAny>,
}

/// A message, with what the future of the message needs.
struct Made<'py> {
    message: Bound<'py, PyAny>,
    /// The columns of the result, as the prepared statement had them when the message was made.
    columns: Bound<'py, PyAny>,
    /// The token of the partition; `None` if the driver computes no tokens for requests.
    token: Option<Bound<'py, PyAny>>,
}

impl FutureMaker {
    /// Does what `_create_response_future` does with a bound statement. Returns `None` if that
    /// method must be called; nothing has happened then.
    fn make<'py>(
        &self,
        session: &Bound<'py, PyAny>,
        query: &Bound<'py, PyAny>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = session.py();
        let Some(of_session) = Fields::of(session) else { return Ok(None) };
        let prepared = query.getattr(pyo3::intern!(py, "prepared_statement"))?;
        if !prepared.get_type().is(&self.classes.1) {
            return Ok(None);
        }
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
        if fetch_size.is(&self.values.2) {
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
        let Made { message, columns, token } =
            self.message(&source, &prepared, &options, call, (&fetch_size, &timestamp))?;
        let mut plan = none.clone();
        if query.getattr(pyo3::intern!(py, "is_idempotent"))?.is_truthy()?
            && options.speculation.is_truthy()?
        {
            let keyspace = keyspace(&of_session, query)?;
            let name = pyo3::intern!(py, "new_plan");
            plan = options.speculation.call_method1(name, (keyspace, query))?;
        }
        let future = self.new_object.bind(py).call1((&self.classes.5,))?;
        let metrics = of_session.get(pyo3::intern!(py, "_metrics"))?;
        let values = [
            Some(&future),
            Some(session),
            Some(&message),
            Some(query),
            Some(&options.timeout),
            Some(&metrics),
            Some(&prepared),
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

    /// Makes the EXECUTE message of a statement, with the attributes that the driver sets, in the
    /// driver's order.
    fn message<'py>(
        &self,
        source: &Source<'_, 'py>,
        prepared: &Bound<'py, PyAny>,
        options: &Options<'py>,
        call: &Call<'_, 'py>,
        (fetch_size, timestamp): (&Bound<'py, PyAny>, &Bound<'py, PyAny>),
    ) -> PyResult<Made<'py>> {
        let (query, py) = (source.query, source.query.py());
        let message = self.new_object.bind(py).call1((&self.classes.4,))?;
        let set =
            |name: &Bound<'py, PyString>, value: &Bound<'py, PyAny>| message.setattr(name, value);
        let id = pyo3::intern!(py, "query_id");
        let columns_id_name = pyo3::intern!(py, "result_metadata_id");
        let (columns, columns_id, token): (_, Bound<'py, PyAny>, _);
        if let Some(tokens) = &self.tokens {
            let routing = tokens.routing(source, &self.new_object)?;
            let pair = prepared.getattr(pyo3::intern!(py, "result_metadata_and_id"))?;
            (columns, columns_id) = pair.extract()?;
            set(id, &prepared.getattr(id)?)?;
            set(columns_id_name, &columns_id)?;
            let block = tokens.version_block(source, &routing)?;
            set(pyo3::intern!(py, "tablet_version_block"), &block)?;
            token = Some(routing.token);
        } else {
            columns = prepared.getattr(pyo3::intern!(py, "result_metadata"))?;
            columns_id = prepared.getattr(columns_id_name)?;
            set(id, &prepared.getattr(id)?)?;
            set(columns_id_name, &columns_id)?;
            token = None;
        }
        let skips_columns =
            columns.is_truthy()? && (self.tokens.is_none() || !columns_id.is_none());
        let none = py.None().into_bound(py);
        set(pyo3::intern!(py, "query_params"), &query.getattr(pyo3::intern!(py, "values"))?)?;
        set(pyo3::intern!(py, "consistency_level"), &options.consistency)?;
        set(pyo3::intern!(py, "serial_consistency_level"), &options.serial_consistency)?;
        set(pyo3::intern!(py, "fetch_size"), fetch_size)?;
        set(pyo3::intern!(py, "paging_state"), &call.paging_state)?;
        set(pyo3::intern!(py, "timestamp"), timestamp)?;
        set(pyo3::intern!(py, "skip_meta"), PyBool::new(py, skips_columns).as_any())?;
        if !self.responses.get().is_scylla {
            set(pyo3::intern!(py, "continuous_paging_options"), &none)?;
        }
        set(pyo3::intern!(py, "keyspace"), &none)?;
        set(pyo3::intern!(py, "tracing"), call.trace)?;
        for payload in [&query.getattr(pyo3::intern!(py, "custom_payload"))?, call.payload] {
            if payload.is_truthy()? {
                message.call_method1(pyo3::intern!(py, "update_custom_payload"), (payload,))?;
            }
        }
        let beta = pyo3::intern!(py, "allow_beta_protocol_version");
        set(beta, &source.cluster.getattr(beta)?)?;
        Ok(Made { message, columns, token })
    }

    /// Returns the options of a cluster that has execution profiles; `None` if the profile is not
    /// known.
    fn options<'py>(
        &self,
        cluster: &Bound<'py, PyAny>,
        query: &Bound<'py, PyAny>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Options<'py>>> {
        let py = query.py();
        let name = call.profile.unwrap_or(self.values.0.bind(py));
        let profile = if name.get_type().is(&self.classes.3) {
            name.clone()
        } else {
            if !name.is(&self.values.0) && !name.is_exact_instance_of::<PyString>() {
                return Ok(None);
            }
            let manager = cluster.getattr(pyo3::intern!(py, "profile_manager"))?;
            let profiles = manager.getattr(pyo3::intern!(py, "profiles"))?;
            let Ok(profiles) = profiles.cast_into_exact::<PyDict>() else { return Ok(None) };
            match profiles.get_item(name)? {
                Some(profile) if profile.get_type().is(&self.classes.3) => profile,
                _ => return Ok(None),
            }
        };
        let timeout = if call.timeout.is(&self.values.1) {
            profile.getattr(pyo3::intern!(py, "request_timeout"))?
        } else {
            call.timeout.clone()
        };
        let or_of_profile = |name| set_or(query.getattr(name)?, || profile.getattr(name));
        let mut retry_policy = query.getattr(pyo3::intern!(py, "retry_policy"))?;
        if !retry_policy.is_truthy()? {
            retry_policy = profile.getattr(pyo3::intern!(py, "retry_policy"))?;
        }
        Ok(Some(Options {
            timeout,
            consistency: or_of_profile(pyo3::intern!(py, "consistency_level"))?,
            serial_consistency: or_of_profile(pyo3::intern!(py, "serial_consistency_level"))?,
            paging: profile.getattr(pyo3::intern!(py, "continuous_paging_options"))?,
            retry_policy,
            row_factory: profile.getattr(pyo3::intern!(py, "row_factory"))?,
            load_balancer: profile.getattr(pyo3::intern!(py, "load_balancing_policy"))?,
            speculation: profile.getattr(pyo3::intern!(py, "speculative_execution_policy"))?,
        }))
    }

    /// Returns the options of a cluster without execution profiles; `None` if the call names a
    /// profile, which the driver refuses.
    fn legacy_options<'py>(
        &self,
        session: &Bound<'py, PyAny>,
        cluster: &Bound<'py, PyAny>,
        query: &Bound<'py, PyAny>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Options<'py>>> {
        let py = query.py();
        if call.profile.is_some_and(|profile| !profile.is(&self.values.0)) {
            return Ok(None);
        }
        let timeout = if call.timeout.is(&self.values.1) {
            session.getattr(pyo3::intern!(py, "default_timeout"))?
        } else {
            call.timeout.clone()
        };
        let consistency = set_or(query.getattr(pyo3::intern!(py, "consistency_level"))?, || {
            session.getattr(pyo3::intern!(py, "default_consistency_level"))
        })?;
        let serial_consistency =
            set_or(query.getattr(pyo3::intern!(py, "serial_consistency_level"))?, || {
                session.getattr(pyo3::intern!(py, "default_serial_consistency_level"))
            })?;
        let mut retry_policy = query.getattr(pyo3::intern!(py, "retry_policy"))?;
        if !retry_policy.is_truthy()? {
            retry_policy = cluster.getattr(pyo3::intern!(py, "default_retry_policy"))?;
        }
        let none = py.None().into_bound(py);
        Ok(Some(Options {
            timeout,
            consistency,
            serial_consistency,
            paging: none.clone(),
            retry_policy,
            row_factory: session.getattr(pyo3::intern!(py, "row_factory"))?,
            load_balancer: cluster.getattr(pyo3::intern!(py, "load_balancing_policy"))?,
            speculation: none,
        }))
    }
}

/// Returns `value`, or, if it is Python's None, the other value.
fn set_or<'py>(
    value: Bound<'py, PyAny>,
    other: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if value.is_none() { other() } else { Ok(value) }
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
        if !session.get_type().is(&maker.classes.0) || !self.usual.get().holds(py)? {
            return Ok(None);
        }
        let [.., profile, paging_state, host] = values.map(|value| value.map(|value| &**value));
        let call = Call {
            trace,
            payload,
            timeout,
            profile,
            paging_state: paging_state.map_or_else(|| py.None().into_bound(py), Bound::clone),
            host,
        };
        if query.get_type().is(&maker.classes.2) {
            let future = maker.make(session, query, &call)?;
            if future.is_some() {
                self.counts.native();
            }
            return Ok(future);
        }
        if !query.get_type().is(&maker.classes.1) {
            return Ok(None);
        }
        // The driver's method binds a prepared statement first. It is bound only once, even if
        // that method must be called.
        let bound = query.call_method1(pyo3::intern!(py, "bind"), (parameters,))?;
        if bound.get_type().is(&maker.classes.2)
            && let Some(future) = maker.make(session, &bound, &call)?
        {
            self.counts.native();
            return Ok(Some(future));
        }
        self.counts.fallback();
        let profile = profile.unwrap_or(maker.values.0.bind(py));
        let arguments = (
            session,
            &bound,
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
