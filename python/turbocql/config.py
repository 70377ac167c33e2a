"""The settings of a session. A `Config` checks its settings when it is created."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._checks import (
    ReadOnly,
    address,
    check_choice,
    check_flag,
    check_int,
    check_keyspace,
    check_seconds,
    check_settings,
    class_name,
    shown,
)
from ._config.meanings import SETTINGS
from ._config.points import with_ports
from ._options import with_meanings
from .errors import ConfigError
from .policies import (
    _SERIAL,
    Balancing,
    Consistency,
    ConsistencyName,
    ExecutionProfile,
    Retry,
    SerialConsistencyName,
    Speculation,
    _check_retry,
    _check_speculation,
    _consistency,
    _profile_native,
)
from .security import (
    Authenticator,
    Credentials,
    Secret,
    Tls,
    _check_credentials,
    _check_tls,
    _copied,
    _copied_deep,
    _hide_repr,
    _init_without_frames,
    _is_path,
    _is_pickled_by_name,
    _native_authenticator,
    _native_tls,
    _restore,
    _state,
    _unwrap_authenticator,
    _without_traceback_frames,
    _wrap_secret,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["Config", "RowsAs", "Settings"]

RowsAs = Literal["named", "tuple", "dict"]
"""The form of rows: named tuples, plain tuples, or dicts by column name."""


@_init_without_frames
@check_settings
@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of a session.

    A `Config` can be compared, copied and pickled. If it contains a secret, it can be pickled only
    if `pickle_secrets` is true.

    Raises: `ConfigError` for an invalid value, before anything is connected; also when a pickle
        would contain a secret and `pickle_secrets` is false.
    """

    contact_points: str | Sequence[str] = ("127.0.0.1",)
    """The nodes to contact first: `host`, `host:port` or `[ipv6]:port`, one or several. Some
    of them may be down, if at least one answers."""
    port: int = 9042
    """The port of the contact points that name no port."""
    keyspace: str | None = None
    """The keyspace of unqualified table names; letter case matters."""
    user: str | None = None
    """The user name, for servers that require one. It must be set together with `password`."""
    password: str | Secret[str] | None = field(default=None, repr=False)
    """The password. It is never shown: a `str` becomes a [`Secret`][turbocql.security.Secret]."""
    credentials: Credentials | None = field(default=None, repr=False)
    """A callable that returns the user and the password, for passwords that change while the
    session is open: see [`Credentials`][turbocql.security.Credentials]."""
    authenticator: Callable[[str], Authenticator] | None = field(default=None, repr=False)
    """A callable that makes an authenticator, for servers that do not authenticate with a password:
    see [`Authenticator`][turbocql.security.Authenticator]."""
    tls: Tls | bool | None = None
    """The encryption of connections: `True` for `Tls()`; `None` or `False` for no encryption."""
    consistency: Consistency | ConsistencyName = Consistency.LOCAL_QUORUM
    """The consistency of requests that set no consistency."""
    serial_consistency: Consistency | SerialConsistencyName | None = Consistency.LOCAL_SERIAL
    """The consistency of the Paxos phase of lightweight transactions: `SERIAL` or `LOCAL_SERIAL`.
    It is sent with conditional statements, and with batches.
    """
    timeout_s: float | None = 30.0
    """Seconds until a request, with all its retries, times out; `None` for never."""
    retry: Retry = "default"
    """The policy for sending a failed request again: see [`Retry`][turbocql.policies.Retry]."""
    speculation: Speculation | None = None
    """The policy for sending a slow idempotent request to one more node; `None` for never."""
    balancing: Balancing = field(default_factory=Balancing)
    """The policy that selects the nodes for a request."""
    profiles: Mapping[str, ExecutionProfile] = field(default_factory=dict, hash=False)
    """Execution profiles by name. When a request selects a profile, the fields of the profile that
    are not `None` replace the settings of the same names."""
    connect_timeout_s: float = 30.0
    """Seconds until connecting times out; with `wait_s`, the limit of each attempt."""
    wait_s: float = 0.0
    """Seconds for which `connect` tries again while the database starts; 0 for a single attempt. It
    tries until the names of contact points resolve, a node accepts connections and answers
    requests, and the keyspace exists. An error that waiting cannot mend is raised at once. The
    logger `turbocql` reports the reason of the wait, at level INFO."""
    compression: Literal["lz4", "snappy"] | None = None
    """The compression of frames in both directions; `None` for no compression."""
    page_size: int = 5000
    """Rows per page of a result."""
    rows: RowsAs = "named"
    """The form of rows: named tuples, plain tuples, or dicts by column name."""
    timestamps: Literal["aware", "naive"] = "aware"
    """The form of `timestamp` values: `datetime` with the time zone UTC, or without a time zone."""
    vectors: Literal["list", "numpy"] = "list"
    """The form of vectors of float, double, int and bigint: lists or NumPy arrays."""
    prepared_cache_size: int = 1000
    """The maximum number of cached prepared statements. Texts that are executed with values are
    prepared and cached too."""
    application_name: str | None = None
    """The name of the application, sent to the server."""
    application_version: str | None = None
    """The version of the application, sent to the server."""
    connections_per_node: int | None = None
    """The number of connections to each node. With `None`, there is one to each shard of
    ScyllaDB, and one to each node of Cassandra."""
    connections_per_shard: int | None = None
    """The number of connections to each shard of ScyllaDB, or to a node that has no shards."""
    shard_aware_port: bool = True
    """Whether to use the port of ScyllaDB on which the client chooses the shard of a connection.
    This choice does not work through a proxy that changes source ports."""
    keepalive_interval_s: float = 10.0
    """Seconds without a received byte after which a keepalive request is sent on a connection."""
    keepalive_timeout_s: float = 10.0
    """Seconds after a keepalive request within which a byte must be received. If none is received,
    the connection is closed."""
    tcp_keepalive_s: float | None = None
    """Seconds between the operating system's own TCP keepalive probes; `None` for no probes."""
    max_frame_bytes: int = 256 * 1024 * 1024
    """The maximum length in bytes of a frame that a server sends. The limit is for the compressed
    and for the decompressed frame. A longer frame ends its connection."""
    max_in_flight: int = 10_000
    """The maximum number of requests in flight. Further calls wait, first come first served, before
    they encode their values; the wait is part of `timeout_s`."""
    max_in_flight_bytes: int = 256 * 1024 * 1024
    """The maximum number of bytes of the values of the requests in flight. Further calls wait. A
    request whose values alone have more bytes is sent when no other request is in flight."""
    when_full: Literal["wait", "raise"] = "wait"
    """Whether a call waits or raises an error when the session has as many requests in flight as it
    may have. The error is [`SessionFull`][turbocql.errors.SessionFull]. The rows of an
    `execute_many` always wait."""
    values_in_errors: bool = True
    """Whether messages of errors may contain values: the value that a column cannot take, and
    literals in the server's message. The statement itself is always shown without its literals."""
    slow_request_s: float | None = None
    """Seconds after which a request is slow, and is reported by the logger `turbocql.request` at
    level WARNING; `None` for no such reports. At most 20 requests are reported in a second."""
    local_address: str | None = None
    """The local IP address of the connections."""
    addresses: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The addresses at which nodes are reached. A key is the address that a node announces, without
    a port. Its value is the address to connect to, as `10.0.0.1` or `10.0.0.1:9042`. A node that is
    not listed is reached at the address that it announces. Contact points are not translated."""
    client_timestamps: bool = False
    """Whether the client, and not the server, sets the timestamp of a write that has none. Each
    timestamp is later than the session's timestamp before it. The server always sets the timestamps
    of conditional statements (`IF`). So if the clocks of client and server differ, and a row has
    plain and conditional writes, an earlier write may hide a later one. The session warns when it
    sends its first conditional statement."""
    schema_agreement_timeout_s: float = 60.0
    """Seconds that a schema statement waits for the nodes to agree on the schema."""
    io_threads: int = 1
    """Threads of the network engine. One is right for most programs."""
    pickle_secrets: bool = False
    """Whether a pickle of these settings contains their secrets, in clear text. The secrets are the
    password, a private key that is not a file name, an authenticator, and `credentials`. A function
    or class that a pickle refers to by its name alone is not a secret. If `pickle_secrets` is
    false, settings with a secret cannot be pickled."""

    def __post_init__(self) -> None:
        _wrap_secret(self, "password")
        points = self.contact_points
        points = (points,) if isinstance(points, str) else points
        if not isinstance(points, Sequence) or not points:
            got = "none" if isinstance(points, Sequence) else class_name(points)
            raise ConfigError(f"contact_points must be a host or a sequence of hosts, got {got}")
        check_int("port", self.port, 1, 65_535)
        object.__setattr__(self, "contact_points", with_ports(points, self.port))
        if self.keyspace is not None:
            check_keyspace(self.keyspace)
        for name in ("user", "password", "application_name", "application_version"):
            fault = _text_fault(getattr(self, name))
            if fault is not None:
                raise ConfigError(f"{name} {fault}")
        if (self.user is None) != (self.password is None):
            raise ConfigError("user and password go together: set both or neither")
        if self.authenticator is not None:
            if not callable(self.authenticator):
                raise ConfigError("authenticator must be callable")
            if self.user is not None:
                raise ConfigError("set an authenticator, or user and password, not both")
            object.__setattr__(self, "authenticator", _hide_repr(self.authenticator))
        if self.credentials is not None:
            _check_credentials(self.credentials)
            if self.user is not None or self.authenticator is not None:
                raise ConfigError(
                    "set credentials, or user and password, or an authenticator: one of the three"
                )
            object.__setattr__(self, "credentials", _hide_repr(self.credentials))
        _check_tls(self.tls)
        object.__setattr__(self, "consistency", _consistency("consistency", self.consistency))
        if self.consistency in _SERIAL:
            # A single read may have a serial consistency. The session's default applies to writes
            # too, and every write would fail with a serial consistency.
            raise ConfigError("a session's consistency cannot be serial; pass it with the request")
        if self.serial_consistency is not None:
            serial = _consistency("serial_consistency", self.serial_consistency)
            if serial not in _SERIAL:
                raise ConfigError(
                    f"serial_consistency must be SERIAL or LOCAL_SERIAL, not {serial}"
                )
            object.__setattr__(self, "serial_consistency", serial)
        if self.timeout_s is not None:
            check_seconds("timeout_s", self.timeout_s)
        self._check_policies()
        self._check_connections()
        check_choice("compression", self.compression, (None, "lz4", "snappy"))
        check_choice("rows", self.rows, ("named", "tuple", "dict"))
        check_choice("timestamps", self.timestamps, ("aware", "naive"))
        check_choice("vectors", self.vectors, ("list", "numpy"))
        if self.vectors == "numpy" and find_spec("numpy") is None:
            raise ConfigError("vectors='numpy' needs NumPy: install the package numpy")
        check_int("page_size", self.page_size, 1, 2**31 - 1)
        check_int("prepared_cache_size", self.prepared_cache_size, 1, 2**31 - 1)
        check_int("io_threads", self.io_threads, 1, 256)
        check_int("max_frame_bytes", self.max_frame_bytes, 65_536, 2**31 - 1)
        check_int("max_in_flight", self.max_in_flight, 1, 2**31 - 1)
        check_int("max_in_flight_bytes", self.max_in_flight_bytes, 1, 2**62)
        check_choice("when_full", self.when_full, ("wait", "raise"))
        check_flag("values_in_errors", self.values_in_errors)
        if self.slow_request_s is not None:
            check_seconds("slow_request_s", self.slow_request_s)

    def _check_policies(self) -> None:
        _check_retry(self.retry)
        if self.speculation is not None:
            _check_speculation(self.speculation)
        if not isinstance(self.balancing, Balancing):
            raise ConfigError(f"balancing must be a Balancing, got {shown(self.balancing)}")
        if not isinstance(self.profiles, Mapping):
            raise ConfigError("profiles must be a mapping of names to ExecutionProfiles")
        for name, profile in self.profiles.items():
            if not isinstance(name, str) or not name:
                raise ConfigError(f"a profile's name must be a non-empty str, got {shown(name)}")
            if not isinstance(profile, ExecutionProfile):
                raise ConfigError(
                    f"profile {shown(name)} must be an ExecutionProfile, got {shown(profile)}"
                )
            if profile.consistency in _SERIAL:
                raise ConfigError(
                    f"profile {shown(name)}: a default consistency cannot be serial; pass it"
                    " with the request"
                )
        object.__setattr__(self, "profiles", ReadOnly(self.profiles))

    def _check_connections(self) -> None:
        for name in (
            "connect_timeout_s",
            "keepalive_interval_s",
            "keepalive_timeout_s",
            "schema_agreement_timeout_s",
        ):
            # The engine would treat a time of less than a millisecond as zero.
            check_seconds(name, getattr(self, name), least=0.001)
        if isinstance(self.wait_s, bool) or self.wait_s != 0:
            check_seconds("wait_s, if not 0,", self.wait_s)
        if self.tcp_keepalive_s is not None:
            check_seconds("tcp_keepalive_s", self.tcp_keepalive_s)
            if self.tcp_keepalive_s < 1:
                raise ConfigError(
                    f"tcp_keepalive_s must be at least 1 second, got {self.tcp_keepalive_s!r}"
                )
        if self.connections_per_node is not None and self.connections_per_shard is not None:
            raise ConfigError("set connections_per_node or connections_per_shard, not both")
        for name in ("connections_per_node", "connections_per_shard"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1, 1024)
        for name in ("shard_aware_port", "client_timestamps", "pickle_secrets"):
            check_flag(name, getattr(self, name))
        if self.local_address is not None:
            _, port = address("local_address", self.local_address)
            if port is not None:
                raise ConfigError(
                    f"local_address must be without a port, got {shown(self.local_address)}"
                )
        if not isinstance(self.addresses, Mapping):
            raise ConfigError("addresses must be a mapping of addresses to addresses")
        for announced, reached in self.addresses.items():
            if address("addresses", announced)[1] is not None:
                raise ConfigError(
                    f"addresses: a key must be an address without a port, got {shown(announced)}"
                )
            address("addresses", reached)
        object.__setattr__(self, "addresses", ReadOnly(self.addresses))

    __copy__ = _copied
    __deepcopy__ = _copied_deep

    def __dask_tokenize__(self) -> str:
        """Returns a hash of the settings. Dask names tasks by such hashes of arguments."""
        import hashlib  # imported here, because only programs that use Dask need these modules
        import pickle

        return hashlib.sha256(pickle.dumps(self)).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        tls = self.tls if isinstance(self.tls, Tls) else None
        secrets = {
            "a password": self.password is not None,
            "a private key": tls is not None and not _is_path(tls.key),
            "an authenticator": not _is_pickled_by_name(self.authenticator),
            "credentials": not _is_pickled_by_name(self.credentials),
        }
        secret_kinds = [kind for kind, is_held in secrets.items() if is_held]
        if secret_kinds and not self.pickle_secrets:
            raise ConfigError(
                f"a Config with {secret_kinds[0]} is not pickled: the pickle would contain it in"
                " clear text. Another process can read the settings itself, from a profile of a"
                " TOML file (Config.from_toml) or the environment (Config.from_env); or set"
                " pickle_secrets=True"
            )
        password = self.password
        return {
            **_state(self),
            "password": password.reveal() if isinstance(password, Secret) else password,
            "tls": self.tls if tls is None else (type(tls), tls._pickled(secrets=True)),
            "authenticator": _unwrap_authenticator(self.authenticator),
            "credentials": _unwrap_authenticator(self.credentials),
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        password, tls = state.get("password"), state.get("tls")
        if isinstance(tls, tuple):
            restored_tls: Tls = tls[0].__new__(tls[0])
            restored_tls.__setstate__(tls[1])
            tls = restored_tls
        _restore(
            self,
            {
                **state,
                "password": Secret(password) if isinstance(password, str) else password,
                "tls": tls,
                "authenticator": _hide_repr(state.get("authenticator")),
                "credentials": _hide_repr(state.get("credentials")),
            },
        )

    @classmethod
    @_without_traceback_frames
    def from_url(cls, url: str, **overrides: Unpack[_Overrides]) -> Self:
        """Reads settings from a URL: `cql://user:password@host:9042,host/keyspace?setting=value`.

        All parts except the host are optional. The part after `?` sets fields by name, with values
        as text: a number, `true`, one of the words that the field accepts, or `none`. Within each
        part, percent-encode all characters except letters, digits, `-`, `.` and `_`. `overrides`
        are fields as the constructor takes them; they win over the URL.

        Raises: `ConfigError` for an invalid URL or setting; no message contains the password.

        Example:
            >>> config = turbocql.Config.from_url("cql://db1,db2:9043/app?timeout_s=5&rows=dict")
            >>> config.contact_points, config.keyspace, config.timeout_s
            (('db1:9042', 'db2:9043'), 'app', 5.0)
        """
        # Imported here, because most programs pass their settings as arguments.
        from ._config import sources

        return cls(**sources.from_url(cls, url, overrides))

    @classmethod
    @_without_traceback_frames
    def from_env(cls, prefix: str = "TURBOCQL_", **overrides: Unpack[_Overrides]) -> Self:
        """Reads settings from environment variables.

        `TURBOCQL_URL` is a URL as for `from_url`. Every field that text can express has a variable
        of its own, such as `TURBOCQL_CONTACT_POINTS` (separated by commas), `TURBOCQL_PASSWORD` and
        `TURBOCQL_TIMEOUT_S`. With another `prefix`, the names of all variables begin with it. A
        field's own variable wins over the URL. `overrides` are fields as the constructor takes
        them; they win over both. A field that is set nowhere has its default.

        Raises: `ConfigError` for an invalid value, for an empty variable, and for an unknown
            variable that begins with the prefix. `TURBOCQL_CACHE_DIR` is not an error: it is read
            by `turbocql.testing`.
        """
        from ._config import sources

        return cls(**sources.from_env(cls, prefix, overrides))

    @classmethod
    @_without_traceback_frames
    def from_toml(
        cls,
        path: str | os.PathLike[str],
        profile: str = "default",
        **overrides: Unpack[_Overrides],
    ) -> Self:
        """Reads settings from a TOML file: from the table whose name is `profile`.

        The keys of the table are the names of fields. TOML has no null, so `"none"` stands for
        `None`. Paths in the file are used as they are written. `overrides` are fields as the
        constructor takes them; they win over the file. With Python 3.10, this method needs the
        package tomli.

        Raises: `ConfigError` for a file that cannot be read, a missing profile, or an invalid
            value.
        """
        from ._config import sources

        return cls(**sources.from_toml(cls, path, profile, overrides))

    def _native(self, connect_timeout_s: float | None = None) -> dict[str, Any]:
        """Returns the settings in the form that the native core takes.

        `connect_timeout_s` replaces the setting of this name.
        """
        timeout_s = self.connect_timeout_s if connect_timeout_s is None else connect_timeout_s
        base = ExecutionProfile(
            consistency=self.consistency,
            serial_consistency=self.serial_consistency,
            timeout_s=math.inf if self.timeout_s is None else self.timeout_s,
            retry=self.retry,
            speculation=self.speculation,
            balancing=self.balancing,
        )
        return {
            "contact_points": list(self.contact_points),
            "keyspace": self.keyspace,
            "user": self.user,
            "password": self.password,
            "authenticator": _native_authenticator(self.authenticator, self.credentials),
            "tls": _native_tls(self.tls),
            "profile": _profile_native(base),
            "profiles": [
                (name, _profile_native(base, profile)) for name, profile in self.profiles.items()
            ],
            "connect_timeout_s": min(timeout_s, 1e9),
            "compression": self.compression,
            "page_size": self.page_size,
            "application_name": self.application_name,
            "application_version": self.application_version,
            "connections_per_node": self.connections_per_node,
            "connections_per_shard": self.connections_per_shard,
            "shard_aware_port": self.shard_aware_port,
            "keepalive_interval_s": min(self.keepalive_interval_s, 1e9),
            "keepalive_timeout_s": min(self.keepalive_timeout_s, 1e9),
            "tcp_keepalive_s": self.tcp_keepalive_s and min(self.tcp_keepalive_s, 32_000.0),
            "max_frame_bytes": self.max_frame_bytes,
            "max_in_flight": self.max_in_flight,
            "max_in_flight_bytes": self.max_in_flight_bytes,
            "raises_when_full": self.when_full == "raise",
            "values_in_errors": self.values_in_errors,
            "slow_request_s": self.slow_request_s and min(self.slow_request_s, 1e9),
            "local_address": self.local_address and address("", self.local_address)[0],
            "addresses": [
                (address("addresses", announced), address("addresses", reached))
                for announced, reached in self.addresses.items()
            ],
            "client_timestamps": self.client_timestamps,
            "schema_agreement_timeout_s": min(self.schema_agreement_timeout_s, 1e9),
            "io_threads": self.io_threads,
            "prepared_cache_size": self.prepared_cache_size,
            "rows": self.rows,
            "naive_timestamps": self.timestamps == "naive",
            "numpy_vectors": self.vectors == "numpy",
        }


_DEFAULTS: Mapping[str, object] = {
    each.name: each.default if each.default_factory is MISSING else each.default_factory()
    for each in fields(Config)
}
"""The defaults of the settings, for `help()`."""
with_meanings(Config, SETTINGS, _DEFAULTS)


class _SettingsBesideRows(TypedDict, total=False):
    """All fields of `Config` except the contact points and `rows`, as keyword arguments."""

    port: int
    keyspace: str | None
    user: str | None
    password: str | Secret[str] | None
    credentials: Credentials | None
    consistency: Consistency | ConsistencyName
    serial_consistency: Consistency | SerialConsistencyName | None
    timeout_s: float | None
    authenticator: Callable[[str], Authenticator] | None
    tls: Tls | bool | None
    retry: Retry
    speculation: Speculation | None
    balancing: Balancing
    profiles: Mapping[str, ExecutionProfile]
    connect_timeout_s: float
    wait_s: float
    compression: Literal["lz4", "snappy"] | None
    page_size: int
    timestamps: Literal["aware", "naive"]
    vectors: Literal["list", "numpy"]
    prepared_cache_size: int
    application_name: str | None
    application_version: str | None
    connections_per_node: int | None
    connections_per_shard: int | None
    shard_aware_port: bool
    keepalive_interval_s: float
    keepalive_timeout_s: float
    tcp_keepalive_s: float | None
    max_frame_bytes: int
    max_in_flight: int
    max_in_flight_bytes: int
    when_full: Literal["wait", "raise"]
    values_in_errors: bool
    slow_request_s: float | None
    local_address: str | None
    addresses: Mapping[str, str]
    client_timestamps: bool
    schema_agreement_timeout_s: float
    io_threads: int
    pickle_secrets: bool


class Settings(_SettingsBesideRows, total=False):
    """All fields of [`Config`][turbocql.config.Config] except the contact points, as keyword
    arguments.
    """

    rows: RowsAs


class _Overrides(Settings, total=False):
    """All fields of `Config`, as keyword arguments."""

    contact_points: str | Sequence[str]


def _text_fault(setting: object) -> str | None:
    """Returns what is wrong with a text setting; `None` if nothing is.

    This function does not raise the error itself: a traceback would keep the frame of this
    function, which has the secret in clear text. The caller's frame does not have the secret.
    """
    text = setting.reveal() if isinstance(setting, Secret) else setting
    if text is None:
        return None
    if not isinstance(text, str) or not text:
        got = "an empty one" if isinstance(text, str) else class_name(text)
        return f"must be a non-empty str, got {got}"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "has characters that UTF-8 cannot encode"
    return "must be at most 65,535 bytes of UTF-8" if len(text.encode()) > 65_535 else None
