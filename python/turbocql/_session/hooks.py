"""The methods of a session that take callbacks or open streams of events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from .._telemetry.ranking import SETTING, Ranking
from .._telemetry.streams import Stream, Streams

if TYPE_CHECKING:
    from .. import _core
    from ..cluster import ClusterEvent, Node
    from ..errors import RequestError

__all__ = ["OPENING", "Hooks"]

OPENING = threading.Lock()
"""Held while a session's streams are opened or ended."""


class Hooks:
    """The methods of both kinds of session that take callbacks or open streams of events."""

    __slots__ = ("_core", "_ranking", "_streams")

    _core: _core.Session
    _streams: Streams | None
    _ranking: Ranking | None
    """The ranking set by `rank_nodes`. The thread that calls the ranking's function has no lasting
    reference to the ranking. Otherwise the thread would keep the session alive, because the
    function may refer to the session."""

    def rank_nodes(self, rank: Callable[[Node], int | None] | None) -> None:
        """Makes a function decide in which order the nodes are tried for a request.

        The function is called for each node, now and after each change of the cluster's nodes. It
        returns the rank of the node, which is used until the next change. Nodes of a lower rank are
        tried first. Nodes of the same rank are tried in the order of the session's
        [`Balancing`][turbocql.policies.Balancing]. A node whose rank is `None` gets only requests
        that name it as their `target`. A new node comes last until it is ranked. `rank_nodes(None)`
        ends the ranking.

        The calls after a change are made by the thread `turbocql-events`. If the function raises
        there, the logger `turbocql.cluster` reports it, and the ranks stay as they were.

        Raises: what the function raises; `TypeError` and `ValueError` for a result that is neither
            `None` nor an `int` from 0 to 2**31 - 1; `ClosedError` after `close`.

        Example:
            >>> session.rank_nodes(lambda node: 0 if node.rack in ("a", "b") else 1)
        """
        if rank is not None and not callable(rank):
            raise TypeError(f"rank_nodes takes a function of a Node, or None, got {rank!r}")
        self._core.nodes()  # This call raises an error if the session is closed.
        self._start_streams()
        if rank is None:
            with SETTING:
                self._ranking = None
                self._core.rank(None)
            return
        ranking, before = Ranking(rank), self._core.nodes()
        earlier, self._ranking = self._ranking, None
        try:
            ranking.apply(self)
        except BaseException:
            self._ranking = earlier
            raise
        self._ranking = ranking
        if self._core.nodes() != before:
            ranking.apply(self)

    def retry_when(self, decide: Callable[[RequestError, int], float | None] | None) -> None:
        """Makes a function decide whether a failed call of `execute` sends its request again.

        The function is called with the error that the call would raise, and with the number of
        times that the request was sent again before. It returns the number of seconds to wait
        before the request is sent again, or `None` to raise the error. `retry_when(None)` removes
        the function.

        The session's own retries come first: see [`Retry`][turbocql.policies.Retry]. The function
        is not called for later pages of a result, nor for the rows of `execute_many`, which has
        `retry_for_s`. Nor is it called for a request that may have been applied
        (`error.may_have_applied`), unless the request was declared idempotent. The call's
        `timeout_s` limits all attempts and waits together: if a wait would exceed it, the error is
        raised at once. The error is also raised if the session is closed after the wait, or if it
        still has too many requests in flight at the time limit.

        The function is called by the thread that waits for the result, or in the event loop, where
        it must not block. `execute` raises what the function raises.

        Raises: `ClosedError` after `close`.

        Example:
            >>> def decide(error, count):
            ...     return 0.1 * 2**count if isinstance(error, Overloaded) and count < 3 else None
            >>> session.retry_when(decide)
        """
        if decide is not None and not callable(decide):
            raise TypeError(f"retry_when takes a function of an error and a count, got {decide!r}")
        self._core.retry_when(decide)

    def _open_stream(self, stream: Stream[ClusterEvent]) -> None:
        """Delivers events to a stream from now on. If the session is closed, ends the stream."""
        if not self._core.closed:
            # In a forked child process, this call raises an error: the session is the parent's.
            self._core.nodes()
        self._start_streams().open(stream)

    def _start_streams(self) -> Streams:
        events = self._core.cluster_events()
        with OPENING:
            if self._streams is None:
                self._streams = Streams(events, self)
            return self._streams
