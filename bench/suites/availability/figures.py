"""The figures of one run of the availability program, from the outcomes of its requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from bench.suites.availability.cases import IN_TIME_S, JUST_AFTER_S

__all__ = ["Outcome", "figures"]

Outcome = Sequence[Any]
"""The due time of a request, its end, its error, and whether it lost a connection. Times are
seconds since the beginning of the load; the end is None if the request did not end. The error is
the name of the exception's class, `WrongRow` for a wrong answer, `NoOutcome` if the request did not
end, and empty for a right answer."""


def figures(outcomes: Sequence[Outcome], fault_s: float) -> dict[str, Any]:
    """Computes a sample's figures. The fault came `fault_s` seconds after the load began.

    A latency is the time since the request was due, not since it was sent. Otherwise a client that
    sends late, because it waits for other requests, would look better than it is.
    """
    errors = Counter(error for _, _, error, _ in outcomes if error)
    answered = [(due, ended) for due, ended, error, _ in outcomes if not error]
    after = [(due, ended) for due, ended in answered if due >= fault_s]
    just_after = [o for o in outcomes if fault_s <= o[0] < fault_s + JUST_AFTER_S]
    return {
        "requests": len(outcomes),
        "requests_just_after": len(just_after),
        "in_time": _in_time(outcomes),
        "in_time_before": _share([o for o in outcomes if o[0] < fault_s - IN_TIME_S]),
        "in_time_all": _share(outcomes),
        "in_time_just_after": _share(just_after),
        "errors": dict(errors.most_common()),
        "connection_errors": sum(is_lost for *_, is_lost in outcomes),
        "slowest_s": max((ended - due for due, ended in answered), default=None),
        "slowest_error_s": max(
            (o[1] - o[0] for o in outcomes if o[2] and o[1] is not None), default=None
        ),
        "first_answer_s": min((ended - fault_s for _, ended in after), default=None),
        "last_late_s": max(
            (o[0] - fault_s for o in outcomes if o[0] >= fault_s and not _in_time([o])),
            default=None,
        ),
        "longest_silence_s": _longest_silence(answered, fault_s, outcomes[-1][0]),
        "in_time_by_second": _by_second(outcomes),
    }


def _in_time(outcomes: Iterable[Outcome]) -> int:
    return sum(not error and ended - due <= IN_TIME_S for due, ended, error, _ in outcomes)


def _share(outcomes: Sequence[Outcome]) -> float | None:
    return _in_time(outcomes) / len(outcomes) if outcomes else None


def _longest_silence(answered: list[tuple[float, float]], fault_s: float, last: float) -> float:
    """Returns the longest time without an answer, from the fault until the last request is due."""
    times = sorted(ended for _, ended in answered if fault_s <= ended <= last)
    ends = [fault_s, *times, last]
    return max(b - a for a, b in pairwise(ends))


def _by_second(outcomes: Sequence[Outcome]) -> list[float]:
    """Returns, per second, which share of the requests due in that second was answered in time."""
    seconds: dict[int, list[Outcome]] = {}
    for outcome in outcomes:
        seconds.setdefault(int(outcome[0]), []).append(outcome)
    return [round(_in_time(of) / len(of), 3) for of in seconds.values()]
