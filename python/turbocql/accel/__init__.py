"""Programs that stay on cassandra-driver or scylla-driver, with turbocql's codec in the hot path.

`accelerate()` puts native functions in the place of some of the driver's own: types' `serialize`
and `deserialize`, `BoundStatement.bind` and `routing_key`, the bodies of requests, pages of
results, and the classes of named rows. They give the same bytes, values, types and errors:
whatever is unusual goes to the driver's own function, untouched. Sessions and statements that
exist are accelerated as well.

    import turbocql
    turbocql.accelerate()

or, for a program that is left as it is, `python -m turbocql.accel program.py args...`.
"""

from __future__ import annotations

from ._install import accelerate, accelerated, status, uninstall
from ._status import Seam, Status

__all__ = ["Seam", "Status", "accelerate", "accelerated", "status", "uninstall"]
