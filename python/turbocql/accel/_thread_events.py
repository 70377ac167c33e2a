"""Makes the object with which native code makes and sets events of `threading`."""

from __future__ import annotations

import collections
import threading
from types import ModuleType
from typing import Any

from .. import _core
from ._checked import Checked
from ._origin import NotReplaced, is_own

__all__ = ["thread_events"]


def thread_events(
    module: ModuleType, checked: Checked, names: tuple[str, ...] = ("Event", "Lock")
) -> _core.ThreadEvents:
    """Returns an object with which native code makes and sets events of `threading`.

    `module` is a module of the driver. Each of `names` must be the same object in `module` as in
    `threading`.

    Raises: NotReplaced, if a class of `threading` is not CPython's own, as under gevent and
        eventlet, or if native code would make or set events differently.
    """
    lock = threading.Lock()
    event, condition = threading.Event, threading.Condition
    if type(lock).__module__ not in ("_thread", "builtins"):
        raise NotReplaced("the locks of this process are not CPython's")
    for name in names:
        checked.add_entry(module, name, vars(threading)[name])
    for owner, names in (
        (event, ("__init__", "set", "wait")),
        (condition, ("__init__", "notify", "notify_all", "wait", "__enter__", "__exit__")),
    ):
        checked.expect_none(owner, "__setattr__", "__new__")
        for name in names:
            checked.add_attribute(owner, name)
            if not is_own(threading, owner, name):
                raise NotReplaced(f"threading.{owner.__name__}.{name} has been replaced")
    events = _core.ThreadEvents(
        event,
        condition,
        collections.deque,
        type(lock),
        type(threading.RLock()),
        threading.Lock,
        object.__new__,
    )
    own, native = event(), events.event()
    if _description(own) != _description(native):
        raise NotReplaced("this Python makes events that differ from those that turbocql knows")
    for sample in (own, native):
        sample.set()
    if _description(own) != _description(native):
        raise NotReplaced("this Python sets events differently from turbocql")
    return events


def _description(event: Any) -> list[Any]:
    """Returns the attributes of an event and of its condition, in a form that can be compared."""
    condition = event._cond
    functions = [getattr(condition, name) for name in ("acquire", "release")]
    return [
        *(type(event), type(condition), type(condition._lock)),
        *(list(vars(event)), list(vars(condition))),
        *(event._flag, condition._waiters, condition._lock.locked()),
        *([function.__self__ is condition._lock for function in functions]),
        *([function.__name__ for function in functions]),
    ]
