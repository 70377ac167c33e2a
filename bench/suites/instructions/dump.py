"""Reads what callgrind has counted."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Counts", "read_dump"]


class Counts(NamedTuple):
    """Instructions, of a dump or per call: all, and those in turbocql's shared library."""

    total: float
    core: float


def read_dump(text: str, core: str) -> Counts:
    """Reads a callgrind dump: all instructions, and those of the object file `core` itself.

    A dump has an object file's name and number once, and later only the number. The line after
    `calls=` has the cost of a call. It is left out, because the lines of the called function have
    this cost too.
    """
    total = core_cost = 0
    number, skip, is_core = "", False, False
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key in ("ob", "cob"):
            index, _, name = value.partition(" ")
            if name == core:
                number = index
            if key == "ob":
                is_core = index == number
        elif equals and key == "calls":
            skip = True
        elif line.startswith("totals:"):
            total = int(line.split()[1])
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            if is_core and not skip:
                core_cost += int(line.split()[1])
            skip = False
    return Counts(total, core_cost)
