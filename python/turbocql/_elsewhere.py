"""Maps names of other drivers and tools to advice: what turbocql has in place of each.

Only messages of errors need these tables, so this module is imported when an error is made.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

__all__ = ["SYNONYMS", "missing_attribute", "setting_advice"]


def missing_attribute(module: str, name: str) -> AttributeError:
    """Makes the error for a name that a module does not have.

    The error's attributes `name` and `obj` are set, so that Python suggests the nearest attribute.
    """
    advice = (_FOR_ERRORS if module.endswith(".errors") else _FOR_PACKAGE).get(name)
    message = f"module {module!r} has no attribute {name!r}"
    message = message if advice is None else f"{message}: {advice}"
    return AttributeError(message, name=name, obj=sys.modules[module])


def setting_advice(owner: str, name: str) -> str | None:
    """Returns advice for a setting of another driver: what turbocql has in place of it.

    Returns `None` if this table has no advice for the name. The name may still be in `SYNONYMS`.
    `owner` is the name of the class that lacks the setting.
    """
    if owner == "ExecutionProfile" and name in _FOR_PROFILES:
        return _FOR_PROFILES[name]
    return _FOR_SETTINGS.get(name) if owner in ("Config", "ExecutionProfile") else None


def _by_name(advice_by_names: Mapping[str, str]) -> dict[str, str]:
    """Maps each name to its advice. A key of `advice_by_names` has one or more names, separated by
    spaces.
    """
    return {name: advice for names, advice in advice_by_names.items() for name in names.split()}


_LOGIN = (
    "pass user= and password= to connect, credentials= for passwords that change, or authenticator="
    " for other ways"
)
_MANY = (
    "use session.execute_many(statement, rows) for one statement, and a ThreadPoolExecutor or"
    " asyncio.gather for several"
)
_ALLOWED = "pass balancing=turbocql.Balancing(allowed=[...]) to connect"
_BALANCING = "pass balancing=turbocql.Balancing(datacenter=..., rack=...) to connect"
_ERRORS = "its counterpart is in turbocql.errors"
_RECONNECTION = "there are no settings for it: the session opens lost connections again"
_RETRY = 'pass retry="default", "fallthrough" or "downgrading" to connect'
_ROWS = 'pass rows="named", "tuple" or "dict" to connect or execute'
_SPECULATION = "pass speculation=turbocql.ConstantSpeculation(delay_s=...) to connect"
_FOR_PACKAGE = _by_name(
    {
        "AddressTranslator": "pass addresses={announced: reached} to connect",
        "AsyncSession": "use turbocql.aio.connect(...)",
        "AuthProvider PlainTextAuthProvider auth": _LOGIN,
        "AuthenticationFailed InvalidRequest NoHostAvailable OperationTimedOut": _ERRORS,
        "BatchStatement": "use turbocql.Batch",
        "BatchType": 'use turbocql.Batch("logged"), "unlogged" or "counter"',
        "BoundStatement": "use turbocql.Bound, which prepared.bind(values) returns",
        "Cluster connection": "use turbocql.connect(...), which opens a session",
        "ConsistencyLevel": "use turbocql.Consistency",
        "ConstantReconnectionPolicy ExponentialReconnectionPolicy": _RECONNECTION,
        "ConstantSpeculativeExecutionPolicy SpeculativeExecutionPolicy": _SPECULATION,
        "DCAwareRoundRobinPolicy RackAwareRoundRobinPolicy": _BALANCING,
        "DefaultLoadBalancingPolicy LoadBalancingPolicy RoundRobinPolicy": _BALANCING,
        "DowngradingConsistencyRetryPolicy": 'pass retry="downgrading" to connect',
        "DriverException ReadTimeout Unavailable WriteTimeout": _ERRORS,
        "EXEC_PROFILE_DEFAULT": "the settings of connect are those of the default profile",
        "ExponentialBackoffRetryPolicy NeverRetryPolicy RetryPolicy": _RETRY,
        "FallthroughRetryPolicy": 'pass retry="fallthrough" to connect',
        "HostFilterPolicy WhiteListRoundRobinPolicy": _ALLOWED,
        "Metadata metadata": "use session.schema(), and session.nodes",
        "MonotonicTimestampGenerator": "pass client_timestamps=True to connect",
        "NoSpeculativeExecutionPolicy": "there is no speculation by default",
        "PreparedStatement": "use turbocql.Prepared, which session.prepare(text) returns",
        "ProtocolVersion": "the version of the protocol is 4, and cannot be set",
        "QueryTrace": "use rows.trace(), after execute(..., tracing=True)",
        "ReconnectionPolicy": _RECONNECTION,
        "ResponseFuture": "use turbocql.aio, whose calls are awaited, or a ThreadPoolExecutor",
        "ResultSet": "use turbocql.Rows",
        "SaslAuthProvider": "pass authenticator= to connect: see turbocql.Authenticator",
        "SimpleStatement": "use turbocql.Query",
        "TokenAwarePolicy": "it is the default of turbocql.Balancing(token_aware=True)",
        "UNSET_VALUE": "use turbocql.UNSET",
        "UserType register_user_type": "use session.register_type(name, cls, keyspace=...)",
        "ValueSequence": "write IN ? in the statement, and pass a list as its value",
        "concurrent execute_concurrent": _MANY,
        "cqlengine": "it stays on cassandra-driver: turbocql.accelerate() speeds it up",
        "datetime_from_uuid1": "use turbocql.datetime_from_uuid",
        "dict_factory named_tuple_factory tuple_factory": _ROWS,
        "execute_concurrent_with_args": "use session.execute_many(statement, rows)",
        "metrics": "use session.metrics()",
        "ordered_dict_factory pseudo_namedtuple_factory": _ROWS,
        "query": "use turbocql.Query and turbocql.Batch",
        "unix_time_from_uuid1": "use turbocql.datetime_from_uuid(id).timestamp()",
    }
)
"""Advice by name, for names that the module `turbocql` lacks."""
_FOR_ERRORS = _by_name(
    {
        "AlreadyExistsException": "use AlreadyExists",
        "AuthenticationFailed": "use AuthenticationError",
        "CDCWriteException CDCWriteFailure": "use CdcWriteFailure",
        "ConfigurationException UserTypeDoesNotExist": "use InvalidSchema",
        "ConnectionBusy ConnectionException ConnectionShutdown": "use ConnectionLost",
        "CoordinationFailure": "use ReadFailure and WriteFailure",
        "DriverException": "use Error",
        "ErrorMessage RequestExecutionException": "use RequestError",
        "FunctionFailureMessage": "use FunctionFailure",
        "InternalError": "use ServerInternalError",
        "InvalidRequest InvalidRequestException": "use InvalidQuery",
        "IsBootstrappingErrorMessage": "use IsBootstrapping",
        "OperationTimedOut": "use RequestTimeout",
        "OverloadedErrorMessage": "use Overloaded",
        "PreparedQueryNotFound": "use Unprepared",
        "ProtocolError ProtocolException": "use ProtocolViolation",
        "ProtocolVersionUnsupported UnresolvableContactPoints": "use ConnectError",
        "RateLimitReached": "use RateLimited",
        "ReadFailureMessage": "use ReadFailure",
        "ReadTimeoutErrorMessage": "use ReadTimeout",
        "RequestValidationException": "use CqlSyntaxError, InvalidQuery and InvalidSchema",
        "SyntaxException": "use CqlSyntaxError",
        "Timeout": "use ReadTimeout, WriteTimeout, and RequestTimeout for the driver's own limit",
        "UnauthorizedErrorMessage": "use Unauthorized",
        "UnavailableErrorMessage": "use Unavailable",
        "WriteFailureMessage": "use WriteFailure",
        "WriteTimeoutErrorMessage": "use WriteTimeout",
    }
)
"""Advice by name, for names that the module `turbocql.errors` lacks."""
_FOR_PROFILES = {"row_factory": "a profile has no rows: pass rows= to connect or execute"}
_FOR_SETTINGS = _by_name(
    {
        "allow_beta_protocol_version protocol_version": "the version of the protocol is 4",
        "auth_provider": _LOGIN,
        "cloud endpoint_factory": "there is no such setting: pass contact_points",
        "metrics_enabled": "session.metrics() always counts",
        "reconnection_policy": _RECONNECTION,
        "schema_metadata_enabled token_metadata_enabled": "session.schema() alone reads the schema",
        "timestamp_generator use_client_timestamp": "pass client_timestamps=True",
    }
)
"""Advice by name, for settings of other drivers that are not in `SYNONYMS`."""
SYNONYMS = {
    "addresstranslator": "addresses",
    "arguments": "values",
    "args": "values",
    "consistencylevel": "consistency",
    "csvoptions": "csv",
    "dc": "datacenter",
    "defaultconsistencylevel": "consistency",
    "defaultfetchsize": "page_size",
    "defaultretrypolicy": "retry",
    "defaultserialconsistencylevel": "serial_consistency",
    "defaulttimeout": "timeout_s",
    "delimiter": "csv",
    "encoding": "csv",
    "encryption": "tls",
    "fetchsize": "page_size",
    "filter": "where",
    "header": "csv",
    "host": "contact_points",
    "hosts": "contact_points",
    "idleheartbeatinterval": "keepalive_interval_s",
    "idleheartbeattimeout": "keepalive_timeout_s",
    "localdc": "datacenter",
    "nodes": "contact_points",
    "parameters": "values",
    "params": "values",
    "quote": "csv",
    "requesttimeout": "timeout_s",
    "retrypolicy": "retry",
    "rowfactory": "rows",
    "sep": "csv",
    "separator": "csv",
    "sockopts": "tcp_keepalive_s",
    "speculativeexecutionpolicy": "speculation",
    "ssl": "tls",
    "sslcontext": "tls",
    "ssloptions": "tls",
}
"""Maps the names of settings in other drivers and tools to the names of turbocql's settings. The
keys are in the form that `_checks._letters` returns."""
