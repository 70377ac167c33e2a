"""The audit: compares the records of all calls of the workload with the rows that the nodes store.

The workload, called "the load", makes calls of turbocql during faults (`calls.py`, `load.py`).

A claim is a row that several calls try to insert with `IF NOT EXISTS`. A chain is a row whose
version the calls increase, one by one, with `IF version = ?`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.records import Call, Sample, Window
from tests.faults.state import Chain, State
from tests.faults.stored import check_row, value_of

__all__ = [
    "LATE_S",
    "RSS_MARGIN_MIB",
    "Audit",
    "Line",
    "Recovery",
    "judge_effects",
    "judge_samples",
    "judge_serial",
]

LATE_S = 1.0
"""A call may end at most this many seconds after its time limit."""
RSS_MARGIN_MIB = 48.0
"""The resident memory may be at most this many MiB larger after the faults than before them.

The native allocator keeps the pages that a thread has used, for each thread and size class. So the
margin has about half a MiB for each of 100 threads. A leak of 50 bytes per call exceeds the margin
after about a million calls. `soak.py`, the long form of the audit, makes that many calls.
"""
RECOVERED_SHARE = 0.95
"""The share of calls that must be answered after all faults. It is not 1, because 200 callers on
few processors cause server timeouts."""
UNREACHED = frozenset({"ConnectError", "ConnectionLost", "NoHostAvailable"})
"""Classes of errors that no call may have after the faults."""

UNEXPECTED = frozenset(
    {
        "AlreadyExists",
        "BadCredentials",
        "ClosedError",
        "ConfigError",
        "CqlSyntaxError",
        "DecodeError",
        "EncodeError",
        "InvalidQuery",
        "InvalidSchema",
        "ProtocolViolation",
        "RangeError",
        "RequestError",
        "ServerInternalError",
        "Unauthorized",
        "UnreadableAnswer",
        "Unprepared",
    }
)
"""Classes of turbocql's errors that no fault explains, with one exception. Calls with
`about["aside"]` use the keyspace that a fault drops and creates again. They may have such errors
while this keyspace is dropped."""


@dataclass
class Line:
    """One line of the report: an audited property, the number of its cases, and its violations."""

    name: str
    checked: int = 0
    violations: list[str] = field(default_factory=list)

    def check(self, fault: str | None) -> None:
        """Counts a case. `fault` describes the violation, or is `None` if the case is right."""
        self.checked += 1
        if fault is not None:
            self.violations.append(fault)


@dataclass
class _Key:
    """The conditional updates that competed for one claim, or for one version of a chain."""

    winners: list[Call] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    losers: list[Call] = field(default_factory=list)


class Audit:
    """Collects the records of the calls, then compares them with the stored rows."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = windows
        self._drops = [window for window in windows if window.kind == "drop keyspace"]
        self._last_drop = max((window.ended for window in self._drops), default=0.0)
        self._present: dict[int, int] = {}
        self._absent: dict[int, int] = {}
        self._unknown: set[int] = set()
        self._aside_present: set[int] = set()
        self._aside_absent: set[int] = set()
        self._aside_unknown: set[int] = set()
        self._acknowledged: defaultdict[int, int] = defaultdict(int)
        self._perhaps: defaultdict[int, int] = defaultdict(int)
        self._claims: defaultdict[int, _Key] = defaultdict(_Key)
        self._sets: defaultdict[tuple[int, int], _Key] = defaultdict(_Key)
        self._ended = Line(f"calls ended within timeout_s + {LATE_S:g} s")
        self._tree = Line("errors are of turbocql's tree")
        self._classes = Line("errors are of classes that the faults explain")
        self.named: list[int] = []
        """The numbers of the calls that the texts of violations name."""
        self._answers = Line("answers are what was asked for, and show what was acknowledged")

    # These methods read the records of the calls.

    def take(self, call: Call) -> None:
        """Adds the record of a call."""
        self._judge_end(call)
        about = call.about
        if "checked" in about or "wrong" in about:
            wrong = about.get("wrong")
            self._answers.checked += max(0, about.get("checked", 1) - 1)
            self._answers.check(None if wrong is None else f"{wrong}: {call}")
        if "deltas" in about:
            for key, by in about["deltas"]:
                if call.answered:
                    self._acknowledged[key] += by
                elif call.is_unknown:
                    self._perhaps[key] += by
        elif "key" in about:
            self._take_conditional(call)
        elif "ids" in about:
            self._take_write(call)

    def _judge_end(self, call: Call) -> None:
        late = call.ended is None or call.ended - call.begun > call.timeout_s + LATE_S
        self._ended.check(str(call) if late else None)
        errors = [(call.error, call.in_tree)] if call.error is not None else []
        errors += [(error, in_tree) for _, error, _, in_tree in call.about.get("failed", [])]
        for error, in_tree in errors:
            self._tree.check(None if in_tree else str(call))
            explained = error not in UNEXPECTED or (
                call.about.get("aside", False) and any(drop.covers(call) for drop in self._drops)
            )
            self._classes.check(None if explained or not in_tree else str(call))

    def _take_write(self, call: Call) -> None:
        aside = call.about.get("aside", False)
        if aside and call.begun <= self._last_drop:
            # The write may have been before or after the keyspace was dropped and created again.
            # So the row may be missing or present.
            self._aside_unknown.update(call.about["ids"])
            return
        failed = {number: may for number, _, may, _ in call.about.get("failed", [])}
        for number in call.about["ids"]:
            if call.is_unknown or failed.get(number, False):
                (self._aside_unknown if aside else self._unknown).add(number)
            elif call.answered and number not in failed:
                if aside:
                    self._aside_present.add(number)
                else:
                    self._present[number] = call.number
            elif aside:
                self._aside_absent.add(number)
            else:
                self._absent[number] = call.number

    def _take_conditional(self, call: Call) -> None:
        about = call.about
        version = about.get("version")
        key = self._claims[about["key"]] if version is None else self._sets[(about["key"], version)]
        if call.answered and about.get("applied"):
            key.winners.append(call)
        elif call.is_unknown:
            key.unknown.update(about["ids"])
        else:
            key.losers.append(call)

    def condition_keys(self) -> tuple[list[int], list[int]]:
        """Returns the keys of claims and the keys of chains."""
        return sorted(self._claims), sorted({key for key, _ in self._sets})

    @property
    def rows(self) -> int:
        """The approximate number of rows in the table `writes`."""
        return len(self._present) + len(self._unknown)

    # These methods judge the rows that the nodes have stored.

    def judge(self, state: State) -> list[Line]:
        """Returns the lines about the ends, errors and answers of calls, and about the rows."""
        return [
            self._ended,
            self._tree,
            self._classes,
            self._answers,
            *self._judge_writes(state),
            *self._judge_aside(state),
            self._judge_counters(state),
            self._judge_claims(state),
            self._judge_chains(state),
        ]

    def _judge_writes(self, state: State) -> list[Line]:
        present = Line("acknowledged writes are readable")
        for number, call in self._present.items():
            lost = number not in state.writes
            present.check(f"row {number} is lost; call {call} was acknowledged" if lost else None)
            if lost:
                self.named.append(call)
        absent = Line("writes with may_have_applied=False are not there")
        for number, call in self._absent.items():
            there = number in state.writes
            absent.check(
                f"row {number} is there; call {call} failed with may_have_applied=False"
                if there
                else None
            )
            if there:
                self.named.append(call)
        whole = Line("rows are what was written")
        for number, (value, note) in state.writes.items():
            fault = check_row(number, value, note)
            known = number in self._present or number in self._unknown or number in self._absent
            if fault is None and not known:
                fault = f"row {number} is there, and no call wrote it"
            whole.check(fault)
        return [present, absent, whole]

    def judge_scan(self, state: State, rows: Iterable[tuple[int, int, str]]) -> Line:
        """Compares the rows of a scan by turbocql with the rows that the nodes had before the scan.

        The scan may return a row that the nodes did not have if the row's write had an unknown
        outcome. The reason is that Cassandra replays unfinished batches and missed writes (hints)
        later, perhaps just before the scan.
        """
        line = Line("a scan by turbocql has all rows, each once")
        found = set()
        for number, value, note in rows:
            fault = f"row {number} comes twice" if number in found else None
            if fault is None and number not in state.writes:
                fault = check_row(number, value, note)
                if number not in self._unknown:
                    fault = f"row {number} is in the scan, and the nodes did not have it"
            line.check(fault)
            found.add(number)
        for number in state.writes.keys() - found:
            line.check(f"row {number} is not in the scan, and the nodes have it")
        return line

    def _judge_aside(self, state: State) -> list[Line]:
        line = Line("the three lines above, for the keyspace that was dropped and made again")
        for number in self._aside_present:
            lost = number not in state.aside
            line.check(f"row {number} of the keyspace aside is lost" if lost else None)
        for number in self._aside_absent:
            there = number in state.aside
            line.check(f"row {number} of the keyspace aside should not be there" if there else None)
        known = self._aside_present | self._aside_unknown | self._aside_absent
        for number, value in state.aside.items():
            good = number in known and value == value_of(number)
            line.check(None if good else f"row {number} of the keyspace aside is {value!r}")
        return [line]

    def _judge_counters(self, state: State) -> Line:
        line = Line("counters are within what was acknowledged and what may have applied")
        for key in sorted({*self._acknowledged, *self._perhaps, *state.counters}):
            least = self._acknowledged[key]
            most, n = least + self._perhaps[key], state.counters.get(key, 0)
            good = least <= n <= most
            line.check(None if good else f"counter {key} is {n}, expected {least} to {most}")
        return line

    def _judge_claims(self, state: State) -> Line:
        line = Line("one winner per claim, and a read shows it")
        for key in sorted({*self._claims, *state.claims}):
            calls, winner = self._claims[key], state.claims.get(key)
            line.check(_condition_fault(f"claim {key}", calls, winner))
            for loser in calls.losers:
                if loser.answered:
                    told = loser.about.get("existing")
                    line.check(
                        None
                        if told == winner
                        else f"claim {key}: its winner is {winner}, and was reported as {told} to"
                        f" {loser}"
                    )
        return line

    def _judge_chains(self, state: State) -> Line:
        line = Line("one winner per compare-and-set, and a read shows it")
        versions = {
            *self._sets,
            *((key, version) for key, chain in state.chains.items() for version in chain.winners),
        }
        nothing = Chain(0, {})
        for key, version in sorted(versions):
            chain = state.chains.get(key, nothing)
            name = f"version {version} of chain {key}"
            line.check(
                _condition_fault(name, self._sets[(key, version)], chain.winners.get(version))
            )
        for key, chain in state.chains.items():
            expected = list(range(1, chain.version + 1))
            line.check(
                None
                if sorted(chain.winners) == expected
                else f"chain {key} is at version {chain.version}, and its winners are those of"
                f" {sorted(chain.winners)}"
            )
        return line


