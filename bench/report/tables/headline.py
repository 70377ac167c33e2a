"""The beginning of the page of benchmarks: the rows of its chart, and three figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import fill

from bench.report.markdown import table
from bench.report.model import FLOOR, OURS, RIVALS, CodecCase, Compared, Endpoint
from bench.report.tables.requests import usual

__all__ = ["headline", "overview"]

_FIGURES = {
    "value: vector<float, 1536>, list": "Encode an embedding of 1,536 floats from a list",
    "page: 5000x10 to named": "Decode a page of 5,000 rows of 10 columns to named tuples",
    "select_text, workers": "`SELECT` one row by key, coroutines, FLIGHT",
}

_PICTURE = {
    "value: vector<float, 1536>, float32 ndarray": "encode 1,536 floats from a float32 array",
    "value: vector<float, 1536>, list": "encode 1,536 floats from a list",
    "decode: vector<float, 1536> to list": "decode 1,536 floats to a list",
    "value: list<int> of 100": "encode list<int> of 100",
    "value: map<text, int> of 100": "encode map<text, int> of 100",
    "value: text": "encode one text",
    "bind: 10 mixed, sequence": "bind a row of 10 columns",
    "page: 1x10 with metadata, named": "decode a page of 1 row",
    "page: 5000x10 to named": "decode a page of 5,000 rows",
    "select_text, sync": "SELECT one row, sync, FLIGHT",
    "select_text, workers": "SELECT one row, workers, FLIGHT",
    "select_text, tasks": "SELECT one row, tasks, FLIGHT",
    "insert_text, workers": "INSERT a text, workers, FLIGHT",
    "insert_vector, workers": "INSERT 768 floats, workers, FLIGHT",
    "select_vector, workers": "SELECT 768 floats, workers, FLIGHT",
    "bulk_text, bulk": "INSERT a text, bulk, FLIGHT",
    "bulk_vector, bulk": "INSERT 768 floats, bulk, FLIGHT",
    "scan, named": "scan 100,000 rows, per row",
}
"""Maps the name of a case of the codec, or a scenario and shape, to its label in the chart. FLIGHT
in a label stands for the number of requests in flight."""


def overview(cases: Iterable[CodecCase], points: list[Endpoint]) -> list[Compared]:
    """Returns the rows of the overview chart, without cases that were not measured."""
    return list(_compared(_PICTURE, cases, points).values())


def headline(
    by_interpreter: Mapping[str, tuple[list[CodecCase], list[Endpoint]]],
) -> list[str]:
    """Returns a table of three figures under the first interpreter.

    After the table come the ratios of the same figures under the other interpreters.
    """
    rows_of = {name: _compared(_FIGURES, *of) for name, of in by_interpreter.items()}
    if not any(rows_of.values()):
        return []
    first, *others = rows_of
    rows = [
        [
            compared.label,
            f"**{_ratio(compared)}**",
            str(compared.ours),
            f"{compared.best}: {compared.rivals[compared.best]}",
        ]
        for compared in rows_of[first].values()
    ]
    lines = table(["", "best rival / turbocql", f"{OURS}, us", "best rival, us"], rows)
    for another in others:
        ratios = [_ratio(rows_of[another].get(name)) for name in rows_of[first]]
        text = f"The same ratios under {another}: {'; '.join(ratios)}."
        lines += [fill(text, 100), ""]
    return lines


def _ratio(compared: Compared | None) -> str:
    if compared is None:
        return "not measured"
    ratio = compared.ratio(compared.best)
    within = compared.ours.overlaps(compared.rivals[compared.best])
    return f"{ratio}{', within the spread' if within else ''}"


def _compared(
    labels: Mapping[str, str], cases: Iterable[CodecCase], points: list[Endpoint]
) -> dict[str, Compared]:
    """Returns the cases that were measured with turbocql and a rival, in the order of `labels`."""
    by_name = {}
    for case in cases:
        rivals = {rival: case.spreads[rival] for rival in RIVALS if rival in case.spreads}
        if case.name in labels and OURS in case.spreads and rivals:
            by_name[case.name] = Compared(labels[case.name], case.spreads[OURS], rivals)
    shown = usual(points)
    for point in shown:
        name = f"{point.scenario}, {point.shape}"
        if point.client != OURS or name not in labels:
            continue
        beside = [
            another
            for another in shown
            if (another.scenario, another.shape) == (point.scenario, point.shape)
            and another.client != FLOOR
            and not another.client.startswith(OURS)
        ]
        if beside:
            by_name[name] = Compared(
                labels[name].replace("FLIGHT", f"{point.in_flight} in flight"),
                point.spreads["cpu_us"],
                {another.client: another.spreads["cpu_us"] for another in beside},
                frozenset(another.client for another in beside if "bytes" in another.note),
            )
    return {name: by_name[name] for name in labels if name in by_name}
