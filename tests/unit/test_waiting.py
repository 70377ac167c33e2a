"""Tests that `connect` waits for a database that starts (`wait_s`), without a database."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.starting_server import Phase, StartingServer

import turbocql
from turbocql import Config, errors
from turbocql._session import waiting


def open_sync(*points: str, **settings: Any) -> Any:
    return turbocql.connect(list(points), **settings)


def open_async(*points: str, **settings: Any) -> Any:
    async def main() -> Any:
        return await turbocql.aio.connect(list(points), **settings)

    return asyncio.run(main())


@pytest.fixture(params=[open_sync, open_async], ids=["sync", "async"])
def opens(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Returns a function that opens a session of the synchronous or of the asynchronous API."""
    function: Callable[..., Any] = request.param
    return function


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """Yields a function that returns all messages that were logged so far at INFO or above."""
    with caplog.at_level(logging.INFO, "turbocql"):
        yield lambda: [record.getMessage() for record in caplog.records]


def attempts_of(error: BaseException) -> int:
    """Returns the number of attempts that the message of an error names."""
    match = re.search(r"; the last of ([0-9]+) attempts in ([0-9.]+) s\Z", str(error))
    assert match is not None, str(error)
    return int(match[1])


@pytest.mark.parametrize(
    ("phase", "text", "cause"),
    [
        ("refused", "Connection refused", None),
        ("closed", "closed|reset", None),
        ("reset", "closed|reset", None),
        ((0x1001, "busy"), "the coordinator is overloaded: busy", errors.Overloaded),
        ((0x1002, ""), "the coordinator is bootstrapping", errors.IsBootstrapping),
        ((0x0000, "not yet"), "server error: not yet", errors.ServerInternalError),
        ((0x000A, "not yet"), "protocol error: not yet", errors.ProtocolViolation),
    ],
    ids=str,
)
def test_temporary_failures_are_waited_for(
    opens: Callable[..., Any],
    records: Callable[[], list[str]],
    phase: Phase,
    text: str,
    cause: type[Exception] | None,
) -> None:
    began = time.monotonic()
    with (
        StartingServer([phase]) as server,
        pytest.raises(errors.ConnectError, match=text) as caught,
    ):
        opens(server.contact_point, wait_s=1)
    assert 1 <= time.monotonic() - began < 3
    # The first pauses between attempts are 0.1 s, 0.2 s and 0.4 s. The last pause is the rest of
    # `wait_s`.
    assert 3 <= attempts_of(caught.value) <= 5
    assert type(caught.value) is errors.ConnectError
    assert cause is None or isinstance(caught.value.__cause__, cause)
    first, *later = records()
    assert re.match(
        f"waiting up to 1 s for the database: {server.contact_point}: .*({text})", first
    )
    assert all(line.startswith("still waiting, ") for line in later)


def test_a_name_that_no_server_resolves_yet(opens: Callable[..., Any]) -> None:
    with pytest.raises(errors.ConnectError, match=r"nobody\.invalid.* attempts in"):
        opens("nobody.invalid:9042", wait_s=0.5)


def test_without_wait_there_is_one_attempt(
    opens: Callable[..., Any], records: Callable[[], list[str]]
) -> None:
    with StartingServer([(0x1001, "busy")]) as server:
        with pytest.raises(errors.ConnectError, match="busy") as caught:
            opens(server.contact_point)
        # The first connection only tests the contact point. The second connection belongs to the
        # session.
        assert server.connections == 2
    assert "attempt" not in str(caught.value)
    assert records() == []


REFUSED = (0x0100, "Provided username x and/or password are incorrect")
LOGIN = {"user": "x", "password": "y"}


@pytest.mark.parametrize(
    ("phase", "settings", "text"),
    [
        (REFUSED, LOGIN, "password are incorrect"),
        (REFUSED, {}, "wants a user and a password"),
        ("http", {}, "it answers, but not in CQL"),
        ((0x2100, "may not"), {}, "not authorized: may not"),
        ((0x000A, "Invalid or unsupported protocol version (4)"), {}, "unsupported protocol"),
        ("http", {"tls": True}, "not in TLS"),
    ],
    ids=["password", "no user", "http", "permission", "version", "tls"],
)
def test_permanent_failures_are_raised_at_once(
    opens: Callable[..., Any], phase: Phase, settings: dict[str, Any], text: str
) -> None:
    began = time.monotonic()
    with (
        StartingServer([phase]) as server,
        pytest.raises(errors.ConnectError, match=text) as caught,
    ):
        opens(server.contact_point, wait_s=60, **settings)
    assert time.monotonic() - began < 5
    assert "attempt" not in str(caught.value)


