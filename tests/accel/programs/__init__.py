"""Typical programs on cassandra-driver and scylla-driver, which the tests run accelerated."""
