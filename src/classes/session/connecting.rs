//! Converts a session's configuration from Python values, which `turbocql.config.Config` has
//! checked.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turbocql_engine::{
    Allowed, Authenticate, Balancing, Config, Conversation, Latency, Pool, Profile, Retry,
    ServerNameSetting, Speculation, Tls, Verify,
};

use crate::classes::session::secret::Secret;
use crate::options::{consistency, page_size, serial_consistency, timeout};
use turbocql_values::ending::Inside;

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ConnectOptions<'py> {
    contact_points: Vec<String>,
    keyspace: Option<String>,
    user: Option<String>,
    password: Option<Py<Secret>>,
    authenticator: Option<Py<PyAny>>,
    tls: Option<TlsOptions>,
    profile: ProfileOptions<'py>,
    profiles: Vec<(String, ProfileOptions<'py>)>,
    connect_timeout_s: f64,
    compression: Option<String>,
    page_size: Bound<'py, PyAny>,
    application_name: Option<String>,
    application_version: Option<String>,
    connections_per_node: Option<NonZeroUsize>,
    connections_per_shard: Option<NonZeroUsize>,
    shard_aware_port: bool,
    keepalive_interval_s: Option<f64>,
    keepalive_timeout_s: Option<f64>,
    tcp_keepalive_s: Option<f64>,
    max_frame_bytes: usize,
    slow_request_s: Option<f64>,
    values_in_errors: bool,
    max_in_flight: usize,
    max_in_flight_bytes: usize,
    local_address: Option<String>,
    addresses: Vec<(HostPort, HostPort)>,
    client_timestamps: bool,
    schema_agreement_timeout_s: Option<f64>,
    io_threads: usize,
    pub prepared_cache_size: usize,
    pub raises_when_full: bool,
    pub rows: String,
    pub naive_timestamps: bool,
    pub numpy_vectors: bool,
}

/// An address and an optional port.
type HostPort = (String, Option<u16>);

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TlsOptions {
    ca: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Py<Secret>>,
    verify: String,
    names: Vec<String>,
    /// The host name that is sent as SNI. If it is empty, no name is sent. If it is `None`, the
    /// name of the contact point is sent.
    server_name: Option<String>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ProfileOptions<'py> {
    consistency: Bound<'py, PyAny>,
    serial_consistency: Option<Bound<'py, PyAny>>,
    timeout_s: Bound<'py, PyAny>,
    retry: String,
    /// The delay in seconds, and the maximum number of additional requests.
    constant_speculation: Option<(f64, usize)>,
    /// The percentile of the latencies, and the maximum number of additional requests.
    percentile_speculation: Option<(f64, usize)>,
    datacenter: Option<String>,
    rack: Option<String>,
    token_aware: bool,
    datacenter_failover: bool,
    shuffle_replicas: bool,
    avoid_silent: bool,
    latency: Option<LatencyOptions>,
    allowed: Vec<HostPort>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct LatencyOptions {
    exclusion_threshold: f64,
    retry_period_s: f64,
    update_rate_s: f64,
    minimum_measurements: usize,
    scale_s: f64,
}

fn invalid(setting: &str) -> PyErr {
    PyValueError::new_err(format!("unknown {setting}"))
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn allowed((ip, port): &HostPort) -> PyResult<Allowed> {
    let ip: IpAddr = ip.parse().map_err(|_| PyValueError::new_err(format!("invalid IP: {ip}")))?;
    Ok(Allowed { ip: ip.to_canonical(), port: *port })
}

impl ProfileOptions<'_> {
    fn parse(&self) -> PyResult<Profile> {
        let constant = self.constant_speculation.map(|(delay, attempts)| {
            Ok::<_, PyErr>(Speculation::Constant { delay: seconds(delay)?, attempts })
        });
        let percentile = self
            .percentile_speculation
            .map(|(percentile, attempts)| Speculation::Percentile { percentile, attempts });
        let serial = self.serial_consistency.as_ref();
        Ok(Profile {
            consistency: consistency(&self.consistency)?,
            serial_consistency: serial.map(serial_consistency).transpose()?,
            timeout: timeout(&self.timeout_s)?,
            retry: match &*self.retry {
                "default" => Retry::Default,
                "fallthrough" => Retry::Fallthrough,
                "downgrading" => Retry::Downgrading,
                _ => return Err(invalid("retry policy")),
            },
            speculation: constant.transpose()?.or(percentile),
            balancing: Balancing {
                datacenter: self.datacenter.clone(),
                rack: self.rack.clone(),
                token_aware: self.token_aware,
                datacenter_failover: self.datacenter_failover,
                shuffle_replicas: self.shuffle_replicas,
                avoid_silent: self.avoid_silent,
                latency: self.latency.as_ref().map(LatencyOptions::parse).transpose()?,
                allowed: self.allowed.iter().map(allowed).collect::<PyResult<_>>()?,
            },
        })
    }
}

impl LatencyOptions {
    fn parse(&self) -> PyResult<Latency> {
        Ok(Latency {
            exclusion_threshold: self.exclusion_threshold,
            retry_period: seconds(self.retry_period_s)?,
            update_rate: seconds(self.update_rate_s)?,
            minimum_measurements: self.minimum_measurements,
            scale: seconds(self.scale_s)?,
        })
    }
}

impl TlsOptions {
    fn parse(&self, py: Python<'_>) -> PyResult<Tls> {
        let key = self.key.as_ref().map(|key| key.get().bytes(py));
        Ok(Tls {
            authorities: self.ca.clone(),
            certificate: self.certificate.clone(),
            key: key.transpose()?,
            verify: match &*self.verify {
                "full" => Verify::Full,
                "authority" => Verify::Authority,
                "nothing" => Verify::Nothing,
                _ => return Err(invalid("kind of certificate verification")),
            },
            names: self.names.clone(),
            server_name: match self.server_name.as_deref() {
                None => ServerNameSetting::OfContactPoint,
                Some("") => ServerNameSetting::Off,
                Some(name) => ServerNameSetting::Fixed(name.to_owned()),
            },
        })
    }
}

impl ConnectOptions<'_> {
    pub fn parse(&self, py: Python<'_>) -> PyResult<Config> {
        let password = self.password.as_ref().map(|password| password.get().text(py));
        let compression = self.compression.as_deref().map(str::parse);
        let authenticator = self.authenticator.as_ref().map(|make| {
            let make: Arc<dyn Authenticate> = Arc::new(PythonAuthenticator(make.clone_ref(py)));
            make
        });
        let profiles = self.profiles.iter();
        let profiles = profiles.map(|(name, profile)| Ok((name.clone(), profile.parse()?)));
        let rules = self.addresses.iter();
        let addresses = rules.map(|(from, to)| Ok((allowed(from)?, allowed(to)?)));
        let local = self.local_address.as_deref().map(str::parse);
        let per_node = self.connections_per_node.map(Pool::PerNode);
        Ok(Config {
            contact_points: self.contact_points.clone(),
            keyspace: self.keyspace.clone(),
            user: self.user.clone(),
            password: password.transpose()?,
            authenticator,
            tls: self.tls.as_ref().map(|tls| tls.parse(py)).transpose()?,
            profile: self.profile.parse()?,
            profiles: profiles.collect::<PyResult<_>>()?,
            connect_timeout: seconds(self.connect_timeout_s)?,
            compression: compression.transpose().map_err(|_| invalid("compression"))?,
            page_size: page_size(&self.page_size)?,
            application_name: self.application_name.clone(),
            application_version: self.application_version.clone(),
            pool: per_node.or(self.connections_per_shard.map(Pool::PerShard)),
            shard_aware_port: self.shard_aware_port,
            keepalive_interval: self.keepalive_interval_s.map(seconds).transpose()?,
            keepalive_timeout: self.keepalive_timeout_s.map(seconds).transpose()?,
            tcp_keepalive: self.tcp_keepalive_s.map(seconds).transpose()?,
            max_frame_bytes: self.max_frame_bytes,
            local_address: local.transpose().map_err(|_| invalid("local address"))?,
            addresses: addresses.collect::<PyResult<_>>()?,
            client_timestamps: self.client_timestamps,
            agreement_timeout: self.schema_agreement_timeout_s.map(seconds).transpose()?,
            max_in_flight: self.max_in_flight,
            max_in_flight_bytes: self.max_in_flight_bytes,
            slow_request: self.slow_request_s.map(seconds).transpose()?,
            values_in_errors: self.values_in_errors,
            workers: self.io_threads,
        })
    }
}

