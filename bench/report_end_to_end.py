"""The report's sections on requests to a server."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from report_data import (
    FLOOR,
    OURS,
    STOCK,
    Endpoint,
    Loss,
    Sample,
    Shortfall,
    against,
    number,
    table,
)
from targets import END_TO_END, SCENARIOS, EndToEnd, Verdict

__all__ = [
    "end_to_end_section",
    "in_flight_section",
    "losses",
    "missed",
    "shortfalls",
    "usual",
    "without_figure",
]

_COUNTERPARTS = {"callbacks": "workers", "concurrent": "tasks"}
"""The shape of turbocql that a shape of other drivers is compared with."""


def usual(endpoints: list[Endpoint]) -> list[Endpoint]:
    """Those with the number in flight that most have, so that clients stand beside each other."""
    flights: dict[tuple[str, str], Counter[int]] = {}
    for point in endpoints:
        flights.setdefault((point.scenario, point.shape), Counter())[point.in_flight] += 1
    chosen = {
        key: 100 if 100 in counts else counts.most_common(1)[0][0]
        for key, counts in flights.items()
    }
    return [p for p in endpoints if p.in_flight == chosen[p.scenario, p.shape]]


def _find(points: list[Endpoint], scenario: str, shape: str, client: str) -> Endpoint | None:
    for point in points:
        if (point.scenario, point.shape, point.client) == (scenario, shape, client):
            return point
    return None


def _least(
    points: list[Endpoint], scenario: str, shapes: tuple[str, ...], client: str
) -> Endpoint | None:
    """Of a client's shapes the one that needs the least processor time."""
    found = [_find(points, scenario, shape, client) for shape in shapes]
    return min((one for one in found if one is not None), key=lambda p: p.cpu_us, default=None)


def _floor(points: list[Endpoint], target: EndToEnd) -> Endpoint | None:
    shapes = target.floor_shapes or (target.shape,)
    return _least(points, target.scenario, shapes, target.floor_client)


def _cpu(point: Endpoint | None) -> float | None:
    return None if point is None else point.cpu_us


def without_figure(samples: list[Sample]) -> list[str]:
    """Why a client has none in some scenario and shape."""
    found = dict.fromkeys(
        f"- {sample['scenario']}, {sample['shape']}: {sample['client']}: {sample['note']}"
        for sample in samples
        if sample.get("cpu_s") is None
    )
    return ["Without a figure:", "", *found, ""] if found else []


def end_to_end_section(endpoints: list[Endpoint]) -> list[str]:
    """A table per scenario, all shapes; then the targets."""
    points = usual(endpoints)
    lines = []
    for scenario in dict.fromkeys(point.scenario for point in points):
        mine = [point for point in points if point.scenario == scenario]
        lines += [f"### {SCENARIOS.get(scenario, scenario)}", ""]
        rows = []
        for point in mine:
            shape = _COUNTERPARTS.get(point.shape, point.shape)
            ours = _find(mine, scenario, shape, OURS)
            if ours is not None and ours.in_flight != point.in_flight:
                ours = None
            rows.append(
                [
                    point.shape,
                    point.client,
                    number(point.cpu_us),
                    "-" if ours is None else number(point.cpu_us / ours.cpu_us),
                    f"{point.per_s:,.0f}",
                    number(point.p50_us),
                    number(point.p99_us),
                    _ratio(point.p50_us, ours.p50_us if ours else None),
                    _ratio(point.p99_us, ours.p99_us if ours else None),
                    str(point.in_flight),
                    str(point.samples),
                    point.note or "-",
                ]
            )
        head = ["shape", "client", "CPU us", "CPU ratio", "per second", "p50 us", "p99 us"]
        head += ["p50 ratio", "p99 ratio", "in flight", "rounds", "note"]
        lines += table(head, rows)
    judged = verdicts(points)
    if judged:
        lines += ["### Targets, requests to a server", ""]
        rows = [[one.name, one.text, one.verdict.word, one.verdict.how] for one in judged]
        lines += table(["scenario and shape", "target", "met", "how"], rows)
    return lines


