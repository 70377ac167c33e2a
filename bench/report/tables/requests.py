"""Tables of requests to a server, for each scenario and by the number in flight."""

from __future__ import annotations

from collections import Counter

from bench.harness.samples import Sample
from bench.harness.spread import number
from bench.report.markdown import table
from bench.report.model import FLOOR, OURS, Endpoint, Loss
from bench.suites.requests.cases import COUNTERPARTS, SCENARIOS

__all__ = [
    "end_to_end_section",
    "find",
    "in_flight_section",
    "losses",
    "usual",
    "without_figure",
]


def usual(endpoints: list[Endpoint]) -> list[Endpoint]:
    """Returns the endpoints with the usual number in flight of their scenario and shape.

    The usual number is 100 if an endpoint of this scenario and shape has it. Otherwise it is the
    number that most of these endpoints have.
    """
    flights: dict[tuple[str, str], Counter[int]] = {}
    for point in endpoints:
        flights.setdefault((point.scenario, point.shape), Counter())[point.in_flight] += 1
    chosen = {
        key: 100 if 100 in counts else counts.most_common(1)[0][0]
        for key, counts in flights.items()
    }
    return [p for p in endpoints if p.in_flight == chosen[p.scenario, p.shape]]


def find(points: list[Endpoint], scenario: str, shape: str, client: str) -> Endpoint | None:
    """Returns the client's endpoint in this scenario and shape, or None."""
    for point in points:
        if (point.scenario, point.shape, point.client) == (scenario, shape, client):
            return point
    return None


def without_figure(samples: list[Sample]) -> list[str]:
    """Lists each scenario, shape and client without a figure, with the reason."""
    reasons = dict.fromkeys(
        f"- {sample['scenario']}, {sample['shape']}: {sample['client']}: {sample['note']}"
        for sample in samples
        if sample.get("cpu_s") is None
    )
    return ["Without a figure:", "", *reasons, ""] if reasons else []


def end_to_end_section(endpoints: list[Endpoint]) -> list[str]:
    """Returns a table for each scenario, with all shapes."""
    points = usual(endpoints)
    lines = []
    for scenario in dict.fromkeys(point.scenario for point in points):
        mine = [point for point in points if point.scenario == scenario]
        lines += [f"#### {SCENARIOS.get(scenario, scenario)}", ""]
        rows = []
        for point in mine:
            shape = COUNTERPARTS.get(point.shape, point.shape)
            ours = find(mine, scenario, shape, OURS)
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
    return lines


def _ratio(theirs: float | None, ours: float | None) -> str:
    return "-" if theirs is None or not ours else number(theirs / ours)


def losses(endpoints: list[Endpoint]) -> list[Loss]:
    """Returns the figures in which a rival is better: processor time, latency or rate.

    Each endpoint of a rival is compared with turbocql's endpoint of the same scenario and number
    in flight. A shape in `COUNTERPARTS` is compared with its counterpart there. Any other shape is
    compared with itself. The floor is not a rival. Clients whose names begin with "turbocql" are
    turbocql with other settings, so they are no rivals either.
    """
    ours = {(p.scenario, p.shape, p.in_flight): p for p in endpoints if p.client == OURS}
    lost = []
    for point in endpoints:
        if point.client.startswith(OURS) or point.client == FLOOR:
            continue
        shape = COUNTERPARTS.get(point.shape, point.shape)
        beside = ours.get((point.scenario, shape, point.in_flight))
        if beside is not None:
            lost += _lost(point, beside)
    return lost


_FIGURES = {
    "cpu_us": "CPU, us",
    "p50_us": "p50, us",
    "p99_us": "p99, us",
    "per_s": "requests per second",
}


def _lost(theirs: Endpoint, ours: Endpoint) -> list[Loss]:
    where = f"{ours.scenario}, {ours.shape}, {ours.in_flight} in flight"
    who = theirs.client if theirs.shape == ours.shape else f"{theirs.client} ({theirs.shape})"
    lost = []
    for name, what in _FIGURES.items():
        a, b = theirs.spreads.get(name), ours.spreads.get(name)
        if a is None or b is None:
            continue
        if (a.median > b.median) if name == "per_s" else (a.median < b.median):
            lost.append(Loss(where, what, b, who, a, theirs.note))
    return lost


def in_flight_section(endpoints: list[Endpoint]) -> list[str]:
    """Returns a table for each scenario and shape that has several numbers in flight."""
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
