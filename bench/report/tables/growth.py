"""Growth: fitted exponents, and each series at each size."""

from __future__ import annotations

import math

from bench.harness.spread import number
from bench.report.markdown import table
from bench.report.model import OURS, RIVALS, GrowthSeries, Loss

__all__ = ["exponent", "growth_section", "losses", "sizes_section"]

_CLIENTS = (OURS, *RIVALS)


def exponent(series: GrowthSeries) -> float | None:
    """Returns the exponent k if the time grows as n ** k with the size n.

    Fits a line by least squares to the logarithms of sizes and times, in the larger half of the
    sizes. Returns None if that half has fewer than two sizes.
    """
    sizes = sorted(series.ns)
    upper = sizes[len(sizes) // 2 :]
    if len(upper) < 2:
        return None
    xs = [math.log(size) for size in upper]
    ys = [math.log(series.ns[size]) for size in upper]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return above / sum((a - x) ** 2 for a in xs)


def growth_section(by_name: dict[str, dict[str, GrowthSeries]]) -> list[str]:
    """Returns a table of the exponents of all series."""
    rows = []
    for name, clients in by_name.items():
        for client in _CLIENTS:
            if client not in clients:
                continue
            series = clients[client]
            size = max(series.ns)
            peak = series.peak.get(size)
            rows.append(
                [
                    *(name, client, number(exponent(series)), f"{size:,}"),
                    *(number(series.ns[size] / size), number(peak and peak / size)),
                ]
            )
    head = ["series", "client", "exponent", "largest n", "ns per element or row"]
    head.append("peak bytes per element or row")
    return table(head, rows)


def sizes_section(by_name: dict[str, dict[str, GrowthSeries]]) -> list[str]:
    """Returns a table of each series at each size."""
    lines = []
    for name, clients in by_name.items():
        lines += [f"### Growth: {name}", "", *_sizes(clients)]
    return lines


def _sizes(clients: dict[str, GrowthSeries]) -> list[str]:
    present = [client for client in _CLIENTS if client in clients]
    sizes = sorted({size for client in present for size in clients[client].ns})
    rows = []
    for size in sizes:
        row = [f"{size:,}"]
        for client in present:
            ns = clients[client].ns.get(size)
            peak = clients[client].peak.get(size)
            row += [
                number(None if ns is None else ns / 1000),
                number(None if ns is None else ns / size),
                number(None if peak is None else peak / 2**20),
            ]
        rows.append(row)
    units = ("us", "ns per element or row", "peak MiB")
    return table(["n", *[f"{client}, {unit}" for client in present for unit in units]], rows)


def losses(by_name: dict[str, dict[str, GrowthSeries]]) -> list[Loss]:
    """Returns the cases in which a rival is faster, or takes less memory at the largest size."""
    lost = []
    for name, clients in by_name.items():
        ours = clients.get(OURS)
        if ours is None:
            continue
        for rival in RIVALS:
            if rival not in clients:
                continue
            theirs = clients[rival]
            lost += [
                Loss(f"{name}, n = {n:,}", "CPU, us", ours.spreads[n], rival, theirs.spreads[n])
                for n, ns in theirs.ns.items()
                if n in ours.ns and ns < ours.ns[n]
            ]
            largest = max(ours.ns)
            a, b = ours.peaks.get(largest), theirs.peaks.get(largest)
            if a is not None and b is not None and b.median < a.median:
                lost.append(Loss(f"{name}, n = {largest:,}", "peak memory, MiB", a, rival, b))
    return lost
