"""Starts processes by every start method, and reports the accelerator's status in each process.

    python children.py

Prints four facts about each process as JSON: whether the accelerator is on, how many native calls
it has counted for one function of the driver, whether the status has the id of this process, and
the parts of the accelerator that are left out.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import sys
from typing import Any


def look(_: object = None) -> Any:
    """Returns the accelerator's status in this process, or None if turbocql is not imported."""
    import cassandra.cluster
    from cassandra.cqltypes import Int32Type, ListType

    assert cassandra.cluster
    ListType.apply_parameters([Int32Type]).serialize([1], 4)
    accel = sys.modules.get("turbocql.accel")
    if accel is None:
        return None
    status = accel.status()
    seams = {seam.name: seam for seam in status.seams}
    omitted = sorted({seam.part for seam in status.seams if "left out" in seam.why})
    counted = seams["cqltypes._ParameterizedType.serialize"].native
    return [status.on, counted, status.pid == os.getpid(), omitted]


def main() -> None:
    looks = {"itself": look()}
    for method in ("fork", "spawn", "forkserver"):
        context: Any = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            looks[method] = pool.apply(look)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
            looks["futures, " + method] = executor.submit(look).result()
    print(json.dumps(looks))


if __name__ == "__main__":
    main()
