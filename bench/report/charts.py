"""Draws the report's charts as SVG files, from the medians in the tables. Axes are logarithmic."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from bench.harness.spread import number
from bench.report.model import CodecCase, Compared, Endpoint, GrowthSeries

__all__ = [
    "codec_charts",
    "end_to_end_chart",
    "growth_chart",
    "in_flight_chart",
    "overview_chart",
    "overview_text",
]

# Text stays text in the SVG files, and is not drawn as shapes. The ids in the files derive from a
# fixed salt, so that equal samples give equal files.
plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "turbocql", "font.size": 8})

# These are the colors of the site's dark pages.
_DARK: Any = {
    "axes.edgecolor": "#c5c9d4",
    "axes.facecolor": "#1e2129",
    "axes.labelcolor": "#e2e4e9",
    "figure.facecolor": "#1e2129",
    "savefig.facecolor": "#1e2129",
    "text.color": "#e2e4e9",
    "xtick.color": "#c5c9d4",
    "ytick.color": "#c5c9d4",
}
_BRIGHT = {
    "#c62828": "#ff6b60",
    "#1565c0": "#64b5f6",
    "#6a1b9a": "#ce93d8",
    "#2e7d32": "#81c784",
    "#ef6c00": "#ffb74d",
    "#00838f": "#4dd0e1",
    "#424242": "#bdbdbd",
    "#37474f": "#b0bec5",
    "#dddddd": "#3d414d",
}
"""Maps each color on light pages to the color that replaces it on dark pages."""

_STYLES: dict[str, tuple[str, str]] = {
    "turbocql": ("#c62828", "o"),
    "scylla-driver": ("#1565c0", "s"),
    "cassandra-driver": ("#6a1b9a", "^"),
    "acsylla": ("#2e7d32", "D"),
    "scyllapy": ("#ef6c00", "v"),
    "scylladb-rs-driver": ("#00838f", "P"),
    "floor": ("#424242", "|"),
}


def _tick(value: float, _: int) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _color(light: str) -> str:
    is_dark = plt.rcParams["figure.facecolor"] == _DARK["figure.facecolor"]
    return _BRIGHT[light] if is_dark else light


def _style(client: str) -> tuple[str, str]:
    light, marker = _STYLES.get(client, ("#37474f", "x"))
    return _color(light), marker


def _drawn(
    draw: Callable[[], Figure], folder: Path | None, name: str, description: str = ""
) -> str:
    """Draws a chart twice, for light and for dark pages. Returns the name of the light file.

    Without a folder, nothing is drawn.
    """
    if folder is not None:
        _save(draw(), folder / f"{name}.svg", description)
        with plt.rc_context(_DARK):
            _save(draw(), folder / f"{name}-dark.svg", description)
    return f"{name}.svg"


def _save(figure: Figure, path: Path, description: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None, **({"Description": description} if description else {})}
    figure.savefig(path, format="svg", metadata=metadata, bbox_inches="tight")
    plt.close(figure)
    # Hundredths of a point are precise enough, and lines must not end in blanks.
    lines = [
        line.strip() if "<dc:" in line else re.sub(r"(\d\.\d\d)\d+", r"\1", line.strip())
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _dots(axes: Axes, labels: list[str], figures: dict[str, list[tuple[int, float]]]) -> None:
    """Draws a row of the chart for each label, with a dot for each client."""
    for client, points in figures.items():
        color, marker = _style(client)
        axes.plot(
            [value for _, value in points],
            [at for at, _ in points],
            marker,
            color=color,
            label=client,
            markersize=5,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.minorticks_off()
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(True, which="major", color=_color("#dddddd"), linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, frameon=False)


def overview_chart(compared: list[Compared], folder: Path | None) -> list[str]:
    """Draws each rival's time divided by turbocql's, with the spread. Each case has a row.

    Returns the names of two charts with the same figures. The second is for narrow windows.
    """
    if not compared:
        return []
    words = overview_text(compared)
    return [
        _drawn(partial(_overview, compared), folder, "overview", words),
        _drawn(partial(_overview, compared, is_narrow=True), folder, "overview-narrow", words),
    ]


def overview_text(compared: list[Compared]) -> str:
    """Returns the overview in words: each case, and each rival's time divided by turbocql's."""
    return "; ".join(
        f"{case.label}: {', '.join(f'{rival} {case.ratio(rival)}' for rival in case.rivals)}"
        for case in compared
    )


def _overview(compared: list[Compared], *, is_narrow: bool = False) -> Figure:
    background = plt.rcParams["axes.facecolor"]
    size = (3.6, 0.9 + 0.36 * len(compared)) if is_narrow else (8, 0.9 + 0.26 * len(compared))
    figure, axes = plt.subplots(figsize=size)
    for rival in dict.fromkeys(rival for case in compared for rival in case.rivals):
        color, marker = _style(rival)
        axes.plot([], [], marker, color=color, label=rival, markersize=5)
    for at, case in enumerate(compared):
        # The best rival is drawn last, so that no other dot hides its dot.
        for rival in sorted(case.rivals, key=lambda name: -case.rivals[name].median):
            color, marker = _style(rival)
            ratio = case.ratio(rival)
            axes.errorbar(
                [ratio.median],
                [at],
                xerr=[[ratio.median - ratio.low], [ratio.high - ratio.median]],
                fmt=marker,
                color=color,
                markerfacecolor=background if rival in case.as_bytes else color,
                markersize=5,
                elinewidth=1,
            )
        best = f"{number(case.ratio(case.best).median)}x"
        axes.text(1.01, at, best, va="center", transform=axes.get_yaxis_transform())
    axes.axvline(1, color=_color("#c62828"), linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.minorticks_off()
    if is_narrow:
        # Each label is above its row: to the left of the rows, labels would take half of the width.
        axes.set_yticks([])
        axes.set_ylim(-0.9, len(compared) - 0.5)
        for at, case in enumerate(compared):
            place = axes.get_yaxis_transform()
            axes.text(0.01, at - 0.3, case.label, va="bottom", fontsize=7.5, transform=place)
    else:
        axes.set_yticks(range(len(compared)), [case.label for case in compared])
    axes.invert_yaxis()
    axes.grid(True, which="major", color=_color("#dddddd"), linewidth=0.6)
    axes.set_axisbelow(True)
    columns, middle, head = (2, 0.5, "best\nrival") if is_narrow else (5, 0.4, "best rival")
    axes.legend(loc="lower center", bbox_to_anchor=(middle, 1.0), ncols=columns, frameon=False)
    axes.text(1.01, 1.01 if is_narrow else 1.02, head, transform=axes.transAxes)
    axes.set_xlabel(
        "processor time divided by turbocql's,\nlogarithmic; red line: turbocql"
        if is_narrow
        else "processor time divided by turbocql's, logarithmic; red line: turbocql"
    )
    return figure


_GROUPS = {
    "codec-values": ("value: ",),
    "codec-rows-and-messages": ("bind: ", "routing key: ", "batch body: ", "execute body: "),
    "codec-decode": ("decode: ", "page: "),
}


def codec_charts(cases: list[CodecCase], folder: Path | None, suffix: str = "") -> list[str]:
    """Draws a chart for values, one for rows and messages, and one for decoding."""
    names = []
    for name, prefixes in _GROUPS.items():
        chosen = [case for case in cases if case.name.startswith(prefixes) and case.ns]
        if not chosen:
            continue
        names.append(_drawn(partial(_codec, chosen), folder, f"{name}{suffix}"))
    return names


def _codec(cases: list[CodecCase]) -> Figure:
    figures: dict[str, list[tuple[int, float]]] = {}
    for at, case in enumerate(cases):
        for client, ns in sorted(case.ns.items(), reverse=True):
            figures.setdefault(client, []).append((at, ns / 1000))
        if case.floors:
            figures.setdefault("floor", []).append((at, min(case.floors.values()) / 1000))
    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.21 * len(cases)))
    _dots(axes, [case.name.removeprefix("value: ") for case in cases], figures)
    axes.set_xlabel("microseconds per call, logarithmic")
    return figure


def end_to_end_chart(points: list[Endpoint], folder: Path | None, suffix: str = "") -> list[str]:
    """Draws client processor time per request, with a row for each scenario and shape."""
    if not points:
        return []
    return [_drawn(partial(_end_to_end, points), folder, f"end-to-end{suffix}")]


def _end_to_end(points: list[Endpoint]) -> Figure:
    labels = list(dict.fromkeys(f"{point.scenario}, {point.shape}" for point in points))
    figures: dict[str, list[tuple[int, float]]] = {}
    for point in points:
        at = labels.index(f"{point.scenario}, {point.shape}")
        figures.setdefault(point.client, []).append((at, point.cpu_us))
    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.21 * len(labels)))
    _dots(axes, labels, figures)
    axes.set_xlabel("client processor time per request (scan: per row), microseconds, logarithmic")
    return figure


def growth_chart(
    by_name: dict[str, dict[str, GrowthSeries]], folder: Path | None, suffix: str = ""
) -> list[str]:
    """Draws a small chart for each series: time by size."""
    if not by_name:
        return []
    return [_drawn(partial(_growth, by_name), folder, f"growth{suffix}")]


def _growth(by_name: dict[str, dict[str, GrowthSeries]]) -> Figure:
    rows = (len(by_name) + 2) // 3
    figure, grid = plt.subplots(rows, 3, figsize=(9, 2.3 * rows), squeeze=False)
    for axes, (name, clients) in zip(grid.flat, by_name.items(), strict=False):
        for client, series in clients.items():
            _line(axes, client, {n: ns / 1000 for n, ns in series.ns.items()})
        axes.set_title(name, fontsize=8)
    for axes in list(grid.flat)[len(by_name) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("n")
    for axes in grid[:, 0]:
        axes.set_ylabel("us per call")
    grid[0][0].legend(fontsize=7)
    figure.tight_layout()
    return figure


def in_flight_chart(points: list[Endpoint], folder: Path | None, suffix: str = "") -> list[str]:
    """Draws how processor time per request depends on the number of requests in flight.

    Draws nothing if every client was measured with only one number of requests in flight.
    """
    groups: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for point in points:
        clients = groups.setdefault((point.scenario, point.shape), {})
        clients.setdefault(point.client, {})[point.in_flight] = point.cpu_us
    groups = {
        key: clients
        for key, clients in groups.items()
        if any(len(by_number) > 1 for by_number in clients.values())
    }
    if not groups:
        return []
    return [_drawn(partial(_in_flight, groups), folder, f"in-flight{suffix}")]


def _in_flight(groups: dict[tuple[str, str], dict[str, dict[int, float]]]) -> Figure:
    columns = min(3, len(groups))
    rows = (len(groups) + columns - 1) // columns
    figure, grid = plt.subplots(rows, columns, figsize=(3 * columns, 2.3 * rows), squeeze=False)
    for axes, ((scenario, shape), clients) in zip(grid.flat, groups.items(), strict=False):
        for client, by_number in clients.items():
            _line(axes, client, by_number)
        axes.set_title(f"{scenario}, {shape}", fontsize=8)
        axes.set_xlabel("in flight")
    for axes in list(grid.flat)[len(groups) :]:
        axes.set_visible(False)
    grid[0][0].set_ylabel("CPU us per request")
    grid[0][0].legend(fontsize=7)
    figure.tight_layout()
    return figure


def _line(axes: Axes, client: str, by_size: dict[int, float]) -> None:
    color, marker = _style(client)
    sizes = sorted(by_size)
    axes.loglog(
        sizes,
        [by_size[size] for size in sizes],
        marker=marker,
        color=color,
        label=client,
        markersize=3,
        linewidth=1,
    )
    # Few ticks are drawn, and no minor ones, because ticks make up most of an SVG file.
    axes.minorticks_off()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=5))
        axis.set_major_formatter(FuncFormatter(_tick))
    axes.grid(True, which="major", color=_color("#dddddd"), linewidth=0.6)