def missed(points: list[Endpoint], profiles: dict[str, Any]) -> list[str]:
    """For each missed target: the engine's floor, and where the instructions go."""
    lines = []
    for target in END_TO_END:
        found = {one.name: one.verdict for one in verdicts(usual(points))}
        name = f"{target.scenario}, {target.shape}"
        if not found[name].missed:
            continue
        floor = _floor(usual(points), target)
        lines += [f"### Missed: {name}", "", f"{target.text}: {found[name].how}.", ""]
        if target.limit:
            lines += [target.limit, ""]
        if floor is not None:
            what = floor.note.removeprefix("floor: ")
            what = "the engine, called from Rust" if floor.client == FLOOR else what
            lines += [f"- floor: {what}: {floor.spreads['cpu_us']} us", ""]
        profile = profiles.get(f"{target.scenario} {target.shape}")
        if profile is None:
            lines += ["No profile is recorded.", ""]
            continue
        lines += [profile["floor"], "", "```", *profile["lines"], "```", ""]
    return lines


def _ratio(theirs: float | None, ours: float | None) -> str:
    return "-" if theirs is None or not ours else number(theirs / ours)


@dataclass(frozen=True)
class _Judged:
    name: str
    text: str
    verdict: Verdict
    within: bool = False
    """The target names a rival, and the difference to it is within the spread."""


def verdicts(points: list[Endpoint]) -> list[_Judged]:
    """Each end-to-end target, also where turbocql was not measured."""
    found = []
    for target in END_TO_END:
        ours = _find(points, target.scenario, target.shape, OURS)
        name = f"{target.scenario}, {target.shape}"
        if ours is None:
            found.append(_Judged(name, target.text, Verdict(False, "-", measured=False)))
            continue
        rival = _find(points, target.scenario, target.shape, target.below)
        stock = _least(points, target.scenario, target.stock_shapes, STOCK)
        floor = _floor(points, target)
        verdict = target.judge(ours.cpu_us, _cpu(rival), _cpu(stock), _cpu(floor))
        beside = rival if target.below else stock
        if beside is not None:
            figures = against(ours.spreads["cpu_us"], beside.spreads["cpu_us"], "us")
            verdict = replace(verdict, how=f"{verdict.how}: {figures}")
        within = rival is not None and ours.spreads["cpu_us"].overlaps(rival.spreads["cpu_us"])
        found.append(_Judged(name, target.text, verdict, within))
    return found


def losses(endpoints: list[Endpoint]) -> list[Loss]:
    """Where a client needs less processor time, answers sooner or does more, in the same shape.

    With any number in flight. What begins as our name does is turbocql too, set up otherwise.
    """
    ours = {(p.scenario, p.shape, p.in_flight): p for p in endpoints if p.client == OURS}
    found = []
    for point in endpoints:
        if point.client.startswith(OURS) or point.client == FLOOR:
            continue
        shape = _COUNTERPARTS.get(point.shape, point.shape)
        beside = ours.get((point.scenario, shape, point.in_flight))
        if beside is not None:
            found += _lost(point, beside)
    return found


def shortfalls(endpoints: list[Endpoint]) -> list[Shortfall]:
    """Targets that turbocql misses."""
    return [
        Shortfall(f"{one.name}: target ({one.text}): {one.verdict.how}", one.within)
        for one in verdicts(usual(endpoints))
        if one.verdict.missed
    ]


_FIGURES = {
    "cpu_us": "CPU, us",
    "p50_us": "p50, us",
    "p99_us": "p99, us",
    "per_s": "requests per second",
}


def _lost(theirs: Endpoint, ours: Endpoint) -> list[Loss]:
    where = f"{ours.scenario}, {ours.shape}, {ours.in_flight} in flight"
    who = theirs.client if theirs.shape == ours.shape else f"{theirs.client} ({theirs.shape})"
    found = []
    for name, what in _FIGURES.items():
        a, b = theirs.spreads.get(name), ours.spreads.get(name)
        if a is None or b is None:
            continue
        if (a.median > b.median) if name == "per_s" else (a.median < b.median):
            found.append(Loss(where, what, b, who, a, theirs.note))
    return found


def in_flight_section(endpoints: list[Endpoint]) -> list[str]:
    """How the costs change with the number of requests in flight, where several were measured."""
    lines = []
    groups: dict[tuple[str, str], list[Endpoint]] = {}
    for point in endpoints:
        groups.setdefault((point.scenario, point.shape), []).append(point)
    for (scenario, shape), points in groups.items():
        if len({point.in_flight for point in points}) < 2:
            continue
        lines += [f"### In flight: {SCENARIOS.get(scenario, scenario)}, {shape}", ""]
        rows = [
            [
                *(str(point.in_flight), point.client, number(point.cpu_us)),
                *(f"{point.per_s:,.0f}", number(point.p50_us), number(point.p99_us)),
            ]
            for point in points
        ]
        lines += table(["in flight", "client", "CPU us", "per second", "p50 us", "p99 us"], rows)
    return lines
