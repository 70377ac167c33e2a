"""Compares the bytes to which turbocql and scylla-driver (the reference) encode random requests.

A rule, one of `RULES`, is an intended difference.
"""

from __future__ import annotations

import io
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from cassandra import ConsistencyLevel
from cassandra import protocol as reference
from cassandra.protocol_features import ProtocolFeatures
from cassandra.query import BatchType

from turbocql import UNSET, Consistency
from turbocql.protocol import BatchMessage, ExecuteMessage, QueryMessage

RULES = {
    "negative_timestamp": (
        "turbocql writes negative timestamps, and refuses only -2**63, which servers do not "
        "accept; the reference fails, because it packs timestamps as unsigned numbers"
    ),
    "unset_in_version_3": (
        "version 3 has no UNSET and servers would read a null; turbocql refuses, the reference "
        "writes it"
    ),
    "page_size_below_1": (
        "turbocql refuses a page size below 1; the reference leaves 0 out and writes negative ones"
    ),
    "empty_paging_state": (
        "turbocql writes the paging state that it is given; the reference leaves an empty one out, "
        "which asks for the first page again"
    ),
    "empty_batch_keyspace": (
        "in version 5, turbocql writes the flag and the empty keyspace, and the reference writes "
        "the keyspace without the flag; before version 5, turbocql refuses, and the reference "
        "writes neither"
    ),
    "no_metadata_id": (
        "turbocql refuses an EXECUTE of version 5 without a result metadata id, and writes an "
        "empty id only if the caller passes one; the reference writes an empty id"
    ),
    "metadata_id_left_out": (
        "versions before 5 have no result metadata id: turbocql refuses one that is given, the "
        "reference leaves it out"
    ),
    "skip_metadata": (
        "turbocql writes the flag when asked; the reference's EXECUTE writes it only under "
        "ScyllaDB's extension SCYLLA_USE_METADATA_ID, which is compared in version 5 only"
    ),
}

Case = dict[str, Any]

REFUSED = {"unset_in_version_3", "page_size_below_1", "no_metadata_id", "metadata_id_left_out"}
"""The rules for requests that turbocql refuses."""

AMENDED: dict[str, Case] = {
    "negative_timestamp": {"timestamp": 1},
    "page_size_below_1": {"page_size": None},
    "empty_paging_state": {"paging_state": None},
    "empty_batch_keyspace": {"keyspace": None},
    "no_metadata_id": {"result_metadata_id": b""},
    "metadata_id_left_out": {"result_metadata_id": None},
    "skip_metadata": {"skip_metadata": False},
}
"""Maps a rule to changes of a request after which both drivers encode the request alike. The
function `amended` handles `unset_in_version_3`, which is not in this dict."""

BATCHES = {"logged": BatchType.LOGGED, "unlogged": BatchType.UNLOGGED, "counter": BatchType.COUNTER}
TIMESTAMPS = [0, 1, 1_700_000_000_000_000, 2**63 - 1, 2**63 - 2, -1, -(2**63) + 1, -(2**63)]
TEXTS = ["SELECT v FROM t WHERE k = ?", "", "é 漢 \U0001f600", "x" * 70_000, "a\0b"]
KEYSPACES = ["ks", "", "Ünï", "k" * 300]


def maybe(source: random.Random, share: float, choices: list[Any]) -> Any:
    return source.choice(choices) if source.random() < share else None


def random_value(source: random.Random) -> Any:
    kind = source.random()
    if kind < 0.1:
        return None
    if kind < 0.15:
        return UNSET
    return source.randbytes(source.choice([0, 1, 4, 8, 16, 100, source.randrange(3000)]))


def random_values(source: random.Random) -> list[Any]:
    count = source.choice([0, 1, 2, 3, 12, source.randrange(40)])
    set_only = source.random() < 0.5
    values = [random_value(source) for _ in range(count)]
    return [b"\1" if set_only and value is UNSET else value for value in values]


def random_id(source: random.Random) -> bytes:
    return source.randbytes(source.choice([16, 16, 16, 0, 1, 65_535]))


def random_text(source: random.Random) -> str:
    return source.choice(TEXTS[:3] * 10 + TEXTS)


def random_case(kind: str, version: int, source: random.Random) -> Case:
    """Returns random arguments for a message of turbocql."""
    case: Case = {"consistency": source.choice(list(Consistency))}
    case["serial_consistency"] = maybe(source, 0.3, ["SERIAL", "LOCAL_SERIAL"])
    case["timestamp"] = maybe(source, 0.5, TIMESTAMPS[:4] * 5 + TIMESTAMPS)
    case["keyspace"] = maybe(source, 0.3, KEYSPACES) if version >= 5 else None
    if kind == "batch":
        case["kind"] = source.choice(list(BATCHES))
        count = source.choice([0, 1, 2, 10, source.randrange(60)])
        case["statements"] = [
            (source.choice([random_id, random_text])(source), random_values(source))
            for _ in range(count)
        ]
        return case
    case["values"] = random_values(source) if source.random() < 0.9 else None
    case["page_size"] = maybe(source, 0.4, [1, 5000, 2**31 - 1] * 5 + [0, -1])
    case["paging_state"] = maybe(
        source, 0.3, [b"state", b"\0" * 500, source.randbytes(9)] * 4 + [b""]
    )
    case["skip_metadata"] = source.random() < 0.3
    if kind == "query":
        case["query"] = random_text(source)
    else:
        case["query_id"] = random_id(source)
        known = 0.95 if version >= 5 else 0.03
        case["result_metadata_id"] = random_id(source) if source.random() < known else None
    return case


