"""Writes CQL text: quoted names, and the `CREATE` statements of a schema."""
