"""Captures the golden byte tables of this folder from a real Cassandra.

    python tests/golden/capture.py            every file
    python tests/golden/capture.py date time  these files

Every value is inserted as a CQL literal. The files hold the bytes that the server stores and the
text of its `toJson`. turbocql's codec is not used, because the files are the reference for that
codec. A literal that the server refuses ends the run. Nothing in the files is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turbocql.testing import Cassandra
from turbocql.testing.probe import Connection, ProbeError

HERE = Path(__file__).parent
Udt = dict[str, object]
SERVER_ERROR = 0x0000


@dataclass(frozen=True)
class Table:
    """The literals of one CQL type. `udt` describes the UDT that the type is or contains.

    `then` is a statement that is executed after the values are stored and before they are read.
    """

    cql_type: str
    literals: Sequence[str]
    udt: Udt | None = None
    then: str = ""


def _udt(name: str, /, **fields: str) -> Udt:
    return {"name": name, "fields": [[field, kind] for field, kind in fields.items()]}


def _integers(bits: int) -> list[str]:
    """Returns literals of signed integers of `bits` bits.

    These are the two limits, the numbers next to 2**7, 2**8, 2**15, 2**16 and so on, the numbers
    next to their negatives, and some small numbers.
    """
    edges = {0, 1, -1, 2, 42, -42, (1 << (bits - 1)) - 1, -(1 << (bits - 1))}
    for power in range(7, bits, 8):
        for around in (-1, 0, 1):
            edges |= {(1 << power) + around, -(1 << power) + around}
            edges |= {(1 << (power + 1)) + around, -(1 << (power + 1)) + around}
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return [str(edge) for edge in sorted(edges) if low <= edge <= high]


def _texts(*values: str) -> list[str]:
    return ["'" + value.replace("'", "''") + "'" for value in values]


TEXTS = _texts(
    "",
    "a",
    "it's",
    '"double" \\ back',
    "line\nbreak\ttab\r",
    "\x00nul\x00",
    "\x7f\x80",
    "grün",
    "日本語",
    "\U0001f600",
    "\U0010ffff",
    "e\u0301 \u00e9",
    "\u200f\u202e\ufeff",
    "\ud7ff\ue000\uffff",
    "x" * 127,
    "x" * 128,
    "y" * 300,
)
UUIDS = [
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "550e8400-e29b-41d4-a716-446655440000",
    "123e4567-e89b-12d3-a456-426614174000",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
]
TIMEUUIDS = [
    "00000000-0000-1000-8000-000000000000",
    "ffffffff-ffff-1fff-bfff-ffffffffffff",
    "13814000-1dd2-11b2-8080-808080808080",
    "13814000-1dd2-11b2-7f7f-7f7f7f7f7f7f",
    "d2177dd0-eaa2-11de-a572-001b779c76e3",
]
FLOATS = [
    "0",
    "0.0",
    "-0.0",
    "1",
    "-1",
    "1.5",
    "0.1",
    "-0.1",
    "3.1415927",
    "16777216",
    "16777217",
    "1e10",
    "-1e-10",
    "NaN",
    "-NaN",
    "Infinity",
    "-Infinity",
    "1.4e-45",
    "-1.4e-45",
    "7e-46",
    "1.17549421e-38",
    "1.17549435e-38",
    "3.4028235e38",
    "-3.4028235e38",
    "3.4028236e38",
    "1e-60",
]
DOUBLES = [
    *FLOATS,
    "3.141592653589793",
    "9007199254740992",
    "9007199254740993",
    "4.9e-324",
    "-4.9e-324",
    "2.225073858507201e-308",
    "2.2250738585072014e-308",
    "1.7976931348623157e308",
    "-1.7976931348623157e308",
    "1e-400",
]
DECIMALS = [
    "0",
    "0.0",
    "-0.0",
    "0.000",
    "1",
    "-1",
    "10",
    "100",
    "1.0",
    "1.10",
    "-1.5",
    "0.1",
    "127",
    "128",
    "-128",
    "-129",
    "3.14159265358979323846264338327950288419716939937510",
    "-99999999999999999999999999999999999999.99",
    "1e3",
    "1E10",
    "1.50e2",
    "-1e-3",
    "1e100",
    "1e-100",
    "-123456789e-1000",
    # Positive exponents beyond a double's range are possible in JSON strings, not in numbers.
    """fromJson('"1e2147483"')""",
    """fromJson('"-123456789e1000"')""",
    """fromJson('"1e2147483647"')""",
    """fromJson('"-1e-2147483647"')""",
    "1e-2147483",
    "0e10",
    "0e-10",
    "9223372036854775807.9223372036854775808",
    "18446744073709551616",
    "-18446744073709551617e-5",
]
VARINTS = sorted(
    {0, 1, -1, 2, -2, 42, 10**30, -(10**30), 3**200, -(3**200)}
    | {
        sign * (1 << power) + around
        for power in (7, 8, 15, 16, 23, 24, 31, 32, 63, 64, 127, 128, 255, 256)
        for sign in (1, -1)
        for around in (-1, 0, 1)
    }
)
INETS = [
    "0.0.0.0",
    "127.0.0.1",
    "192.168.1.200",
    "255.255.255.255",
    "::",
    "::1",
    "2001:db8::1",
    "fe80::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8:0:1:2:3:4:5",
    "::2:1.2.3.4",
    "::ffff:1.2.3.4",
]
DATES = [
    "'1970-01-01'",
    "'1969-12-31'",
    "'1970-01-02'",
    "'2000-02-29'",
    "'2024-02-29'",
    "'1582-10-15'",
    "'1582-10-04'",
    "'0001-01-01'",
    "'9999-12-31'",
    "'-0001-01-01'",
    "'-5877641-06-23'",
    # These numbers are days as the server stores them, where 2^31 is 1970-01-01. They include both
    # limits, and days before the year 1 and after the year 9999.
    "0",
    "1",
    "2146764484",
    "2146764485",
    "2147483647",
    "2147483648",
    "2147483649",
    "2150416544",
    "2150416545",
    "4294967295",
]
TIMES = [
    "'00:00:00'",
    "'00:00:00.000000001'",
    "'08:12:54'",
    "'08:12:54.123'",
    "'08:12:54.123456'",
    "'08:12:54.123456789'",
    "'12:00:00.100000000'",
    "'23:59:59.999999999'",
    "0",
    "1",
    "1000",
    "1000000",
    "86399999999999",
]
TIMESTAMPS = [
    "0",
    "1",
    "-1",
    "999",
    "1000",
    "-1000",
    "1700000000123",
    "-62135596800000",
    "-62135596800001",
    "253402300799999",
    "253402300800000",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "'1970-01-01 00:00:00.000+0000'",
    "'2011-02-03 04:05:06.789+0000'",
    "'2011-02-03T04:05:06.789+0130'",
    "'2011-02-03T04:05:06Z'",
    "'1969-12-31 23:59:59.999+0000'",
    "'1582-10-04 00:00:00+0000'",
    "'9999-12-31 23:59:59.999+0000'",
]
DURATIONS = [
    "0s",
    "1ns",
    "-1ns",
    "1us",
    "1ms",
    "1s",
    "1m",
    "1h",
    "1d",
    "1w",
    "1mo",
    "1y",
    "63ns",
    "64ns",
    "-64ns",
    "-65ns",
    "8191d",
    "8192d",
    "1y2mo3d4h5m6s7ms8us9ns",
    "-1y2mo3d4h5m6s7ms8us9ns",
    "89h4m48s",
    "2147483647mo",
    "-2147483647mo",
    "2147483647d",
    "-2147483647d",
    "9223372036854775807ns",
    "-9223372036854775807ns",
    "2147483647mo2147483647d9223372036854775807ns",
    "-2147483647mo2147483647d9223372036854775807ns",
    "P1Y2M3DT4H5M6S",
    "-P1Y2M",
    "P3W",
    "P0001-02-03T04:05:06",
]
ADDRESS = _udt("address", street="text", zip="int")
CONTACT = _udt("contact", name="text", home="frozen<address>", phones="frozen<set<text>>")
POINT = _udt(
    "point", x="double", y="double", label="text", seen="timestamp", tags="frozen<list<int>>"
)
# `create_types` creates this type without its last field. After the values are stored, `ALTER TYPE`
# adds the field.
GROWN = _udt("grown", street="text", zip="int")
QUOTED = _udt("Quoted Name", **{"Mixed Case": "int", 'a"b': "text"})

# The encoded values of these types have at least one byte. The server also accepts empty cells,
# which are cells of zero bytes and not nulls.
EMPTIES = [
    *("int", "bigint", "varint", "float", "double", "decimal", "boolean"),
    *("uuid", "timeuuid", "inet", "timestamp"),
]

STEMS: dict[str, list[Table]] = {
    "ascii": [
        Table("ascii", _texts("", "a", "it's", '"quoted" \\', "tab\tnl\n", "\x00\x7f", "x" * 300))
    ],
    "text": [Table("text", TEXTS), Table("varchar", _texts("", "varchar is text"))],
    "tinyint": [Table("tinyint", _integers(8))],
    "smallint": [Table("smallint", _integers(16))],
    "int": [Table("int", _integers(32))],
    "bigint": [Table("bigint", _integers(64))],
    "varint": [Table("varint", [str(number) for number in VARINTS])],
    "float": [Table("float", FLOATS)],
    "double": [Table("double", DOUBLES)],
    "decimal": [Table("decimal", DECIMALS)],
    "boolean": [Table("boolean", ["true", "false"])],
    "blob": [
        Table("blob", ["0x", "0x00", "0xff", "0xCAFEbabe", "0x" + bytes(range(256)).hex()]),
    ],
    "uuid": [Table("uuid", UUIDS + TIMEUUIDS)],
    "timeuuid": [Table("timeuuid", TIMEUUIDS)],
    "inet": [Table("inet", [f"'{address}'" for address in INETS])],
    "date": [Table("date", DATES)],
    "time": [Table("time", TIMES)],
    "timestamp": [Table("timestamp", TIMESTAMPS)],
    "duration": [Table("duration", DURATIONS)],
    "counter": [
        Table("counter", ["0", "1", "-1", "42", "9223372036854775807", "-9223372036854775808"])
    ],
    "list": [
        Table("list<int>", ["[1]", "[1, 2, 3]", "[2147483647, -2147483648, 0]", "[1, 1, 1]"]),
        Table("frozen<list<int>>", ["[]", "[1, 2, 3]"]),
        Table("list<text>", ["['']", "['a', '', 'grün', '\U0001f600']"]),
        Table("list<bigint>", ["[9223372036854775807, -1]"]),
        Table("list<boolean>", ["[true, false]"]),
        Table("list<double>", ["[1.5, NaN, -Infinity, -0.0]"]),
        Table("list<varint>", ["[0, -129, 18446744073709551616]"]),
        Table("list<duration>", ["[1mo2d3ns, -1s]"]),
        Table("list<blob>", ["[0x, 0x00ff]"]),
        Table("list<frozen<list<int>>>", ["[[], [1], [2, 3]]"]),
        Table("frozen<list<frozen<list<frozen<list<text>>>>>>", ["[[['a'], []], [], [['b', '']]]"]),
        Table("list<frozen<map<text, frozen<list<int>>>>>", ["[{'a': [1, 2]}, {}, {'b': []}]"]),
        Table("list<frozen<tuple<int, text>>>", ["[(1, 'a'), (null, null)]"]),
        Table("list<frozen<address>>", ["[{street: 'Main', zip: 1}, {zip: null}]"], ADDRESS),
        Table("list<frozen<vector<float, 2>>>", ["[[1.5, -2], [0, 0.1]]"]),
    ],
    "set": [
        Table("set<int>", ["{1}", "{3, 1, 2}", "{-1, 0, 1, 2147483647, -2147483648}"]),
        Table("frozen<set<int>>", ["{}", "{3, 1, 2}"]),
        Table("set<text>", ["{''}", "{'b', 'a', 'B', 'ä', '\U0001f600'}"]),
        Table("set<uuid>", [f"{{{UUIDS[2]}, {UUIDS[1]}, {UUIDS[0]}}}"]),
        Table("set<varint>", ["{-129, 0, 128, 18446744073709551616}"]),
        Table("set<inet>", ["{'127.0.0.1', '::1'}"]),
        Table("set<frozen<list<int>>>", ["{[2], [], [1, 2]}"]),
        Table("set<frozen<set<text>>>", ["{{}, {'b', 'a'}}"]),
        Table("set<frozen<tuple<int, text>>>", ["{(2, 'a'), (1, null)}"]),
    ],
    "map": [
        Table("map<text, int>", ["{'a': 1}", "{'b': 2, 'a': 1, '': 0}"]),
        Table("frozen<map<text, int>>", ["{}", "{'b': 2, 'a': 1}"]),
        Table("map<int, text>", ["{-1: '', 2: 'two', 1: 'grün'}"]),
        Table("map<uuid, timestamp>", [f"{{{UUIDS[2]}: 1700000000123}}"]),
        Table("map<timestamp, double>", ["{0: 1.5, -1: NaN}"]),
        Table("map<inet, boolean>", ["{'127.0.0.1': true, '::1': false}"]),
        Table("map<date, time>", ["{'2024-02-29': '08:12:54.123456789'}"]),
        Table("map<text, duration>", ["{'a': 1mo2d3ns}"]),
        Table("map<text, frozen<list<int>>>", ["{'a': [], 'b': [1, 2]}"]),
        Table("map<frozen<list<int>>, text>", ["{[1, 2]: 'a', []: 'b'}"]),
        Table("map<frozen<set<int>>, frozen<map<text, int>>>", ["{{2, 1}: {'x': 1}, {}: {}}"]),
        Table("map<frozen<tuple<int, text>>, int>", ["{(1, 'a'): 1, (null, 'b'): 2}"]),
        Table("map<text, frozen<address>>", ["{'home': {street: 'Main', zip: 1}}"], ADDRESS),
    ],
    "tuple": [
        Table("tuple<int>", ["(1)", "(null)"]),
        Table("tuple<int, text>", ["(1, 'a')", "(null, 'a')", "(1, null)", "(null, null)", "(1)"]),
        Table("tuple<int, text, boolean>", ["(1, '', true)", "(1, 'a')", "(1)"]),
        Table("tuple<blob, ascii, varint>", ["(0x, '', 0)", "(0x00, 'a', -129)"]),
        Table("tuple<list<int>, map<text, int>>", ["([1, 2], {'a': 1})", "([], {})"]),
        Table("tuple<tuple<int, int>, text>", ["((1, null), 'a')", "(null, 'a')"]),
        Table("tuple<int, vector<float, 2>>", ["(1, [1.5, 2])", "(1, null)"]),
        Table(
            "tuple<tinyint, smallint, bigint, float, double, decimal, uuid, inet, date, time>",
            [
                f"(-1, -2, -3, 1.5, -2.5, 3.14, {UUIDS[2]}, '::1', '2024-02-29', '08:12:54')",
                "(null, null, null, null, null, null, null, null, null, null)",
            ],
        ),
    ],
    "udt": [
        Table(
            "address",
            [
                "{street: 'Main', zip: 1}",
                "{street: '', zip: null}",
                "{street: null, zip: -1}",
                "{street: null, zip: null}",
                "{zip: 1}",
                "{street: 'grün'}",
            ],
            ADDRESS,
        ),
        Table("frozen<address>", ["{street: 'Main', zip: 1}", "{street: 'only'}"], ADDRESS),
        Table(
            "point",
            [
                "{x: 1.5, y: -2.5, label: 'p', seen: 1700000000123, tags: [1, 2]}",
                "{x: NaN, y: null, label: '', seen: 0}",
            ],
            POINT,
        ),
        Table(
            "frozen<contact>",
            [
                "{name: 'Ann', home: {street: 'Main', zip: 1}, phones: {'2', '1'}}",
                "{name: 'Bob', home: {street: 'Main'}, phones: {}}",
                "{name: 'Eve'}",
            ],
            CONTACT,
        ),
        Table(
            "frozen<grown>",
            ["{street: 'Main'}", "{street: ''}", "{street: null}"],
            GROWN,
            then="ALTER TYPE golden.grown ADD zip int",
        ),
        Table("list<frozen<grown>>", ["[{street: 'Main', zip: 1}]"], GROWN),
        Table('"Quoted Name"', ['{"Mixed Case": 1, "a""b": \'x\'}'], QUOTED),
    ],
    "vector": [
        Table("vector<float, 1>", ["[1.5]"]),
        Table("vector<float, 3>", ["[1.5, -2.25, 0.1]", "[NaN, Infinity, -0.0]"]),
        Table("vector<float, 8>", ["[0, 1, 2, 3, 4, 5, 6, 3.4028235e38]"]),
        Table("vector<double, 3>", ["[1.5, -2.25, 0.1]", "[NaN, -Infinity, -0.0]"]),
        Table("vector<int, 3>", ["[1, -2, 2147483647]"]),
        Table("vector<bigint, 2>", ["[9223372036854775807, -1]"]),
        Table("vector<smallint, 3>", ["[1, -2, 32767]"]),
        Table("vector<tinyint, 3>", ["[1, -2, 127]"]),
        Table("vector<varint, 3>", ["[0, -129, 18446744073709551616]"]),
        Table("vector<decimal, 2>", ["[1.10, -123456789e-1000]"]),
        Table("vector<boolean, 2>", ["[true, false]"]),
        Table(
            "vector<text, 3>",
            [
                "['a', '', 'grün']",
                f"['{'x' * 127}', '{'x' * 128}', '{'y' * 300}']",
            ],
        ),
        Table("vector<text, 1>", [f"['{'z' * 16384}']"]),
        Table("vector<ascii, 2>", ["['a', 'bc']"]),
        Table("vector<blob, 2>", ["[0x, 0x00ff]"]),
        Table("vector<uuid, 2>", [f"[{UUIDS[2]}, {UUIDS[1]}]"]),
        Table("vector<timeuuid, 2>", [f"[{TIMEUUIDS[4]}, {TIMEUUIDS[2]}]"]),
        Table("vector<inet, 2>", ["['127.0.0.1', '::1']"]),
        Table("vector<date, 2>", ["['1970-01-01', '2024-02-29']"]),
        Table("vector<time, 2>", ["['00:00:00', '08:12:54.123456789']"]),
        Table("vector<timestamp, 2>", ["[0, -1]"]),
        Table("vector<duration, 2>", ["[1mo2d3ns, -1s]"]),
        Table("vector<list<int>, 2>", ["[[1, 2], [3]]", "[[], [-1]]"]),
        Table("vector<set<text>, 2>", ["[{'b', 'a'}, {}]"]),
        Table("vector<map<text, int>, 2>", ["[{'a': 1}, {}]"]),
        Table("vector<tuple<int, text>, 2>", ["[(1, 'a'), (null, null)]"]),
        Table("vector<vector<float, 2>, 2>", ["[[1.5, 2], [3, -4.5]]"]),
        Table("vector<vector<text, 2>, 2>", ["[['a', ''], ['bc', 'd']]"]),
        Table("vector<frozen<address>, 2>", ["[{street: 'Main', zip: 1}, {zip: 2}]"], ADDRESS),
        Table("frozen<vector<int, 2>>", ["[1, 2]"]),
    ],
    "empty": [Table(kind, [f"blob_as_{kind}(0x)"]) for kind in EMPTIES],
}


def capture(connection: Connection, number: int, table: Table) -> Iterator[dict[str, object]]:
    """Stores the literals in a new table, and yields a line for each stored value."""
    name = f"golden.t{number}"
    connection.query(f"CREATE TABLE {name} (k int PRIMARY KEY, v {table.cql_type})")
    for key, literal in enumerate(table.literals):
        if table.cql_type == "counter":
            connection.query(f"UPDATE {name} SET v = v + {literal} WHERE k = {key}")
        else:
            connection.query(f"INSERT INTO {name} (k, v) VALUES ({key}, {literal})")
    if table.then:
        connection.query(table.then)
    for key, literal in enumerate(table.literals):
        cell = connection.query(f"SELECT v FROM {name} WHERE k = {key}").rows[0][0]
        line: dict[str, object] = {"type": table.cql_type}
        if table.udt is not None:
            line["udt"] = table.udt
        line["literal"] = literal
        line["hex"] = None if cell is None else cell.hex()
        line["json"] = to_json(connection, name, key)
        yield line


def to_json(connection: Connection, name: str, key: int) -> str | None:
    """Returns the JSON text of a value that the server's `toJson` returns.

    Returns `None` if `toJson` returns a null or fails. It fails for tuples that were stored without
    their last fields.
    """
    try:
        text = connection.query(f"SELECT toJson(v) FROM {name} WHERE k = {key}").rows[0][0]
    except ProbeError as error:
        if error.code != SERVER_ERROR:
            raise
        return None
    return None if text is None else text.decode()


def create_types(connection: Connection) -> None:
    """Creates the UDTs."""
    for udt in (ADDRESS, CONTACT, POINT, GROWN, QUOTED):
        name, fields = str(udt["name"]), udt["fields"]
        assert isinstance(fields, list)
        if udt is GROWN:
            fields = fields[:-1]
        columns = ", ".join(f"{_quoted(field)} {kind}" for field, kind in fields)
        connection.query(f"CREATE TYPE golden.{_quoted(name)} ({columns})")


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[a-z]\w*", name) else '"' + name.replace('"', '""') + '"'


def main(stems: Sequence[str]) -> None:
    """Captures the files with these stems, or all files."""
    with Cassandra() as cluster, cluster.nodes[0].probe() as connection:
        connection.query(
            "CREATE KEYSPACE golden WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        connection.query("USE golden")
        create_types(connection)
        number = 0
        for stem in stems or STEMS:
            lines = []
            for table in STEMS[stem]:
                lines += list(capture(connection, number, table))
                number += 1
            with (HERE / f"{stem}.jsonl").open("w", encoding="utf-8") as out:
                out.writelines(json.dumps(line, ensure_ascii=True) + "\n" for line in lines)
            print(f"{stem}: {len(lines)}")


if __name__ == "__main__":
    main(sys.argv[1:])
