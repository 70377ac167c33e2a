"""`python -m bench.report`: writes the pages with figures and charts into `build/measured`.

It needs Matplotlib, and no native core: it works in a checkout where nothing was compiled.
"""

from __future__ import annotations

from bench.report import pages

if __name__ == "__main__":
    pages.write()
