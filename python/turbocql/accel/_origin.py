"""Checks whether functions of the driver are the driver's own, or other code has replaced them."""

from __future__ import annotations

import decimal
import inspect
import struct
import sys
import uuid
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

__all__ = [
    "NotReplaced",
    "expect_gil",
    "expect_helpers",
    "expect_own",
    "expect_parameters",
    "expect_versions",
    "function",
    "is_function_of",
    "is_own",
    "reason_of",
    "resolved",
]


_COMPILED = {"cython_function_or_method", "fused_cython_function"}
"""The names of the types that Cython gives to the functions that it compiles."""


class NotReplaced(Exception):
    """The reason why the accelerator does not replace a function of the driver."""


def expect_gil() -> None:
    """Raises `NotReplaced` if the interpreter runs without the GIL.

    Without the GIL, other threads could change objects of the driver while native functions read
    them. A driver with extension modules turns the GIL on when it is imported.
    """
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    if is_enabled is not None and not is_enabled():
        raise NotReplaced(
            "the interpreter runs without the GIL, which the accelerator needs: start Python with"
            " -X gil=1"
        )


def reason_of(error: Exception) -> str:
    """Returns why the driver is not accelerated. `error` was raised when it was inspected."""
    if isinstance(error, NotReplaced):
        return str(error)
    return f"the driver could not be inspected: {error!r}"


def function(attribute: Any) -> Any:
    """Returns the function of a class method, static method or bound method; else `attribute`."""
    return getattr(attribute, "__func__", attribute)


def resolved(cls: type[Any], name: str) -> tuple[type[Any], Any] | None:
    """Returns the class that defines the attribute `name` of `cls`, and the entry in its dict.

    Returns None if neither `cls` nor a base has the attribute.
    """
    for owner in cls.__mro__:
        if name in vars(owner):
            return owner, vars(owner)[name]
    return None


def is_own(
    module: ModuleType, owner: type[Any], name: str, native_functions: Iterable[Any] = ()
) -> bool:
    """Whether `module` has defined the attribute `name` of `owner`, or native code replaces it.

    `native_functions` are the native replacements that count as the module's own.

    Compiled functions are checked too: they have `__module__` and `__qualname__`, as Python
    functions do.
    """
    attribute = function(vars(owner).get(name))
    if any(attribute is native_function for native_function in native_functions):
        return True
    getter = getattr(attribute, "fget", attribute)
    # A wrapper has the name of the function that it wraps, so names alone are not enough.
    if isinstance(getter, FunctionType):
        if getter.__globals__ is not vars(module):
            return False
    elif type(getter).__name__ not in _COMPILED or hasattr(getter, "__wrapped__"):
        return False
    return (
        getattr(getter, "__module__", None) == module.__name__
        and getattr(getter, "__qualname__", None) == f"{owner.__name__}.{name}"
    )


def expect_helpers(
    cqltypes: ModuleType, util: ModuleType, marshal: ModuleType, deserializers: ModuleType | None
) -> None:
    """Checks that no helper that the driver's type classes call has been replaced.

    Raises: NotReplaced, with the name of a helper that was replaced.
    """
    for name, value in vars(marshal).items():
        is_struct_method = isinstance(getattr(value, "__self__", None), struct.Struct)
        if name.startswith("_") or not callable(value) or isinstance(value, type):
            continue
        if not is_struct_method and not is_function_of(marshal, value):
            raise NotReplaced(f"cassandra.marshal.{name} has been replaced")
        if vars(cqltypes).get(name, value) is not value:
            raise NotReplaced(f"cassandra.cqltypes.{name} has been replaced")
    for name in _TIMESTAMP_FUNCTIONS:
        value = vars(util).get(name)
        if value is not None and not is_function_of(util, value):
            raise NotReplaced(f"cassandra.util.{name} has been replaced")
    for module in (cqltypes, deserializers):
        namespace = {} if module is None else vars(module)
        for name, standard_class in (("Decimal", decimal.Decimal), ("UUID", uuid.UUID)):
            if namespace.get(name, standard_class) is not standard_class:
                raise NotReplaced(f"{namespace['__name__']}.{name} has been replaced")
        for name in _TIMESTAMP_FUNCTIONS:
            if name in namespace and namespace[name] is not vars(util).get(name):
                raise NotReplaced(f"{namespace['__name__']}.{name} has been replaced")
    if vars(cqltypes).get("util") is not util:
        raise NotReplaced("cassandra.cqltypes.util has been replaced")


