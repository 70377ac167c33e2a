"""The Python that the Rust core calls: wake-ups, threads, row classes, and the names it imports."""

# The core looks these up when it first needs them. By then the process may have no file descriptor
# left, or may be exiting. So they are imported with the package.
from . import cassandra_types, records, row_classes

__all__ = ["cassandra_types", "records", "row_classes"]
