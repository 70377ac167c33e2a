"""Patches methods of the driver's futures and of its connection pools."""

from __future__ import annotations

import collections
import threading
import time
from types import ModuleType
from typing import Any

from .. import _core
from ._checked import Checked, loaded
from ._origin import NotReplaced, is_own
from ._patch import Driver, Group, Patch
from ._sources import Sources
from ._statements import CLUSTER

__all__ = ["response_groups", "result_sets", "thread_events"]

_SOURCES: dict[str, tuple[str, ...]] = {
    "_start_timer": ("a4fd3cc5d61c",),
    "_cancel_timer": ("da78b04d2bff",),
    "add_callback": ("9628a696959b",),
    "add_errback": ("a71cc4a37ef2",),
    "add_callbacks": ("47375aeeb1ec",),
    "clear_callbacks": ("cc6964d76c0c",),
    "result": ("398a901e2cf7",),
}
"""The replaced methods of `ResponseFuture` whose sources are the same in cassandra-driver and
scylla-driver, and the digests of their known sources."""
_OF_SCYLLA: dict[str, tuple[str, ...]] = {
    "__init__": ("dae7160b7809",),
    "_set_result": ("21c11fbdb9e7",),
    "_set_final_result": ("ba450955b251",),
}
_OF_CASSANDRA: dict[str, tuple[str, ...]] = {
    "__init__": ("fa48a4cbc973",),
    "_set_result": ("358651dab216",),
    "_set_final_result": ("84c38589ac1e",),
}
"""The replaced methods of `ResponseFuture` whose sources differ between the two drivers."""
_USE_MODULE = {"__init__", "_start_timer", "_set_result"}
"""The methods whose native stand-ins check at each call that names of the module
`cassandra.cluster` were not replaced. The stand-ins of all methods check attributes of classes."""
_IMITATED: dict[str, tuple[str, ...]] = {
    "cluster.ResponseFuture._time_remaining": ("fbe4115ebed8",),
    "policies.NoSpeculativeExecutionPlan.next_execution": ("cf59b5678019",),
}
"""Functions that native code does not call, because it does their work itself."""


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


_RESULT_SET: dict[str, tuple[str, ...]] = {
    "ResultSet.__init__": ("f37e2ab3a721",),
    "ResultSet._set_current_rows": ("1dc97145244b",),
}


def result_sets(cluster: ModuleType, checked: Checked) -> _core.ResultSets:
    """Returns an object with which native code makes instances of the driver's `ResultSet`.

    Raises: NotReplaced, if turbocql does not know this version of `ResultSet`.
    """
    for name, digests in _RESULT_SET.items():
        checked.expect(cluster, name, digests)
    checked.expect_none(cluster.ResultSet, "__setattr__", "__new__")
    sets = _core.ResultSets(cluster.ResultSet, object.__new__)
    samples: tuple[Any, ...] = (None, [], [(1,)], (), {}, 5)
    for rows in samples:
        own, native = cluster.ResultSet(_Columns, rows), sets.make(_Columns, rows)
        if type(own) is not type(native) or list(vars(own).items()) != list(vars(native).items()):
            raise NotReplaced("it makes result sets that differ from those of turbocql")
    return sets


class _Columns:
    """Imitates a future of the driver, to make sample result sets."""

    _col_names, _col_types = ("a",), (int,)


class Responses(Group):
    """Patches the methods that make futures, add callbacks to them, and set their results."""

    part = "responses"
    needs = CLUSTER
    names = tuple(f"cluster.ResponseFuture.{name}" for name in _SOURCES | _OF_SCYLLA)

    def patches(self, driver: Driver) -> list[Patch]:
        cluster = loaded("cluster")
        sources = Sources()
        checked = Checked(sources)
        owner = cluster.ResponseFuture
        is_scylla = "_routing_token" in sources.source(cluster, "ResponseFuture.__init__")
        digests = _SOURCES | (_OF_SCYLLA if is_scylla else _OF_CASSANDRA)
        originals = {
            name: checked.expect(cluster, f"ResponseFuture.{name}", digests[name])
            for name in digests
        }
        for name, known in _IMITATED.items():
            module, _, function = name.partition(".")
            checked.expect(loaded(module), function, known)
        checked.expect_none(owner, "__setattr__", "__getattribute__", "__getattr__")
        checked.add_entry(cluster, "time", time)
        checked.add_entry(cluster, "ResultMessage", driver.protocol.ResultMessage)
        checked.add_entry(cluster, "log", cluster.log)
        for name, number in (("RESULT_KIND_VOID", 1), ("RESULT_KIND_ROWS", 2)):
            if vars(cluster).get(name) != number:
                raise NotReplaced(f"cassandra.cluster.{name} has been replaced")
            checked.add_entry(cluster, name, vars(cluster)[name])
        events = thread_events(cluster, checked)
        sets = result_sets(cluster, checked)
        responses = _core.Responses(
            owner,
            events,
            cluster._NOT_SET,
            time,
            loaded("policies").NoSpeculativeExecutionPlan,
            driver.protocol.ResultMessage,
            cluster.log,
            sets,
            is_scylla,
        )
        usual, of_classes = checked.usual(), checked.usual(with_entries=False)
        patches = []
        for name, original in originals.items():
            usual_of_method = usual if name in _USE_MODULE else of_classes
            stand_in = _core.ResponseStandIn(original, responses, usual_of_method, name)
            replacement = stand_in.function()
            patches.append(
                Patch(
                    owner,
                    name,
                    f"cluster.ResponseFuture.{name}",
                    replacement,
                    stand_in.counts,
                    problem=checked.problem,
                )
            )
        return patches


_RETURN_CONNECTION = ("174f793685be", "1301db82f41b")


class Pools(Group):
    """Patches the method that returns a connection to its pool after each response."""

    part = "responses"
    needs = CLUSTER
    names = ("pool.HostConnection.return_connection",)

    def patches(self, driver: Driver) -> list[Patch]:
        pool, cluster = loaded("pool"), loaded("cluster")
        checked = Checked(Sources())
        name = "return_connection"
        original = checked.expect(pool, f"HostConnection.{name}", _RETURN_CONNECTION)
        checked.add_entry(pool, "Condition", threading.Condition)
        events = thread_events(cluster, checked)
        owner = pool.HostConnection
        stand_in = _core.ReturnStandIn(original, owner, checked.usual(), events)
        replacement = stand_in.function()
        patch = Patch(
            owner, name, self.names[0], replacement, stand_in.counts, problem=checked.problem
        )
        return [patch]


def response_groups() -> list[Group]:
    """All groups that patch futures and pools."""
    return [Responses(), Pools()]