def ours(kind: str, version: int, case: Case) -> bytes:
    classes: dict[str, Any] = {
        "query": QueryMessage,
        "execute": ExecuteMessage,
        "batch": BatchMessage,
    }
    return bytes(classes[kind](**case).encode(version))


def cell(value: Any) -> Any:
    return reference._UNSET_VALUE if value is UNSET else value


def theirs(kind: str, version: int, case: Case) -> bytes:
    serial = case["serial_consistency"]
    common: Case = {
        "consistency_level": ConsistencyLevel.name_to_value[case["consistency"].value],
        "serial_consistency_level": serial and ConsistencyLevel.name_to_value[serial],
        "timestamp": case["timestamp"],
    }
    features = None
    message: Any
    if kind == "batch":
        queries = [
            (isinstance(statement, bytes), statement, [cell(value) for value in values])
            for statement, values in case["statements"]
        ]
        batch = BATCHES[case["kind"]]
        message = reference.BatchMessage(batch, queries, keyspace=case["keyspace"], **common)
    else:
        values = case["values"]
        common["query_params"] = None if values is None else [cell(value) for value in values]
        common["fetch_size"] = case["page_size"]
        common["paging_state"] = case["paging_state"]
        if kind == "query":
            message = reference.QueryMessage(case["query"], keyspace=case["keyspace"], **common)
            message.skip_meta = case["skip_metadata"]
        else:
            message = reference.ExecuteMessage(
                case["query_id"],
                skip_meta=case["skip_metadata"],
                result_metadata_id=case["result_metadata_id"],
                **common,
            )
            message.keyspace = case["keyspace"]
            if version >= 5:
                # In version 5, the only effect of this feature is that the reference writes the
                # flag `Skip_metadata`.
                features = ProtocolFeatures(use_metadata_id=True)
    body = io.BytesIO()
    message.send_body(body, version, features)
    return body.getvalue()


def rules_for(kind: str, version: int, case: Case) -> set[str]:
    """Returns the rules that apply to this request. If there is one, the drivers' bytes differ."""
    rows = [values for _, values in case.get("statements", [])] or [case.get("values") or []]
    applies = {
        "negative_timestamp": (case["timestamp"] or 0) < 0,
        "unset_in_version_3": version == 3 and any(UNSET in values for values in rows),
        "page_size_below_1": case.get("page_size") is not None and case["page_size"] < 1,
        "empty_paging_state": case.get("paging_state") == b"",
        "empty_batch_keyspace": kind == "batch" and case["keyspace"] == "",
    }
    if kind == "execute":
        given = case["result_metadata_id"] is not None
        applies["no_metadata_id"] = version >= 5 and not given
        applies["metadata_id_left_out"] = version < 5 and given
        applies["skip_metadata"] = version < 5 and case["skip_metadata"]
    return {rule for rule, does in applies.items() if does}


def outcome(write: Any, *arguments: Any) -> bytes | str:
    try:
        written: bytes = write(*arguments)
        return written
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def amended(case: Case, rules: set[str]) -> Case:
    """Returns a copy of the request, changed so that the rules do not apply to the copy."""

    def without_unset(values: list[Any]) -> list[Any]:
        return [None if value is UNSET else value for value in values]

    case = dict(case)
    for rule in rules - {"unset_in_version_3"}:
        case.update(AMENDED[rule])
    if "unset_in_version_3" in rules and "statements" in case:
        case["statements"] = [(text, without_unset(row)) for text, row in case["statements"]]
    elif "unset_in_version_3" in rules:
        case["values"] = without_unset(case["values"])
    return case


def compare(kind: str, version: int, case: Case) -> tuple[str, bool]:
    """Returns a reason, and whether the outcome is right.

    The reason is "equal", the name of a rule, or a description of the wrong outcome.
    """
    here, there = outcome(ours, kind, version, case), outcome(theirs, kind, version, case)
    rules = rules_for(kind, version, case)
    shown = [text if isinstance(text, str) else text[:200].hex() for text in (here, there)]
    described = f"{kind} v{version} {str(case)[:500]} {sorted(rules)} gives {shown}"
    if here == there:
        # If a rule applies, equal bytes are wrong.
        right = isinstance(here, bytes) and not rules
        return ("equal", True) if right else (described, False)
    if not rules or (
        rules & REFUSED and not str(here).startswith(("EncodeError: ", "RangeError: "))
    ):
        return described, False
    case = amended(case, rules)
    here, there = outcome(ours, kind, version, case), outcome(theirs, kind, version, case)
    if here == there and isinstance(here, bytes):
        return min(rules), True
    return f"{described}, and amended they still differ", False


@dataclass
class MessageReport:
    """The results for one kind of request in one version of the protocol."""

    equal: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    """For each rule, the number of requests that differ. A request is counted for one rule only."""
    failures: list[str] = field(default_factory=list)


def compare_messages(message: tuple[str, int], count: int, seed: int) -> MessageReport:
    """Compares `count` random requests of one kind in one version of the protocol."""
    kind, version = message
    report = MessageReport()
    source = random.Random(f"{kind} {version} {seed}")
    for _ in range(count):
        reason, right = compare(kind, version, random_case(kind, version, source))
        if not right:
            report.failures.append(reason)
        elif reason == "equal":
            report.equal += 1
        else:
            report.differing[reason] += 1
    return report
