"""The simulator's process: listens in front of the nodes, and executes commands.

The commands come from the parent, the process of the tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from .connection import Connection
from .records import ClientConnection
from .settings import SHARD_AWARE_PORT, Shards
from .state import NodeState, State

__all__ = ["main"]

CQL_PORT = 9042
_CONNECT_S = 5.0


class Server:
    """Listens on the addresses of all nodes of one cluster, and executes the parent's commands."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        nodes = [
            NodeState(
                number,
                node["address"],
                node["upstream_address"],
                UUID(node["host_id"]),
                shards_from(node["shards"]),
            )
            for number, node in enumerate(order["nodes"])
        ]
        self.state = State(nodes)
        self.connections: set[Connection] = set()
        self._aware: dict[int, asyncio.Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._commands: dict[str, Callable[..., Any]] = {
            "requests": self._requests,
            "reset": self.state.log.clear,
            "connections": self._connections,
            "failures": lambda: list(self.state.failures),
            "tablets": self._tablets,
            "move": self._move,
            "split": lambda keyspace, table: self._map(keyspace, table).split(),
            "merge": lambda keyspace, table: self._map(keyspace, table).merge(),
            "renew_metadata_ids": self.state.renew_salt,
            "limit": self.state.set_limit,
            "faults": self._faults,
            "shards": self._shards,
        }

    async def listen(self) -> None:
        """Listens on each node's plain port, and on the shard-aware ports that nodes announce."""
        for node in self.state.nodes:
            await asyncio.start_server(partial(self._accept, node, False), node.address, CQL_PORT)
            await self.open_aware(node.index)

    async def open_aware(self, number: int) -> None:
        """Listens on the shard-aware port of a node that announces one."""
        node = self.state.nodes[number]
        if number not in self._aware and node.shards is not None and node.shards.shard_aware_port:
            accept = partial(self._accept, node, True)
            self._aware[number] = await asyncio.start_server(accept, node.address, SHARD_AWARE_PORT)

    async def close_aware(self, number: int) -> None:
        """Stops listening on a shard-aware port. SUPPORTED still announces the port."""
        server = self._aware.pop(number, None)
        if server is not None:
            server.close()

    async def _reopen_aware(self, number: int) -> None:
        """Closes a node's shard-aware port, and opens it again if the node announces it now."""
        await self.close_aware(number)
        await self.open_aware(number)

    async def _accept(
        self,
        node: NodeState,
        is_aware: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            opening = asyncio.open_connection(node.upstream_address, CQL_PORT)
            upstream = await asyncio.wait_for(opening, _CONNECT_S)
        except (OSError, asyncio.TimeoutError):
            writer.transport.abort()
            return
        port = int((writer.get_extra_info("peername") or ("", 0))[1])
        is_chosen = is_aware and not self.state.faults.is_nat
        shard = port % node.count if is_chosen else node.next_shard()
        connection = Connection(self.state, node, shard, is_aware, (reader, writer), upstream)
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)

    async def command(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Executes one command of the parent, and returns the answer."""
        try:
            name, arguments = line["do"], line.get("with", {})
            if name in ("open_aware", "close_aware"):
                await getattr(self, name)(**arguments)
                return {"result": None}
            result = self._commands[name](**arguments)
            if name == "shards":
                await self._reopen_aware(arguments["node"])
            return {"result": result}
        except Exception as error:  # the parent raises it as a `CassandraError`
            return {"error": f"{type(error).__name__}: {error}"}

    def _requests(self, since: int) -> list[dict[str, Any]]:
        return [vars(request) for request in self.state.log if request.number >= since]

    def _connections(self) -> list[dict[str, Any]]:
        return [
            vars(
                ClientConnection(
                    connection.node.index,
                    connection.shard,
                    connection.is_aware,
                    connection.extensions,
                    connection.driver,
                    connection.address,
                    connection.port,
                )
            )
            for connection in self.connections
        ]

    def _map(self, keyspace: str, table: str) -> Any:
        tablets = self.state.tablets_of((keyspace, table))
        if tablets is None:
            raise ValueError(f"{keyspace}.{table} has no tablets")
        return tablets

    def _tablets(self, keyspace: str, table: str) -> list[list[Any]]:
        return [
            [
                tablet.first_token,
                tablet.last_token,
                [vars(replica) for replica in tablet.replicas],
            ]
            for tablet in self._map(keyspace, table).tablets
        ]

    def _move(self, keyspace: str, table: str, token: int | None) -> int:
        moved: int = self._map(keyspace, table).move(token, self.state.host_ids_and_shard_counts())
        return moved

    def _faults(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self.state.faults, name, value)

    def _shards(self, node: int, shards: Mapping[str, Any] | None) -> None:
        changed = self.state.nodes[node]
        changed.shards, changed.dealt = shards_from(shards), 0
        for tablets in self.state.maps.values():
            tablets.fit(node, changed.count)
        for connection in list(self.connections):
            if connection.node is changed:
                connection.close()


def shards_from(settings: Mapping[str, Any] | None) -> Shards | None:
    """The shards of a node, from a decoded JSON object."""
    return None if settings is None else Shards(**settings)


def _as_json(value: Any) -> Any:
    """Converts values that JSON lacks: bytes to hex digits, sets to lists, UUIDs to text."""
    if isinstance(value, bytes):
        return value.hex()
    return sorted(value) if isinstance(value, frozenset) else str(value)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    order = json.loads(await lines.readline())
    server = Server(order)
    exit_task = asyncio.ensure_future(_exit_with_starter(order["starter"]))
    await server.listen()
    await _print({"result": "ready", "number": order["number"]})
    # The input ends when the parent ends, unless a forked child of the parent holds the pipe open.
    # In this case, `_exit_with_starter` ends the process.
    while line := await lines.readline():
        command = json.loads(line)
        if command["do"] == "end":
            break
        answer = await server.command(command)
        await _print({**answer, "number": command["number"]})
    exit_task.cancel()


async def _print(answer: dict[str, Any]) -> None:
    """Prints an answer on another thread, because printing may block until the parent reads."""
    text = json.dumps(answer, default=_as_json)
    await asyncio.get_running_loop().run_in_executor(None, partial(print, text, flush=True))


async def _exit_with_starter(starter: int) -> None:
    """Ends this process when its parent, whose process id is `starter`, has ended."""
    while os.getppid() == starter:
        await asyncio.sleep(1.0)
    os._exit(0)


def main() -> None:
    """Serves until the parent sends `end` or has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    asyncio.new_event_loop().run_until_complete(_serve())
    # Exits without cleanup: connections need no clean close.
    os._exit(0)
