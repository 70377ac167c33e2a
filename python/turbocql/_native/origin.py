"""Describes the call that a request belongs to, for logs and spans of the request."""

from __future__ import annotations

import threading
from contextvars import copy_context
from copy import copy
from typing import Any

__all__ = ["CallOrigin"]


class CallOrigin:
    """The thread and the context of a call. The native core makes it when the call begins."""

    __slots__ = ("__weakref__", "call", "context", "resend_count", "thread_id", "thread_name")

    def __init__(self) -> None:
        self.context = copy_context()
        self.call: Any = None
        """The `_Call` that `_telemetry.spans` stores for this call; `None` until then."""
        self.thread_id = threading.get_ident()
        self.thread_name = threading.current_thread().name
        self.resend_count = 0
        """How many times the request was sent again by decision of the `retry_when` function."""

    def again(self, resend_count: int) -> CallOrigin:
        """Returns the origin of a request that is sent again as a part of the same call."""
        origin = copy(self)
        origin.call, origin.resend_count = None, resend_count
        return origin
