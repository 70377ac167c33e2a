"""The calls of the workload that runs during the faults: reads, writes, batches and others.

The workload is called "the load". The audit (`audit.py`) judges the records of its calls.

Each operation is written once, for both the synchronous and the asynchronous API. An operation is a
generator that yields an `Ask` for each call of turbocql. `load.py` makes the call and sends an
`Outcome` back to the generator. If the answer is wrong, the generator sets `about["wrong"]` of the
call. `load.py` writes the record of the call only after that.

A claim is a row that several calls try to insert with `IF NOT EXISTS`. A chain is a row whose
version the calls increase, one by one, with `IF version = ?`.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from tests.faults.records import About
from tests.faults.stored import (
    CHAINS,
    COUNTERS,
    WIDE,
    check_row,
    note_of,
    value_of,
    wide_fault,
)

from turbocql import Batch, errors
from turbocql.statements import BatchKind

__all__ = [
    "CONNECT_S",
    "KINDS",
    "PREPARED",
    "SESSION_S",
    "SPECULATIVE",
    "Ask",
    "Op",
    "Outcome",
    "Shared",
    "Worker",
]

TIMEOUTS_S = (2.5, 4.0)
SESSION_S = 2.5
"""The session's default time limit. `prepare` and `use_keyspace` use it."""
CONNECT_S = 6.0
CLOSE_S = 2.0
SPECULATIVE = "speculative"
"""The name of an execution profile with speculative execution."""
_MANY = 20
_PAGE = 100
_PAGE_TRIES = 3
_ROUND = 2
"""The number of calls that compete for one claim. `audit.py` explains claims and chains."""
_GENERATION = 200
"""The number of versions of a chain. After the last version, a new chain begins."""
_KEPT = 64

PREPARED = {
    "write": "INSERT INTO {0}.writes (id, value, note) VALUES (?, ?, ?)",
    "read": "SELECT value, note FROM {0}.writes WHERE id = ?",
    "read_star": "SELECT * FROM {0}.writes WHERE id = ?",
    "count": "UPDATE {0}.counters SET n = n + ? WHERE key = ?",
    "claim": "INSERT INTO {0}.claims (key, winner) VALUES (?, ?) IF NOT EXISTS",
    "set": "UPDATE {0}.chains SET version = ?, winners[?] = ? WHERE key = ? IF version = ?",
    "version": "SELECT version FROM {0}.chains WHERE key = ?",
    "scan": "SELECT place, value FROM {0}.wide WHERE part = ?",
    "aside_write": "INSERT INTO {1}.aside (id, value) VALUES (?, ?)",
    "aside_read": "SELECT value FROM {1}.aside WHERE id = ?",
}
"""The statements that the load's synchronous and its asynchronous session prepare at the start.

`{0}` is the keyspace of the load. `{1}` is the keyspace that is dropped and created again.
"""


@dataclass
class Outcome:
    """The outcome of a call: its value, or its error."""

    value: Any = None
    error: BaseException | None = None


@dataclass
class Ask:
    """A call of turbocql that `load.py` makes."""

    kind: str
    method: str
    timeout_s: float
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    about: About = field(default_factory=lambda: About())
    read: Callable[[Any], Any] | None = None
    """A function that is applied to the value that the call returns, before the end of the call is
    recorded. So the call's duration includes the decoding of rows."""
    session: Any = None
    """The session to use instead of the load's session."""


Op = Generator[Ask, Outcome, None]


