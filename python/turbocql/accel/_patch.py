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
    """The value that is stored in the class or module, such as a classmethod object."""
    counts: Callable[[], tuple[int, int]]
    """Returns how many calls were native, and how many were passed to the original."""
    learned: Callable[[], int] = int
    """Returns how many calls went to the original because a result had columns that no result had
    before. `counts` does not count these."""
    reasons: Callable[[], list[tuple[str, int]]] = list
    """Returns the reasons why calls were passed to the original, each with the number of calls."""
    original: Any = _ABSENT
    """The attribute's value before it was replaced: usually the driver's function."""
    is_listed: bool = True
    """Whether `status()` lists the patch."""
    problem: Callable[[], str] = str
    """Returns why the replacement now passes all calls to the original; empty if it does not."""
    notes: Callable[[], list[str]] = list
    """Returns sentences for `status()` about other work that is left to the driver, or about
    changes of the driver that the accelerator would not notice."""
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
        """Returns how many calls were native, how many fell back, and how many went to the
        driver's own function because the columns of the result were new.
        """
        (native, fallback), learned = self.counts(), self.learned()
        return native - self.start[0], fallback - self.start[1], learned - self.start[2]

    def fallback_reasons(self) -> tuple[tuple[str, int], ...]:
        """Returns the reasons for fallbacks, each with its number of calls, most frequent first."""
        start = dict(self.start_reasons)
        counts = [(reason, count - start.get(reason, 0)) for reason, count in self.reasons()]
        return tuple(sorted((pair for pair in counts if pair[1]), key=lambda pair: -pair[1]))

    def seam(self, part: str) -> Seam:
        """Returns the line of `status()` for this function."""
        # Importing `_status` takes long, and only reports need it.
        from ._status import Seam

        counted, reasons = self.counted(), self.fallback_reasons()
        is_in_place = vars(self.owner).get(self.name) is self.replacement
        why = self.problem() if is_in_place else "other code has replaced it since"
        return Seam(self.function_name, not why, why, *counted, part=part, reasons=reasons)

    def _set(self, value: Any) -> None:
        # `type.__setattr__` bypasses the metaclass's `__setattr__`, in which `TypeWatcher` would
        # notice the change.
        if isinstance(self.owner, type):
            type.__setattr__(self.owner, self.name, value)
        else:
            setattr(self.owner, self.name, value)


def driver_name(protocol: ModuleType) -> str:
    """Returns the driver's name for `status()`: its version, and whether it is compiled."""
    package = sys.modules.get("cassandra")
    version = getattr(package, "__version__", "of unknown version")
    compiled = getattr(protocol, "HAVE_CYTHON", False)
    return f"cassandra {version}, {'compiled' if compiled else 'not compiled'}"


class Driver:
    """The modules of the imported driver, and its dialect: the form in which it writes timestamps,
    and nulls within collections. The dialect depends on the driver's release.
    """

    def __init__(self, cqltypes: ModuleType, protocol: ModuleType, query: ModuleType) -> None:
        self.cqltypes, self.protocol, self.query = cqltypes, protocol, query
        self.plans = Plans(cqltypes)
        self._dialect: str | None = None
        self.pools: Any = None
        """What `_pools.py` has made for the groups that borrow connections."""
        self.responses: Any = None
        """What `_responses.py` has made for the groups that make futures."""

    @property
    def name(self) -> str:
        """The name of the driver, as `status()` shows it."""
        return driver_name(self.protocol)

    def writes(self) -> str:
        """Returns the dialect in which the driver writes nulls and timestamps.

        The first call finds out the dialect: it lets the driver write samples.

        Raises: NotReplaced, if the driver writes the samples in none of the known dialects.
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
        """Returns how this driver reads timestamps, and its classes of dates, times and durations.

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
    """The name with which `accelerate(without=...)` leaves out the group; empty for a group that is
    never left out."""
    needs: str | None = None
    """A module that must be imported before the group is applied, besides the modules that all
    groups wait for."""

    @abstractmethod
    def patches(self, driver: Driver) -> list[Patch]:
        """Makes the patches. Some groups first compare what replacements and originals return for
        samples.

        Raises: NotReplaced, with the reason, if the driver's functions must not be replaced.
        """
