"""Decides whether and when `connect` tries again while a database starts (`Config.wait_s`)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from ..errors import (
    AuthenticationError,
    ConnectError,
    CqlSyntaxError,
    EncodeError,
    InvalidSchema,
    Unauthorized,
)

if TYPE_CHECKING:
    from ..config import Config

__all__ = ["LOGGER", "Waiting"]

LOGGER = "turbocql"
"""The name of the logger that reports the waits."""

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 1.0
"""The first and the longest pause between attempts. Each pause is twice as long as the one before.
"""
_LEAST_TIMEOUT_S = 1.0
"""The shortest timeout of an attempt, even if less of `wait_s` is left."""
_REFUSAL_S = 20.0
"""How long `connect` tries again after the first time that the server refused the user or the
password.

Cassandra and ScyllaDB create their first role about 10 s after they accept connections. Until then
they refuse this role with the message for a wrong password.
"""
_REFUSAL_PAUSE_S = 2.0
"""The pause after a refusal. It is long, because some servers lock a user after several refusals.
"""
_FIRST_ROLE = "cassandra"
"""The role that servers create by themselves."""

_PERMANENT_CAUSES = (CqlSyntaxError, EncodeError, InvalidSchema, Unauthorized)
_PERMANENT_REASONS = (
    "invalid peer certificate",
    "authority that is not trusted",
    "received fatal alert",
    "does not serve the host name",
    "it answers, but not in",
    "unsupported protocol version",
)
"""Parts of the messages of errors that waiting does not mend, because the settings are wrong, or
because another kind of server listens on the port."""


class Waiting:
    """The attempts of one `connect` with `wait_s`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._began = time.monotonic()
        self._attempts = 0
        self._pause_s = _FIRST_PAUSE_S
        self._reason: str | None = None
        self._has_been_down = False
        self._first_refusal: float | None = None

    def next_timeout_s(self) -> float:
        """Returns the timeout of the next attempt, in seconds.

        The timeout of the first attempt is `connect_timeout_s`. A later attempt must also end
        before `wait_s` has passed. If less than 1 second of `wait_s` is left, the attempt still
        gets 1 second, unless `connect_timeout_s` is shorter.
        """
        self._attempts += 1
        if self._attempts == 1:
            return self._config.connect_timeout_s
        left_s = max(self._config.wait_s - self._elapsed_s(), _LEAST_TIMEOUT_S)
        return min(self._config.connect_timeout_s, left_s)

    def pause_s(self, error: ConnectError) -> float | None:
        """Returns the seconds until the next attempt, or `None` if `error` is final.

        Adds the number of attempts to the message of a final error. Logs the reason for waiting if
        it differs from the last reason.
        """
        elapsed_s = self._elapsed_s()
        is_temporary = self._may_pass(error, elapsed_s)
        left_s = self._config.wait_s - elapsed_s
        if not is_temporary or left_s <= 0:
            if is_temporary or self._attempts > 1:
                number = (
                    f"the last of {self._attempts} attempts" if self._attempts > 1 else "1 attempt"
                )
                error.args = (f"{error}; {number} in {elapsed_s:.1f} s",)
            return None
        self._log(_reason(error), left_s)
        pause_s = self._pause_s
        self._pause_s = min(pause_s * 2, _LAST_PAUSE_S)
        return min(pause_s, left_s)

    @staticmethod
    def sleep(seconds: float) -> None:
        """Blocks for some seconds. Ctrl-C ends the wait."""
        time.sleep(seconds)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def _may_pass(self, error: ConnectError, elapsed_s: float) -> bool:
        if isinstance(error, AuthenticationError):
            return self._refusal_may_pass(str(error), elapsed_s)
        if isinstance(error.__cause__, _PERMANENT_CAUSES):
            return False
        self._has_been_down = True
        # The message has a part for each contact point that did not answer. Another attempt is made
        # if the reason of at least one part is not permanent.
        separators = "|".join(re.escape(f"; {at}: ") for at in self._config.contact_points)
        return any(
            not any(permanent in reason for permanent in _PERMANENT_REASONS)
            for reason in re.split(separators, str(error))
        )

    def _refusal_may_pass(self, message: str, elapsed_s: float) -> bool:
        """Whether the server may accept the user and the password later."""
        if ": authentication failed" not in message:
            # The server has not refused a password: the settings have no user, or the program's
            # authenticator raised an error. A later attempt would fail in the same way.
            return False
        if "Unable to perform authentication" in message:
            # The server could not read its roles yet.
            return True
        if self._first_refusal is None:
            self._first_refusal = elapsed_s
        may_be_created = self._has_been_down or self._config.user == _FIRST_ROLE
        self._pause_s = _REFUSAL_PAUSE_S
        return may_be_created and elapsed_s - self._first_refusal < _REFUSAL_S

    def _log(self, reason: str, left_s: float) -> None:
        if reason == self._reason:
            return
        # Imported here, because most sessions are opened by the first attempt.
        import logging

        is_first, self._reason = self._reason is None, reason
        logger = logging.getLogger(LOGGER)
        if is_first:
            wait_s = self._config.wait_s
            logger.info("waiting up to %g s for the database: %s", wait_s, reason, extra=_EXTRA)
        else:
            logger.info("still waiting, %.0f s left: %s", left_s, reason, extra=_EXTRA)


_EXTRA = {"event": "waiting for the database"}


def _reason(error: ConnectError) -> str:
    """The message of an error without its beginning, which may contain a time that differs from
    attempt to attempt.
    """
    return re.sub(
        r"\Aconnecting(?: to|: no contact point could be reached after [^:]*:|:) ", "", str(error)
    )
