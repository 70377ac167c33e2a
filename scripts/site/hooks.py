"""The hooks that MkDocs calls when it builds this site: see `hooks` in mkdocs.yml."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import griffe
from bench.report import parts
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url
from scripts.site import machines

ROOT = Path(__file__).resolve().parents[2]
# The site is built in strict mode, in which a warning of this logger is an error.
LOG = logging.getLogger("mkdocs.hooks.turbocql")

_PAGES: dict[str, str] = {}
"""The Markdown of each page of this build, with the measured figures, by the page's path."""

_EXAMPLES = "examples/cookbook"
"""The folder whose files are copied to the site, because pages link to them."""

_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\ssrc=[\"']?(?:https?:)?//[^\s>]*"
    r"|<link\b[^>]*\shref=[\"']?(?:https?:)?//[^\s>]*"
)


def on_files(files: Files, config: Any) -> Files:
    """Adds files from outside the folder of pages.

    These files are CHANGELOG.md, DESIGN.md, the charts, and the files of the cookbook.
    """
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
    for example in sorted((ROOT / _EXAMPLES).rglob("*.*")):
        if example.suffix != ".pyc":
            uri = example.relative_to(ROOT).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(example)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Inserts into a page the figures that `python -m bench report` has written."""
    measured = parts.read()
    for name in parts.names(markdown):
        if name not in measured:
            LOG.warning("%s: no figures of %s: python -m bench report", page.file.src_uri, name)
    # On the site, the pages of docs/cookbook are in the folder cookbook, beside examples.
    markdown = markdown.replace(f"](../../{_EXAMPLES}/", f"](../{_EXAMPLES}/")
    _PAGES[page.file.src_uri] = parts.filled(markdown, measured)
    if page.file.src_uri == "index.md":
        # The programs and the cards of the home page need the space of both side columns.
        page.meta["hide"] = ["navigation", "toc"]
    root = get_relative_url(".", page.url)
    return parts.themed(_PAGES[page.file.src_uri], f"{root}/")


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Links a page to its Markdown, and warns about what the page loads from other sites."""
    for tag in _ELSEWHERE.findall(output):
        LOG.warning("%s loads something from elsewhere: %s", page.file.src_uri, tag)
    return machines.alternate(output, get_relative_url(page.file.src_uri, page.url))


def on_post_build(config: Any) -> None:
    """Writes llms.txt, and each page as Markdown."""
    package = griffe.load(
        "turbocql",
        search_paths=[str(ROOT / "python")],
        extensions=griffe.load_extensions(str(ROOT / "scripts" / "site" / "docstrings.py")),
        allow_inspection=False,
        resolve_aliases=True,
    )
    names = machines.modules(_PAGES.values())
    texts = {name: machines.api(package.modules_collection[name]) for name in names}
    site = Path(config.site_dir)
    pages = {
        path: machines.plain(machines.included(markdown, ROOT), texts)
        for path, markdown in _PAGES.items()
    }
    for path, markdown in pages.items():
        page = site / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(markdown, encoding="utf-8")
    text = machines.llms(config.site_name, pages, config.nav)
    (site / "llms.txt").write_text(text, encoding="utf-8")