class Shared:
    """State that all workers share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims = itertools.count()
        self._seen: dict[int, int] = {}
        self._generation = [0] * CHAINS

    def claim(self) -> int:
        """Returns the key of a claim. It returns each key `_ROUND` times, so that calls compete."""
        with self._lock:
            return next(self._claims) // _ROUND

    def chain(self, number: int) -> tuple[int, int]:
        """Returns the key of a chain, and the latest version that a call has read or set."""
        with self._lock:
            key = self._generation[number] * CHAINS + number
            return key, self._seen.get(key, 0)

    def seen(self, key: int, version: int) -> None:
        """Records that a chain has reached a version. After `_GENERATION`, a new chain begins."""
        with self._lock:
            self._seen[key] = max(version, self._seen.get(key, 0))
            number = key % CHAINS
            if version >= _GENERATION and key // CHAINS == self._generation[number]:
                self._generation[number] += 1


class Worker:
    """One caller, with its own random numbers and its own row ids."""

    def __init__(
        self, number: int, seed: str, keyspace: str, shared: Shared, prepared: dict[str, Any]
    ) -> None:
        self.chance = random.Random(f"{seed} {number}")
        self._number = number
        self._count = 0
        self.keyspace = keyspace
        self.shared = shared
        self.prepared = prepared
        self.written: deque[int] = deque(maxlen=_KEPT)
        """The ids of the last acknowledged rows."""

    def id(self) -> int:
        """Returns an id that no other row has."""
        self._count += 1
        return self._number << 40 | self._count

    def op(self) -> Op:
        """Returns the next operation."""
        (make,) = self.chance.choices(list(KINDS), list(KINDS.values()))
        return make(self)

    def timeout_s(self) -> float:
        """Chooses the time limit of the next call."""
        return self.chance.choice(TIMEOUTS_S)

    def execute(
        self,
        kind: str,
        statement: Any,
        values: Any = None,
        *,
        about: About | None = None,
        read: Callable[[Any], Any] | None = None,
        session: Any = None,
        **options: Any,
    ) -> Ask:
        """Returns an `Ask` that calls `execute`."""
        timeout_s = self.timeout_s()
        options["timeout_s"] = timeout_s
        return Ask(
            kind,
            "execute",
            timeout_s,
            (statement, values),
            options,
            About() if about is None else about,
            read,
            session,
        )


def _row(number: int) -> tuple[int, int, str]:
    return number, value_of(number), note_of(number)


def _one(rows: Any) -> Any:
    return rows.one()


def _write(worker: Worker) -> Op:
    number, chance = worker.id(), worker.chance.random()
    kind: str = "write"
    options: dict[str, Any] = {}
    if chance < 0.4:
        kind, options = "write, idempotent", {"idempotent": True}
    elif chance < 0.5:
        kind, options = "write, speculative", {"idempotent": True, "profile": SPECULATIVE}
    elif chance < 0.55:
        # If the coordinator knows that a node is down, it refuses this write. The row must then not
        # be written.
        kind, options = "write, ALL", {"consistency": "ALL"}
    about = About(ids=[number])
    outcome = yield worker.execute(
        kind, worker.prepared["write"], _row(number), about=about, **options
    )
    if outcome.error is None:
        worker.written.append(number)


def _first_use(worker: Worker) -> Op:
    """Writes with a new statement text, which `execute` prepares before the write."""
    number = worker.id()
    text = PREPARED["write"].format(worker.keyspace, "") + f" /* {number} */"
    about = About(ids=[number])
    outcome = yield worker.execute("write, first use", text, _row(number), about=about)
    if outcome.error is None:
        worker.written.append(number)


def _read(worker: Worker) -> Op:
    if not worker.written or worker.chance.random() < 0.1:
        unknown = worker.id()
        about = About(checked=1)
        outcome = yield worker.execute(
            "read", worker.prepared["read"], (unknown,), about=about, read=_one
        )
        if outcome.error is None and outcome.value is not None:
            about["wrong"] = f"row {unknown} was never written, and is {outcome.value!r}"
        return
    number = worker.chance.choice(worker.written)
    about = About(checked=1)
    if worker.chance.random() < 0.6:
        ask = worker.execute("read", worker.prepared["read"], (number,), about=about, read=_one)
    else:
        # Schema faults add and drop columns, so the result of this statement changes.
        statement = worker.prepared["read_star"]
        ask = worker.execute("read *", statement, (number,), about=about, read=_one, rows="dict")
    outcome = yield ask
    if outcome.error is not None:
        return
    row = outcome.value
    if row is None:
        about["wrong"] = f"row {number} was acknowledged at QUORUM, and a read at QUORUM has none"
        return
    value, note = (row["value"], row["note"]) if isinstance(row, dict) else row
    fault = check_row(number, value, note)
    if fault is None and isinstance(row, dict):
        extra = {name: cell for name, cell in row.items() if name not in ("id", "value", "note")}
        if row["id"] != number or any(cell is not None for cell in extra.values()):
            fault = f"row {number} was read as {row!r}"
    if fault is not None:
        about["wrong"] = fault


def _batch(worker: Worker) -> Op:
    kinds: tuple[BatchKind, ...] = ("logged", "unlogged")
    kind = worker.chance.choice(kinds)
    batch, ids = Batch(kind), [worker.id() for _ in range(worker.chance.randrange(2, 6))]
    for number in ids:
        batch.add(worker.prepared["write"], _row(number))
    outcome = yield worker.execute(f"batch, {kind}", batch, about=About(ids=ids))
    if outcome.error is None:
        worker.written.extend(ids)


def _count(worker: Worker) -> Op:
    key, by = worker.chance.randrange(COUNTERS), worker.chance.randrange(1, 4)
    about = About(deltas=[(key, by)])
    yield worker.execute("counter", worker.prepared["count"], (by, key), about=about)


def _count_batch(worker: Worker) -> Op:
    batch, deltas = Batch("counter"), []
    for key in worker.chance.sample(range(COUNTERS), 3):
        by = worker.chance.randrange(1, 4)
        batch.add(worker.prepared["count"], (by, key))
        deltas.append((key, by))
    yield worker.execute("batch, counter", batch, about=About(deltas=deltas))


def _claim(worker: Worker) -> Op:
    key, number = worker.shared.claim(), worker.id()
    about = About(key=key, ids=[number])
    outcome = yield worker.execute(
        "claim", worker.prepared["claim"], (key, number), about=about, read=_conditional
    )
    if outcome.error is None:
        about["applied"], existing = outcome.value
        about["existing"] = existing.get("winner") if existing else None


def _set_version(worker: Worker) -> Op:
    key, known = worker.shared.chain(worker.chance.randrange(CHAINS))
    number, version = worker.id(), known + 1
    about = About(key=key, ids=[number], version=version)
    values = (version, version, number, key, known or None)
    outcome = yield worker.execute(
        "compare-and-set", worker.prepared["set"], values, about=about, read=_conditional
    )
    if outcome.error is not None:
        return
    about["applied"], existing = outcome.value
    if about["applied"]:
        worker.shared.seen(key, version)
    elif existing:
        about["existing"] = existing.get("version")
        worker.shared.seen(key, about["existing"] or 0)


def _conditional(rows: Any) -> tuple[Any, Any]:
    return rows.applied, rows.existing


def _version(worker: Worker) -> Op:
    key, known = worker.shared.chain(worker.chance.randrange(CHAINS))
    about = About(checked=1)
    outcome = yield worker.execute(
        "read, serial",
        worker.prepared["version"],
        (key,),
        about=about,
        read=_one,
        consistency="SERIAL",
    )
    if outcome.error is not None:
        return
    version = (outcome.value.version if outcome.value else None) or 0
    if version < known:
        about["wrong"] = f"chain {key} was at {known} before a SERIAL read that gave {version}"
    worker.shared.seen(key, version)


def _many(worker: Worker) -> Op:
    ids = [worker.id() for _ in range(_MANY)]
    timeout_s = worker.timeout_s()
    about = About(ids=ids)
    outcome = yield Ask(
        "execute_many",
        "execute_many",
        timeout_s,
        (worker.prepared["write"], [_row(number) for number in ids]),
        {"timeout_s": timeout_s, "raise_failures": False},
        about,
    )
    if outcome.error is not None:
        return
    report = outcome.value
    about["failed"] = [
        (
            ids[failure.row],
            type(failure.error).__name__,
            bool(getattr(failure.error, "may_have_applied", False)),
            isinstance(failure.error, errors.Error),
        )
        for failure in report.failures
    ]
    failed = {number for number, *_ in about["failed"]}
    worker.written.extend(number for number in ids if number not in failed)
    if report.rows != _MANY or report.succeeded + len(failed) != _MANY:
        about["wrong"] = f"{_MANY} rows were given, and the report is {report!r}"[:400]


def _scan(worker: Worker) -> Op:
    part = worker.chance.randrange(WIDE)
    ask = worker.execute("scan", worker.prepared["scan"], (part,), page_size=_PAGE)
    outcome = yield ask
    if outcome.error is not None:
        return
    pages, tries = outcome.value.pages(), 0
    found: list[Any] = []
    while True:
        about = About()
        # `next_page` uses the time limit of the scan's first request for each page.
        outcome = yield Ask("scan, page", "next_page", ask.timeout_s, (pages,), about=about)
        if outcome.error is not None:
            tries += 1
            if tries == _PAGE_TRIES:
                return
            continue  # `next_page` requests the same page again
        if outcome.value is None:
            about["checked"] = len(found)
            fault = wide_fault(part, found)
            if fault is not None:
                about["wrong"] = fault
            return
        found += outcome.value


def _aside(worker: Worker) -> Op:
    number = worker.id()
    about = About(ids=[number], aside=True)
    outcome = yield worker.execute(
        "aside, write", worker.prepared["aside_write"], (number, value_of(number)), about=about
    )
    if outcome.error is not None:
        return
    about = About(aside=True)
    outcome = yield worker.execute(
        "aside, read", worker.prepared["aside_read"], (number,), about=about, read=_one
    )
    # The keyspace may have been dropped after the write, so a missing row is not wrong here.
    if outcome.error is None and outcome.value is not None:
        about["checked"] = 1
        if outcome.value.value != value_of(number):
            about["wrong"] = f"row {number} of the keyspace aside was read as {outcome.value!r}"


def _connect(worker: Worker) -> Op:
    """Opens a new session, uses it once and closes it."""
    outcome = yield Ask("connect", "connect", CONNECT_S)
    if outcome.error is not None:
        return
    session = outcome.value
    text = "SELECT cluster_name FROM system.local"
    yield worker.execute("read, new session", text, session=session, read=_one)
    options = {"timeout_s": CLOSE_S}
    yield Ask("close", "close", CLOSE_S, options=options, session=session)


KINDS: dict[Callable[[Worker], Op], float] = {
    _write: 30,
    _read: 24,
    _batch: 8,
    _count: 6,
    _count_batch: 2,
    _claim: 4,
    _set_version: 3,
    _version: 1,
    _many: 2,
    _scan: 1.5,
    _first_use: 3,
    _aside: 5,
    _connect: 0.15,
}
"""Maps each operation of the workload to its weight in random choices."""