def _condition_fault(name: str, calls: _Key, winner: int | None) -> str | None:
    """Returns a message if the outcome of one condition is wrong, and `None` if it is right."""
    won = {call.about["ids"][0] for call in calls.winners}
    if len(calls.winners) > 1:
        told = "\n  ".join(str(call) for call in calls.winners)
        return f"{name} has {len(calls.winners)} winners:\n  {told}"
    if won and winner not in won:
        return f"{name}: a read shows {winner}, and this call was told that it won:" + (
            f"\n  {calls.winners[0]}"
        )
    if winner is not None and winner not in won and winner not in calls.unknown:
        loser = [str(call) for call in calls.losers if call.about["ids"] == [winner]]
        return f"{name}: a read shows {winner}, whose call was not applied:\n  {loser or 'no call'}"
    return None


def judge_serial(state: State, told: Mapping[int, int | None]) -> Line:
    """Compares the winners that turbocql read at consistency SERIAL with the rows of `claims`."""
    line = Line("a read at SERIAL by turbocql shows the winner of a claim")
    for key, winner in told.items():
        there = state.claims.get(key)
        line.check(
            None
            if winner == there
            else f"claim {key}: the driver's read at SERIAL shows {winner}, the nodes have {there}"
        )
    return line


def judge_samples(before: Sample, after: Sample) -> list[Line]:
    """Compares the resources that the load's process held before and after the faults.

    Memory may grow by `RSS_MARGIN_MIB`. All other numbers must be equal.
    """
    lines = []
    for name in ("descriptors", "threads", "tasks", "in_flight", "connections"):
        was, now = getattr(before, name), getattr(after, name)
        line = Line(f"{name.replace('_', ' ')} are where they were: {was} before, {now} after")
        line.check(None if now == was else f"{name}: {was} before the faults, {now} after them")
        lines.append(line)
    grown = after.rss_mib - before.rss_mib
    line = Line(
        f"resident memory is where it was: {before.rss_mib:.0f} MiB before, {after.rss_mib:.0f}"
        f" after, {RSS_MARGIN_MIB:g} allowed"
    )
    line.check(None if grown <= RSS_MARGIN_MIB else f"resident memory has grown by {grown:.0f} MiB")
    return [*lines, line]


