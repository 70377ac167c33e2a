"""Programs on cassandra-driver and scylla-driver as people write them, to be run accelerated."""
