"""Finds the formats of files by the suffixes of their names."""

from __future__ import annotations

from pathlib import Path

__all__ = ["format_of"]

_SUFFIXES = {
    **{".parquet": "parquet", ".pq": "parquet", ".csv": "csv"},
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"},
    **{".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow"},
}
_COMPRESSIBLE = {"csv", "jsonl"}
"""Formats whose files may be compressed by gzip."""


def format_of(path: Path) -> str | None:
    """The format that the suffix of a path names; `None` if the suffix names no format."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        inner_format = _SUFFIXES.get(suffixes[-2]) if len(suffixes) > 1 else None
        return inner_format if inner_format in _COMPRESSIBLE else None
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None
