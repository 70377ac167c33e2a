"""Checks that `_core.pyi` and the compiled core define the same names and parameters."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest
from tests.meta.sources import PACKAGE

from turbocql import _core, _options
from turbocql._checks import _Absent
from turbocql._session.unawaited import _Member
from turbocql._session.wrong_with import _Refusal

STUB = ast.parse((PACKAGE / "_core.pyi").read_text(encoding="utf-8"))
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}

# These members are not compared. Either every class has them, or stubs declare them in another
# form.
_COMMON = {"__doc__", "__module__", "__new__", "__repr__", "__str__", "__slotnames__", "__dir__"}

# A native class with `__eq__` automatically has these methods too, which return NotImplemented. So
# the stub does not declare them.
_COMPARISONS = {"__ge__", "__gt__", "__le__", "__lt__"}


def members(stub: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}


def decorated(stub: ast.FunctionDef, name: str) -> bool:
    return any(ast.unparse(decorator) == name for decorator in stub.decorator_list)


def is_property(stub: ast.FunctionDef) -> bool:
    return decorated(stub, "property")


def is_attribute(member: object) -> bool:
    return inspect.isgetsetdescriptor(member) or inspect.ismemberdescriptor(member)


def parameters(stub: ast.FunctionDef) -> list[tuple[str, str, bool]]:
    """Returns the name and the kind of each parameter, and whether it has a default.

    If the stub takes the options of a `TypedDict`, each option counts as a parameter.
    """
    arguments = stub.args
    both = [*arguments.posonlyargs, *arguments.args]
    optional = len(both) - len(arguments.defaults)
    found = [
        (
            argument.arg,
            "POSITIONAL_ONLY" if number < len(arguments.posonlyargs) else "POSITIONAL_OR_KEYWORD",
            number >= optional,
        )
        for number, argument in enumerate(both)
    ]
    if arguments.vararg:
        found.append((arguments.vararg.arg, "VAR_POSITIONAL", False))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((argument.arg, "KEYWORD_ONLY", default is not None))
    unpacked = arguments.kwarg and re.fullmatch(
        r"Unpack\[(\w+)\]", ast.unparse(arguments.kwarg.annotation or ast.Constant(None))
    )
    if unpacked:
        names = getattr(_options, unpacked[1]).__annotations__
        found += [(name, "KEYWORD_ONLY", True) for name in names]
    elif arguments.kwarg:
        found.append((arguments.kwarg.arg, "VAR_KEYWORD", False))
    return found


def real_parameters(function: Any) -> list[tuple[str, str, bool]]:
    return [
        (parameter.name, parameter.kind.name, parameter.default is not parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]


def without_self(found: list[tuple[str, str, bool]]) -> list[tuple[str, str, bool]]:
    assert found
    assert found[0][0] in ("self", "this")
    return found[1:]


def test_the_module_has_what_the_stub_has() -> None:
    constants = {
        node.target.id: node.annotation
        for node in STUB.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    named = {*CLASSES, *FUNCTIONS, *constants}
    stubbed = {name for name in named if not name.startswith("_")}
    assert {name for name in dir(_core) if not name.startswith("_")} == stubbed
    assert set(getattr(_core, "__all__", stubbed)) == stubbed
    assert isinstance(_core.VERSION, str)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    assert real_parameters(getattr(_core, name)) == parameters(FUNCTIONS[name])


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    cls, stubbed = getattr(_core, name), members(CLASSES[name])
    assert inspect.isclass(cls)
    # Python modules add members to native classes: `_session.unawaited` to `OpAwait`, and
    # `statements` to the classes of statements. The stub does not declare these members.
    added = (_Absent, _Member, _Refusal)
    real = {name: member for name, member in vars(cls).items() if not isinstance(member, added)}
    if "__init__" in stubbed:
        assert real_parameters(cls) == without_self(parameters(stubbed.pop("__init__")))
    elif "__new__" in real:
        pytest.fail(f"{name} can be made, and the stub does not say so")
    unsaid = _COMMON | (_COMPARISONS if "__eq__" in stubbed else set())
    assert set(real) - unsaid == set(stubbed)
    for member, stub in stubbed.items():
        assert is_attribute(real[member]) == is_property(stub), member
        # Python itself chooses the names of the parameters of special methods, so these are not
        # compared.
        if not is_property(stub) and not member.startswith("__"):
            if decorated(stub, "staticmethod"):
                assert real_parameters(getattr(cls, member)) == parameters(stub), member
            else:
                found = without_self(real_parameters(real[member]))
                assert found == without_self(parameters(stub)), member


def test_the_stub_has_no_docstrings() -> None:
    for node in ast.walk(STUB):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            assert ast.get_docstring(node) is None
