"""Reads which modules of its own crate a Rust source names.

A path is a tuple of names, which begins at the root of the crate: `crate::a::B` is `("a", "B")`. A
last name `*` stands for all names of a module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

__all__ = ["exports", "module_of", "paths_named", "rooms_in"]

RustPath = tuple[str, ...]


def module_of(path: Path) -> RustPath:
    """Returns the path of the module that a file defines. `path` begins below the folder `src`."""
    names = path.with_suffix("").parts
    return names[:-1] if names[-1] in ("lib", "main", "mod") else names


def rooms_in(
    text: str,
    module: RustPath,
    inside: RustPath,
    rooms: Iterable[str],
    exported: Mapping[RustPath, set[RustPath]],
) -> set[str]:
    """Returns the rooms that the code of a source names. It names its own room too, for example by
    `self`.

    `module` is the module that the source defines. `rooms` are modules of the module `inside`.
    `exported` contains the names that the root and the module `inside` import, from `exports`.

    A source that names all of `inside` (`use super::*`, or `use super::super as above`) can then
    name each room in ways that this function does not see, so it names all rooms.
    """
    known = set(rooms)
    found: set[str] = set()
    for path in _origins(paths_named(text, module), exported):
        above = path[:-1] if path[-1:] == ("*",) else path
        if len(above) > len(inside) and above[: len(inside)] == inside:
            name = above[len(inside)]
            found |= known if name[0] == "$" else {name} & known
        elif above == inside[: len(above)]:
            found |= known
    return found


def exports(text: str, module: RustPath) -> dict[RustPath, set[RustPath]]:
    """Maps the path of each name that a module imports to the paths that the name may stand for.

    Modules below this module can use these names, even if no `pub` stands before `use`.
    """
    modules = set(re.findall(r"\bmod\s+(\w+)\s*;", text))
    found: dict[RustPath, set[RustPath]] = {}
    for where, path, name in _named(text, module):
        if where != module or not name:
            continue
        origin = _absolute(("self", *path) if path[0] in modules else path, module)
        if origin is not None and origin != (*module, name):
            found.setdefault((*module, name), set()).add(origin)
    return found


def paths_named(text: str, module: RustPath) -> set[RustPath]:
    """Returns the paths in the code of a source that begin with `crate`, `self` or `super`.

    `text` has no comments and strings. `module` is the module that the source defines. Modules
    under `#[cfg(test)]` do not count.
    """
    paths = (_absolute(path, where) for where, path, _ in _named(text, module))
    return {path for path in paths if path is not None}


def _origins(
    paths: set[RustPath], exported: Mapping[RustPath, set[RustPath]]
) -> Iterable[RustPath]:
    """Returns the paths, and those for which the names in `exported` stand."""
    found: set[RustPath] = set()
    waiting = [*paths]
    while waiting:
        path = waiting.pop()
        # A name that stands for a path below itself would make longer paths without end.
        if path in found or len(path) > 20:
            continue
        found.add(path)
        for length in range(1, len(path) + 1):
            every = (*path[: length - 1], "*")
            for origin in exported.get(path[:length], set()):
                waiting.append((*origin, *path[length:]))
            if path[length - 1] != "*":
                waiting += [
                    (*glob[:-1], *path[length - 1 :]) for glob in exported.get(every, set())
                ]
    return found


def _named(text: str, module: RustPath) -> Iterator[tuple[RustPath, RustPath, str]]:
    """Yields the module in which a path is, the path as it is written, and the name to which `use`
    binds it. The name is empty for a path without `use`.
    """
    text = re.sub(r"\bpub\s*\(\s*(?:in\b[^()]*|crate|self|super)\s*\)", "pub", text)
    tokens = re.findall(r"::|(?:\$|\br#)?\w+|\S", text)
    rest = [token.removeprefix("r#") for token in tokens]
    rest = [";", ";", *("crate" if token == "$crate" else token for token in reversed(rest))]
    depth = 0
    inline: list[tuple[int, str]] = []
    is_test = False
    while rest:
        token = rest.pop()
        where = (*module, *(name for _, name in inline))
        if token == "#" and rest[:-7:-1] == ["[", "cfg", "(", "test", ")", "]"]:
            is_test = True
        elif token == "mod" and rest[-2:-1] == ["{"]:
            if is_test:
                _skip_braces(rest)
                is_test = False
            else:
                inline.append((depth, rest.pop()))
        elif token == "use":
            for path, name in _tree(rest, ()):
                yield where, path, name
        elif token in ("crate", "self", "super") and rest[-1] == "::":
            path = (token,)
            while rest[-1] == "::" and re.fullmatch(r"\$?\w+", rest[-2]):
                rest.pop()
                path = (*path, rest.pop())
            yield where, path, ""
        elif token in "{};":
            is_test = False
            depth += {"{": 1, "}": -1, ";": 0}[token]
            if inline and inline[-1][0] == depth and token == "}":
                inline.pop()


def _skip_braces(rest: list[str]) -> None:
    """Takes a name and the code in braces after it off the end of `rest`."""
    depth = 0
    while rest:
        token = rest.pop()
        depth += {"{": 1, "}": -1}.get(token, 0)
        if token == "}" and depth == 0:
            return


def _tree(rest: list[str], before: RustPath) -> Iterator[tuple[RustPath, str]]:
    """Takes what `use` imports off the end of `rest`. Yields each path and the name it gets."""
    path = before
    while rest:
        token = rest.pop()
        if token == "{":
            while rest and rest[-1] not in "};":
                yield from _tree(rest, path)
                if rest and rest[-1] == ",":
                    rest.pop()
            if rest and rest[-1] == "}":
                rest.pop()
            return
        path = (*path, token)
        if token != "::":  # it stands before the name of another crate
            if rest[-1:] != ["::"]:
                name = path[-2] if token == "self" and len(path) > 1 else token
                if rest[-1:] == ["as"]:
                    name = rest[-2]
                    del rest[-2:]
                yield path, name
                return
            rest.pop()


def _absolute(path: RustPath, module: RustPath) -> RustPath | None:
    """Returns the path of what `path` names in `module`, or None for the path of another crate."""
    if path[0] not in ("crate", "self", "super"):
        return None
    found = () if path[0] == "crate" else module
    for name in path[path[0] == "crate" :]:
        if name == "super":
            found = found[:-1]
        elif name != "self":
            found = (*found, name)
    return found
