"""Starts the simulator's process, and sends commands to it from the process of the tests."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from ..errors import CassandraError
from .records import ClientConnection, Request
from .settings import Shards
from .tablets import Replica, Tablet

__all__ = ["Scylla"]


class Scylla:
    """Simulates ScyllaDB's additions to the protocol, in front of the nodes of a `Cassandra`.

    `requests` returns the requests that clients have sent, and `connections` the connections that
    they have opened. If a method changes how requests are answered, the change applies from the
    next request on. A node is an index in `Cassandra.nodes`.

    Raises: every method but `close` raises `CassandraError` if the process has ended or refuses the
        command.
    """

    def __init__(self, nodes: Sequence[dict[str, Any]]) -> None:
        """`nodes` has the addresses, the host id and the shards of each node."""
        root = str(Path(__file__).resolve().parents[3])
        paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "turbocql.testing.scylla"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,
        )
        order = [
            {**node, "shards": node["shards"] and dataclasses.asdict(node["shards"])}
            for node in nodes
        ]
        self._commands = itertools.count()
        self._count = len(order)
        self._ask({"nodes": order, "starter": os.getpid()})

    def requests(self, since: int = 0) -> list[Request]:
        """The requests from number `since` on. The log has the last 200,000 requests."""
        return [
            Request(
                **{
                    **line,
                    "extensions": frozenset(line["extensions"]),
                    "routing_key": _bytes(line["routing_key"]),
                    "values": line["values"] and tuple(map(_bytes, line["values"])),
                    "metadata_id": _bytes(line["metadata_id"]),
                }
            )
            for line in self._do("requests", since=since)
        ]

    def connections(self) -> list[ClientConnection]:
        """The open connections of clients."""
        return [
            ClientConnection(**{**line, "extensions": frozenset(line["extensions"])})
            for line in self._do("connections")
        ]

    def reset(self) -> None:
        """Removes all requests from the log. The next request still gets the next number."""
        self._do("reset")

    def failures(self) -> list[str]:
        """The errors that ended connections: defects of the simulator, and unreadable frames."""
        return [str(line) for line in self._do("failures")]

    def tablets(self, keyspace: str, table: str) -> list[Tablet]:
        """The tablets of a table, in the order of their tokens."""
        return [
            Tablet(first, last, tuple(_replica(replica) for replica in replicas))
            for first, last, replicas in self._do("tablets", keyspace=keyspace, table=table)
        ]

    def move(self, keyspace: str, table: str, *, token: int | None = None) -> int:
        """Moves the replicas of the tablet that contains `token` to other nodes and shards.

        Without `token`, moves the replicas of every tablet.

        Returns: the number of tablets whose replicas have changed.
        """
        return int(self._do("move", keyspace=keyspace, table=table, token=token))

    def split(self, keyspace: str, table: str) -> int:
        """Cuts each tablet in two. Returns the new number of tablets."""
        return int(self._do("split", keyspace=keyspace, table=table))

    def merge(self, keyspace: str, table: str) -> int:
        """Joins tablets in pairs. Returns the new number of tablets."""
        return int(self._do("merge", keyspace=keyspace, table=table))

    def renew_metadata_ids(self) -> None:
        """Invalidates every id of result metadata that clients hold."""
        self._do("renew_metadata_ids")

    def limit(self, *, marked: str | None = None, per_second: float | None = None) -> None:
        """Refuses statements that contain `marked`, and requests above a node's rate `per_second`.

        Without arguments, no request is refused. Statements on system tables are never refused. A
        node without `Shards` refuses none. The error is 0xF000, or 0x2300 for a client that has not
        enabled SCYLLA_RATE_LIMIT_ERROR in STARTUP.

        Raises: `ValueError` for a `marked` that is not a str or is empty, and for a `per_second`
            that is not a number or is negative.
        """
        if marked is not None and (not isinstance(marked, str) or not marked):
            raise ValueError(f"marked: expected a part of a statement's text, got {marked!r}")
        is_number = isinstance(per_second, (int, float)) and not isinstance(per_second, bool)
        if per_second is not None and (not is_number or not per_second >= 0):
            raise ValueError(f"per_second: expected a number of requests, got {per_second!r}")
        self._do("limit", marked=marked, per_second=per_second)

    def empty_pages(self, count: int) -> None:
        """Sends `count` pages without rows before the first page of each paged SELECT on a user
        table; 0 for none.
        """
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"empty_pages: expected a number of pages, got {count!r}")
        self._do("faults", empty_pages=count)

    def translate_ports(self, is_on: bool = True) -> None:
        """Ignores source ports, as if a NAT rewrote them: connections get the shards in turn."""
        self._do("faults", is_nat=is_on)

    def close_shard_aware_port(self, node: int) -> None:
        """Closes a node's shard-aware port. SUPPORTED still announces the port."""
        self._do("close_aware", number=self._checked(node))

    def open_shard_aware_port(self, node: int) -> None:
        """Listens on a node's shard-aware port again."""
        self._do("open_aware", number=self._checked(node))

    def set_shards(self, node: int, shards: Shards | None) -> None:
        """Gives a node other shards and closes its connections, as a restart does."""
        if not isinstance(shards, (Shards, type(None))):
            raise ValueError(f"shards: expected Shards(count) or None, got {shards!r}")
        settings = None if shards is None else dataclasses.asdict(shards)
        self._do("shards", node=self._checked(node), shards=settings)

    def _checked(self, node: int) -> int:
        """Returns the index of a node, or raises `ValueError` if `node` is not an index."""
        if type(node) is not int or not 0 <= node < self._count:
            raise ValueError(f"node: expected an index below {self._count}, got {node!r}")
        return node

    def close(self) -> None:
        """Ends the process. A second call does nothing."""
        with self._lock:
            process = self._process
            if process.stdin is None or process.stdin.closed:
                return
            # If a forked child holds the pipe open, closing the pipe here does not end the process.
            # So the command `end` is sent first.
            with suppress(OSError, ValueError):
                process.stdin.write(json.dumps({"do": "end"}) + "\n")
                process.stdin.flush()
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _do(self, command: str, **arguments: Any) -> Any:
        return self._ask({"do": command, "with": arguments})

    def _ask(self, line: dict[str, Any]) -> Any:
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            number = next(self._commands)
            outcome = None
            try:
                self._process.stdin.write(json.dumps({**line, "number": number}) + "\n")
                self._process.stdin.flush()
                # If a signal interrupted an earlier call, the answer to that call comes first. That
                # answer may be incomplete.
                while outcome is None and (answer := self._process.stdout.readline()):
                    outcome = _answer(answer, number)
            except (OSError, ValueError):
                pass
        if outcome is None:
            raise CassandraError("the process in front of the nodes has ended")
        if "error" in outcome:
            raise CassandraError(outcome["error"])
        return outcome["result"]


def _answer(line: str, number: int) -> dict[str, Any] | None:
    """Returns the answer to the command `number`.

    Returns `None` if the line is the answer to another command, or is incomplete.
    """
    try:
        answer: dict[str, Any] = json.loads(line)
        return answer if answer.get("number") == number else None
    except (ValueError, AttributeError):
        return None


def _bytes(digits: str | None) -> bytes | None:
    return None if digits is None else bytes.fromhex(digits)


def _replica(line: dict[str, Any]) -> Replica:
    return Replica(line["node"], UUID(line["host_id"]), line["shard"])
