"""Patches the methods that send data on the sockets of connections."""

from __future__ import annotations

import collections
import errno
import os
import socket

from .. import _core
from ._checked import Checked, loaded
from ._frames import has_fields
from ._origin import NotReplaced
from ._patch import Driver, Group, Patch
from ._sources import Sources
from ._thread_events import thread_events

__all__ = ["LIBEV", "sending_groups"]

LIBEV = "cassandra.io.libevreactor"
"""The module of the event loop that the driver uses if the module's C extension is installed."""

_SOURCES: dict[str, tuple[str, ...]] = {
    "push": ("82722ef3b8d4",),
    "handle_write": ("52cf126325e3", "f37c7dbd5f4b"),
}
"""The methods of `LibevConnection` that are replaced, and the digests of their known sources."""
_IMITATED: dict[str, tuple[str, ...]] = {
    "LibevLoop.notify": ("ff348d75f696",),
    "LibevLoop._loop_will_run": ("719ee43f6b2a", "a34eb1883205", "c2f30994d3e3"),
}
"""Functions that are not replaced, but must have known sources. Native code does the work of
`notify` itself, and depends on what the event loop does in `_loop_will_run`."""


class Sending(Group):
    """Patches the methods of `LibevConnection` that queue messages and write them to the socket."""

    part = "sending"
    needs = LIBEV
    names = tuple(f"io.libevreactor.LibevConnection.{name}" for name in _SOURCES)

    def patches(self, driver: Driver) -> list[Patch]:
        reactor, connection = loaded("io.libevreactor"), loaded("connection")
        checked = Checked(Sources())
        owner = reactor.LibevConnection
        originals = {
            name: checked.expect(reactor, f"LibevConnection.{name}", digests)
            for name, digests in _SOURCES.items()
        }
        for name, digests in _IMITATED.items():
            checked.expect(reactor, name, digests)
        numbers = (errno.EAGAIN, errno.EWOULDBLOCK)
        if numbers != connection.NONBLOCKING:
            raise NotReplaced("cassandra.connection.NONBLOCKING has been replaced")
        for name, value in (
            ("NONBLOCKING", connection.NONBLOCKING),
            ("LibevLoop", reactor.LibevLoop),
            ("libev", reactor.libev),
            ("deque", collections.deque),
            ("socket", socket),
            ("os", os),
        ):
            checked.add_entry(reactor, name, value)
        checked.expect_none(socket.socket, "send", "fileno", "__getattribute__", "__getattr__")
        events = thread_events(reactor, checked, ("Lock",))
        sending = _core.Sending(
            checked.usual(),
            has_fields(
                ("deque", "_deque_lock", "_socket", "in_flight"),
                **originals,
                **dict.fromkeys(("is_closed", "is_defunct", "_write_watcher_is_active"), False),
            ),
            events,
            vars(reactor),
            reactor.LibevLoop,
            collections.deque,
            socket.socket,
            sorted(set(numbers)),
            reactor.libev.EV_ERROR,
        )
        patches = []
        for name, original in originals.items():
            stand_in = _core.SendStandIn(original, sending, name)
            patches.append(
                Patch(
                    owner,
                    name,
                    f"io.libevreactor.LibevConnection.{name}",
                    stand_in.function(),
                    stand_in.counts,
                    problem=checked.problem,
                )
            )
        return patches


def sending_groups() -> list[Group]:
    """All groups that patch how connections send."""
    return [Sending()]
