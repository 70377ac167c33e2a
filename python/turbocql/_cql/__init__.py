"""CQL text: names, literals of values, the `CREATE` statements of a schema, and durations."""
