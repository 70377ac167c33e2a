"""Derives from a scenario's name what its rows hold, and whether it writes them."""

from __future__ import annotations

__all__ = ["Scenario"]


class Scenario:
    """The base of classes with the field `scenario`, such as `insert_text`."""

    scenario: str

    @property
    def kind(self) -> str:
        """What the rows hold: `text`, `vector` or `mixed` types; empty for `scan` and `page`."""
        return self.scenario.partition("_")[2]

    @property
    def writes(self) -> bool:
        return self.scenario.startswith(("insert", "bulk", "load"))
