"""Puts figures into the documentation's pages. Uses only the standard library.

A part is a piece of Markdown with figures. Its place in a page is between two HTML comments, and
the first comment names the part. In git, most of these places only have a text that says which
figures the site shows there, and how to make them. The site is built with the parts that
`python -m bench report` has written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["BUILT", "CHARTS", "DOCS", "filled", "names", "read", "themed"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
BUILT = DOCS.parent / "build" / "measured"
"""The folder that `bench report` writes: filled pages, `parts`, and the charts."""
CHARTS = "benchmarks"
"""The folder of the charts, beside the pages."""

_PART = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end of measured -->)", re.DOTALL)
_CHART = re.compile(r"^(!\[([^\]]*)\]\((benchmarks/([\w-]+)))(\.svg)\)$", re.MULTILINE)


def names(page: str) -> list[str]:
    """Returns the names of the parts for which a page has places."""
    return [mark[2] for mark in _PART.finditer(page)]


def filled(page: str, parts: Mapping[str, str]) -> str:
    """Returns the page with these parts in their places; other places stay as they are."""

    def put(mark: re.Match[str]) -> str:
        if mark[2] not in parts:
            return mark[0]
        return f"{mark[1]}\n{parts[mark[2]].strip()}\n\n{mark[3]}"

    return _PART.sub(put, page)


def read(folder: Path = BUILT) -> dict[str, str]:
    """Returns the text of each part in the folder, by the part's name."""
    paths = sorted((folder / "parts").glob("*.md"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def themed(page: str, root: str = "") -> str:
    """Returns the page with a light and a dark version of each chart; the site shows one.

    The overview has two more versions for narrow windows. `root` is the relative path from the
    page's address to the site's root.
    """

    def put(chart: re.Match[str]) -> str:
        image, words, path, name, _ = chart.groups()
        if name != "overview":
            return f"{image}.svg#only-light)\n{image}-dark.svg#only-dark)"
        pictures = [
            f'<picture><source media="(max-width: 600px)" srcset="{root}{path}-narrow{dark}.svg">'
            f'<img alt="{words}" src="{root}{path}{dark}.svg#only-{theme}"></picture>'
            for theme, dark in (("light", ""), ("dark", "-dark"))
        ]
        return "\n".join(["<p>", *pictures, "</p>"])

    return _CHART.sub(put, page)
