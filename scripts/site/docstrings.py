"""Adds the native core's docstrings to the site, and converts all docstrings to Markdown.

A docstring of this project is Markdown, with two exceptions. If a paragraph begins with a word and
a colon (`Raises: ...`), its further lines are indented. Examples have the form of doctest.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

NATIVE = Path(__file__).resolve().parents[2] / "build" / "native_docs.json"
"""The output of native_docs.py."""

_LABEL = re.compile(r"^([A-Z][a-z]+): +(?=\S)")
_CODE_OR_POWER = re.compile(r"(`+[^`]*`+)|(?<=\w)\*\*(?=\w)")
_NAME = re.compile(r"(?<!\[)`([A-Z]\w+)`(?!\])")


class Docstrings(griffe.Extension):  # type: ignore[misc]
    """Changes the docstrings of the package after griffe has read all of it."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Adds and converts the docstrings. griffe calls this method."""
        for name, text in json.loads(NATIVE.read_text(encoding="utf-8")).items():
            definition = pkg[f"_core.{name}"]
            if definition.docstring is None:
                definition.docstring = griffe.Docstring(text, parent=definition)
        errors = set(pkg["errors"].members) & set(map(str, pkg["errors"].exports or ()))
        for definition in list(_walk(pkg)):
            if definition.docstring is not None:
                definition.docstring.value = markdown(definition.docstring.value, errors)
            elif definition.name.startswith("__") and definition.parent.is_class:
                # Users need no entries for `__slots__` and for special methods without a docstring.
                if definition.name != "__init__":
                    del definition.parent.members[definition.name]
            elif definition.name.startswith("_"):
                continue
            elif _is_offered(definition) and definition.path.startswith("turbocql._core."):
                griffe.logger.warning(f"{definition.path} has no docstring")
        for definition in list(_walk(pkg)):
            # Users do not construct instances of these private classes: functions return them.
            if definition.is_class and "._" in definition.path and not _is_offered(definition):
                definition.members.pop("__init__", None)


def markdown(text: str, errors: set[str]) -> str:
    """Returns a docstring as Markdown. The names after `Raises:` link to `turbocql.errors`."""
    paragraphs = []
    for first, *later_lines in _blocks(text):
        label = _LABEL.match(first)
        if first == "Example:":
            code = textwrap.dedent("\n".join(later_lines)).strip()
            language = "pycon" if code.startswith(">>>") else "python"
            paragraphs.append(f"**Example**\n\n```{language}\n{code}\n```")
        elif first.startswith(("```", "    ")):
            paragraphs.append("\n".join([first, *later_lines]))
        elif label:
            body = " ".join([first[label.end() :], *(line.strip() for line in later_lines)])
            if label[1] == "Raises":
                body = _NAME.sub(lambda match: _linked(match[1], errors), body)
            paragraphs.append(f"**{label[1]}:** {_escaped(body)}")
        else:
            paragraphs.append(_escaped("\n".join([first, *later_lines])))
    return "\n\n".join(paragraphs)


def _escaped(text: str) -> str:
    """Escapes `**` of powers outside of code, because Markdown would read it as bold text."""
    return _CODE_OR_POWER.sub(lambda match: match[1] or r"\*\*", text)


def _linked(name: str, errors: set[str]) -> str:
    return f"[`{name}`][turbocql.errors.{name}]" if name in errors else f"`{name}`"


def _blocks(text: str) -> Iterator[list[str]]:
    """Yields the paragraphs. A fenced block or an example stays whole."""
    block: list[str] = []
    fenced = False
    for line in text.strip().splitlines():
        inside = fenced or (block and block[0] == "Example:" and line.startswith("    "))
        if line.startswith("```"):
            fenced = not fenced
        starts = line == "Example:" or _LABEL.match(line)
        if not inside and block and (not line.strip() or starts):
            yield block
            block = []
        if line.strip() or inside:
            block.append(line)
    if block:
        yield block


def _walk(definition: griffe.Object) -> Iterator[griffe.Object]:
    yield definition
    for member in definition.members.values():
        if not member.is_alias:
            yield from _walk(member)


def _is_offered(definition: griffe.Object) -> bool:
    """Returns whether a class, or a member's class, has a public name in a public module."""
    if not definition.is_class:
        return (
            definition.parent is not None
            and definition.parent.is_class
            and _is_offered(definition.parent)
        )
    return "._" not in definition.path or any(
        alias.is_exported and "._" not in name for name, alias in definition.aliases.items()
    )
