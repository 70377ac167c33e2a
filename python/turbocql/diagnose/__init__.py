"""Versions, platform and cluster on one page, for bug reports and for your own use.

Call `turbocql.diagnose()`, with or without a session, or `await turbocql.aio.diagnose(session)`.
On the command line, run `python -m turbocql.diagnose [url]`. `turbocql.diagnosis()` returns the
same information as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._diagnosis.blocking import diagnose, diagnosis
    from .._diagnosis.collect import Diagnosis, NodeDiagnosis, QuickPath, SessionDiagnosis

__all__ = ["Diagnosis", "NodeDiagnosis", "QuickPath", "SessionDiagnosis", "diagnose", "diagnosis"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # The package imports this module only to bind the module's name. So the names in this
        # module are imported when they are first used.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .._diagnosis import blocking, collect

        value = globals()[name] = getattr(blocking if name[0].islower() else collect, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
