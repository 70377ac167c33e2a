"""The hooks that MkDocs calls when it builds this site: see `hooks` in mkdocs.yml."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from bench.report import parts
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[2]
# The site is built in strict mode, so a warning of this logger is an error.
LOG = logging.getLogger("mkdocs.hooks.turbocql")

_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\ssrc=[\"']?(?:https?:)?//[^\s>]*"
    r"|<link\b[^>]*\shref=[\"']?(?:https?:)?//[^\s>]*"
)


def on_files(files: Files, config: Any) -> Files:
    """Adds files from outside the folder of pages: CHANGELOG.md, DESIGN.md and the charts."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    text = text.replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=text))
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    text = text.replace("](docs/design/", "](")
    files.append(File.generated(config, "design/index.md", content=text))
    for chart in sorted((parts.BUILT / parts.CHARTS).glob("*.svg")):
        uri = f"{parts.CHARTS}/{chart.name}"
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(chart)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Inserts into a page the figures that `python -m bench report` has written."""
    measured = parts.read()
    for name in parts.names(markdown):
        if name not in measured:
            LOG.warning("%s: no figures of %s: python -m bench report", page.file.src_uri, name)
    if page.is_homepage:
        # The cards need the space of both columns.
        page.meta["hide"] = ["navigation", "toc"]
    root = get_relative_url(".", page.url)
    return parts.themed(parts.filled(markdown, measured), f"{root}/")


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Warns about each script, image or style sheet that a page loads from another site."""
    for found in _ELSEWHERE.findall(output):
        LOG.warning("%s loads something from elsewhere: %s", page.file.src_uri, found)
    return output
