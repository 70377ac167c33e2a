"""Runs a proxy in front of each node. All proxies run in one process.

The program is `python -m tests.faults.proxy SEED NODE...`. A node is `address:port`. Its proxy
listens on the same address, but on another port. The command `ports` starts the proxies and returns
their ports. The command `fault` begins a fault. Its arguments are `node`, which is the node's index
on the command line, and the fields of `wire.Fault`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from typing import Any

from tests.faults.child import Reply, serve
from tests.faults.wire import FAULTS, Fault, Stream

__all__ = ["Door"]

_HIGH_WATER = 1 << 20


class Link:
    """A client's connection, and the connection to the node that the proxy opens for it."""

    def __init__(self, door: Door, chance: random.Random) -> None:
        self._door = door
        self.up = Stream(chance, self.end, door.count)
        """The data from the client to the node."""
        self.down = Stream(chance, self.end, door.count)
        self.client = Side(self, self.up)
        self.node = Side(self, self.down)
        self.is_cut_off = False
        """Whether the client's side stays open when the node's side ends."""

    def begin(self, fault: Fault) -> None:
        """Begins a fault on this link, which is open."""
        client = self.client.transport
        if fault.kind in ("silent", "reset"):
            self._door.count(1)
            self.abort()
            return
        if fault.kind == "half-close" and client is not None and not client.is_closing():
            self._door.count(1)
            self.is_cut_off = True
            client.write_eof()
            self.down.begin(Fault("swallow"))
            return
        self.is_cut_off |= fault.kind == "swallow"
        self.up.begin(fault)
        self.down.begin(fault)

    def connected(self, side: Side, transport: asyncio.Transport) -> None:
        """Starts forwarding to a side that has connected.

        If the node's side connects only after the client has disconnected, the method aborts the
        node's side.
        """
        if side is self.client:
            self.down.connected(transport)
            self._door.opened(self)
            return
        if self.client.is_lost:
            transport.abort()
            return
        self.up.connected(transport)

    def ended(self, side: Side, *, broken: bool) -> None:
        """Ends the link after one of its sides has ended.

        If `is_cut_off` is true and only the node's side has ended, the link stays open.
        """
        if side is self.node and self.is_cut_off and not self.client.is_lost:
            return
        if broken:
            self.abort()
        else:
            self.end()

    def end(self) -> None:
        """Closes both sides after the written data has been sent. Discards delayed data."""
        self._forget()
        for side in (self.client, self.node):
            if side.transport is not None:
                side.transport.close()

    def abort(self) -> None:
        """Resets both sides."""
        self._forget()
        for side in (self.client, self.node):
            if side.transport is not None:
                side.transport.abort()

    def _forget(self) -> None:
        self.up.close()
        self.down.close()
        self._door.links.discard(self)


class Side(asyncio.Protocol):
    """One of the two sides of a link. It passes received data to `stream`."""

    def __init__(self, link: Link, stream: Stream) -> None:
        self._link = link
        self._stream = stream
        self.transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(_HIGH_WATER)
        self._link.connected(self, transport)

    def data_received(self, data: bytes) -> None:
        self._stream.feed(data)

    def eof_received(self) -> bool:
        self._link.ended(self, broken=False)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self._link.ended(self, broken=error is not None)

    def pause_writing(self) -> None:
        self._other_reads(False)

    def resume_writing(self) -> None:
        self._other_reads(True)

    def _other_reads(self, reads: bool) -> None:
        other = self._link.client if self is self._link.node else self._link.node
        if other.transport is not None and not other.transport.is_closing():
            if reads:
                other.transport.resume_reading()
            else:
                other.transport.pause_reading()


class Door:
    """The proxy in front of one node."""

    def __init__(self, node: str, chance: random.Random) -> None:
        self._host, _, port = node.rpartition(":")
        self._port = int(port)
        self._chance = chance
        self._fault = Fault()
        self._effect = 0
        self._connecting: set[asyncio.Task[None]] = set()
        self.links: set[Link] = set()

    async def listen(self) -> int:
        """Begins to accept connections, and returns the port."""
        server = await asyncio.get_running_loop().create_server(
            self._accept, self._host, 0, backlog=512
        )
        port: int = server.sockets[0].getsockname()[1]
        return port

    def count(self, by: int) -> None:
        """Adds `by` to the number of hits of the current fault. The fault `pass` has no hits."""
        if self._fault.kind != "pass":
            self._effect += by

    def begin(self, fault: Fault) -> int:
        """Replaces the current fault by `fault`. The fault `pass` forwards everything.

        Returns the number of hits of the previous fault.
        """
        effect, self._effect = self._effect, 0
        self._fault = fault
        for link in list(self.links):
            link.begin(fault)
        return effect

    def opened(self, link: Link) -> None:
        """Applies the current fault to a link whose client has connected.

        The link is then connected to the node, unless the fault is "reset", "silent" or "swallow".
        The fault "half-close" does not affect new links.
        """
        self.links.add(link)
        kind = self._fault.kind
        if kind == "reset":
            self.count(1)
            link.abort()
        elif kind in ("silent", "swallow"):
            self.count(1)
            link.is_cut_off = True
            link.up.begin(Fault("swallow"))
        else:
            if kind != "half-close":
                link.up.begin(self._fault)
                link.down.begin(self._fault)
            task = asyncio.get_running_loop().create_task(self._connect(link))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def _accept(self) -> Side:
        return Link(self, self._chance).client

    async def _connect(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: link.node, self._host, self._port)
        except OSError:
            link.abort()


class _Proxies:
    """All proxies, on an event loop in its own thread."""

    def __init__(self, seed: str, nodes: list[str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._doors = [Door(node, random.Random(f"{seed} {node}")) for node in nodes]
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def handle(self, do: str, arguments: Reply) -> Reply:
        return asyncio.run_coroutine_threadsafe(self._handle(do, arguments), self._loop).result()

    async def _handle(self, do: str, arguments: dict[str, Any]) -> Reply:
        if do == "ports":
            return {"ports": [await door.listen() for door in self._doors]}
        if do == "fault":
            door = self._doors[arguments.pop("node")]
            fault = Fault(**arguments)
            if fault.kind not in FAULTS:
                raise ValueError(f"no such fault: {fault.kind!r}")
            return {"effect": door.begin(fault), "links": len(door.links)}
        raise ValueError(f"no such command: {do!r}")


if __name__ == "__main__":
    serve(_Proxies(sys.argv[1], sys.argv[2:]).handle)