/// The application's callable for authentication. Its argument is the mechanism, which is the
/// authenticator class that the server names. It returns an object with the methods `first`,
/// `answer` and `accepted`. The callable and the methods run on separate threads, never on the I/O
/// thread.
struct PythonAuthenticator(Py<PyAny>);

/// The object that a [`PythonAuthenticator`] has returned for one connection.
struct PythonConversation(Py<PyAny>);

/// Converts an exception that the application's code raised to text, because the engine's errors
/// contain only text.
fn text_of_exception(py: Python<'_>, error: &PyErr) -> String {
    let name = error.get_type(py).name().map(|name| name.to_string());
    format!("the authenticator raised {}: {}", name.unwrap_or_default(), error.value(py))
}

fn token(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if value.is_none() {
        return Ok(None);
    }
    let bytes = value.cast::<PyBytes>().map_err(|_| {
        // The message shows only the class, because the value may be a credential.
        let got = turbocql_values::value::describe::type_name(value);
        PyTypeError::new_err(format!("expected bytes or None, got {got}"))
    })?;
    Ok(Some(bytes.as_bytes().to_vec()))
}

fn run<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, String> {
    let result = Python::try_attach(|py| {
        let _inside = Inside::enter(py);
        work(py).map_err(|error| text_of_exception(py, &error))
    });
    result.unwrap_or_else(|| Err("the interpreter is ending".to_owned()))
}

impl Authenticate for PythonAuthenticator {
    fn begin(&self, mechanism: &str) -> Result<Box<dyn Conversation>, String> {
        run(|py| {
            let conversation = self.0.bind(py).call1((mechanism,))?.unbind();
            let conversation: Box<dyn Conversation> = Box::new(PythonConversation(conversation));
            Ok(conversation)
        })
    }
}

impl Conversation for PythonConversation {
    fn first(&mut self) -> Result<Option<Vec<u8>>, String> {
        run(|py| token(&self.0.bind(py).call_method0(pyo3::intern!(py, "first"))?))
    }

    fn answer(&mut self, challenge: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, String> {
        run(|py| {
            let challenge = challenge.map(|bytes| PyBytes::new(py, &bytes));
            token(&self.0.bind(py).call_method1(pyo3::intern!(py, "answer"), (challenge,))?)
        })
    }

    fn accepted(&mut self, last: Option<Vec<u8>>) -> Result<(), String> {
        run(|py| {
            let last = last.map(|bytes| PyBytes::new(py, &bytes));
            self.0.bind(py).call_method1(pyo3::intern!(py, "accepted"), (last,)).map(drop)
        })
    }
}
