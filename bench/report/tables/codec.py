"""Tables of the codec: every case, the reasons for empty cells, and the floors."""

from __future__ import annotations

from bench.harness.spread import number
from bench.report.markdown import table
from bench.report.model import OURS, RIVALS, STOCK, CodecCase, Loss

__all__ = ["codec_floors", "codec_section", "failures", "losses", "us"]


def us(ns: float | None) -> str:
    """Formats nanoseconds as microseconds."""
    return number(None if ns is None else ns / 1000)


def codec_section(cases: list[CodecCase]) -> list[str]:
    """Returns a table of every case, with turbocql and the rivals, in microseconds."""
    rows = []
    for case in cases:
        ours, stock = case.ns.get(OURS), case.stock
        ratio = None if ours is None or stock is None else stock / ours
        rows.append(
            [
                case.name,
                us(ours),
                *[us(case.ns.get(rival)) for rival in RIVALS],
                number(ratio),
                us(min(case.floors.values(), default=None)),
            ]
        )
    lines = table(["case, us", OURS, *RIVALS, f"ratio to {STOCK}", "floor"], rows)
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
    """Returns a table of the floors. A floor is C code that does a part of a case's work."""
    rows = [
        [case.name, note, us(ns)]
        for case in cases
        for note, ns in sorted(case.floors.items(), key=lambda floor: floor[1])
    ]
    return table(["case", "what its floor does", "us"], rows)


def losses(cases: list[CodecCase]) -> list[Loss]:
    """Returns the cases in which a rival is faster."""
    return [
        Loss(case.name, "CPU, us", case.spreads[OURS], rival, case.spreads[rival])
        for case in cases
        for rival in RIVALS
        if OURS in case.ns and rival in case.ns and case.ns[rival] < case.ns[OURS]
    ]


def failures(cases: list[CodecCase]) -> list[str]:
    """Returns the cases that turbocql cannot run. The note of such a case has the reason."""
    return [
        f"{case.name}: turbocql cannot: {case.notes[OURS]}"
        for case in cases
        if OURS not in case.ns and case.notes.get(OURS)
    ]
