"""turbocql's codec for programs that stay on cassandra-driver or scylla-driver.

`accelerate()` replaces some of the driver's functions with native ones; `status()` lists them. The
native functions serialize and deserialize values, bind rows and compute routing keys. They write
the bodies of requests, read pages of results, and pack and unpack segments of protocol version 5.
Other native functions format the parameters of simple statements, cancel timers, and do work of the
object mapper `cassandra.cqlengine`.

The native functions give the same bytes, values, types and errors as the driver's. If a native
function does not support a call, it calls the driver's own function with the same arguments.
Sessions and statements that exist already are accelerated too.

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
        # `_status` is imported at the first use, because many accelerated programs never use it.
        if name in ("Seam", "Status"):
            from . import _status

            value = globals()[name] = getattr(_status, name)
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
