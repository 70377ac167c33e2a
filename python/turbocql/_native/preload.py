"""Imports the modules that the Rust core needs while values and rows are converted.

The core looks them up when it first needs them. At that time, an import could fail: the process may
have no file descriptor left, or may be exiting. So the modules for sessions, codecs and frames
import this module early.
"""

import decimal  # noqa: F401
import ipaddress  # noqa: F401
import numbers  # noqa: F401
import uuid  # noqa: F401

from .. import errors, types
from . import cassandra_types, records, row_classes

__all__ = ["cassandra_types", "errors", "records", "row_classes", "types"]