_TIMESTAMP_FUNCTIONS = (
    "datetime_from_timestamp",
    "datetime_from_ms_timestamp",
    "ms_timestamp_from_datetime",
)
"""The functions of `cassandra.util` that convert between timestamps and datetimes."""


_VERSION_NUMBERS = {"V5": 5, "DSE_V1": 0x41, "DSE_V2": 0x42}
"""Attributes of `ProtocolVersion`. Its methods compare a version with these numbers."""


def expect_versions(protocol: ModuleType) -> tuple[type[Any], Callable[[], str]]:
    """Returns the driver's class `ProtocolVersion`, and a function that checks the class later.

    If an attribute of the class has been replaced, that function returns a text with the
    attribute's name. Otherwise it returns an empty text.

    Raises: NotReplaced, if the class or one of its attributes has been replaced already.
    """
    package = sys.modules["cassandra"]
    version_class = vars(package).get("ProtocolVersion")
    if not isinstance(version_class, type) or version_class.__mro__ != (version_class, object):
        raise NotReplaced("cassandra.ProtocolVersion has been replaced")
    owner: type[Any] = version_class
    if vars(protocol).get("ProtocolVersion") is not owner:
        raise NotReplaced("cassandra.protocol.ProtocolVersion has been replaced")
    methods: list[str] = [name for name in vars(owner) if name.startswith(("uses_", "has_"))]
    numbers: list[str] = [name for name in _VERSION_NUMBERS if name in vars(owner)]

    def problem() -> str:
        for name in methods:
            if not _is_own_method(package, owner, name):
                return f"cassandra.ProtocolVersion.{name} has been replaced"
        for name in numbers:
            if vars(owner).get(name) != _VERSION_NUMBERS[name]:
                return f"cassandra.ProtocolVersion.{name} has been replaced"
        return ""

    if problem():
        raise NotReplaced(problem())
    return owner, problem


def _is_own_method(module: ModuleType, owner: type[Any], name: str) -> bool:
    """Whether the class method `owner.name` is the module's own.

    A program may have saved the value of `owner.name`, replaced the class method, and later stored
    the saved value in the class again. This value is a bound method. It counts as the module's own.
    """
    attribute = vars(owner).get(name)
    is_bound = type(attribute) is MethodType and attribute.__self__ is owner
    return (is_bound or type(attribute) is classmethod) and is_own(module, owner, name)


def is_function_of(module: ModuleType, value: Any) -> bool:
    """Whether `value` is a function that the module has defined.

    A compiled or built-in function whose `__module__` is "_struct" or None counts too.
    """
    if isinstance(value, FunctionType):
        return value.__globals__ is vars(module) and value.__module__ == module.__name__
    is_compiled = type(value).__name__ in _COMPILED or isinstance(value, BuiltinFunctionType)
    return is_compiled and getattr(value, "__module__", None) in (module.__name__, None, "_struct")


def expect_own(module: ModuleType, owner: Any, name: str) -> Any:
    """Returns the attribute `name` from the dict of the class `owner`.

    Raises: NotReplaced, if `owner` is not a class, or the attribute is missing or was replaced.
    """
    if not isinstance(owner, type) or name not in vars(owner):
        raise NotReplaced("the driver has no such function")
    if not is_own(module, owner, name):
        raise NotReplaced("it has been replaced")
    return vars(owner)[name]


def expect_parameters(attribute: Any, *shapes: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of a function's parameters.

    Raises: NotReplaced, if the tuple of names is not among `shapes`, or if the function's
        parameters cannot be inspected.
    """
    original = function(attribute)
    try:
        names = (
            _plain_parameters(original)
            if _is_plain(original)
            else tuple(inspect.signature(original).parameters)
        )
    except (TypeError, ValueError):
        raise NotReplaced("its parameters cannot be inspected") from None
    if names not in shapes:
        raise NotReplaced(f"its parameters are ({', '.join(names)}), which turbocql does not know")
    return names


_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _is_plain(original: Any) -> bool:
    """Whether a function's parameters can be read from its code object.

    That is faster than `inspect.signature`. The function must not be wrapped, and must not
    have annotations. Each parameter must be one that may be passed by position or by name.
    """
    if type(original) is not FunctionType and type(original).__name__ not in _COMPILED:
        return False
    code = original.__code__
    return not (
        code.co_posonlyargcount
        or code.co_kwonlyargcount
        or code.co_flags & _VARIADIC
        or original.__annotations__
        or hasattr(original, "__wrapped__")
        or hasattr(original, "__signature__")
    )


def _plain_parameters(original: Any) -> tuple[str, ...]:
    code = original.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names
