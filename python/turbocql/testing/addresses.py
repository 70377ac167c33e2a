"""Loopback addresses reserved for one cluster: 127.x.y.1 to 127.x.y.3.

On Linux, every address in 127/8 belongs to this machine. So clusters have different addresses and
the same ports, and no free port has to be guessed. A socket bound to 127.x.y.254 claims the block
127.x.y.*. The kernel allows only one such socket, and releases it when the process ends.
"""

from __future__ import annotations

import errno
import random
import socket
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from .errors import CassandraError

if TYPE_CHECKING:
    from typing_extensions import Self  # for the type checker only: typing has it from 3.11

__all__ = ["CQL_PORT", "STORAGE_PORT", "Claim"]

CQL_PORT = 9042
STORAGE_PORT = 7000
_ATTEMPTS = 200


class Claim:
    """A block of loopback addresses, held until `release`."""

    def __init__(self, nodes: int) -> None:
        self._socket: socket.socket | None = None
        self.addresses: list[str] = []
        # The generator of the module `random` is not used: tests may seed it, and two runs would
        # then try the same blocks.
        choose = random.SystemRandom()
        for _ in range(_ATTEMPTS):
            block = f"127.{choose.randrange(16, 240)}.{choose.randrange(256)}"
            claim_socket = _bind(f"{block}.254", CQL_PORT)
            if claim_socket is None:
                continue
            addresses = [f"{block}.{number}" for number in range(1, nodes + 1)]
            # The block may be claimed again although a killed process has left nodes that still use
            # its addresses. So each address is tested.
            if all(_is_free(address) for address in addresses):
                self._socket, self.addresses = claim_socket, addresses
                return
            claim_socket.close()
        raise CassandraError(
            f"no free block of loopback addresses: ports {CQL_PORT} and {STORAGE_PORT} are taken "
            "in every block tried; does a server listen on them on all addresses (0.0.0.0)?"
        )

    def release(self) -> None:
        """Releases the block. A second call does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _is_free(address: str) -> bool:
    for port in (CQL_PORT, STORAGE_PORT):
        bound = _bind(address, port)
        if bound is None:
            return False
        bound.close()
    return True


def _bind(address: str, port: int) -> socket.socket | None:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with suppress(OSError):
        # The server sets this option too. So a port with connections in TIME_WAIT counts as free.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((address, port))
        bound.listen(1)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise CassandraError(
                f"{address} is not an address of this machine: macOS has only 127.0.0.1, "
                "and each further address must be added with `ifconfig lo0 alias`"
            ) from error
        return None
    return bound
