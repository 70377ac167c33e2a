"""Divides callgrind's instructions by the library and the work they belong to."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from bench.harness.processes import Failed

__all__ = ["PARTS", "by_part"]

ATTRIBUTES, MEMORY, INTERPRETER, DRIVER, TURBOCQL, COMPRESSION, OTHER = PARTS = (
    "attributes and dicts",
    "memory and GC",
    "rest of the interpreter",
    "compiled modules of the driver",
    "turbocql",
    "LZ4, and memory that is cleared",
    "C library and others",
)
"""The parts into which a client's instructions are divided. The first three parts have the
instructions of the Python interpreter."""

_SOURCES = {
    "dictobject.c": ATTRIBUTES,
    "object.c": ATTRIBUTES,
    "pycore_dict.h": ATTRIBUTES,
    "descrobject.c": ATTRIBUTES,
    "obmalloc.c": MEMORY,
    "gcmodule.c": MEMORY,
}
"""Maps a source file of CPython to the part of its functions. Functions of all other files of
CPython are in the part `INTERPRETER`. `_part` puts some functions into another part because of
their names."""
_LOOKUPS = ("_PyType_Lookup", "find_name_in_mro", "type_getattro")


def by_part(out: Path) -> dict[str, int]:
    """Returns the instructions of each part, from a file that callgrind has written.

    Callgrind writes a name and its number once, and later only the number. The line after `calls=`
    has the cost of a call. It is left out, because the lines of the called function have this cost
    too. An inlined function counts as part of the function around it, whose file `fl=` names.

    Raises: Failed if the file has no instructions.
    """
    names: dict[str, str] = {}
    costs: dict[str, int] = defaultdict(int)
    library = source = function = ""
    is_callee = False
    for line in out.read_text(encoding="utf-8", errors="replace").splitlines():
        key, equals, value = line.partition("=")
        if equals and key in ("ob", "fl", "fi", "fe", "fn", "cob", "cfi", "cfl", "cfn"):
            kind = key[-2:] if key[-2:] in ("ob", "fn") else "fl"
            number, _, name = value.partition(" ")
            if name:
                names[kind + number] = name
            if key == "ob":
                library = names[kind + number]
            elif key == "fl":
                source = names[kind + number]
            elif key == "fn":
                function = names[kind + number]
        elif equals and key == "calls":
            is_callee = True
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            if not is_callee:
                costs[_part(library, source, function)] += int(line.split()[1])
            is_callee = False
    if not costs:
        raise Failed("callgrind counted nothing")
    return dict(costs)


def _part(library: str, source: str, function: str) -> str:
    name = Path(library).name
    if name.startswith(("libpython", "python3")):
        if "dealloc" in function or "Dealloc" in function:
            return MEMORY
        if function.partition("'")[0] in _LOOKUPS:
            return ATTRIBUTES
        return _SOURCES.get(Path(source).name, INTERPRETER)
    if name.startswith("_core."):
        return TURBOCQL
    if "lz4" in name or (function.startswith("__memset") and "libc" in name):
        return COMPRESSION
    return DRIVER if "/cassandra/" in library else OTHER
