"""The report's sections on the codec: a table, why cells are empty, the floors, missed targets."""

from __future__ import annotations

from typing import Any

from report_data import OURS, RIVALS, STOCK, CodecCase, Loss, Shortfall, number, table
from targets import CODEC

__all__ = ["codec_floors", "codec_section", "losses", "missed", "shortfalls"]


def _us(ns: float | None) -> str:
    return number(None if ns is None else ns / 1000)


def codec_section(cases: list[CodecCase]) -> list[str]:
    """Every case, ours and the rivals', in microseconds."""
    rows = []
    for case in cases:
        ours, stock = case.ns.get(OURS), case.stock
        ratio = None if ours is None or stock is None else stock / ours
        verdict = case.verdict
        rows.append(
            [
                case.name,
                _us(ours),
                *[_us(case.ns.get(rival)) for rival in RIVALS],
                number(ratio),
                _us(min(case.floors.values(), default=None)),
                CODEC[case.name].text if case.name in CODEC else "-",
                "-" if verdict is None else verdict.word,
                "-" if verdict is None else verdict.how,
            ]
        )
    head = ["case, us", OURS, *RIVALS, f"ratio to {STOCK}", "floor", "target", "met", "how"]
    judged = [case.verdict for case in cases if case.verdict is not None]
    judged = [verdict for verdict in judged if verdict.measured]
    met = sum(verdict.met for verdict in judged)
    by_floor = sum(verdict.only_by_floor for verdict in judged)
    lines = table(head, rows)
    lines += [
        f"Targets met: {met} of the {len(judged)} that can be judged. Met only by the floor:"
        f" {by_floor}.",
        "",
    ]
    empty = [
        f"- {case.name}: {client}: {note}"
        for case in cases
        for client, note in case.notes.items()
        if client not in case.ns
    ]
    if empty:
        lines += ["Without a figure:", "", *empty, ""]
    return lines


def codec_floors(cases: list[CodecCase]) -> list[str]:
    """What each floor does, and what it took."""
    rows = [
        [case.name, note, _us(ns)]
        for case in cases
        for note, ns in sorted(case.floors.items(), key=lambda floor: floor[1])
    ]
    return table(["case", "what its floor does", "us"], rows)


def losses(cases: list[CodecCase]) -> list[Loss]:
    """Cases in which a rival is faster."""
    return [
        Loss(case.name, "CPU, us", case.spreads[OURS], rival, case.spreads[rival])
        for case in cases
        for rival in RIVALS
        if OURS in case.ns and rival in case.ns and case.ns[rival] < case.ns[OURS]
    ]


def shortfalls(cases: list[CodecCase]) -> list[Shortfall]:
    """Cases that turbocql cannot run, and targets that it misses."""
    found = []
    for case in cases:
        if OURS not in case.ns:
            # Without a note, it was not measured.
            if case.notes.get(OURS):
                found.append(Shortfall(f"{case.name}: turbocql cannot: {case.notes[OURS]}"))
            continue
        verdict = case.verdict
        if verdict is not None and verdict.missed:
            took = f"turbocql takes {case.spreads[OURS]} us"
            target = CODEC[case.name].text
            found.append(Shortfall(f"{case.name}: target ({target}): {verdict.how}; {took}"))
    return found


def missed(cases: list[CodecCase], profiles: dict[str, Any]) -> list[str]:
    """For each missed target: floors of the same run, and where its instructions go."""
    lines = []
    for case in cases:
        verdict = case.verdict
        if verdict is None or not verdict.missed:
            continue
        lines += [
            f"### {case.name}",
            "",
            f"turbocql takes {_us(case.ns[OURS])} us; the target is {CODEC[case.name].text}:"
            f" {verdict.how}.",
            "",
            *[f"- floor: {note}: {_us(ns)} us" for note, ns in case.floors.items()],
            "",
        ]
        profile = profiles.get(case.name)
        if profile is None:
            lines += ["No profile is recorded.", ""]
            continue
        if profile.get("floor"):
            lines += [profile["floor"], ""]
        lines += [
            "Instructions by function, counted by callgrind under the first interpreter:",
            "",
            "```",
        ]
        lines += [*profile["lines"], "```", ""]
    return lines
