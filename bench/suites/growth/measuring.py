"""Measures the time and memory of the calls of a series. Imports no driver."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness.provenance import provenance
from bench.harness.timing import Case, ns_per_call, reason, say
from bench.harness.usage import resident_bytes
from bench.suites.growth.cases import SERIES, Series

__all__ = ["measure_series", "plain"]

_SELF = Path("/proc/self")


def measure_series(
    client: str, version: str, make: Callable[[Series, int], Case], name: str
) -> None:
    """Measures each size of one series, the smallest first.

    At each size, measures memory, checks the result, and then times the calls. The result comes
    from the case's `outcome`, which makes a call and returns its result as plain Python values.

    Raises: SystemExit if the result is wrong.
    """
    series = SERIES[name]
    about = {"suite": "growth", "series": name, **provenance(client, version)}
    for size in series.sizes:
        if client != "turbocql" and size > series.rivals_up_to:
            say({**about, "n": size, "ns": None, "peak_bytes": None, "note": "left out: too slow"})
            continue
        try:
            case = make(series, size)
        except Exception as error:  # Any failure of a client is a result.
            say({**about, "n": size, "ns": None, "peak_bytes": None, "note": reason(error)})
            break
        peak = peak_bytes(case)
        outcome = case.outcome() if case.outcome else None
        if outcome != series.expected(size):
            raise SystemExit(f"{name} of {size}: {client} gives {outcome!r:.300}")
        del outcome
        gc.collect()
        gc.freeze()
        say({**about, "n": size, "ns": ns_per_call(case), "peak_bytes": peak, "note": case.note})


def peak_bytes(case: Case) -> int | None:
    """Returns how many bytes one call and its result add to the peak of resident memory.

    Allocators return memory late and in pages, so the figure is meaningful only for large sizes.
    Returns None if the system has no `clear_refs`, a file of Linux.
    """
    names, code = dict(case.names), compile(case.expression, "case", "eval")
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        (_SELF / "clear_refs").write_text("5")
        before = resident_bytes()
        result = eval(code, names)
        peak = resident_bytes("VmHWM")
    except (OSError, AttributeError):
        return None
    del result
    return max(0, peak - before)


def plain(value: Any, shape: str) -> Any:
    """Converts a decoded value to the plain Python type that `Series.expected` returns."""
    match shape:
        case "set":
            return set(value)
        case "map":
            return dict(value.items())
        case "rows":
            return [tuple(row) for row in value]
        case "ndarray":
            return value.tolist()
    return list(value)
