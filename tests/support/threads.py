"""Runs a function on several threads at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["run_threads"]


def run_threads(count: int, work: Callable[[int], object], timeout_s: float = 60.0) -> None:
    """Calls `work` with each number below `count`, each time on a new thread.

    If threads raise exceptions, this function raises the first one. This also applies to a
    `BaseException`, such as a panic of the native core.
    """
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s)
    assert not any(thread.is_alive() for thread in threads), "a call did not return"
    if raised:
        raise raised[0]
