"""Replaces functions of the driver by native ones, and puts the driver's own functions back."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import _core
from ._connections import CONNECTION
from ._mapper import MODELS, mapper_groups
from ._origin import NotReplaced, expect_gil, expect_helpers, reason_of
from ._patch import Driver, Group, Patch, driver_name
from ._seams import SEAM_MODULES, TypeWatcher, groups
from ._serializers_module import SERIALIZERS, serializer_groups
from ._statements import CLUSTER, statement_groups

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    from ._status import Seam, Status
else:
    # The module `importlib.abc` imports many others.
    Loader = MetaPathFinder = object

__all__ = ["accelerate", "accelerated", "status", "uninstall"]

_MODULES = ("cassandra.cqltypes", "cassandra.protocol", "cassandra.query")
_GROUP_MODULES = (CONNECTION, CLUSTER, MODELS, *SEAM_MODULES)
"""Modules that only some groups of patches wait for. All groups wait for `_MODULES`."""


class _State:
    """The accelerator's state, one per process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_requested = False
        """Whether `accelerate()` was called, and no `uninstall()` since."""
        self.blocks: set[object] = set()
        """The `accelerated()` blocks that have not ended."""
        self.installing = False
        self.driver: Driver | None = None
        self.patches: list[Patch] = []
        self.waiting: list[Group] = []
        """Groups whose modules are not imported yet."""
        self.modules: dict[str, ModuleType] = {}
        """The patched modules. If one is imported again, `_switch_on` patches the new module."""
        self.last_seams: list[Seam] = []
        """The functions that can be replaced, with their counts when acceleration last ended."""
        self.reasons_by_name: dict[str, str] = {}
        """The reasons why functions are not replaced, by the functions' names."""
        self.without: frozenset[str] = frozenset()
        """The parts of the accelerator that are left out."""

    @property
    def is_enabled(self) -> bool:
        """Whether `accelerate()` or a block asks for acceleration of the driver."""
        return self.is_requested or bool(self.blocks)


_state = _State()


def accelerate(*, without: Iterable[str] = ()) -> None:
    """Replaces functions of cassandra-driver or scylla-driver by native ones.

    If the driver is not imported yet, its functions are replaced when it is imported. Functions
    that cannot be replaced stay the driver's; `status()` lists them with the reasons. Any thread
    may call this function at any time. A second call does nothing, unless its `without` differs:
    then the new `without` applies from now on, and the counts begin again.

    `without` names parts to leave out, to find the cause of a problem: `types`, `marshal`, `bind`,
    `routing_key`, `bodies`, `rows`, `named_rows`, `segments`, `timers`, `cqlengine`, `serializers`,
    `simple_statements`, `query_plans`, `responses`, `frames`, `concurrent`, `sending`.

    Raises: ValueError, for an unknown part; TypeError, if `without` is a str or not iterable.
    """
    parts = _parts(without)
    with _state.lock:
        if parts != _state.without:
            if _state.patches:
                _switch_off()
            _state.without = parts
        _state.is_requested = True
        _switch_on()


def _parts(without: Iterable[str]) -> frozenset[str]:
    if isinstance(without, str):
        raise TypeError(f"without must be a list of names, got the str {without!r}")
    parts = frozenset(without)
    part_names = sorted({group.part for group in _all_groups() if group.part})
    for part in parts:
        if part not in part_names:
            raise ValueError(f"there is no part {part!r}; the parts are {', '.join(part_names)}")
    return parts


def _all_groups() -> list[Group]:
    return [
        *groups(),
        *statement_groups(),
        *mapper_groups(),
        *serializer_groups(),
    ]


_PART_OF = {name: group.part for group in _all_groups() for name in group.names}
"""Maps the name of each function to the part of the accelerator that replaces it."""


def uninstall() -> None:
    """Puts the driver's own functions back. Does nothing if there is nothing to put back.

    If other code has replaced a native function since, the function of the other code stays.
    """
    with _state.lock:
        if _state.is_enabled or _state.patches:
            _state.is_requested = False
            _state.blocks.clear()
            _switch_off()


@contextmanager
def accelerated() -> Iterator[None]:
    """Accelerates a `with` block. Blocks may be nested, and several threads may run blocks at once.

    The driver's functions are put back when the last block ends. If the program has called
    `accelerate()`, they stay replaced after that block.
    """
    block = object()
    try:
        with _state.lock:
            _state.blocks.add(block)
            _switch_on()
        yield
    finally:
        with _state.lock:
            was_enabled = _state.is_enabled
            # `discard` raises no error if an `uninstall()` has removed the block.
            _state.blocks.discard(block)
            if was_enabled and not _state.is_enabled:
                _switch_off()


