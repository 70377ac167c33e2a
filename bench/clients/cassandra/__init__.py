"""The programs of scylla-driver and cassandra-driver: both are the package `cassandra`."""
