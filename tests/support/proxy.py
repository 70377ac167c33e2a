"""A proxy that passes CQL frames to a node unchanged and records the clients' requests."""

from __future__ import annotations

import threading
from types import TracebackType

from tests.support.changing_proxy import Answer, ChangingProxy

__all__ = ["Tap"]

_OPCODES = {
    0x01: "STARTUP",
    0x05: "OPTIONS",
    0x07: "QUERY",
    0x09: "PREPARE",
    0x0A: "EXECUTE",
    0x0B: "REGISTER",
    0x0D: "BATCH",
    0x0F: "AUTH_RESPONSE",
}


class Tap(ChangingProxy):
    """A proxy that forwards frames unchanged and listens on its own port during the `with` block.

    It listens on the node's address, because the node announces this address to drivers. It
    supports version 4 of the protocol without encryption. Bodies may be compressed.
    """

    def __init__(self, contact_point: str) -> None:
        super().__init__(contact_point, Answer.frame)
        self._bodies: list[bytes] = []
        self._open = threading.Event()
        self._open.set()

    def count(self, kind: str, containing: str = "") -> int:
        """Returns the number of requests of a kind, such as `PREPARE`.

        Only requests whose body contains `containing` count.
        """
        return sum(containing.encode() in body for body in self.bodies(kind))

    def bodies(self, kind: str) -> list[bytes]:
        """Returns the bodies of all requests of a kind that have arrived so far."""
        start = kind.encode() + b"\0"
        with self._lock:
            return [body[len(start) :] for body in self._bodies if body.startswith(start)]

    def hold(self) -> None:
        """Holds back further requests until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Passes the held and all further requests to the node."""
        self._open.set()

    def __enter__(self) -> Tap:
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        super().__exit__(kind, error, trace)

    def requested(self, opcode: int, body: bytes) -> None:
        name = _OPCODES.get(opcode, hex(opcode))
        with self._lock:
            self._bodies.append(name.encode() + b"\0" + body)
        self._open.wait()
