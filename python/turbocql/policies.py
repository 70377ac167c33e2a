"""Choices that requests are sent under."""

from __future__ import annotations

from enum import Enum

__all__ = ["Consistency"]


class Consistency(str, Enum):
    """How many replicas must answer before a request succeeds.

    Wherever one is taken, its name as a `str` is taken too. `SERIAL` and `LOCAL_SERIAL` are for
    the Paxos phase of lightweight transactions, and for reads that must see their outcome.
    """

    ANY = "ANY"
    ONE = "ONE"
    TWO = "TWO"
    THREE = "THREE"
    QUORUM = "QUORUM"
    ALL = "ALL"
    LOCAL_QUORUM = "LOCAL_QUORUM"
    EACH_QUORUM = "EACH_QUORUM"
    LOCAL_ONE = "LOCAL_ONE"
    SERIAL = "SERIAL"
    LOCAL_SERIAL = "LOCAL_SERIAL"

    def __str__(self) -> str:
        return self.value
