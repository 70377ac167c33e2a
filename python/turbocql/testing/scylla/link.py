"""Passes frames between a client's connection and a connection to the node."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from .. import frames
from ..frames import Frame, FrameReader, error_body
from .messages import SKIP_METADATA, Execute
from .records import Request
from .state import NodeState, State

__all__ = ["Handler", "Link"]

PROTOCOL_ERROR = 0x000A
_CHUNK_BYTES = 1 << 18
_MAX_VERSION = 4
_RESPONSE = 0x80

Handler = Callable[[Frame], Frame]


class _Refused(Exception):
    """The client sent a frame of a protocol version that ScyllaDB does not speak."""


class Link(ABC):
    """Passes frames on in both directions. A subclass handles the requests.

    When the subclass passes a request on, it may give `_send` a handler. The handler rewrites the
    response, unless the response is an ERROR. Requests that the subclass answers itself never reach
    the node.
    """

    def __init__(
        self,
        state: State,
        node: NodeState,
        shard: int,
        is_aware: bool,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.state, self.node, self.shard, self.is_aware = state, node, shard, is_aware
        self.extensions: frozenset[str] = frozenset()
        self.driver: str | None = None
        self._client_reader, self._client_writer = client
        self._node_reader, self._node_writer = upstream
        self._keyspace: str | None = None
        self._handlers: dict[int, Handler] = {}
        name = self._client_writer.get_extra_info("peername") or ("", 0)
        self.address, self.port = str(name[0]), int(name[1])

    async def run(self) -> None:
        """Passes frames on until the client or the node closes its connection."""
        tasks = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._responses())]
        try:
            ended_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended_tasks:
                task.result()
        except (OSError, _Refused):
            pass
        except Exception as error:  # an error must not end other connections
            self.state.failures.append(f"{self.address}:{self.port}: {error!r}")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """Closes the connections to the client and to the node."""
        self._client_writer.close()
        self._node_writer.close()

    async def _requests(self) -> None:
        frame_reader = FrameReader(self._check)
        while data := await self._client_reader.read(_CHUNK_BYTES):
            for frame in frame_reader.feed(data):
                self._request(frame)
            await self._node_writer.drain()
            await self._client_writer.drain()

    async def _responses(self) -> None:
        frame_reader = FrameReader()
        while data := await self._node_reader.read(_CHUNK_BYTES):
            for frame in frame_reader.feed(data):
                self._response(frame)
            await self._client_writer.drain()

    def _check(self, version: int) -> None:
        if version & 0x7F > _MAX_VERSION:
            refusal = (
                f"Invalid or unsupported protocol version: {version & 0x7F}; "
                f"supported versions range from 3 to {_MAX_VERSION}"
            )
            body = error_body(PROTOCOL_ERROR, refusal)
            self._client_writer.write(
                Frame(_RESPONSE | _MAX_VERSION, 0, 0, frames.ERROR, body).encoded()
            )
            raise _Refused

    def _send(self, frame: Frame, handler: Handler | None = None) -> None:
        if handler is None:
            self._handlers.pop(frame.stream, None)
        else:
            self._handlers[frame.stream] = handler
        self._node_writer.write(frame.encoded())

    def _answer(self, request: Frame, opcode: int, body: bytes) -> None:
        version = request.version | _RESPONSE
        self._client_writer.write(Frame(version, 0, request.stream, opcode, body).encoded())

    def _answer_error(self, request: Frame, code: int, message: str, details: bytes = b"") -> None:
        self._answer(request, frames.ERROR, error_body(code, message, details))

    def _response(self, frame: Frame) -> None:
        if frame.opcode == frames.EVENT:
            frame = frame._replace(
                body=frames.with_event_address(frame.body, self.state.client_addresses)
            )
        else:
            handler = self._handlers.pop(frame.stream, None)
            if handler is not None and frame.opcode != frames.ERROR:
                frame = handler(frame)
        self._client_writer.write(frame.encoded())

    @abstractmethod
    def _request(self, frame: Frame) -> None:
        """Passes a request on, or answers it."""

    def _log(
        self,
        frame: Frame,
        text: str | None,
        *,
        key: bytes | None = None,
        misrouted: bool | None = None,
        execute: Execute | None = None,
        error: int | None = None,
    ) -> None:
        state = self.state
        state.log.append(
            Request(
                state.logged,
                self.node.index,
                self.shard,
                self.is_aware,
                frames.OPCODES.get(frame.opcode, f"0x{frame.opcode:02x}"),
                text,
                key,
                execute and execute.short_values(),
                misrouted,
                self.extensions,
                execute is not None and bool(execute.flags & SKIP_METADATA),
                execute.metadata_id if execute else None,
                error,
                self.address,
                self.port,
            )
        )
        state.logged += 1
