"""Programs for scylla-driver and cassandra-driver, which both install the package `cassandra`."""
