"""turbocql: ScyllaDB and Apache Cassandra at native speed.

Example:
    >>> import turbocql
    >>> with turbocql.connect("127.0.0.1:9042") as session:
    ...     row = session.execute("SELECT cluster_name FROM system.local").one()
"""

from __future__ import annotations

import atexit as _atexit
import importlib as _importlib
import os as _os
from typing import Any as _Any

from . import _core, aio, codec, errors, protocol
from .bulk import BulkFailure, BulkReport
from .config import Config
from .policies import Consistency
from .rows import AsyncRows, Column, Rows
from .session import Session, connect
from .statements import Batch, Bound, Prepared
from .types import UNSET, Date, Duration, FrozenMap, Time, Timestamp

__all__ = [
    "UNSET",
    "AsyncRows",
    "Batch",
    "Bound",
    "BulkFailure",
    "BulkReport",
    "Column",
    "Config",
    "Consistency",
    "Date",
    "Duration",
    "FrozenMap",
    "Prepared",
    "Rows",
    "Session",
    "Time",
    "Timestamp",
    "__version__",
    "accelerate",
    "aio",
    "codec",
    "connect",
    "errors",
    "protocol",
]

__version__: str = _core.VERSION


def accelerate() -> None:
    """Has programs on cassandra-driver or scylla-driver use the codec: see `turbocql.accel`."""
    # Not before somebody asks: most programs do without.
    _importlib.import_module(".accel", __name__).accelerate()


def __getattr__(name: str) -> _Any:
    if name == "accel":
        return _importlib.import_module(".accel", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Threads that are still at work when the interpreter ends must not be in native code by then.
_atexit.register(_core.ending)

# The engine's thread does not live on in a forked child: sessions must notice.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_core.forked)
