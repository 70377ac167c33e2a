"""Reads and writes files of samples, a line of JSON for each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["SUBJECT", "Sample", "keep", "read", "write"]

Sample: TypeAlias = dict[str, Any]
SUBJECT = (
    *("case", "series", "scenario", "shape", "in_flight", "interpreter", "variant", "server"),
)
"""The fields that say what a sample measures. The field `client` is not one of them."""


def read(path: Path) -> list[Sample]:
    """Returns the samples of a file. If the file does not exist, the list is empty."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def keep(path: Path, samples: Sequence[Sample], subject: Sequence[str] = SUBJECT) -> None:
    """Writes samples to a file, and removes the file's older samples of the same cases.

    Two samples are of the same case if they have the same values in the fields `subject`. The file
    keeps its samples of all other cases. So all samples of a case are from one run.
    """

    def about(sample: Sample) -> tuple[Any, ...]:
        return tuple(sample.get(name) or None for name in subject)

    new = {about(sample) for sample in samples}
    write(path, [*(sample for sample in read(path) if about(sample) not in new), *samples])


def write(path: Path, samples: Iterable[Sample]) -> None:
    """Writes the whole file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(sample) + "\n" for sample in samples)
