"""The fields of a sample that say where and when it was measured."""

from __future__ import annotations

import platform
import subprocess
import sys
import sysconfig
from datetime import datetime, timezone
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["commit", "interpreter", "machine", "provenance", "today"]

_ROOT = Path(__file__).resolve().parents[2]


def interpreter() -> str:
    """Returns Python's version, and whether its build used PGO, which makes Python code faster.

    The version of an interpreter built without the GIL ends with a `t`.
    """
    free_threaded = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"CPython {platform.python_version()}{free_threaded} ({_build()})"


def _build() -> str:
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    if "--enable-optimizations" in options:
        return "PGO"
    # Debian's interpreters are built with PGO, but their configure options do not say so.
    if sys.base_prefix == "/usr" and Path("/etc/debian_version").exists():
        return "PGO, Debian's"
    return "no PGO"


def machine() -> str:
    """Returns the kernel, the number of processors and their model."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = f"{len(models)} x {models[0]}" if models else platform.machine()
    return f"{platform.platform()}, {processor}"


def provenance(client: str, version: str) -> dict[str, Any]:
    """Returns the fields that every sample has: the client, and where and when it was measured."""
    try:
        numpy = metadata.version("numpy")
    except metadata.PackageNotFoundError:
        numpy = ""
    return {
        "client": client,
        "version": version,
        "interpreter": interpreter(),
        "machine": machine(),
        "numpy": numpy,
        "date": today(),
        "commit": commit(),
    }


@lru_cache(maxsize=1)
def commit() -> str:
    """Returns the short hash of the checkout's commit, or an empty string outside a checkout.

    The hash ends with `+` if the sources of the measured code have uncommitted changes.
    """
    measured = ("python", "src", "crates", "edits", "Cargo.toml", "Cargo.lock")
    try:
        name = _git("rev-parse", "--short=8", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--", *measured) else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def today() -> str:
    """Returns today's date in UTC, in ISO form."""
    return datetime.now(timezone.utc).date().isoformat()
