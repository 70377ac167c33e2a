"""The build backend of PEP 517: makes edited copies of crates, then calls maturin's backend.

The backend works in a checkout and in an unpacked sdist. See edits/README.md. A wheel that is built
without edits has `+unedited` in its version.
"""

from __future__ import annotations

import os
from typing import Any

import edited_crates
import maturin
import unedited_wheel
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds a wheel. Returns the name of its file."""
    edit()
    built: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return unedited_wheel.renamed(wheel_directory, built) if is_off() else built


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds an editable wheel, which refers to this folder. Returns the name of its file."""
    edit()
    built: str = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    return unedited_wheel.renamed(wheel_directory, built) if is_off() else built


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: dict[str, Any] | None = None
) -> str:
    """Writes the metadata of a wheel. Returns the name of its folder."""
    # Maturin asks cargo for metadata. Cargo finds vendored crates only if `edit` has configured it.
    edit()
    name: str = maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return unedited_wheel.renamed_metadata(metadata_directory, name) if is_off() else name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def is_off() -> bool:
    """Returns whether the environment asks for a build without edits."""
    return os.environ.get("CRATE_EDITS") == "off"


def edit() -> None:
    """Edits the crates. With `CRATE_EDITS=off` in the environment, configures cargo without edits.

    Raises: SystemExit, if the edited copies or the configuration cannot be made.
    """
    if is_off():
        print(edited_crates.remove())
        return
    try:
        print(edited_crates.apply())
    except edited_crates.Unfit as error:
        raise SystemExit(f"turbocql: {error}\nCRATE_EDITS=off builds without edits") from None
