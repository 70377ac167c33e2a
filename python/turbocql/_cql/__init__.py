"""CQL text: quoted names, the `CREATE` statements of a schema, and durations."""
