"""Decides which targets the samples meet, and lists the floors of missed targets."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.harness.samples import Sample
from bench.harness.spread import against, number
from bench.report.markdown import table
from bench.report.model import FLOOR, OURS, STOCK, CodecCase, Endpoint
from bench.report.tables.accelerator import OWN, tables
from bench.report.tables.codec import us
from bench.report.tables.requests import find, usual
from bench.report.tables.whole_tables import rounds_of
from bench.report.targets.goals import ACCELERATOR, CODEC, END_TO_END, EndToEnd, Verdict, judge
from bench.suites.tables.cases import SHAPES

__all__ = [
    "accelerator_targets",
    "codec_targets",
    "request_targets",
    "request_verdicts",
    "table_targets",
    "whole_table_verdicts",
]

_MAX_FACTOR = 1.3
_MAX_MIB = 300e6 / 2**20


def codec_verdict(case: CodecCase) -> Verdict | None:
    """Judges a case. Returns None if it has no target or turbocql was not measured."""
    if case.name not in CODEC or OURS not in case.ns:
        return None
    return judge(CODEC[case.name], case.ns[OURS], case.stock, case.floors)


def codec_targets(cases: list[CodecCase], profiles: dict[str, Any]) -> list[str]:
    """Returns a table of the codec's targets, then each missed target with its floors."""
    verdicts = {case.name: codec_verdict(case) for case in cases}
    judged = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    rows = [
        [name, CODEC[name].text, judgement.word, judgement.how]
        for name, judgement in judged.items()
    ]
    measured = [verdict for verdict in judged.values() if verdict.measured]
    met = sum(verdict.met for verdict in measured)
    by_floor = sum(verdict.only_by_floor for verdict in measured)
    lines = table(["case", "target", "met", "how"], rows)
    lines += [
        f"Targets met: {met} of the {len(measured)} that can be judged. Met only by the floor:"
        f" {by_floor}.",
        "",
    ]
    for case in cases:
        if case.name in judged and judged[case.name].missed:
            lines += _missed_case(case, judged[case.name], profiles.get(case.name))
    return lines


def _missed_case(case: CodecCase, verdict: Verdict, profile: Any) -> list[str]:
    lines = [f"### Missed: {case.name}", ""]
    lines += [
        f"turbocql takes {case.spreads[OURS]} us; the target is {CODEC[case.name].text}:"
        f" {verdict.how}.",
        "",
        *[f"- floor: {note}: {us(ns)} us" for note, ns in case.floors.items()],
        "",
    ]
    return lines + _profiled(profile)


def _profiled(profile: Any) -> list[str]:
    if profile is None:
        return []
    head = [profile["floor"], ""] if profile.get("floor") else []
    return [*head, "```", *profile["lines"], "```", ""]


def _least(
    points: list[Endpoint], scenario: str, shapes: tuple[str, ...], client: str
) -> Endpoint | None:
    """Returns the client's endpoint with the least processor time in these shapes, or None."""
    measured = [find(points, scenario, shape, client) for shape in shapes]
    return min(
        (judgement for judgement in measured if judgement is not None),
        key=lambda p: p.cpu_us,
        default=None,
    )


def _floor(points: list[Endpoint], target: EndToEnd) -> Endpoint | None:
    shapes = target.floor_shapes or (target.shape,)
    return _least(points, target.scenario, shapes, target.floor_client)


def _cpu(point: Endpoint | None) -> float | None:
    return None if point is None else point.cpu_us


@dataclass(frozen=True)
class Judged:
    """A target of requests, and whether it is met."""

    name: str
    target: EndToEnd
    verdict: Verdict


def request_verdicts(points: list[Endpoint]) -> list[Judged]:
    """Judges each target of requests. If turbocql was not measured, the verdict says so."""
    judged = []
    for target in END_TO_END:
        ours = find(points, target.scenario, target.shape, OURS)
        name = f"{target.scenario}, {target.shape}"
        if ours is None:
            judged.append(Judged(name, target, Verdict(False, "-", measured=False)))
            continue
        rival = find(points, target.scenario, target.shape, target.below)
        stock = _least(points, target.scenario, target.stock_shapes, STOCK)
        floor = _floor(points, target)
        verdict = target.judge(ours.cpu_us, _cpu(rival), _cpu(stock), _cpu(floor))
        compared = rival if target.below else stock
        if compared is not None:
            figures = against(ours.spreads["cpu_us"], compared.spreads["cpu_us"], "us")
            verdict = replace(verdict, how=f"{verdict.how}: {figures}")
        judged.append(Judged(name, target, verdict))
    return judged


