"""Checks the make targets, actions, permissions, versions and platforms that the workflows name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.meta.sources import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):(?!=)", MAKEFILE, re.MULTILINE))


def missing_targets(text: str) -> set[str]:
    """Returns the targets that a workflow calls and the Makefile lacks."""
    return set(re.findall(r"\bmake ([a-z][a-z-]*)", text)) - TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "make " in text
    assert missing_targets(text) == set()
    assert "\npermissions: {}\n" in text, "each job names its own permissions"


def unpinned(text: str) -> list[str]:
    """Returns the actions that are not pinned.

    A workflow pins an action if it names a commit, followed by a comment with the version.
    """
    return [
        action
        for action in re.findall(r"\buses: (.*)", text)
        if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commits(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "uses: " in text
    assert unpinned(text) == []


def test_a_tag_is_no_pin() -> None:
    commit = "0" * 40
    pinned = f"- uses: actions/checkout@{commit} # v7.0.1"
    assert unpinned(f"- uses: actions/checkout@v7\n{pinned}") == ["actions/checkout@v7"]
    assert unpinned(f"- uses: actions/checkout@{commit}") == [f"actions/checkout@{commit}"]


def test_only_the_job_that_uploads_has_an_identity() -> None:
    before, _, publish = read(".github/workflows/wheels.yml").partition("\n  publish:\n")
    for text in (before, read(".github/workflows/test.yml")):
        assert "write" not in re.findall(r"^ +[\w-]+: (\w+)$", text, re.MULTILINE)
    assert re.findall(r"^ {6}([\w-]+: (?:read|write))$", publish, re.MULTILINE) == [
        "contents: read",
        "id-token: write",
        "attestations: write",
    ]


def test_a_target_that_is_gone_is_noticed() -> None:
    assert missing_targets("- run: make check\n- run: make no-such-target") == {"no-such-target"}


def test_workflows_have_each_version_and_platform() -> None:
    versions = re.search(r"^VERSIONS = \((.*)\)$", read("scripts/interpreters.py"), re.MULTILINE)
    assert versions is not None
    for name in ("test.yml", "wheels.yml"):
        assert f"python: [{versions[1]}]" in read(f".github/workflows/{name}")
    tags = re.findall(r'Platform\("(\w+)"', read("scripts/wheel_platforms.py"))
    listed = re.findall(r"^ {10}- (m\w+linux\w+)$", read(".github/workflows/wheels.yml"), re.M)
    assert len(tags) == 4
    assert listed == tags


def read(name: str) -> str:
    """Returns the text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")
