"""turbocql: ScyllaDB and Apache Cassandra at native speed.

Example:
    >>> import turbocql
    >>> with turbocql.connect("127.0.0.1:9042") as session:
    ...     row = session.execute("SELECT cluster_name FROM system.local").one()
"""

from __future__ import annotations

import atexit as _atexit
import datetime as _datetime  # noqa: F401
import importlib as _importlib
import os as _os
import warnings as _warnings
from collections.abc import Iterable as _Iterable
from typing import TYPE_CHECKING
from typing import Any as _Any

# `_core` gets the C interface of `datetime` by `PyCapsule_Import`, which turns a Ctrl-C during the
# import of `datetime` into an `ImportError`. So `datetime` is imported above.
#
# `diagnose` is the name of both a submodule and a function, and this package must offer the
# function. The first import of a submodule binds the submodule's name in the package; later imports
# do not. So the submodule is imported here, and the name is deleted below. Then `__getattr__` finds
# the function.
from . import _core
from . import diagnose as _diagnose  # noqa: F401

if TYPE_CHECKING:
    from . import (  # noqa: F401
        accel,
        aio,
        bulk,
        cluster,
        codec,
        columns,
        config,
        dbapi,
        errors,
        paging,
        policies,
        protocol,
        quoting,
        rows,
        schema,
        security,
        session,
        statements,
        tables,
        types,
        uuids,
    )
    from .bulk import BulkFailure, BulkReport, Difference, Progress, UnloadReport, VerifyReport
    from .config import Config
    from .diagnose import Diagnosis, diagnose, diagnosis
    from .errors import Error
    from .paging import PagingTokens
    from .policies import (
        Balancing,
        Consistency,
        ConstantSpeculation,
        ExecutionProfile,
        LatencyAwareness,
        PercentileSpeculation,
        Retry,
        Speculation,
    )
    from .quoting import quote_identifier, quote_literal
    from .rows import AsyncRows, Column, Rows
    from .security import Authenticator, Credentials, Secret, Tls
    from .session import Session, connect
    from .statements import Batch, Bound, Prepared, Query
    from .tables import Split
    from .types import UNSET, Date, Duration, FrozenMap, Time, Timestamp
    from .uuids import (
        datetime_from_uuid,
        max_uuid_from_time,
        min_uuid_from_time,
        uuid_from_time,
    )
else:
    del diagnose

__all__ = [
    "UNSET",
    "AsyncRows",
    "Authenticator",
    "Balancing",
    "Batch",
    "Bound",
    "BulkFailure",
    "BulkReport",
    "Column",
    "Config",
    "Consistency",
    "ConstantSpeculation",
    "Credentials",
    "Date",
    "Diagnosis",
    "Difference",
    "Duration",
    "Error",
    "ExecutionProfile",
    "FrozenMap",
    "LatencyAwareness",
    "PagingTokens",
    "PercentileSpeculation",
    "Prepared",
    "Progress",
    "Query",
    "Retry",
    "Rows",
    "Secret",
    "Session",
    "Speculation",
    "Split",
    "Time",
    "Timestamp",
    "Tls",
    "UnloadReport",
    "VerifyReport",
    "__version__",
    "accelerate",
    "aio",
    "cluster",
    "codec",
    "connect",
    "datetime_from_uuid",
    "diagnose",
    "diagnosis",
    "errors",
    "max_uuid_from_time",
    "min_uuid_from_time",
    "policies",
    "protocol",
    "quote_identifier",
    "quote_literal",
    "schema",
    "security",
    "uuid_from_time",
]

__version__: str = _core.VERSION
"""The version. Its local part (after the `+`) is `unedited` in builds whose network engine, the
ScyllaDB driver for Rust, lacks turbocql's edits."""

if not _core.ENGINE_EDITS:
    _warnings.warn(
        f"turbocql {__version__} was built without the edits of its network engine: a broken or"
        " hostile server can make it hang or crash; SECURITY.md of the sources says how",
        RuntimeWarning,
        stacklevel=2,
    )


def accelerate(*, without: _Iterable[str] = ()) -> None:
    """Makes cassandra-driver and scylla-driver use turbocql's codec, in the whole process.

    Call it before or after the driver is imported. `turbocql.accel.status()` says what is native
    and what is left to the driver, and `turbocql.accel.uninstall()` puts the driver's functions
    back.

    `without` names parts of the accelerator to leave out, none by default: `types`, `marshal`,
    `bind`, `routing_key`, `bodies`, `rows`, `named_rows`, `segments`, `timers`,
    `simple_statements`, `cqlengine`, `serializers`, `query_plans`, `responses`, `frames`,
    `concurrent`, `sending`.

    Raises: ValueError, for an unknown part; TypeError, if `without` is a str or not iterable.
    """
    # Imported only on request: most programs do not use it.
    _importlib.import_module(".accel", __name__).accelerate(without=without)


_SUBMODULES = (
    *("accel", "aio", "bulk", "cluster", "codec", "columns", "config", "dbapi", "errors"),
    *("paging", "policies", "protocol", "quoting", "rows", "schema", "security", "session"),
    *("statements", "tables", "telemetry", "types", "uuids"),
)
_ORIGINS = {
    name: module
    for module, names in {
        "bulk": "BulkFailure BulkReport Difference Progress UnloadReport VerifyReport",
        "config": "Config",
        "diagnose": "Diagnosis diagnose diagnosis",
        "errors": "Error",
        "paging": "PagingTokens",
        "policies": "Balancing Consistency ConstantSpeculation ExecutionProfile LatencyAwareness"
        " PercentileSpeculation Retry Speculation",
        "quoting": "quote_identifier quote_literal",
        "rows": "AsyncRows Column Rows",
        "security": "Authenticator Credentials Secret Tls",
        "session": "Session connect",
        "statements": "Batch Bound Prepared Query",
        "tables": "Split",
        "types": "UNSET Date Duration FrozenMap Time Timestamp",
        "uuids": "datetime_from_uuid max_uuid_from_time min_uuid_from_time uuid_from_time",
    }.items()
    for name in names.split()
}
"""Maps each public name to its module. A module is imported when one of its names is first looked
up. So a program imports only the modules that it uses: a program that only calls `accelerate` uses
none of these names, and a program that only decodes values needs no session."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        if name in _ORIGINS:
            module = _importlib.import_module(f".{_ORIGINS[name]}", __name__)
            value = globals()[name] = getattr(module, name)
            return value
        if name in _SUBMODULES:
            # The import binds the name here too.
            return _importlib.import_module(f".{name}", __name__)
        raise _importlib.import_module("._elsewhere", __name__).missing_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})


# A thread that runs native code while the interpreter ends can abort the process. So this handler
# waits until other threads have finished their native calls. From then on, a thread that begins a
# native call is delayed, and most processes have ended before the delay is over.
_atexit.register(_core.ending)

# The engine's I/O thread does not exist in a forked child, so sessions must detect a fork.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_core.forked)
