"""Cases that read or load columns. The suite of requests measures them, on its server."""

from __future__ import annotations

from bench.suites.requests.cases import FLOOR, FRAMES, IN_BULK, LOADED, RAW, Case

__all__ = ["column_cases"]


def column_cases() -> list[Case]:
    """Returns the cases of results as columns and loads of columns, their floors and rivals.

    Some of them are compared with the scan to tuples, which is in `request_cases`.
    """
    ours, stock = "turbocql", "scylla-driver"
    cases = [
        Case("page", "arrow", ours, 1),
        Case("page", "tuples", stock, 1),
        Case("page_vector", "arrow", ours, 1),
        Case("page_vector", "byteswap", RAW, 1),
        Case("page_vector", "copyto", RAW, 1),
    ]
    cases += [Case("scan", shape, ours, 1) for shape in ("arrow", "stream", "numpy", *FRAMES)]
    cases += [Case("scan", shape, RAW, 1) for shape in ("raw", "kept")]
    cases += [Case("scan", shape, stock, 1) for shape in ("numpy", "pandas")]
    cases += [Case("scan_vector", "numpy", client, 1) for client in (ours, stock)]
    cases += [Case("scan_vector", shape, RAW, 1) for shape in ("raw", "kept")]
    for scenario in LOADED:
        cases += [Case(scenario, shape, ours, IN_BULK) for shape in ("arrow", "numpy")]
        cases += [Case(scenario, shape, RAW, IN_BULK) for shape in ("blobs", "ready")]
        cases += [Case(scenario, "bulk", client, IN_BULK) for client in (ours, stock)]
    # The engine's program writes only rows with a key and one value, so it cannot run `load_mixed`.
    cases.append(Case("load_vector", "bulk", FLOOR, IN_BULK))
    return cases
