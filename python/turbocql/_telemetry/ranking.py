"""Ranks the nodes of a session by a function of the program."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ClosedError

if TYPE_CHECKING:
    from ..cluster import Node

__all__ = ["Ranking"]

_HIGHEST = 2**31 - 1


class Ranking:
    """A function that ranks nodes."""

    def __init__(self, rank: Callable[[Node], int | None]) -> None:
        self._rank = rank

    def apply(self, session: Any) -> None:
        """Calls the function for each node of a session, and hands its answers to the core."""
        session._core.rank([(node.host_id.bytes, self._of(node)) for node in session.nodes])

    def apply_again(self, session: Any) -> None:
        """Like `apply`, after the nodes have changed. If the function raises, the ranks stay."""
        try:
            self.apply(session)
        except ClosedError:
            return
        except Exception:
            logging.getLogger("turbocql.cluster").exception(
                "the nodes are not ranked again: rank_nodes failed",
                extra={"event": "ranking failed"},
            )

    def _of(self, node: Node) -> int | None:
        rank = self._rank(node)
        if rank is None:
            return None
        if not isinstance(rank, int) or isinstance(rank, bool):
            raise TypeError(
                f"rank_nodes: a rank must be an int or None, got {type(rank).__name__}"
                f" for {node.at}"
            )
        if not 0 <= rank <= _HIGHEST:
            raise ValueError(
                f"rank_nodes: a rank must be from 0 to {_HIGHEST}, got {rank} for {node.at}"
            )
        return rank
