"""Waking event loops that cannot watch a file descriptor."""

from __future__ import annotations

import asyncio
import threading
import weakref

from . import _core


def start(event_loop: asyncio.AbstractEventLoop, requests: _core.Requests) -> None:
    """Starts the thread that wakes `event_loop` whenever it is asked to, until the loop is gone.

    Called by the native core.
    """
    threading.Thread(
        target=_run, args=(weakref.ref(event_loop), requests), name="turbocql-notify", daemon=True
    ).start()


def _run(reference: weakref.ref[asyncio.AbstractEventLoop], requests: _core.Requests) -> None:
    while (drain := requests.wait()) is not None:
        event_loop = reference()
        if event_loop is not None:
            try:
                event_loop.call_soon_threadsafe(drain)
            except RuntimeError:
                requests.forget()
        # Nothing here may keep the loop or its queue alive while waiting.
        del event_loop, drain
