"""Lets other greenlets run during a blocking call, in programs that gevent has patched."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from .. import _core

__all__ = ["notice_gevent", "wait_in_hub"]

_READ = 1
"""libev's flag for watching whether a file descriptor is readable."""


def notice_gevent() -> None:
    """If gevent has patched `threading`, makes blocking calls let other greenlets run."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        _core.let_greenlets_run()


def wait_in_hub(op: _core.Op) -> bool:
    """Waits until the operation has a completion, while other greenlets of the thread run.

    Returns false at once if the thread has no hub of gevent, or if the caller is the hub, because
    the hub cannot wait.
    """
    from gevent import getcurrent
    from gevent._hub_local import get_hub_if_exists

    hub: Any = get_hub_if_exists()
    if hub is None or getcurrent() is hub:
        return False
    waits = getattr(hub, "_turbocql_waits", None)
    if waits is None:
        waits = hub._turbocql_waits = _Waits(hub)
    waits.wait(op)
    return True


class _Waits:
    """The greenlets of one hub that wait for operations."""

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self._core = _core.HubWaits()
        self._watcher = hub.loop.io(self._core.fileno(), _READ)
        self._waiters: dict[int, Any] = {}
        self._tokens = itertools.count()

    def wait(self, op: _core.Op) -> None:
        from gevent.hub import Waiter

        token = next(self._tokens)
        waiter = self._waiters[token] = Waiter(self._hub)
        # An active watcher keeps the hub's loop running. So it is active only while a greenlet
        # waits.
        if len(self._waiters) == 1:
            self._watcher.start(self._wake)
        try:
            if self._core.watch(op, token):
                waiter.get()
        finally:
            del self._waiters[token]
            if not self._waiters:
                self._watcher.stop()

    def _wake(self) -> None:
        for token in self._core.woken():
            # If an exception has ended the wait of the greenlet, its waiter is no longer here.
            waiter = self._waiters.get(token)
            if waiter is not None:
                waiter.switch(None)
