"""Writes into the pages how to install turbocql, and into the README the addresses of its links.

Both depend on `RELEASED`. Before the first release, turbocql is installed from a checkout, and the
README's links are relative. From then on, PyPI shows the README too, so its links contain the
repository's address. The link to the README's picture always contains it. Run this program after a
change of `RELEASED`, `INSTALL` or the repository's address in pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PAGES", "RELEASED", "REPOSITORY", "written"]

RELEASED = False
"""Whether PyPI has a release of turbocql."""

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
"""The pages that may say how to install turbocql or one of its extras."""

INSTALL = {
    True: """\
```
pip install turbocql
pip install 'turbocql[numpy,files,cli]' pandas   # NumPy, pandas, files, command line
```

turbocql is tested on Linux. It needs CPython 3.10 or newer, and no other Python package. To pass or
read objects of polars or duckdb, add these to the second line.
""",
    False: """\
```
pip install .
pip install '.[numpy,files,cli]' pandas   # NumPy, pandas, files, command line
```

Enter one of these lines in a checkout: there is no release yet. turbocql is tested on Linux. It
needs CPython 3.10 or newer, Rust 1.89 or newer and a C compiler; compiling takes about ten minutes
of CPU. No other package is needed. For objects of polars or duckdb, add these to the second line.
""",
}
"""Maps `RELEASED` to the text between the comments `install` and `end of install`."""

_REPOSITORY = re.search(
    r'^\[project\.urls\]\n(?:.*\n)*?Repository = "([^"]+)"',
    (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    re.MULTILINE,
)
assert _REPOSITORY is not None
REPOSITORY = _REPOSITORY[1]
"""The address of the repository, from pyproject.toml."""

_INSTALL = re.compile(r"(<!-- install -->\n).*?(<!-- end of install -->)", re.DOTALL)
_EXTRA = re.compile(r"pip install '?(?:turbocql|\.)(\[[\w,]+\])'?")
_LINK = re.compile(r"\]\((?:https://[^)\s]*/blob/main/)?(?!https?:|#)([^)\s]+)\)")
_PICTURE = re.compile(r'\b(src|srcset)="(?:https://[^"]*/raw/main/)?(docs/[^"]+)"')


def written(text: str, *, is_readme: bool, released: bool = RELEASED) -> str:
    """Returns the text of a page with the current text of `INSTALL` and the current commands that
    install extras. In the README, it also has the current addresses of links.
    """
    text = _INSTALL.sub(lambda match: f"{match[1]}\n{INSTALL[released]}\n{match[2]}", text)
    package = "turbocql" if released else "."
    text = _EXTRA.sub(lambda match: f"pip install '{package}{match[1]}'", text)
    if is_readme:
        base = f"{REPOSITORY}/blob/main/" if released else ""
        text = _LINK.sub(lambda match: f"]({base}{match[1]})", text)
        text = _PICTURE.sub(lambda match: f'{match[1]}="{REPOSITORY}/raw/main/{match[2]}"', text)
    return text


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(written(text, is_readme=page.name == "README.md"), encoding="utf-8")
