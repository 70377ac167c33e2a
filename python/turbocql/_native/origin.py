"""Describes the call that a request belongs to, for reports about the request."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import Any

__all__ = ["CallOrigin"]


class CallOrigin:
    """The thread and the context of a call. The native core makes it when a call begins."""

    __slots__ = ("__weakref__", "call", "context", "thread_id", "thread_name")

    def __init__(self) -> None:
        self.context = copy_context()
        self.call: Any = None
        """What a consumer of the reports keeps for the call."""
        self.thread_id = threading.get_ident()
        self.thread_name = threading.current_thread().name
