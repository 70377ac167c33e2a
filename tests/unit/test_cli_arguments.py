"""Tests the arguments of commands, and the names of options in messages."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import click
import pytest

from turbocql.cli import _app, main
from turbocql.cli._arguments import options_of, with_options
from turbocql.cli._query import add_count_hint
from turbocql.errors import InvalidQuery, ReadFailure, ReadTimeout, RequestError, RequestTimeout


def shown(message: str, command: str = "load", *arguments: str) -> str:
    """Returns the text that a command with these arguments shows for `message`."""
    group: Any = _app.root
    command_object = group.get_command(click.Context(group), command)
    positional = {"load": ["f", "t"], "verify": ["f", "t"], "unload": ["t", "p"]}.get(command, [])
    with command_object.make_context(command, [*positional, *arguments]) as ctx:
        return with_options(message, options_of(ctx))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("drops with truncate_time=True", "drops with --truncate-time"),
        ("Pass rename= or columns=. If", "Pass --rename or --columns. If"),
        ("pass csv={'delimiter': ';'}", "pass --delimiter ';'"),
        ("pass csv={'delimiter': '\\t'}", "pass --delimiter '\\t'"),
        ("pass csv={'header': False, 'names': [...]}", "pass --no-header and --names"),
        (
            "write keyspace.table, pass keyspace= to connect, or call session.use_keyspace(name)",
            "write keyspace.table, or pass --keyspace",
        ),
        ("pass it as resume= to go on", "pass it as --resume to go on"),
        ("Pass rename= or columns=", "Pass --rename or --columns"),
        ("max_failures=1000 was exceeded", "--max-errors 1000 was exceeded"),
        ("max_errors=0.01 was exceeded; 3 rows", "--max-errors 0.01 was exceeded; 3 rows"),
        ("max_errors must be an int", "--max-errors must be an int"),
        ("retry_for_s, if not 0, must be", "--retry-for, if not 0, must be"),
        ("rate_limit must be rows a second", "--rate-limit must be rows a second"),
        ("limit is for loads of files", "--limit is for loads of files"),
        ("columns: the data has no column 'a'", "--columns: the data has no column 'a'"),
        ("needs names=", "needs --names"),
        ("header=False needs names", "--no-header needs names"),
        ("batches=False", "--no-batches"),
        (
            'resume="auto" needs checkpoint=, the file',
            "--resume-if-there needs --checkpoint, the file",
        ),
        ('pass csv={"escape": "\\\\"}', "pass --escape '\\'"),
        ('written as \\", pass csv={"escape": "\\\\"}', "written as \\\", pass --escape '\\'"),
        ("it is in the table's format, pass format=", "it is in the table's format, pass --format"),
        # Values, names and statements are shown unchanged.
        ("got 'max_errors'", "got 'max_errors'"),
        ('column "truncate_time": x', 'column "truncate_time": x'),
        ("the row limit: 5 columns", "the row limit: 5 columns"),
        ("batch_size_fail_threshold", "batch_size_fail_threshold"),
        ("x=5, my_format=csv, a.limit=3", "x=5, my_format=csv, a.limit=3"),
        ("failed; statement: SELECT max_errors", "failed; statement: SELECT max_errors"),
        # The command does not have these options, so the message does not change.
        ("pass overwrite=True", "pass overwrite=True"),
        ("read smaller pages (page_size)", "read smaller pages (page_size)"),
    ],
)
def test_names_of_arguments_become_options(message: str, expected: str) -> None:
    assert shown(message) == expected


def test_each_command_has_its_own_options() -> None:
    assert shown("pass overwrite=True", "unload") == "pass --overwrite"
    assert shown("read smaller pages (page_size)", "query") == "read smaller pages (--page-size)"
    assert shown("sample must be a share", "verify") == "--sample must be a share"
    assert shown("limit must be an int", "verify") == "--limit must be an int"


def test_a_setting_becomes_an_option_only_if_that_option_was_passed() -> None:
    invalid, hint = "timeout_s must be a number", "raise timeout_s or wait_s"
    assert shown(invalid) == invalid
    assert shown(invalid, "load", "--timeout", "-1") == "--timeout must be a number"
    assert shown(hint) == "raise --timeout or --wait"
    assert shown("keyspace must be", "query", "--keyspace", "a b") == "--keyspace must be"


def test_without_a_command_a_message_is_unchanged() -> None:
    assert with_options("pass resume=") == "pass resume="


COUNT = "to count the rows of a large table: turbocql count "


@pytest.mark.parametrize("error", [ReadFailure, ReadTimeout, RequestTimeout])
@pytest.mark.parametrize(
    ("statement", "keyspace", "hint"),
    [
        ("SELECT count(*) FROM app.t", None, f"{COUNT}app.t"),
        ("select COUNT ( 1 ) as n from T limit 5", "app", f"{COUNT}app.t"),
        ('SELECT JSON count(*) FROM "My t" WHERE a = 1', "app", f"{COUNT}'app.\"My t\"' --where"),
        ("SELECT count(*)\nFROM t", None, f"{COUNT}KEYSPACE.TABLE"),
    ],
)
def test_a_count_that_fails_has_a_hint(
    error: type[RequestError], statement: str, keyspace: str | None, hint: str
) -> None:
    failure = error(f"executing: read failure; statement: {statement}")
    add_count_hint(failure, statement, keyspace)
    assert f"executing: read failure; {hint}" in str(failure)
    assert str(failure).endswith(f"; statement: {statement}")


@pytest.mark.parametrize(
    ("error", "statement"),
    [
        (InvalidQuery, "SELECT count(*) FROM app.t"),
        (ReadFailure, "SELECT k FROM app.t"),
        (ReadFailure, "SELECT max(k) FROM app.t"),
    ],
)
def test_other_failures_have_no_hint(error: type[RequestError], statement: str) -> None:
    failure = error("executing: failed")
    add_count_hint(failure, statement, "app")
    assert str(failure) == "executing: failed"


def test_a_program_may_run_commands_in_its_process(capsys: pytest.CaptureFixture[str]) -> None:
    statuses = []

    def call() -> None:
        statuses.append(main(["--version"]))

    def process_settings() -> list[Any]:
        handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
        return [*handlers, getattr(sys, "get_int_max_str_digits", lambda: None)()]

    before = process_settings()
    call()
    assert process_settings() == before
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert statuses == [0, 0]
    assert capsys.readouterr().out.count("turbocql, version") == 2
