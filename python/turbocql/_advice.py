"""Texts of advice. `_hints.py` chooses one by matching patterns with the message of an error."""

from __future__ import annotations

__all__ = [
    "BY_CLASS",
    "FOR_INVALID",
    "FOR_SYNTAX",
    "FOR_VALUES",
    "PROPERTIES",
    "TYPES",
    "TYPES_ELSEWHERE",
]

BY_CLASS = {
    "Overloaded": "send fewer requests at a time",
    "RateLimited": "send fewer requests to one partition",
    "SessionFull": 'send fewer requests at a time, or set max_in_flight or when_full="wait"',
    "Unprepared": "bind markers in place of literals make fewer statements to prepare",
}
"""Advice by the name of the error's class."""
TYPES = (
    *("ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration"),
    *("float", "inet", "int", "list", "map", "set", "smallint", "text", "time", "timestamp"),
    *("timeuuid", "tinyint", "tuple", "uuid", "varchar", "varint", "vector"),
)
TYPES_ELSEWHERE = {
    **{"integer": "int", "long": "bigint", "number": "decimal", "numeric": "decimal"},
    **{"string": "text", "str": "text", "char": "text", "bytes": "blob", "binary": "blob"},
    **{"datetime": "timestamp", "json": "text", "real": "float", "array": "list"},
}
"""Maps names of types in other languages and databases to CQL types."""
FOR_INVALID = (
    (
        r"\b[Cc]ounter.* batch",
        'counters go into a batch of their own, turbocql.Batch("counter"), and other statements'
        " into another batch; the statement shown is the first of the batch",
    ),
    (
        "Batch with conditions cannot span",
        "the statements of a batch with IF are for one partition of one table: send the others in"
        " another batch",
    ),
    (
        "ANY ConsistencyLevel is only supported for writes",
        "reads take ONE, LOCAL_ONE, TWO, THREE, QUORUM, LOCAL_QUORUM, ALL, SERIAL or LOCAL_SERIAL",
    ),
    (
        "conditional updates for serializable writes",
        "consistency= takes SERIAL and LOCAL_SERIAL for reads only, and serial_consistency= for"
        " statements with IF; other writes take a level such as LOCAL_QUORUM",
    ),
    ("Top-K queries must have a limit", "add LIMIT n, with n below page_size"),
    (
        "might involve data filtering",
        "no filtering is needed for conditions on the whole partition key, then on clustering"
        " columns in their order, or on a column with an index",
    ),
    (
        'PRIMARY KEY column "(.+)" cannot be restricted as preceding column "(.+)" is not',
        r"add a condition on \2, or make a table that has \1 before \2 in its key",
    ),
    (
        "clustering keys are missing: (.+)",
        r"the statement is for one row: add a condition on each of \1",
    ),
    (
        "PRIMARY KEY part .+ found in SET part",
        "the key of a row does not change: insert a row with the new key, and delete the old row",
    ),
    (
        "[Oo]rder by is (?:currently )?only supported on the clustered columns",
        "sort the rows in the program, or make a table in whose key the column is the first one"
        " after the partition key",
    ),
    (
        "ORDER BY is only supported when the partition key is restricted",
        "add a condition on the partition key, or sort the rows in the program",
    ),
    (
        "Group by is currently only",
        "group the rows in the program, for example with rows.to_pandas()",
    ),
    (
        "LIKE restriction is only supported",
        "LIKE needs an index of the class SASI: compare whole values, or search in the program",
    ),
    (
        'Unsupported "!=" relation',
        "read the rows without this condition, and compare in the program",
    ),
    (
        "Unknown column '(.+)' referenced in PRIMARY KEY",
        r"define \1 with its type among the columns",
    ),
    (
        "(?:No|Multiple) PRIMARY KEY spec",
        "write one key after the columns: PRIMARY KEY (column, ...)",
    ),
    (
        'Clustering column ".+" cannot be restricted .preceding column',
        "only the last clustering column with a condition takes a range: filter in the program",
    ),
    (
        r"Collection column '(\w+)' .* cannot be restricted by a '=' relation",
        r"write \1 CONTAINS ?",
    ),
    (
        "Invalid operation .* for frozen",
        "a frozen value is replaced as a whole: SET column = ?",
    ),
    (
        r"Invalid non-frozen collection type (.+) for PRIMARY KEY",
        r"write frozen<\1>",
    ),
    (
        "Unrecognized strategy option",
        "name datacenters of the cluster: {node.datacenter for node in session.nodes}",
    ),
    (
        "Invalid .* constant .*for .+ of type (?:list|set)<",
        "write a list as [...] and a set as {...}, or pass it for a bind marker ?",
    ),
    ("Unmatched column names/values", "write as many values as columns"),
    ("Invalid null value in condition", "a condition finds no nulls: look for them in the program"),
    (
        "Invalid user type literal for .* of type map",
        "a text is in single quotes, also as a key: {'key': 1}",
    ),
    (
        r"Non-frozen .* inside collections: ([\w<]+<(?:\w+, )?)(\w+<.+>)>",
        r"freeze the inner type: \1frozen<\2>>",
    ),
    (
        "Missing replication strategy class|Unable to find replication strategy class",
        "write replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 3}",
    ),
    (
        'Invalid STRING constant .*for ".+" of type (?!text|varchar|ascii)',
        "write the value without quotes, or pass it for a bind marker ?",
    ),
    (
        'Invalid (?!STRING).* constant .*for ".+" of type (?:text|varchar|ascii|time\\b|inet)',
        "write the value in single quotes, or pass it for a bind marker ?",
    ),
    (
        "Unable to parse a date/time",
        "write it as '2020-12-31 23:59:00+0000', or pass a datetime for a bind marker ?",
    ),
    (
        "to a formatted date",
        "write it as '2020-12-31', or pass a datetime.date for a bind marker ?",
    ),
    (
        "to a formatted time",
        "write it as '23:59:00', or pass a datetime.time for a bind marker ?",
    ),
    (
        "custom timestamp for conditional updates",
        "leave out USING TIMESTAMP and timestamp=: the server sets the time of statements with IF",
    ),
    ("custom TTL for counter", "leave out USING TTL: counters do not expire"),
    (
        "selection function .* on PRIMARY KEY part",
        "the key has no TTL or WRITETIME of its own: ask for that of another column",
    ),
    ("Unsupported unset value", "pass a value for each bind marker"),
    (
        "Keyspace '.*[A-Z].*' does not",
        "letter case matters: keyspaces that were created without quotes are in lower case",
    ),
    (
        "Keyspace '?([a-z0-9_]+)'? does(?: not|n't) exist",
        r"for a single node, create it: CREATE KEYSPACE \1 WITH replication = {'class':"
        " 'NetworkTopologyStrategy', 'replication_factor': 1}",
    ),
    (
        "No keyspace has been specified",
        "write keyspace.table, pass keyspace= to connect, or call session.use_keyspace(name)",
    ),
    (
        "Batch too large",
        "split the batch: the server's limit is batch_size_fail_threshold, its log has the size",
    ),
)
"""Each pair has a pattern of the server's message about an invalid statement, and advice."""
FOR_SYNTAX = (
    (r"'\[\w+\]|expecting '''", "", "a quote within a text is written twice: 'it''s'"),
    (r"\d{4}\[-\d\d\]", "", "a date is in single quotes: '2020-12-31'"),
    (r"\d\.\d+\[\.\]", "", "an address is in single quotes: '10.0.0.1'"),
    ("'%|'@'|expecting '\\$'", "", "bind markers are ? or :name"),
    ("", r";\s*\w", "execute one statement at a time, or several as a Batch"),
    ("", r'[=(,]\s*"[^"]*"', "a text is in single quotes; double quotes are for names"),
    ("(?i)input 'OR'", "", "CQL has no OR: write IN (...), or execute a statement for each case"),
    (
        "",
        r"(?i)\bFROM\b.*\bJOIN\b.*\bON\b",
        "CQL has no JOIN: read one table after the other, or keep the joined rows in a table",
    ),
    ("(?i)input 'OFFSET'", "", "CQL has no OFFSET: continue a result with its paging_state"),
    (
        "(?i)input 'VALUES'",
        r"(?i)^\s*INSERT\s+INTO\s+[\w.]+\s+VALUES",
        "name the columns: INSERT INTO table (column, ...) VALUES (?, ...)",
    ),
    (
        r"input '\('",
        r"(?i)^\s*(?:CREATE|ALTER)\s+TABLE.*\b(?:\w*char|text|string|decimal|numeric|int|float)\s*\(",
        "a type has no length or precision: write text, decimal or int without parentheses",
    ),
    ("", r"(?i)\bvector\s*<\s*\w+\s*>", "write the number of elements too: vector<float, 3>"),
    ("expecting '\\('", r"(?i)\bCLUSTERING ORDER BY\b", "write CLUSTERING ORDER BY (column DESC)"),
    (
        "(?i)input '(?:TRANSACTION|START|COMMIT|ROLLBACK|SAVEPOINT)'",
        "",
        "CQL has no transactions: a Batch is applied as a unit, and IF makes a write conditional",
    ),
    ("(?i)input 'SHOW'", "", "write DESCRIBE TABLES, or read session.schema()"),
    ("'<EOF>' expecting K_FROM", "", "SELECT needs FROM: FROM system.local has one row"),
    ("(?i)input 'AS'", r"(?i)\bFROM\s+[\w.]+\s+AS\b", "tables have no aliases: leave AS out"),
    ("", r"(?i)\bcount\s*\(\s*DISTINCT\b", "CQL has no count(DISTINCT ...): count in the program"),
    ("(?i)input 'NULL'", r"(?i)\bIS\s+NULL\b", "a condition finds no nulls: look in the program"),
    ("(?i)input 'BETWEEN'", "", "this server has no BETWEEN: write column >= ? AND column <= ?"),
    (
        "(?i)input '(?:REPLACE|UPSERT|MERGE)'",
        "",
        "write INSERT, which replaces the values of a row that exists",
    ),
    (
        "input ',' expecting EOF",
        r"(?i)^\s*INSERT\b.*\bVALUES\b",
        "an INSERT is for one row: use session.execute_many(statement, rows)",
    ),
    (
        "(?i)input 'ON'",
        r"(?i)^\s*INSERT\b.*\bON\s+(?:CONFLICT|DUPLICATE)\b",
        "INSERT replaces the values of a row that exists; IF NOT EXISTS leaves it as it is",
    ),
    (
        r"(?i)input '(?:AUTO_INCREMENT|NOT|DEFAULT|UNIQUE|REFERENCES|CHECK|FOREIGN|IDENTITY)'",
        r"(?i)^\s*CREATE\s+TABLE",
        "a column has a name and a type only; the program makes keys, for example by uuid.uuid4()",
    ),
    (
        "expecting K_NOT",
        r"(?i)^\s*INSERT\b.*\bIF\b",
        "INSERT takes IF NOT EXISTS only; UPDATE takes conditions on columns",
    ),
    ("(?i)input 'IF' expecting K_WHERE", "", "IF comes after WHERE"),
    (
        "'<EOF>' expecting K_WHERE",
        "",
        "UPDATE and DELETE need WHERE with the primary key; TRUNCATE empties a table",
    ),
)
"""Each entry has a pattern of the server's message about a syntax error, a pattern of the
statement, and the advice for errors that match both patterns."""
PROPERTIES = {
    **{"ttl": "default_time_to_live", "time_to_live": "default_time_to_live"},
    **{"default_ttl": "default_time_to_live", "gc_grace": "gc_grace_seconds"},
    **{"cache": "caching", "comments": "comment"},
}
"""Maps wrong names that users try in `WITH` to the properties of tables that they mean."""
_PANDAS_INTEGERS = {
    **{"tinyint": "Int8", "smallint": "Int16", "int": "Int32", "bigint": "Int64"},
}
FOR_VALUES = (
    (
        '^the data has no column "',
        "rename a column of the data, or leave the column out of the statement",
    ),
    *(
        (
            f"expected {cql_type}, got Arrow's (?:u?int[0-9]+|float|double);",
            f'in pandas, astype("{pandas_type}"), which keeps missing values; for an index,'
            " frame.index = frame.index.astype(...)",
        )
        for cql_type, pandas_type in _PANDAS_INTEGERS.items()
    ),
    (
        r"expected (?:date|timestamp), got Arrow's (?:large_)?string(?:_view)?;",
        "in pandas, pandas.to_datetime(column) reads texts",
    ),
    (
        r"expected boolean, got Arrow's (?:large_)?string(?:_view)?;",
        'in pandas, column.map({"true": True, "false": False}): astype(bool) makes all texts true',
    ),
    (
        "expected decimal, got Arrow's (?:float|double);",
        "or pass Decimal(str(value)) for each value, and None for a missing one",
    ),
    (
        "expected float, got Arrow's double;",
        'in pandas, astype("float32"), which rounds the values',
    ),
    (
        "float does not take Arrow's double;",
        'a NumPy array becomes one by array.astype("float32")',
    ),
    (r"got pandas\..*\b(?:NaT|NA)Type|got float nan$", "pass None for a missing value"),
    ("expected timeuuid.* whose version is not 1", "turbocql.uuid_from_time(datetime) makes one"),
    (r"expected timestamp \(.*got float", "for seconds, pass int(seconds * 1000)"),
    (r"expected decimal \(.*got float", "pass Decimal(str(value))"),
    (r"expected time \(.*got datetime\.datetime", "of a datetime, pass its .time()"),
)
"""Each pair has a pattern of the message about a value that does not fit, and advice. The message
is matched without its statement."""
