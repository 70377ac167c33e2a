"""Tests that the audit (`audit.py`) finds each kind of violation.

Each case begins with records and rows that have no violation, and then makes one of them wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.faults.audit import (
    LATE_S,
    RSS_MARGIN_MIB,
    Audit,
    Line,
    Recovery,
    judge_effects,
    judge_samples,
    judge_serial,
)
from tests.faults.faults import KINDS, PROXY, long_plan, short_plan
from tests.faults.records import About, Call, Recorder, Sample, Window, read_calls
from tests.faults.state import Chain, State
from tests.faults.stored import WIDE_ROWS, note_of, value_of, wide_fault
from tests.faults.table import Table, lines_table
from tests.faults.wire import Frames

from turbocql import errors

DROP = Window("drop keyspace", "node 1", 50.0, 60.0, "1")
AFTER = Window("none, after", "", 200.0, 300.0)


def call(number: int, kind: str, error: str | None = None, **about: object) -> Call:
    """Returns a call that took 10 ms and whose time limit is 2 s."""
    made = Call(number, kind, "sync", 100.0 + number, 2.0, 100.01 + number, error)
    note(made, **about)
    return made


def note(made: Call, **about: object) -> None:
    """Changes the `about` of a call."""
    made.about.update(about)  # type: ignore[typeddict-item]


def unknown(made: Call) -> Call:
    """Changes a call so that it may have applied, and returns the call."""
    made.may_have_applied = True
    return made


def good_calls() -> dict[str, Call]:
    """Returns a dict that maps names to records of calls. The records have no violation."""
    many: list[tuple[int, str, bool, bool]] = [
        (8, "WriteTimeout", True, True),
        (9, "Unavailable", False, True),
    ]
    calls = {
        "acknowledged": call(1, "write", ids=[1]),
        "refused": call(2, "write", "Unavailable", ids=[2]),
        "unknown": unknown(call(3, "write", "WriteTimeout", ids=[3])),
        "batch": call(4, "batch, logged", ids=[4, 5]),
        "many": call(5, "execute_many", ids=[7, 8, 9], failed=many),
        "counted": call(10, "counter", deltas=[(1, 3)]),
        "perhaps": unknown(call(11, "counter", "RequestTimeout", deltas=[(1, 2)])),
        "uncounted": call(12, "counter", "Unavailable", deltas=[(1, 100)]),
        "won": call(20, "claim", key=1, ids=[20], applied=True, existing=None),
        "lost": call(21, "claim", key=1, ids=[21], applied=False, existing=20),
        "claim, unknown": unknown(call(22, "claim", "CasWriteUnknown", key=2, ids=[22])),
        "claim, refused": call(23, "claim", "Unavailable", key=2, ids=[23]),
        "set": call(30, "compare-and-set", key=5, version=1, ids=[30], applied=True),
        "not set": call(31, "compare-and-set", key=5, version=1, ids=[31], applied=False),
        "read": call(40, "read", checked=1),
        "aside": call(41, "aside, write", ids=[41], aside=True),
        "aside, dropped": call(42, "aside, write", "InvalidQuery", ids=[42], aside=True),
        "aside, refused": call(43, "aside, write", "Unavailable", ids=[43], aside=True),
    }
    calls["aside, dropped"].begun, calls["aside, dropped"].ended = 55.0, 55.1
    return calls


def good_state() -> State:
    """Returns the rows that the nodes have stored after the calls of `good_calls`.

    Some of the calls with an unknown outcome have applied, and the others have not.
    """
    state = State()
    for number in (1, 3, 4, 5, 7):
        state.writes[number] = (value_of(number), note_of(number))
    state.aside[41] = value_of(41)
    state.counters[1] = 5
    state.claims.update({1: 20, 2: 22})
    state.chains[5] = Chain(1, {1: 30})
    return state


def audited(calls: dict[str, Call], state: State) -> list[Line]:
    """Converts the calls to JSON and back, audits them, and returns the lines of the audit."""
    audit = Audit([DROP])
    for one in calls.values():
        audit.take(Call.of(one.line()))
    return audit.judge(state)


def violated(lines: list[Line]) -> list[str]:
    """Returns the names of the lines with violations."""
    return [line.name for line in lines if line.violations]


def test_good_records_have_no_violations() -> None:
    lines = audited(good_calls(), good_state())
    assert violated(lines) == []
    assert all(line.checked for line in lines)


ENDED = "calls ended within timeout_s + 1 s"
TREE = "errors are of turbocql's tree"
CLASSES = "errors are of classes that the faults explain"
ANSWERS = "answers are what was asked for, and show what was acknowledged"
PRESENT = "acknowledged writes are readable"
ABSENT = "writes with may_have_applied=False are not there"
ROWS = "rows are what was written"
ASIDE = "the three lines above, for the keyspace that was dropped and made again"
COUNTERS = "counters are within what was acknowledged and what may have applied"
CLAIMS = "one winner per claim, and a read shows it"
CHAINS = "one winner per compare-and-set, and a read shows it"


def row(number: int) -> tuple[int, str]:
    return value_of(number), note_of(number)


def end_late(one: Call, by: float) -> None:
    one.ended = one.begun + one.timeout_s + LATE_S + by


Doctor = Callable[[dict[str, Call], State], object]

DOCTORED: dict[str, tuple[Doctor, str]] = {
    "a lost write": (lambda calls, state: state.writes.pop(1), PRESENT),
    "a lost row of a batch": (lambda calls, state: state.writes.pop(5), PRESENT),
    "a lost row of many": (lambda calls, state: state.writes.pop(7), PRESENT),
    "a refused write that applied": (lambda c, state: state.writes.update({2: row(2)}), ABSENT),
    "a refused row of many that applied": (
        lambda calls, state: state.writes.update({9: row(9)}),
        ABSENT,
    ),
    "another value": (lambda c, state: state.writes.update({1: (7, note_of(1))}), ROWS),
    "another note": (lambda c, state: state.writes.update({1: (value_of(1), "")}), ROWS),
    "a row that nobody wrote": (lambda c, state: state.writes.update({99: row(99)}), ROWS),
    "a late call": (lambda calls, state: end_late(calls["read"], 0.01), ENDED),
    "a call that hangs": (lambda calls, state: setattr(calls["read"], "ended", None), ENDED),
    "an error of another tree": (
        lambda calls, state: vars(calls["read"]).update(error="KeyError", in_tree=False),
        TREE,
    ),
    "an error that nothing explains": (
        lambda calls, state: setattr(calls["refused"], "error", "InvalidQuery"),
        CLASSES,
    ),
    "an error of a keyspace that is there": (
        lambda calls, state: setattr(calls["aside, refused"], "error", "InvalidQuery"),
        CLASSES,
    ),
    "a row of many with such an error": (
        lambda calls, state: note(
            calls["many"], failed=[(8, "EncodeError", True, True), (9, "Unavailable", False, True)]
        ),
        CLASSES,
    ),
    "a wrong answer": (lambda c, state: note(c["read"], wrong="another row"), ANSWERS),
    "a lost row of the other keyspace": (lambda calls, state: state.aside.pop(41), ASIDE),
    "a refused row of the other keyspace": (
        lambda calls, state: state.aside.update({43: value_of(43)}),
        ASIDE,
    ),
    "a lost count": (lambda calls, state: state.counters.update({1: 2}), COUNTERS),
    "a count twice": (lambda calls, state: state.counters.update({1: 6}), COUNTERS),
    "a counter that nobody counted": (lambda c, state: state.counters.update({2: 1}), COUNTERS),
    "two winners": (lambda c, state: note(c["lost"], applied=True), CLAIMS),
    "a winner that is not shown": (lambda calls, state: state.claims.pop(1), CLAIMS),
    "another winner is shown": (lambda calls, state: state.claims.update({1: 21}), CLAIMS),
    "a refused claim that applied": (lambda c, state: state.claims.update({2: 23}), CLAIMS),
    "another winner was reported": (lambda c, state: note(c["lost"], existing=21), CLAIMS),
    "two winners of a version": (
        lambda calls, state: note(calls["not set"], applied=True),
        CHAINS,
    ),
    "a version that is lost": (
        lambda calls, state: state.chains.update({5: Chain(0, {})}),
        CHAINS,
    ),
    "a version that was not applied": (
        lambda calls, state: state.chains.update({5: Chain(1, {1: 31})}),
        CHAINS,
    ),
    "a version without a winner": (
        lambda calls, state: state.chains.update({5: Chain(2, {1: 30})}),
        CHAINS,
    ),
}


@pytest.mark.parametrize("name", DOCTORED)
def test_each_kind_of_violation_is_found(name: str) -> None:
    doctor, expected = DOCTORED[name]
    calls, state = copy.deepcopy(good_calls()), good_state()
    doctor(calls, state)
    lines = audited(calls, state)
    assert violated(lines) == [expected]
    assert expected in lines_table(lines)
    assert "violations" in lines_table(lines)


def test_calls_of_lost_and_of_refused_rows_are_named() -> None:
    audit, state = Audit([DROP]), good_state()
    del state.writes[1]
    state.writes[2] = row(2)
    for one in good_calls().values():
        audit.take(one)
    audit.judge(state)
    assert audit.named == [1, 2]


def test_a_call_is_late_only_beyond_the_allowance() -> None:
    calls = good_calls()
    end_late(calls["read"], -0.01)
    assert violated(audited(calls, good_state())) == []


BEFORE = Sample(100.0, 30, 110, 100, 0, 6)


@pytest.mark.parametrize(
    ("name", "by"),
    [("descriptors", 1), ("threads", 1), ("tasks", 1), ("in_flight", 1), ("connections", -1)],
)
def test_resources_that_are_not_freed_are_found(name: str, by: int) -> None:
    assert violated(judge_samples(BEFORE, BEFORE)) == []
    after = replace(BEFORE, **{name: getattr(BEFORE, name) + by})
    (found,) = violated(judge_samples(BEFORE, after))
    assert name.replace("_", " ") in found


def test_memory_growth_beyond_the_margin_is_found() -> None:
    grown = replace(BEFORE, rss_mib=BEFORE.rss_mib + RSS_MARGIN_MIB)
    assert violated(judge_samples(BEFORE, grown)) == []
    grown = replace(BEFORE, rss_mib=BEFORE.rss_mib + RSS_MARGIN_MIB + 1)
    assert len(violated(judge_samples(BEFORE, grown))) == 1


def recovery_of(calls: list[Call]) -> list[int]:
    """Returns the number of violations of each line about the time after the faults."""
    recovery = Recovery([AFTER])
    for one in calls:
        recovery.take(one)
    return [len(line.violations) for line in recovery.judge()]


def test_a_session_that_does_not_recover_is_found() -> None:
    calls = [call(number, "read") for number in range(101, 200)]
    assert recovery_of(calls) == [0, 0]
    assert recovery_of([*calls, call(101, "read", "ConnectionLost")]) == [0, 1]
    late = [call(number, "read", "RequestTimeout") for number in range(101, 110)]
    assert recovery_of([*calls, *late]) == [1, 0]
    before = [call(number, "read", "ConnectionLost") for number in range(1, 99)]
    assert recovery_of([*calls, *before]) == [0, 0]
    assert recovery_of([]) == [1, 0]


def test_a_fault_without_an_effect_is_found() -> None:
    good = [Window("cut", "", 1.0, 2.0, "0"), Window("cut", "", 3.0, 4.0, "2"), AFTER]
    assert judge_effects(good).violations == []
    assert len(judge_effects([*good, Window("drop", "", 5.0, 6.0, "0")]).violations) == 1


def test_another_winner_at_serial_is_found() -> None:
    assert judge_serial(good_state(), {1: 20, 3: None}).violations == []
    assert len(judge_serial(good_state(), {1: 21, 3: 4}).violations) == 2


Scanned = list[tuple[int, int, str]]


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        (lambda rows: None, 0),
        # The write of row 8 may have applied. In this case it is applied after the nodes have been
        # read and before the scan.
        (lambda rows: rows.append((8, *row(8))), 0),
        (lambda rows: rows.append((8, value_of(8), note_of(9))), 1),
        (lambda rows: rows.append((2, *row(2))), 1),
        (lambda rows: rows.append((99, *row(99))), 1),
        (lambda rows: rows.append(rows[0]), 1),
        (lambda rows: rows.clear(), 5),
        (lambda rows: rows.pop(), 1),
    ],
)
def test_a_scan_with_other_rows_is_found(change: Callable[[Scanned], object], faults: int) -> None:
    audit, state = Audit([DROP]), good_state()
    for one in good_calls().values():
        audit.take(one)
    rows: Scanned = [(number, *row(number)) for number in state.writes]
    change(rows)
    assert len(audit.judge_scan(state, rows).violations) == faults


def test_an_incomplete_wide_partition_is_found() -> None:
    rows = [(place, value_of(place)) for place in range(WIDE_ROWS)]
    assert wide_fault(0, rows) is None
    assert wide_fault(0, rows[:-1])
    assert wide_fault(0, [*rows[:-2], rows[-1], rows[-2]])
    assert wide_fault(0, [*rows[:-1], rows[-2]])


def test_records_of_errors(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "calls.jsonl")
    refused, broken, hung = (recorder.begin("write", "sync", 2.0, About()) for _ in range(3))
    error = errors.WriteTimeout("too few")
    error.may_have_applied = True
    refused.failed_with(error)
    broken.failed_with(KeyError("x"))
    for one in (refused, broken):
        one.ended = one.begun + 0.5
        recorder.end(one)
    assert recorder.open_calls() == [hung]
    recorder.close()
    first, second, third = read_calls(tmp_path / "calls.jsonl")
    assert (first.error, first.in_tree, first.may_have_applied) == ("WriteTimeout", True, True)
    assert (second.error, second.in_tree) == ("KeyError", False)
    assert first.is_unknown
    assert second.is_unknown
    assert third.is_unknown
    assert not third.answered
    assert "KeyError" in str(second)


def test_a_call_is_counted_at_each_fault_during_it() -> None:
    windows = [Window("cut", "", 100.0, 101.5, "3"), Window("drop", "", 101.0, 102.5, "4")]
    table = Table(windows)
    met_both, met_one, met_none = call(1, "read"), call(2, "read", "ConnectionLost"), call(9, "x")
    for one in (met_both, met_one, met_none):
        table.take(one)
    lines = table.markdown().splitlines()
    assert lines[2].startswith("| cut | 1 | 2 | 3 | 0 | 1 | 100.00% |")
    assert lines[3].startswith("| drop | 1 | 2 | 4 | 0 | 2 | 50.00% | ConnectionLost 1 |")
    assert lines[4].startswith("| all |  |  |  |  | 3 | 66.67% |")


def test_plans_follow_the_seed_and_have_every_kind() -> None:
    assert short_plan("1") == short_plan("1")
    assert short_plan("1") != short_plan("2")
    short = {fault.kind for step in short_plan("1") for fault in step.faults}
    assert short >= set(KINDS) - {"kill two", "rolling restart"}
    one, two = long_plan("1"), long_plan("1")
    steps = [next(one) for _ in range(len(KINDS) + len(PROXY))]
    assert steps == [next(two) for _ in steps]
    assert {fault.kind for step in steps for fault in step.faults} >= set(KINDS)


@pytest.mark.parametrize("size", [1, 3, 8, 9, 10, 11, 100])
def test_frames_are_found_in_chunks_of_any_size(size: int) -> None:
    bodies = [b"", b"abc", b"", b"x" * 50]
    frames = [b"\x04\x00\x00\x00\x05" + len(body).to_bytes(4, "big") + body for body in bodies]
    stream = b"".join(frames)
    splitter, pieces = Frames(), []
    for start in range(0, len(stream), size):
        pieces += list(splitter.split(stream[start : start + size]))
    assert b"".join(piece for _, piece in pieces) == stream
    assert sum(begins for begins, _ in pieces) == len(frames)
    assert splitter.is_between
