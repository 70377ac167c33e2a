"""Typical programs of cassandra-driver and scylla-driver, which the tests run accelerated."""