def status() -> Status:
    """Reports which functions are replaced, and why the others are not.

    It also reports how many calls of each function were native.

    After `uninstall()` or the end of the last block, it reports the counts of that moment.

    Only the calls of the process that calls `status()` are counted. A forked process stays
    accelerated and counts from zero. The calls of a child are not in the counts of the parent, so
    call `status()` in each process. `Status.pid` is the id of the process.
    """
    from ._status import Seam, Status

    with _state.lock:
        if _state.is_enabled:
            _switch_on()
        seams = _state.last_seams if _state.driver is None else _seams()
        unpatched = [
            Seam(name, False, reason, 0, 0, part=_PART_OF[name])
            for name, reason in _state.reasons_by_name.items()
        ]
        unpatched_names = {seam.name for seam in unpatched}
        return Status(
            _state.is_enabled,
            _driver_state(),
            (*(seam for seam in seams if seam.name not in unpatched_names), *unpatched),
            values_left=tuple(_core.accel_refused()),
            notes=tuple({note: None for patch in _state.patches for note in patch.notes()}),
        )


def _seams() -> list[Seam]:
    return [
        patch.seam(_PART_OF[patch.function_name]) for patch in _state.patches if patch.is_listed
    ]


def _driver_state() -> str:
    if _state.driver is not None:
        return _state.driver.name
    if all(_is_loaded(name) for name in _MODULES):
        return driver_name(sys.modules["cassandra.protocol"])
    missing = [name for name in _MODULES if not _is_loaded(name)]
    if len(missing) == len(_MODULES):
        return "the package cassandra is not imported yet"
    return f"it waits for {' and '.join(missing)} to be imported (cassandra.cluster imports all)"


def _switch_on() -> None:
    """Patches the driver, or waits until it is imported. If it was reimported, patches it anew."""
    if any(sys.modules.get(name) is not module for name, module in _state.modules.items()):
        _switch_off()
    is_imported = all(_is_loaded(name) for name in _MODULES)
    if is_imported:
        _install()
    if is_imported and not _state.waiting:
        _stop_watching()
    elif _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def _stop_watching() -> None:
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)


def _switch_off() -> None:
    _stop_watching()
    _core.accel_enable(False)
    patches, driver = _state.patches, _state.driver
    seams = _seams()
    replaced_names = {patch.function_name for patch in reversed(patches) if not patch.undo()}
    # State is cleared only after all patches are undone, so an interrupted call can be repeated.
    for group in _state.waiting:
        for name in group.names:
            _state.reasons_by_name.pop(name, None)
    _state.patches, _state.waiting, _state.driver = [], [], None
    _state.modules = {}
    if driver is not None:
        _state.last_seams = [
            seam.ended(_REPLACED if seam.name in replaced_names else seam.why or "over")
            for seam in seams
        ]
        driver.plans.forget()


_REPLACED = "replaced by somebody after us, and left so"