def judge_effects(windows: Sequence[Window]) -> Line:
    """Checks that each kind of fault hit something, such as a connection."""
    line = Line("each kind of fault hit something")
    effects: defaultdict[str, int] = defaultdict(int)
    for window in windows:
        if window.effect:
            effects[window.kind] += int(window.effect)
    for kind, effect in effects.items():
        line.check(None if effect else f"{kind} did nothing")
    return line


class Recovery:
    """Checks the calls that began after all faults had ended."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._after = [window for window in windows if window.kind == "none, after"]
        self._calls = 0
        self._failed: list[Call] = []
        self._reached = Line("after the faults every node is reached")

    def take(self, call: Call) -> None:
        """Adds the record of a call."""
        if any(window.begun <= call.begun <= window.ended for window in self._after):
            self._calls += 1
            if not call.answered:
                self._failed.append(call)
            self._reached.check(str(call) if call.error in UNREACHED else None)

    def judge(self) -> list[Line]:
        """Returns the lines of the audit about the time after the faults."""
        line = Line(f"after the faults {RECOVERED_SHARE:.0%} of calls are answered", self._calls)
        if len(self._failed) > self._calls * (1 - RECOVERED_SHARE):
            examples = "\n  ".join(str(call) for call in self._failed[:5])
            line.violations.append(
                f"{len(self._failed)} of {self._calls} calls failed, such as:\n  {examples}"
            )
        if not self._calls:
            line.violations.append("there was no call")
        return [line, self._reached]
