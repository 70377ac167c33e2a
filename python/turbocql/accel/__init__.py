"""turbocql's codec for programs that stay on cassandra-driver or scylla-driver.

`accelerate()` replaces some of the driver's functions by native ones: types' `serialize` and
`deserialize`, `BoundStatement.bind` and `routing_key`, the bodies of requests, pages of results,
the classes of named rows, protocol version 5's segments, and `Timer.cancel`. The native functions
give the same bytes, values, types and errors as the driver's. A call that they do not support goes
to the driver's own function with the same arguments. Sessions and statements that exist already are
accelerated too.

    import turbocql
    turbocql.accelerate()

To run a program without changing it: `python -m turbocql.accel program.py args...`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._install import accelerate, accelerated, status, uninstall

if TYPE_CHECKING:
    from ._status import Seam, Status

__all__ = ["Seam", "Status", "accelerate", "accelerated", "status", "uninstall"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # An accelerated program may never look at its status.
        if name in ("Seam", "Status"):
            from . import _status

            value = globals()[name] = getattr(_status, name)
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
