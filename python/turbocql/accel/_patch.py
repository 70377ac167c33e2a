"""The classes that all groups of replaced functions share: `Patch`, `Driver` and `Group`."""

from __future__ import annotations

import datetime
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import _core
from ._origin import NotReplaced
from ._plans import Plans

if TYPE_CHECKING:
    from ._status import Seam

__all__ = ["Driver", "Group", "Patch", "driver_name"]

_ABSENT = object()


@dataclass
class Patch:
    """One attribute of a class or module, and its replacement."""

    owner: Any
    name: str
    function_name: str
    """The dotted name of the function, as `status()` shows it."""
    replacement: Any
    """The replacement, as it is put into the class or module."""
    counts: Callable[[], tuple[int, int]]
    learned: Callable[[], int] = int
    reasons: Callable[[], list[tuple[str, int]]] = list
    """Returns the reasons why calls were handed to the original, each with the number of calls."""
    original: Any = _ABSENT
    is_listed: bool = True
    """Whether `status()` lists the patch."""
    problem: Callable[[], str] = str
    """Returns why the replacement now hands all calls to the original, or an empty text."""
    notes: Callable[[], list[str]] = list
    """Returns sentences for `status()`, on what else is left to the driver or is not noticed."""
    start: tuple[int, int, int] = (0, 0, 0)
    """The counts when counting began. `counted` subtracts them."""
    start_reasons: tuple[tuple[str, int], ...] = ()
    """The counts of reasons when counting began. `fallback_reasons` subtracts them."""

    def apply(self) -> None:
        """Replaces the attribute."""
        self.original = vars(self.owner).get(self.name, _ABSENT)
        self._set(self.replacement)

    def undo(self) -> bool:
        """Puts the original back. Returns False if other code has replaced the attribute since."""
        if vars(self.owner).get(self.name, _ABSENT) is not self.replacement:
            return False
        if self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            self._set(self.original)
        return True

    def count_from_here(self) -> None:
        """Makes `counted` count only later calls."""
        self.start = (*self.counts(), self.learned())
        self.start_reasons = tuple(self.reasons())

    def counted(self) -> tuple[int, int, int]:
        """The numbers of native calls, fallbacks, and calls from which columns were learned."""
        (native, fallback), learned = self.counts(), self.learned()
        return native - self.start[0], fallback - self.start[1], learned - self.start[2]

    def fallback_reasons(self) -> tuple[tuple[str, int], ...]:
        """The reasons for fallbacks, each with the number of calls, the most frequent first."""
        start = dict(self.start_reasons)
        counts = [(reason, count - start.get(reason, 0)) for reason, count in self.reasons()]
        return tuple(sorted((pair for pair in counts if pair[1]), key=lambda pair: -pair[1]))

    def seam(self, part: str) -> Seam:
        """The function, as `status()` shows it."""
        # Importing `_status` takes long, and only reports need it.
        from ._status import Seam

        counted, reasons = self.counted(), self.fallback_reasons()
        is_in_place = vars(self.owner).get(self.name) is self.replacement
        why = self.problem() if is_in_place else "other code has replaced it since"
        return Seam(self.function_name, not why, why, *counted, part=part, reasons=reasons)

    def _set(self, value: Any) -> None:
        # A call of `type.__setattr__` hides the change from `TypeWatcher`.
        if isinstance(self.owner, type):
            type.__setattr__(self.owner, self.name, value)
        else:
            setattr(self.owner, self.name, value)


def driver_name(protocol: ModuleType) -> str:
    """The name of a driver, as `status()` shows it."""
    package = sys.modules.get("cassandra")
    version = getattr(package, "__version__", "of unknown version")
    compiled = getattr(protocol, "HAVE_CYTHON", False)
    return f"cassandra {version}, {'compiled' if compiled else 'not compiled'}"


class Driver:
    """The modules of the imported driver, and the dialect in which it writes and reads values."""

    def __init__(self, cqltypes: ModuleType, protocol: ModuleType, query: ModuleType) -> None:
        self.cqltypes, self.protocol, self.query = cqltypes, protocol, query
        self.plans = Plans(cqltypes)
        self._dialect: str | None = None

    @property
    def name(self) -> str:
        """The name of the driver, as `status()` shows it."""
        return driver_name(self.protocol)

    def writes(self) -> str:
        """The dialect in which the driver writes nulls and timestamps, found once by a probe.

        Raises: NotReplaced, if the driver writes them in none of the known dialects.
        """
        if self._dialect is None:
            self._dialect = self._probe_dialect()
        return self._dialect

    def _probe_dialect(self) -> str:
        types = self.cqltypes
        null = types.ListType.apply_parameters([types.Int32Type]).serialize([None], 4)[4:]
        before = datetime.datetime(1969, 12, 31, 23, 59, 58, 1)
        moment = int.from_bytes(types.DateType.serialize(before, 4), "big", signed=True)
        dialects = {
            (b"\xff\xff\xff\xff", -2000): "protocol",
            (b"\xff\xff\xff\xff", -1999): "float time",
            (b"\0\0\0\0", -1999): "float time, empty null",
        }
        try:
            return dialects[null, moment]
        except KeyError:
            raise NotReplaced("it writes nulls or timestamps in no known dialect") from None

    def read_ways(self) -> _core.ReadWays:
        """How this driver reads timestamps, and its classes of dates, times and durations.

        Raises: NotReplaced, if the driver's dialect is not known.
        """
        values = self.plans.readers.values
        return _core.ReadWays(
            self.writes() != "protocol", values["Date"], values["Time"], values["Duration"]
        )


class Group(ABC):
    """Patches that are applied together or not at all."""

    names: tuple[str, ...]
    """The functions that the group patches, as `status()` shows them."""
    part: str = ""
    """The part of the accelerator that `accelerate(without=...)` names; empty for a group that is
    never left out."""
    needs: str | None = None
    """A module whose import the group waits for, besides the modules that all groups wait for."""

    @abstractmethod
    def patches(self, driver: Driver) -> list[Patch]:
        """Makes the patches. Some groups first compare replacements with originals on samples.

        Raises: NotReplaced, with the reason, if the driver's functions must not be replaced.
        """
