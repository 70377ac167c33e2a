"""Finds the names of the errors that the native core has counted."""

from __future__ import annotations

from ..errors import _BY_CODE, _BY_KIND, NoHostAvailable, RateLimited, RequestError, ServerError

__all__ = ["class_name"]


def class_name(kind: str, code: int | None) -> str:
    """Returns the name of the exception class of an error; `canceled` for a canceled request.

    `kind` and `code` are the native core's description of an error that an open session reports.
    """
    if kind == "canceled":
        return "canceled"
    if kind == "rate_limited":
        return RateLimited.__name__
    if kind == "server":
        return _BY_CODE.get(-1 if code is None else code, ServerError).__name__
    if kind == "authentication":
        return NoHostAvailable.__name__
    return _BY_KIND.get(kind, RequestError).__name__
