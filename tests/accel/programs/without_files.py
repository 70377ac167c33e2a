"""Checks that calls of an accelerated driver import no module.

The process has no free file descriptor during the calls, so an import would fail.

    python without_files.py [safe]

The test passes `safe` if the native core uses no quick paths. In this case, few calls are native.
"""

from __future__ import annotations

import datetime
import decimal
import io
import os
import resource
import sys
import uuid
from typing import Any

import cassandra.cluster  # noqa: F401
from cassandra import cqltypes, protocol, query
from cassandra.encoder import Encoder

from turbocql import accel

LIST = cqltypes.ListType.apply_parameters([cqltypes.Int32Type])
MAP = cqltypes.MapType.apply_parameters([cqltypes.UTF8Type, LIST])
SET = cqltypes.SetType.apply_parameters([cqltypes.UUIDType])
TUPLE = cqltypes.TupleType.apply_parameters([cqltypes.InetAddressType, cqltypes.DecimalType])
UDT = cqltypes.UserType.make_udt_class(
    "ks", "point", ("x", "y"), (cqltypes.Int32Type, cqltypes.DurationType)
)
VALUES: list[tuple[Any, Any]] = [
    *((cqltypes.Int32Type, value) for value in (1, 2**31, "a", None, 1.5)),
    (LIST, [1, 2]),
    (LIST, ["a"]),
    (LIST, 7),
    (MAP, {"a": [1]}),
    (MAP, [1]),
    (SET, {uuid.UUID(int=1)}),
    (SET, {"no uuid"}),
    (TUPLE, ("127.0.0.1", decimal.Decimal("1.5"))),
    (TUPLE, ("nowhere", 1.5)),
    (UDT, {"x": 1}),
    (UDT, (1, None)),
    (UDT, object()),
    (cqltypes.DateType, datetime.datetime(2026, 11, 26)),
    (cqltypes.DateType, "2026"),
    (cqltypes.SimpleDateType, datetime.date(2026, 11, 26)),
    (cqltypes.SimpleDateType, "2026-11-26"),
    (cqltypes.TimeType, datetime.time(1, 2, 3)),
    (cqltypes.DecimalType, "a"),
    (cqltypes.IntegerType, 10**30),
]


def outcome(call: Any, *arguments: Any) -> str:
    """Returns a function's result or error as text."""
    try:
        return repr(call(*arguments))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def outcomes() -> list[str]:
    """Calls functions of the driver with values, messages and pages. Returns the outcomes."""
    outcomes = []
    for cqltype, value in VALUES:
        outcomes.append(outcome(cqltype.serialize, value, 4))
        outcomes.append(outcome(query.bind_params, "%s", (value,), Encoder()))
        for data in (b"", b"\0", b"\0\0\0\1\0\0\0\4\0\0\0\1", bytes(24)):
            outcomes.append(outcome(lambda c=cqltype, d=data: c.from_binary(d, 4)))
            outcomes.append(outcome(cqltype.deserialize, data, 4))
    for values in ([b"1"], [None], None, [1]):
        buffer = io.BytesIO()
        message = protocol.ExecuteMessage(b"id", values, 1)
        outcomes.append(outcome(message.send_body, buffer, 4) + buffer.getvalue().hex())
    page = "00000002 00000001 00000001 0001 6b 0001 74 0001 63 000d 00000002 00000001 61 ffffffff"
    for handler in (protocol.ProtocolHandler, protocol.LazyProtocolHandler):
        if handler is None:
            continue
        cls = handler.message_types_by_opcode[protocol.ResultMessage.opcode]
        for _ in range(4):
            message = cls(2)
            body = io.BytesIO(bytes.fromhex(page))
            # Skips the first 4 bytes, the kind of the result. The driver has read them before it
            # reads rows.
            body.seek(4)
            outcomes.append(outcome(message.recv_results_rows, body, 4, {}, None, None))
            outcomes.append(outcome(lambda m=message: list(m.parsed_rows)))
    return outcomes


def main() -> None:
    plain = outcomes()
    accel.accelerate()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken: list[int] = []
    before = set(sys.modules)
    try:
        while True:
            taken.append(os.dup(1))
    except OSError:
        assert taken
    accelerated = outcomes()
    for descriptor in taken:
        os.close(descriptor)
    assert set(sys.modules) == before, set(sys.modules) - before
    assert accelerated == plain, [
        pair for pair in zip(plain, accelerated, strict=True) if pair[0] != pair[1]
    ]
    if "safe" not in sys.argv:
        assert accel.status().native > 50, accel.status()


if __name__ == "__main__":
    main()
