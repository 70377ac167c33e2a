"""Tests that the Makefile's suites contain each folder of tests."""

from __future__ import annotations

import re

from tests.meta.sources import ROOT

APART = {"engines": "check-engines"}
"""Folders of tests that `make check` leaves out, each with the target that runs them."""


def test_each_folder_of_tests_is_in_a_suite() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    variables = re.findall(
        r"^(?:SAFE|SESSIONS|CODEC|COLUMNS|DIFFERENTIAL|COOKBOOK) := (.*)$", makefile, re.MULTILINE
    )
    (accel,) = re.findall(r"^accel-%:.*\n\t.* (tests/accel) ", makefile, re.MULTILINE)
    in_suites = {name for line in (*variables, accel) for name in re.findall(r"tests/(\w+)", line)}
    paths = (ROOT / "tests").rglob("test_*.py")
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in paths}
    assert len(variables) == 6
    assert folders == in_suites | set(APART)
    (checks,) = re.findall(r"^python-test:.*(?:\n\t.*)+", makefile, re.MULTILINE)
    suites = ("session-test", "codec-test", "columns-test", "differential-test", "cookbook-test")
    assert all(f" {suite}" in checks for suite in suites)
    assert all(f"\n{target}:" in makefile for target in APART.values())
