"""The errors of starting, using and ending a test cluster.

RuntimeError
  CassandraError            a node did not start, did not answer, or refused a request
    MissingPrerequisite     a program must be installed first
"""

from __future__ import annotations

__all__ = ["CassandraError", "MissingPrerequisite"]


class CassandraError(RuntimeError):
    """A test cluster could not be started, or one of its nodes failed or refused a request."""


class MissingPrerequisite(CassandraError):
    """A program that the test cluster needs is not installed. The message names it."""
