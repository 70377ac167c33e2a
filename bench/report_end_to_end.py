"""The report's sections on requests to a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from report_data import OURS, STOCK, Endpoint, Sample, number, table
from targets import END_TO_END, SCENARIOS, Verdict

__all__ = ["end_to_end_section", "in_flight_section", "losses", "usual", "without_figure"]

_COUNTERPARTS = {"callbacks": "workers", "concurrent": "tasks"}
"""The shape of turbocql that stands beside one that it has not."""


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
        head = ["shape", "client", "CPU us", "to turbocql", "per second", "p50 us", "p99 us"]
        head += ["p50 to turbocql", "p99 to turbocql", "in flight", "samples", "note"]
        lines += table(head, rows)
    judged = verdicts(points)
    if judged:
        lines += ["### Targets, requests to a server", ""]
        rows = [
            [name, text, "yes" if verdict.met else "**no**", verdict.how]
            for name, text, verdict in judged
        ]
        lines += table(["scenario and shape", "target", "met", "how"], rows)
    return lines


def _ratio(theirs: float | None, ours: float | None) -> str:
    return "-" if theirs is None or not ours else number(theirs / ours)


def verdicts(points: list[Endpoint]) -> list[tuple[str, str, Verdict]]:
    """Each end-to-end target whose scenario and shape turbocql has a figure for."""
    found = []
    for target in END_TO_END:
        ours = _find(points, target.scenario, target.shape, OURS)
        if ours is None:
            continue
        rival = _find(points, target.scenario, target.shape, target.below)
        stock = _find(points, target.scenario, target.stock_shape, STOCK)
        verdict = target.judge(ours.cpu_us, _cpu(rival), _cpu(stock))
        found.append((f"{target.scenario}, {target.shape}", target.text, verdict))
    return found


def losses(endpoints: list[Endpoint]) -> list[str]:
    """Where a client needs less processor time, answers sooner or does more, in the same shape.

    With any number in flight. What begins as our name does is turbocql too, set up otherwise.
    """
    points = usual(endpoints)
    ours = {(p.scenario, p.shape, p.in_flight): p for p in endpoints if p.client == OURS}
    found = []
    for point in endpoints:
        if point.client.startswith(OURS):
            continue
        shape = _COUNTERPARTS.get(point.shape, point.shape)
        beside = ours.get((point.scenario, shape, point.in_flight))
        if beside is not None:
            found += _lost(point, beside)
    found += [
        f"- {name}: the target ({text}): {verdict.how}"
        for name, text, verdict in verdicts(points)
        if not verdict.met
    ]
    return found


_Figure = Callable[[Endpoint], float | None]

_FIGURES: list[tuple[str, _Figure]] = [
    ("CPU us per request", lambda point: point.cpu_us),
    ("p50 us", lambda point: point.p50_us),
    ("p99 us", lambda point: point.p99_us),
]


def _lost(theirs: Endpoint, ours: Endpoint) -> list[str]:
    where = f"{ours.scenario}, {ours.shape}, {ours.in_flight} in flight"
    who = theirs.client if theirs.shape == ours.shape else f"{theirs.client} ({theirs.shape})"
    found = []
    for what, figure in _FIGURES:
        a, b = figure(theirs), figure(ours)
        if a is not None and b is not None and a < b:
            found.append(f"- {where}: {who} has {number(a)} {what}, turbocql {number(b)}")
    if theirs.per_s > ours.per_s:
        rates = f"{theirs.per_s:,.0f} per second, turbocql {ours.per_s:,.0f}"
        found.append(f"- {where}: {who} does {rates}")
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
