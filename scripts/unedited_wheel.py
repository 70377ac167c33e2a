"""Marks the version of a wheel that was built without turbocql's edits of crates.

The module adds `+unedited`, a local part, to the version in the names of the wheel and of its
metadata folder, in the metadata, and in the record of files. The version in Cargo.toml stays,
because Cargo.lock contains it too. The module uses only the standard library, because a build of
the sdist runs it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path

__all__ = ["renamed", "renamed_metadata"]

LOCAL = "+unedited"
VERSION = re.compile(rb"^(Version: [^+\s]+)$", re.MULTILINE)


def with_local(name: str) -> str:
    """Adds the local part to a name, which is that of a wheel, of one of the wheel's folders, or of
    a file in such a folder.
    """
    return re.sub(r"^(turbocql-[^-+/]+?)(?=-|\.dist-info|\.data)", rf"\1{LOCAL}", name)


def renamed(folder: str, wheel: str) -> str:
    """Replaces a wheel by a copy whose version has the local part. Returns the new file's name."""
    old, new = Path(folder) / wheel, Path(folder) / with_local(wheel)
    record: list[str] = []
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            name, data = with_local(entry.filename), source.read(entry)
            if name.endswith(".dist-info/RECORD"):
                continue
            if name.endswith(".dist-info/METADATA"):
                data = with_local_version(data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            entry.filename = name
            target.writestr(entry, data)
        (metadata,) = {line.split("/")[0] for line in record if ".dist-info/METADATA," in line}
        name = f"{metadata}/RECORD"
        target.writestr(name, "\n".join([*record, f"{name},,", ""]))
    old.unlink()
    return new.name


def renamed_metadata(folder: str, name: str) -> str:
    """Adds the local part to a metadata folder's name and version. Returns the new name."""
    path = (Path(folder) / name).rename(Path(folder) / with_local(name))
    metadata = path / "METADATA"
    metadata.write_bytes(with_local_version(metadata.read_bytes()))
    return path.name


def with_local_version(metadata: bytes) -> bytes:
    """Adds the local part to the version in the metadata, and returns the new metadata."""
    return VERSION.sub(rb"\g<1>" + LOCAL.encode(), metadata, count=1)
