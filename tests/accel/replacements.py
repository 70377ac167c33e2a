"""Replaces attributes of the driver before or after the accelerator is switched on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turbocql import accel


def expect_same(
    outcome: Callable[[], Any],
    replacement: tuple[Any, str, Any],
    when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asserts that `outcome` is the same with and without the accelerator.

    `replacement` is an owner, the name of its attribute, and the value that replaces the attribute,
    `when` "before" or "after" the accelerator is switched on.
    """
    with monkeypatch.context() as patch:
        patch.setattr(*replacement)
        plain = outcome()
    if when == "before":
        monkeypatch.setattr(*replacement)
    with accel.accelerated():
        if when == "after":
            monkeypatch.setattr(*replacement)
        assert outcome() == plain
        monkeypatch.undo()
