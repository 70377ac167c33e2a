"""Ranks the nodes of a session by a function that the program has set."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ClosedError

if TYPE_CHECKING:
    from ..cluster import Node

__all__ = ["SETTING", "Ranking"]

_HIGHEST = 2**31 - 1

SETTING = threading.Lock()
"""Held while ranks are set. Without it, a function that the program has replaced could overwrite
the ranks of the new function."""


class Ranking:
    """A function that ranks nodes."""

    def __init__(self, rank: Callable[[Node], int | None]) -> None:
        self._rank = rank

    def apply(self, session: Any, *, only_if_set: bool = False) -> None:
        """Calls the function for each node of a session, and passes the ranks to the native core.

        With `only_if_set`, the ranks are not passed if the program has set another function
        meanwhile.
        """
        ranks = [(node.host_id.bytes, self._of(node)) for node in session.nodes]
        with SETTING:
            # The program may have set another function while this function ran.
            if not only_if_set or session._ranking is self:
                session._core.rank(ranks)

    def apply_again(self, session: Any) -> None:
        """Ranks the nodes again after they have changed. If the function raises an error, logs it,
        and leaves the ranks as they are.
        """
        try:
            self.apply(session, only_if_set=True)
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
