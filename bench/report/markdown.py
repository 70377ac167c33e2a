"""Text, figures and tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import fill

from bench.harness.samples import Sample

__all__ = ["about", "escaped", "filled", "folded", "table"]

_FIGURE = re.compile(r"-|-?[0-9.,]+")


def escaped(text: str) -> str:
    """Escapes `<` outside of code, so that browsers do not read `list<int>` as an HTML tag.

    HTML tags with the attribute `markdown` are not escaped.
    """
    code_or_tag = re.compile(r"(`[^`\n]*`)|<(?=\w)(?!\w+ markdown=)")
    return code_or_tag.sub(lambda match: match[1] or "&lt;", text)


def filled(text: str) -> list[str]:
    """Wraps paragraphs and list items of Markdown at 100 columns."""
    lines: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        points = paragraph.split("\n- ") if paragraph.startswith("- ") else [paragraph]
        for point in points:
            words = " ".join(point.removeprefix("- ").split())
            begin, next_line = ("- ", "  ") if paragraph.startswith("- ") else ("", "")
            lines.append(fill(words, 100, initial_indent=begin, subsequent_indent=next_line))
        lines.append("")
    return lines


def folded(summary: str, lines: Iterable[str]) -> list[str]:
    """Returns lines of Markdown in a `<details>` block, which opens on a click.

    Python-Markdown reads the lines as Markdown only because of the attribute `markdown`. Code hosts
    do so without the attribute.
    """
    text = list(lines)
    if text and not text[-1]:
        text.pop()
    head = ['<details markdown="1">', f'<summary markdown="span">{summary}</summary>', ""]
    return [*head, *text, "", "</details>", ""]


def table(head: list[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Returns the lines of a Markdown table; columns of figures are aligned to the right."""
    cells = [[cell.replace("|", "/") for cell in row] for row in rows]
    figures = [
        all(_FIGURE.fullmatch(cell) for cell in column) for column in zip(*cells, strict=True)
    ]
    sides = "|".join("---:" if is_figure else "---" for is_figure in figures)
    lines = [f"| {' | '.join(row)} |" for row in [head, *cells]]
    return [lines[0], f"|{sides}|", *lines[1:], ""]


def about(samples: Sequence[Sample], versions: Iterable[str], more: str = "") -> list[str]:
    """Returns a paragraph with the versions, interpreters, machines and days of the samples."""
    others = [
        sorted({str(sample[name]) for sample in samples if sample.get(name)})
        for name in ("interpreter", "machine")
    ]
    days = sorted({str(sample["date"]) for sample in samples})
    period = " to ".join(dict.fromkeys((days[0], days[-1])))
    text = f"{'; '.join([*sorted(set(versions)), *others[0], *others[1]])}; {period}."
    return [fill(f"{text} {more}".strip(), 100), ""]
