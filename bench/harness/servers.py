"""Settings of the servers to which the measured clients are connected."""

__all__ = ["JVM_OPTIONS"]

JVM_OPTIONS = ("-XX:TieredStopAtLevel=4",)
"""Options for `Cassandra`. The JVM optimizes as far as it can, as the JVM of a server in production
does, so that clients wait less for the server."""