def request_targets(endpoints: list[Endpoint], profiles: dict[str, Any]) -> list[str]:
    """Returns a table of the targets of requests, then each missed target with its floor."""
    points = usual(endpoints)
    judged = request_verdicts(points)
    rows = [
        [judgement.name, judgement.target.text, judgement.verdict.word, judgement.verdict.how]
        for judgement in judged
    ]
    lines = table(["scenario and shape", "target", "met", "how"], rows)
    for judgement in judged:
        if not judgement.verdict.missed:
            continue
        lines += [
            f"### Missed: {judgement.name}",
            "",
            f"{judgement.target.text}: {judgement.verdict.how}.",
            "",
        ]
        lines += [judgement.target.limit, ""] if judgement.target.limit else []
        floor = _floor(points, judgement.target)
        if floor is not None:
            what = floor.note.removeprefix("floor: ")
            what = "the engine, called from Rust" if floor.client == FLOOR else what
            lines += [f"- floor: {what}: {floor.spreads['cpu_us']} us", ""]
        lines += _profiled(profiles.get(f"{judgement.target.scenario} {judgement.target.shape}"))
    return lines


def accelerator_targets(samples: list[Sample]) -> list[str]:
    """Lists the cases that miss their target.

    A case without a target is listed if the accelerator makes it slower, unless it is in `OWN`.
    """
    lines = []
    for title, rows in tables(samples).items():
        # Latencies have no targets.
        goals = {} if title.startswith("Requests to a server, ms") else ACCELERATOR
        missed = [row for row in rows if row.ratio < goals.get(row.name, 1)]
        points = [
            f"- {row.name}, {row.driver}: {number(row.ratio)}x,"
            f" wanted {goals.get(row.name, 1):g}x{row.within}"
            for row in missed
            if row.name not in OWN
        ]
        count = sum(row.name in goals for row in rows)
        lines += [f"**{title}** ({count} rows with a target)", ""]
        lines += ["Below the target, or slower than plain:", "", *points, ""] if points else []
    return lines


def table_targets(samples: Sequence[Sample]) -> list[str]:
    """Returns a table of the targets of whole tables."""
    return table(["target", "figure", ""], whole_table_verdicts(samples))


def _median(samples: Sequence[Sample], field: str) -> float:
    return float(statistics.median(sample[field] / sample["rows"] for sample in samples))


def whole_table_verdicts(samples: Sequence[Sample]) -> list[list[str]]:
    """Returns each target, its figure, and whether the target is met."""
    rows: list[list[str]] = []

    def add(target: str, figure: str, is_met: bool) -> None:
        rows.append([target, figure, "met" if is_met else "**missed**"])

    for name, shape in SHAPES.items():
        what = shape.title
        ours = rounds_of(samples, name, "load", "turbocql-csv")
        floors = [rounds_of(samples, name, "load", tool) for tool in ("parse", "ready")]
        if ours and all(floors):
            floor = sum(_median(of, "cpu_s") for of in floors)
            factor = _median(ours, "cpu_s") / floor
            target = f"load of CSV, {what}: CPU at most {_MAX_FACTOR} times both floors"
            add(target, f"{factor:.2f} times", factor <= _MAX_FACTOR)
        for task in ("load", "unload"):
            mine, theirs = (
                rounds_of(samples, name, task, tool) for tool in ("turbocql-csv", "dsbulk")
            )
            if mine and theirs:
                ratio = _median(theirs, "wall_s") / _median(mine, "wall_s")
                add(f"{task} of CSV, {what}: rows/s of dsbulk", f"{ratio:.1f} times", ratio >= 1)
    peak = max(s["peak_mib"] for s in samples if s["tool"].startswith("turbocql"))
    add("peak memory below 300 MB", f"{peak * 2**20 / 1e6:,.0f} MB at most", peak < _MAX_MIB)
    return rows
