"""Makes the pages for programs that read the site: llms.txt, and each page as Markdown.

The Markdown of a page has the same path as in the sources, so that links between pages work: the
page `statements/` is also at `statements.md`. llms.txt lists all pages. This module uses only the
standard library. hooks.py passes it the results of MkDocs and griffe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["alternate", "api", "included", "llms", "modules", "plain"]

_MODULE = re.compile(r"^::: (\S+)\n(?: {4}.*\n)*", re.MULTILINE)
_REFERENCE = re.compile(r"\[(`?[^\]\[]+`?)\]\[(?:turbocql[\w.]*)?\]")
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_INCLUDE = re.compile(r'^--8<-- "(.*)"\n', re.MULTILINE)


def modules(pages: Iterable[str]) -> set[str]:
    """Returns the names of the modules whose docstrings are shown on pages."""
    return {name for page in pages for name in _MODULE.findall(page)}


def included(markdown: str, root: Path) -> str:
    """Replaces each reference to an included file by the text of that file, and returns the page.
    The names of the files are relative to `root`.
    """
    return _INCLUDE.sub(lambda match: (root / match[1]).read_text(encoding="utf-8"), markdown)


def plain(markdown: str, texts: Mapping[str, str]) -> str:
    """Returns a page without comments and references, and with the texts of its modules.

    A reference such as [`Session`][turbocql.Session] becomes the name that it shows. `texts` maps a
    module's name to the text that replaces `::: module`.
    """
    text = _MODULE.sub(lambda match: texts[match[1]] + "\n", _COMMENT.sub("", markdown))
    return _REFERENCE.sub(r"\1", text).strip() + "\n"


def llms(name: str, pages: Mapping[str, str], nav: list[Any]) -> str:
    """Returns the text of llms.txt: a heading for each group of `nav`, and a line for each page.

    `pages` maps the path of each page to its Markdown. `nav` is the value of `nav` in mkdocs.yml.
    """
    home = pages["index.md"]
    lines = [f"# {name}", "", f"> {_about(home)}", "", "Each page of this site is Markdown too."]
    for group in nav:
        ((title, entries),) = group.items()
        lines += ["", f"## {title}", ""]
        for label, path in _entries(entries):
            shown = label or _heading(pages[path])
            about = _about(pages[path])
            lines.append(f"- [{shown}]({path}){f': {about}' if about else ''}")
    return "\n".join(lines) + "\n"


def alternate(html: str, address: str) -> str:
    """Adds a link to the page's Markdown to the head of an HTML page, and returns the page."""
    link = f'<link rel="alternate" type="text/markdown" href="{address}">'
    return html.replace("</head>", f"{link}</head>", 1)


def api(module: Any) -> str:
    """Returns the docstrings and signatures of a module's public names. griffe made `module`."""
    parts = [_docstring(module)]
    names = module.exports or [name for name in module.members if not name.startswith("_")]
    for name in map(str, names):
        member = module.members.get(name)
        # A package may import a name from one of its modules. Then only the module's page documents
        # the name, so it is left out here.
        if member is None or (member.is_alias and module.is_package) or member.is_module:
            continue
        parts += [f"## {name}", _member(member)]
        if member.is_class:
            for inner in _public(member):
                parts += [f"### {name}.{inner.name}", _member(inner)]
    return "\n\n".join(part for part in parts if part)


def _public(of: Any) -> Iterator[Any]:
    for name, member in of.all_members.items():
        if not name.startswith("_"):
            yield member


def _member(member: Any) -> str:
    target = member.final_target if member.is_alias else member
    if target.is_function or target.is_class:
        signature = target.signature()
        text = f"```\n{signature}\n```" if signature else ""
    else:
        text = f"`{target.name}: {target.annotation}`" if target.annotation is not None else ""
    return "\n\n".join(filter(None, [text, _docstring(target)]))


def _docstring(definition: Any) -> str:
    return definition.docstring.value.strip() if definition.docstring is not None else ""


def _entries(entries: list[Any]) -> Iterator[tuple[str, str]]:
    """Yields the title and the path of each page of a group. A title may be empty."""
    for entry in entries:
        if isinstance(entry, str):
            yield "", entry
            continue
        ((title, inner),) = entry.items()
        if isinstance(inner, str):
            yield title, inner
        else:
            yield from _entries(inner)


def _heading(page: str) -> str:
    match = re.search(r"^# (.+)$", page, re.MULTILINE)
    assert match is not None
    return match[1]


def _about(page: str) -> str:
    """Returns the first sentence of the page's first paragraph, with links as plain text."""
    body = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    for paragraph in body.split("\n\n"):
        if re.match(r"[A-Za-z`\[]", paragraph):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            return re.split(r"(?<=\.) (?=[A-Z`])|:$", text)[0]
    return ""