def test_the_first_role_is_waited_for(
    opens: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_REFUSAL_S", 0.5)
    monkeypatch.setattr(waiting, "_REFUSAL_PAUSE_S", 0.1)
    login = {"user": "cassandra", "password": "cassandra"}
    began = time.monotonic()
    with StartingServer([REFUSED]) as server, pytest.raises(errors.AuthenticationError) as caught:
        opens(server.contact_point, wait_s=60, **login)
    assert 0.5 <= time.monotonic() - began < 5
    assert attempts_of(caught.value) >= 3


def test_a_role_is_waited_for_after_the_server_was_down(
    opens: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_REFUSAL_S", 0.5)
    monkeypatch.setattr(waiting, "_REFUSAL_PAUSE_S", 0.1)
    began = time.monotonic()
    with (
        StartingServer(["refused", REFUSED]) as server,
        pytest.raises(errors.AuthenticationError, match="are incorrect") as caught,
    ):
        opens(server.contact_point, wait_s=60, **LOGIN)
    assert 1 <= time.monotonic() - began < 5
    assert attempts_of(caught.value) >= 5


def test_roles_that_cannot_be_read_are_waited_for(opens: Callable[..., Any]) -> None:
    text = "Unable to perform authentication: Cannot achieve consistency level LOCAL_ONE"
    with (
        StartingServer([(0x0100, text)]) as server,
        pytest.raises(errors.AuthenticationError, match=text) as caught,
    ):
        opens(server.contact_point, wait_s=0.5, **LOGIN)
    assert attempts_of(caught.value) >= 3


def test_one_of_several_contact_points_may_start(opens: Callable[..., Any]) -> None:
    """One contact point answers in another protocol. `connect` still waits for the other one."""
    with (
        StartingServer(["http"]) as wrong,
        StartingServer(["refused"]) as down,
        pytest.raises(errors.ConnectError, match="not in CQL") as caught,
    ):
        opens(wrong.contact_point, down.contact_point, wait_s=0.5)
    assert attempts_of(caught.value) >= 3


def test_a_change_of_the_reason_is_logged(
    opens: Callable[..., Any], records: Callable[[], list[str]]
) -> None:
    busy: Phase = (0x1001, "busy")
    with (
        StartingServer(["refused", busy]) as server,
        pytest.raises(errors.ConnectError, match="busy"),
    ):
        opens(server.contact_point, wait_s=1.8)
    first, second = records()
    assert "refused" in first
    assert re.match(r"still waiting, [0-9] s left: .*overloaded: busy", second)


def test_each_attempt_has_the_connect_timeout(opens: Callable[..., Any]) -> None:
    began = time.monotonic()
    with StartingServer(["silent"]) as server, pytest.raises(errors.ConnectError) as caught:
        opens(server.contact_point, connect_timeout_s=0.2, wait_s=1.5)
    assert 1.5 <= time.monotonic() - began < 3
    assert attempts_of(caught.value) >= 3


def test_the_last_attempt_ends_with_the_wait(opens: Callable[..., Any]) -> None:
    began = time.monotonic()
    with StartingServer(["refused", "silent"]) as server, pytest.raises(errors.ConnectError):
        opens(server.contact_point, connect_timeout_s=60, wait_s=1.5)
    assert 1.5 <= time.monotonic() - began < 4


def test_ctrl_c_ends_the_wait() -> None:
    main = threading.main_thread().ident
    assert main is not None
    with StartingServer(["refused"]) as server:
        timer = threading.Timer(1, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            turbocql.connect(server.contact_point, wait_s=60)
        assert time.monotonic() - began < 2
        timer.join()


def test_cancellation_ends_the_wait() -> None:
    async def main() -> None:
        with StartingServer(["refused"]) as server:

            async def connect() -> None:
                async with turbocql.aio.connect(server.contact_point, wait_s=60):
                    raise AssertionError("it is open")

            task = asyncio.create_task(connect())
            await asyncio.sleep(1)
            assert not task.done()
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 0.5

    asyncio.run(main())


def test_the_setting_has_a_url_and_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Config().wait_s == 0
    assert Config.from_url("cql://db1?wait_s=60").wait_s == 60
    monkeypatch.setenv("TURBOCQL_WAIT_S", "1.5")
    assert Config.from_env().wait_s == 1.5
    for wrong in (-1, float("nan"), "1", None, True, False):
        with pytest.raises(errors.ConfigError, match="wait_s, if not 0, must be a number of sec"):
            Config(wait_s=wrong)  # type: ignore[arg-type]