def _is_loaded(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def _install(loading: str = "") -> None:
    """Patches the driver. `loading` names the module that was just loaded; else it is empty."""
    _state.installing = True
    try:
        if _state.driver is None and not _inspect_driver():
            return
        _apply_groups(loading)
    except BaseException:  # a KeyboardInterrupt may arrive
        _switch_off()
        if _state.is_enabled:
            # The next import of any module tries again.
            sys.meta_path.insert(0, _FINDER)
        raise
    finally:
        _state.installing = False


def _inspect_driver() -> bool:
    _state.reasons_by_name.clear()
    groups = _all_groups()
    try:
        expect_gil()
        driver = Driver(*(importlib.import_module(name) for name in _MODULES))
        values = driver.plans.readers.collections()
    except Exception as error:  # a driver with pieces missing may fail in any way
        reason = reason_of(error)
        for group in groups:
            _state.reasons_by_name.update(dict.fromkeys(group.names, reason))
        return False
    for group in groups:
        if group.part in _state.without:
            _state.reasons_by_name.update(
                dict.fromkeys(group.names, f"left out: without={group.part!r}")
            )
    _state.driver = driver
    _state.waiting = [group for group in groups if group.part not in _state.without]
    _core.accel_values(*values)
    _core.accel_forget_refused()
    _core.accel_enable(True)
    _core.accel_changed()  # Plans from an earlier acceleration may be out of date.
    return True


def _can_patch() -> bool:
    """Whether the driver is not patched yet, or a group that was waiting can be applied now."""
    return _state.driver is None or any(
        group.needs is None or _is_loaded(group.needs) for group in _state.waiting
    )


def _apply_groups(loading: str) -> None:
    driver, watch_problem = _state.driver, None
    if driver is None or not _state.waiting:
        return
    _state.modules = {
        name: sys.modules[name]
        for name in _MODULES + _GROUP_MODULES
        if _is_loaded(name) or (name == loading and name in sys.modules)
    } | _state.modules  # This keeps the modules that were patched, so a reimport can be noticed.
    groups, _state.waiting = _state.waiting, []
    if isinstance(groups[0], TypeWatcher):
        watch_problem = _helper_problem()
    for group in groups:
        for name in group.names:
            _state.reasons_by_name.pop(name, None)
        try:
            if group.needs is not None and group.needs != loading and not _is_loaded(group.needs):
                _state.waiting.append(group)
                raise NotReplaced(f"it waits for {group.needs} to be imported")
            if watch_problem and any(
                name.startswith("cqltypes") or "bind" in name or "recv_results" in name
                for name in group.names
            ):
                raise NotReplaced(watch_problem)
            patches = group.patches(driver)
        except NotReplaced as not_replaced:
            reason = str(not_replaced)
        except Exception as error:  # an unknown driver may fail in any way
            reason = f"it could not be inspected: {error!r}"
        else:
            for patch in patches:
                _state.patches.append(patch)
                patch.apply()
            continue
        if isinstance(group, TypeWatcher):
            watch_problem = f"changes to the driver's types cannot be detected: {reason}"
        _state.reasons_by_name.update(dict.fromkeys(group.names, reason))


def _helper_problem() -> str | None:
    """Returns why types cannot be accelerated, if one of their helpers was replaced; else None."""
    util, marshal = (importlib.import_module(f"cassandra.{name}") for name in ("util", "marshal"))
    deserializers = sys.modules.get("cassandra.deserializers")
    try:
        expect_helpers(sys.modules["cassandra.cqltypes"], util, marshal, deserializers)
    except NotReplaced as not_replaced:
        return str(not_replaced)
    return None


def _before_fork() -> None:
    _state.lock.acquire()
    if _state.driver is not None:
        _state.driver.plans.lock.acquire()


def _after_fork() -> None:
    # `_before_fork` took the locks. The parent and the child both hold them, so both release them.
    if _state.driver is not None:
        _state.driver.plans.lock.release()
    _state.lock.release()


def _after_fork_in_child() -> None:
    try:
        # The calls made before the fork count in the parent only.
        for patch in _state.patches:
            patch.count_from_here()
        _state.last_seams = [seam.at_zero() for seam in _state.last_seams]
    finally:
        _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )


class _Finder(MetaPathFinder):
    """Patches the driver when its modules are imported."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in (*_MODULES, *_GROUP_MODULES, SERIALIZERS):
            self._retry_patching()
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and fullname != SERIALIZERS:
                    spec.loader = _Loader(spec.loader)
                return spec
        return self._find_serializers() if fullname == SERIALIZERS else None

    def _find_serializers(self) -> importlib.machinery.ModuleSpec | None:
        """Imports `_MODULES`. Returns the spec of `cassandra.serializers` if the import adds it."""
        for name in _MODULES:
            importlib.import_module(name)
        return getattr(sys.modules.get(SERIALIZERS), "__spec__", None)

    def _retry_patching(self) -> None:
        """Patches modules whose import was under way when the finder was added.

        Such a module has no `_Loader` that patches it. This method also tries again after an error.
        """
        if all(_is_loaded(name) for name in _MODULES) and _state.lock.acquire(blocking=False):
            try:
                # Patching imports modules too. These imports must not start the patching again.
                if _state.is_enabled and not _state.installing and _can_patch():
                    _switch_on()
            finally:
                _state.lock.release()


class _Loader(Loader):
    """Loads a module by another loader. Then patches the driver, if all `_MODULES` are loaded."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        # A copy of a loader first has no `_loader`. Without this error, the lookup would not end.
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            # The module must not name this loader, but the loader that really loads the module.
            spec.loader = self._loader
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        module_name = module.__name__
        if all(name == module_name or _is_loaded(name) for name in _MODULES):
            with _state.lock:
                if _state.is_enabled:
                    _install(module_name)
                    if not _state.waiting:
                        _stop_watching()


_FINDER = _Finder()
