"""What can go wrong while a test cluster is started, used or ended.

RuntimeError
  CassandraError            a node did not start, did not answer, or refused a request
    MissingPrerequisite     a program has to be installed first
"""

from __future__ import annotations

__all__ = ["CassandraError", "MissingPrerequisite"]


class CassandraError(RuntimeError):
    """A test cluster could not be started, or one of its nodes did not do what was asked."""


class MissingPrerequisite(CassandraError):
    """A program that the test cluster needs is not installed; the message says which."""
