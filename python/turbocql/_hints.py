"""Advice for errors of requests: what the user may do. `turbocql.errors` adds it to messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

__all__ = ["hints", "value_hint"]


class _Session(Protocol):
    @property
    def keyspace(self) -> str | None: ...
    def _known_columns(self, coordinator: str) -> Iterable[tuple[str, str, str]]: ...


_BY_CLASS = {
    "Overloaded": "send fewer requests at a time",
    "RateLimited": "send fewer requests to one partition",
    "SessionFull": 'send fewer requests at a time, or set max_in_flight or when_full="wait"',
    "Unprepared": "bind markers in place of literals make fewer statements to prepare",
}
"""Advice by the name of the error's class."""
_REFUSED = ("CqlSyntaxError", "InvalidQuery")
"""The classes of errors for a statement that the server does not accept."""
_WITHOUT_MARKERS = frozenset(
    ["ALTER", "CREATE", "DESC", "DESCRIBE", "DROP", "GRANT", "LIST", "REVOKE", "TRUNCATE", "USE"]
)
"""The first words of statements that take no bind markers."""
_TYPES = (
    *("ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration"),
    *("float", "inet", "int", "list", "map", "set", "smallint", "text", "time", "timestamp"),
    *("timeuuid", "tinyint", "tuple", "uuid", "varchar", "varint", "vector"),
)
_TYPES_ELSEWHERE = {
    **{"integer": "int", "long": "bigint", "number": "decimal", "numeric": "decimal"},
    **{"string": "text", "str": "text", "char": "text", "bytes": "blob", "binary": "blob"},
    **{"datetime": "timestamp", "json": "text", "real": "float", "array": "list"},
}
"""The CQL type for names that other languages and databases have for types."""
_FOR_INVALID = (
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
        "SERIAL and LOCAL_SERIAL are for reads, and for statements with IF as serial_consistency;"
        " writes take a level such as LOCAL_QUORUM",
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
        "sort the rows in the program, or make a table that has the column after the partition key"
        " in its key",
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
        "Missing replication strategy class",
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
        "No keyspace has been specified",
        "write keyspace.table, pass keyspace= to connect, or call session.use_keyspace(name)",
    ),
    (
        "Batch too large",
        "split the batch: the server's limit is batch_size_fail_threshold, its log has the size",
    ),
)
"""Advice for statements that are not valid, by a pattern of the server's message."""
_FOR_SYNTAX = (
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
    (r"input '\('", r"(?i)\b(?:var)?char\s*\(", "a text has no length: write the type text"),
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
"""Advice for syntax errors, by patterns of the server's message and of the statement."""
_PROPERTIES = {
    **{"ttl": "default_time_to_live", "time_to_live": "default_time_to_live"},
    **{"default_ttl": "default_time_to_live", "gc_grace": "gc_grace_seconds"},
    **{"cache": "caching", "comments": "comment"},
}
"""The property of a table for names that users try."""
_CONSTANTS = frozenset(["null", "true", "false", "nan", "infinity", *_TYPES])
"""Words that may stand in the place of a value. A type may be part of a cast."""
_VALUE_END = r"\s*\b([A-Za-z_]\w*(?:@[\w.-]+)?)(?=\s*(?:[,)\]};]|$)|\s+\w)"
_WORD_IN_VALUES = re.compile(r"(?:[(,\[{]|[\w…]\s*:)" + _VALUE_END)
"""A word in the place of a value in `VALUES`, which may be in a collection."""
_WORD_IN_CONDITION = re.compile(r"(?:[=<>]|\bIN\s*\(|\bCONTAINS(?:\s+KEY)?\b)" + _VALUE_END, re.I)
"""A word in the place of a value in `WHERE`, `SET` and `IF`."""
_FOR_VALUES = (
    (r"got pandas\..*\b(?:NaT|NA)Type|got float nan$", "pass None for a missing value"),
    ("expected timeuuid.* whose version is not 1", "turbocql.uuid_from_time(datetime) makes one"),
    (r"expected timestamp \(.*got float", "for seconds, pass int(seconds * 1000)"),
    (r"expected decimal \(.*got float", "pass Decimal(str(value))"),
    (r"expected time \(.*got datetime\.datetime", "of a datetime, pass its .time()"),
)
"""Advice for values that do not fit, by a pattern of the message without the statement."""
_UNKNOWN_COLUMN = re.compile(
    r"[Cc]olumn (?:name )?(\w+) (?:was not found )?in table '?(\w+)\.(\w+)"
)
_UNKNOWN_TABLE = (
    re.compile(r"[Tt]able '?(?:(\w+)\.)?(\w+)'? does(?: not|n't) exist"),
    re.compile(r"unconfigured table (?:(\w+)\.)?(\w+)"),
)
"""Messages about a table that does not exist, with its keyspace if they have it."""
_MARKER = re.compile(r"\?|(?<=[\s=(,]):[A-Za-z_]")
"""A bind marker in a statement whose literals are masked. The colon of a map is after a key."""


def hints(
    error_class: str,
    message: str,
    statement: str,
    coordinator: str | None,
    sessions: Iterable[_Session],
) -> list[str]:
    """Returns advice for an error of this class: a list of one text, or an empty list.

    `message` is the engine's message without its last part, which is the statement, with its
    literals masked. `coordinator` is the node that was asked. `sessions` know names of columns.
    """
    hint = _hint_for_statement(error_class, message, statement)
    if hint is None and error_class in _REFUSED and coordinator is not None:
        hint = _hint_for_name(message, statement, coordinator, sessions)
    if hint is None and error_class == "ConnectionLost" and "the body of a frame has" in message:
        hint = "read smaller pages (page_size), or set max_frame_bytes higher"
    if hint is None:
        hint = _BY_CLASS.get(error_class)
    return [] if hint is None else [hint]


def value_hint(message: str) -> str | None:
    """Advice for an `EncodeError` about the number of values, and about the values of `IN`; `None`
    for other errors.

    `message` ends with the statement.
    """
    text, _, statement = message.partition("; statement: ")
    return _list_hint(text, statement) or _hint_for_value(text, statement)


def _hint_for_value(text: str, statement: str) -> str | None:
    if re.search(r"the statement has \d+ bind markers?, got \d+ values?$", text):
        if re.search(r"token\(.*\) > \? AND token\(.*\) <= \?", statement):
            return "two markers and their values are those of the scan: where= has the others"
        return "pass one value for each, in their order, or {name: value}"
    for pattern, advice in _FOR_VALUES:
        if re.search(pattern, text):
            return advice
    return None


def _list_hint(text: str, statement: str) -> str | None:
    if re.search(r"\bIN *\( *[?:]", statement, re.IGNORECASE):
        is_list = re.search("expected (?!list|set|frozen).*, got (list|tuple|set|range)", text)
        return "to bind a list, write IN ? without parentheses" if is_list else None
    is_of_in = text.startswith('column "in(') or re.search("bind markers?, got", text)
    if is_of_in and re.search(r"\bIN *[?:]", statement, re.IGNORECASE):
        return "IN ? takes one value, which is a list: ([1, 2],)"
    return None


def _hint_for_statement(error_class: str, message: str, statement: str) -> str | None:
    if error_class in _REFUSED and _has_misplaced_marker(message, statement):
        first_word = _first_word(statement)
        if first_word in _WITHOUT_MARKERS:
            return (
                f"{first_word} takes no bind markers: write values into the text with"
                " turbocql.quote_literal(value), and names with turbocql.quote_identifier(name)"
            )
        return (
            "a bind marker stands for a value only: write names into the text with"
            " turbocql.quote_identifier(name)"
        )
    if error_class == "CqlSyntaxError":
        return _hint_for_syntax(message, statement)
    is_without_values = re.search(r"Invalid amount of bind|There were \d+ markers", message)
    if error_class == "InvalidQuery" and is_without_values:
        return (
            "pass the values of the bind markers: session.execute(text, (value, ...)), or"
            " {name: value} by name"
        )
    if error_class in ("InvalidQuery", "InvalidSchema"):
        return _hint_for_invalid(message, statement)
    if error_class == "AlreadyExists":
        return "CREATE ... IF NOT EXISTS leaves it as it is"
    if error_class in ("ReadFailure", "ReadTimeout") and not re.search(
        r"\bWHERE\b", statement, re.IGNORECASE
    ):
        if re.search(r"\bcount *\(", statement, re.IGNORECASE):
            return (
                "count a large table by token ranges: the command turbocql count, or session.scan"
            )
        return "read a large table by token ranges: session.scan"
    return None


def _hint_for_invalid(message: str, statement: str) -> str | None:
    if match := re.search(r"Unknown type (\S+)", message):
        return _hint_for_type(match[1].rpartition(".")[2])
    if "ANN ordering" in message:
        return _hint_for_vector_index(message, statement)
    for pattern, advice in _FOR_INVALID:
        if match := re.search(pattern, message):
            return match.expand(advice)
    return None


def _hint_for_vector_index(message: str, statement: str) -> str:
    """Advice for `ORDER BY ... ANN OF` on a column that has no index for it."""
    pattern = r'\bFROM\s+([\w."]+).*\bORDER\s+BY\s+([\w"]+)\s+ANN\b'
    match = re.search(pattern, statement, re.IGNORECASE | re.DOTALL)
    table, column = match.groups() if match else ("table", "column")
    if "to be indexed" not in message:
        # The column has another type, or an index of another kind.
        column = "column"
    # ScyllaDB's message names the class of its index.
    custom, index = ("CUSTOM ", "vector_index") if "vector_index" in message else ("", "sai")
    return (
        f"ANN OF needs a column of vectors with an index: CREATE {custom}INDEX ON {table}"
        f" ({column}) USING '{index}'"
    )


def _hint_for_syntax(message: str, statement: str) -> str | None:
    word = _word_as_value(statement)
    if word == "None":
        return "write null in place of None"
    if word is not None:
        return f"a text is in single quotes: '{word}'; better pass values for bind markers ?"
    if match := re.search(r"Unknown property '(\w+)'", message):
        name = _PROPERTIES.get(match[1].lower())
        return f"did you mean {name}?" if name else None
    for pattern, text_pattern, advice in _FOR_SYNTAX:
        if re.search(pattern, message) and re.search(text_pattern, statement, re.DOTALL):
            return advice
    # The parser marks the word that it cannot read. In the place of a name, it is a reserved word.
    if match := re.search(r"input '([A-Za-z]\w*)' .*\[\1\]", message):
        name = match[1]
        if re.search(rf"[(,]\s*{name}\s*[\w,)]|\bSELECT\s+{name}\s+FROM\b", statement, re.I):
            return f'{name} is a reserved word: to use it as a name, write "{name}"'
    return None


def _word_as_value(statement: str) -> str | None:
    """A word in the place of a value, such as a text without quotes; `None` if there is none.

    The literals of the statement are masked.
    """
    parts = re.split(r"\bVALUES\b", statement, maxsplit=1, flags=re.IGNORECASE)
    conditions = re.split(r"\b(?:SET|WHERE|IF)\b", parts[-1], maxsplit=1, flags=re.IGNORECASE)
    words = _WORD_IN_CONDITION.findall(conditions[-1]) if len(conditions) > 1 else []
    if len(parts) > 1:
        words = _WORD_IN_VALUES.findall(conditions[0]) + words
    return next((word for word in words if word.lower() not in _CONSTANTS), None)


def _hint_for_name(
    message: str, statement: str, coordinator: str, sessions: Iterable[_Session]
) -> str | None:
    """Advice for a column or table that does not exist, if one of `sessions` knows one of a similar
    name. No request is sent for it.
    """
    column, table = _UNKNOWN_COLUMN.search(message), None
    for pattern in _UNKNOWN_TABLE:
        table = table or pattern.search(message)
    if column is None and table is None:
        return None
    from difflib import get_close_matches

    for session in sessions:
        columns = session._known_columns(coordinator)
        if column is not None:
            name, *in_table = column.groups()
            names = {known for *known_in, known in columns if known_in == in_table}
        elif table is not None:
            name = table[2]
            qualified = re.search(rf"(\w+)\.{name}\b", statement)
            keyspace = table[1] or (qualified[1].lower() if qualified else session.keyspace)
            names = {known for known_keyspace, known, _ in columns if known_keyspace == keyspace}
        for near in get_close_matches(name, names, 1, 0.65):
            return f"did you mean {near}?"
    return None


def _hint_for_type(name: str) -> str | None:
    """Advice for a type that does not exist."""
    from difflib import get_close_matches

    word = name.lower()
    close_matches = get_close_matches(word, _TYPES, 1, 0.7)
    meant = [_TYPES_ELSEWHERE[word]] if word in _TYPES_ELSEWHERE else close_matches
    return f"did you mean {meant[0]}?" if meant else None


def _has_misplaced_marker(message: str, statement: str) -> bool:
    """Whether the server refused a bind marker, where the statement may not have one."""
    if "Bind variables cannot be used" in message or "input '?'" in message:
        return True
    if _first_word(statement) not in _WITHOUT_MARKERS:
        return False
    # The text after PASSWORD is never shown. A statement is prepared if it has values.
    is_cut = message.startswith("preparing") and statement.upper().endswith("PASSWORD")
    return is_cut or _MARKER.search(statement) is not None


def _first_word(statement: str) -> str:
    """The first word of a statement, in capitals. Comments before it are masked."""
    match = re.match(r"[\s…]*(\w+)", statement)
    return match[1].upper() if match else ""
