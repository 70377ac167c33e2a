"""Finds the formats of files by the suffixes of their names."""

from __future__ import annotations

from pathlib import Path

__all__ = ["format_of", "suffix_reason"]

_SUFFIXES = {
    **{".parquet": "parquet", ".pq": "parquet", ".csv": "csv"},
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"},
    **{".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow"},
}
_FORMATS = tuple(dict.fromkeys(_SUFFIXES.values()))
_COMPRESSED = {".zst", ".bz2", ".xz", ".lz4", ".lzo", ".br", ".zip", ".7z", ".tar", ".tgz", ".gz"}
_COMPRESSIBLE = {"csv", "jsonl"}
"""Formats whose files may be compressed by gzip."""


def format_of(path: Path) -> str | None:
    """The format that the suffix of a path names; `None` if the suffix names no format."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        inner_format = _SUFFIXES.get(suffixes[-2]) if len(suffixes) > 1 else None
        return inner_format if inner_format in _COMPRESSIBLE else None
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def suffix_reason(path: Path) -> str:
    """Why `format_of` finds no format for a path, and what to do."""
    if path.suffix.lower() in _COMPRESSED:
        return (
            f"the suffix {path.suffix} names no format that is read: decompress the file first, or"
            " compress CSV or JSON lines by gzip, as .csv.gz or .jsonl.gz"
        )
    return f"the suffix names no format: pass format=, one of {', '.join(_FORMATS)}"
