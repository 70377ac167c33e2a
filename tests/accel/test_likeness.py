"""Stand-ins are the native functions that replace functions of the driver. They look like the
replaced functions, and are pickled and copied like them.
"""

from __future__ import annotations

import copy
import gc
import inspect
import multiprocessing
import pickle
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from cassandra import cqltypes, marshal, query
from cassandra.cqlengine import models
from cassandra.query import BoundStatement, Statement
from tests.accel.answers import answer
from tests.accel.environments import python_of, run
from tests.accel.statements import statement

from turbocql import accel
from turbocql.accel import _install
from turbocql.accel._patch import Patch

assert models
with accel.accelerated():
    NATIVE = type(BoundStatement.bind)


def functions_of(attribute: Any) -> list[Any]:
    """Returns the functions that an attribute of a class or module consists of."""
    if isinstance(attribute, property):
        return [attribute.fget, attribute.fset, attribute.fdel]
    return [getattr(attribute, "__func__", attribute)]


def patches() -> list[Patch]:
    """Returns the patches that replace functions of the driver. Leaves out patches that add a
    module.
    """
    return [
        patch
        for patch in _install._state.patches
        if not isinstance(patch.replacement, ModuleType)
        and callable(functions_of(patch.original)[0])
    ]


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Yields three items for each stand-in: its name, the replaced function of the driver, and the
    stand-in.
    """
    for patch in patches():
        both = zip(functions_of(patch.original), functions_of(patch.replacement), strict=True)
        for original, replacement in both:
            if replacement is not original:
                yield patch.function_name, original, replacement


def described(function: Any) -> list[Any]:
    """Returns the metadata of a function that tools such as `help` show."""
    return [
        function.__module__,
        function.__qualname__,
        function.__name__,
        function.__doc__,
        inspect.getdoc(function),
        inspect.signature(function),
        inspect.signature(function, follow_wrapped=False),
        [answer(getattr, function, name) for name in ("__defaults__", "__annotations__", "nosuch")],
    ]


def pickled(thing: Any) -> list[Any]:
    """Pickles and unpickles an object with each protocol. Returns for each protocol whether the
    copy is equal to the object, or the class of the error.
    """
    answers = []
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = answer(lambda protocol=protocol: pickle.loads(pickle.dumps(thing, protocol)))
        answers.append(getattr(again, "cls", again == thing))
    return answers


def copied(function: Any) -> list[bool]:
    """Copies a function alone and in collections. Returns for each copy whether it is the function
    itself.
    """
    return [
        copy.copy(function) is function,
        copy.deepcopy(function) is function,
        copy.deepcopy([function])[0] is function,
        copy.deepcopy({"key": (function,)})["key"][0] is function,
    ]


def looked_up(patch: Patch) -> Any:
    """Looks a patched attribute up and returns it. The result for a class method is bound."""
    return getattr(patch.owner, patch.name)


def test_a_stand_in_is_like_its_original(accelerated: None) -> None:
    names = set()
    for name, original, replacement in pairs():
        names.add(name)
        if name == "query.namedtuple":
            continue
        if hasattr(original, "__wrapped__"):
            # The driver decorates this method, so only the signature and the innermost function are
            # compared.
            assert inspect.signature(replacement) == inspect.signature(original), name
            assert inspect.unwrap(replacement) is inspect.unwrap(original), name
        else:
            assert described(replacement) == described(original), name
            assert inspect.unwrap(replacement) is original, name
        assert replacement.__wrapped__ is original, name
        assert copied(replacement) == [True] * 4, name
        assert bool(inspect.isroutine(replacement)), name
        assert weakref.ref(replacement)() is replacement, name
        assert type(replacement) is NATIVE, name
        assert repr(replacement) == f"<native {original.__qualname__}>"
    counted = {seam.name for seam in accel.status().seams if seam.patched}
    assert counted - names <= {"cassandra.serializers"}


def test_a_stand_in_is_pickled_as_its_original_is(accelerated: None) -> None:
    every = patches()
    asked: list[Callable[[Patch], Any]] = [
        looked_up,
        *(lambda patch, i=i: functions_of(vars(patch.owner)[patch.name])[i:] for i in range(3)),
    ]
    after = [[pickled(ask(patch)) for ask in asked] for patch in every]
    classes = [copied(looked_up(patch))[:2] for patch in every]
    accel.uninstall()
    before = [[pickled(ask(patch)) for ask in asked] for patch in every]
    assert after == before
    assert classes == [copied(looked_up(patch))[:2] for patch in every]
    # Methods, static methods, bound class methods and functions of modules can be pickled.
    for attribute in (
        *(BoundStatement.bind, cqltypes.DateType.serialize, cqltypes.ListType.deserialize),
        *(query.bind_params, marshal.varint_pack, query.namedtuple, Statement._key_parts_packed),
    ):
        assert pickled(attribute) == [True] * 6, attribute


def test_the_same_bytes_are_pickled() -> None:
    def asked() -> list[bytes]:
        return [
            pickle.dumps(function, protocol)
            for protocol in range(6)
            for function in (BoundStatement.bind, cqltypes.DateType.serialize, query.bind_params)
        ]

    plain = asked()
    with accel.accelerated():
        assert asked() == plain
        assert all(pickle.loads(data).__module__.startswith("cassandra.") for data in plain)


def test_a_named_tuple_function_is_pickled_by_its_place(accelerated: None) -> None:
    assert pickle.loads(pickle.dumps(query.namedtuple)) is query.namedtuple
    assert copy.deepcopy(query.namedtuple) is query.namedtuple
    assert inspect.signature(query.namedtuple) == inspect.signature(query.namedtuple.__wrapped__)
    assert query.namedtuple.__doc__ == query.namedtuple.__wrapped__.__doc__
    assert query.namedtuple.__name__ == "namedtuple"
    watcher = type(cqltypes.DateType)
    for name in ("__setattr__", "__delattr__"):
        function = vars(watcher)[name]
        assert pickle.loads(pickle.dumps(function)) is function


def test_spawned_processes_call_the_drivers_function(accelerated: None) -> None:
    numbers = [0, -129, 1 << 70]
    expected = [cqltypes.IntegerType.serialize(number, 4) for number in numbers]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for function in (cqltypes.IntegerType.serialize, marshal.varint_pack):
            arguments = [(n, 4) if function is not marshal.varint_pack else (n,) for n in numbers]
            assert pool.starmap(function, arguments) == expected


@pytest.mark.parametrize("switch", ["", "import turbocql; turbocql.accelerate(); "])
def test_pickles_are_loaded_in_another_process(switch: str, driver: str, accelerated: None) -> None:
    functions = (BoundStatement.bind, cqltypes.DateType.serialize, Statement._key_parts_packed)
    data = pickle.dumps(functions).hex()
    program = (
        f"{switch}import cassandra.cluster, pickle; "
        f"bind, serialize, pack = pickle.loads(bytes.fromhex('{data}')); "
        "from cassandra import cqltypes, query; "
        "print(bind is query.BoundStatement.bind, serialize is cqltypes.DateType.serialize, "
        "pack is query.Statement._key_parts_packed, type(bind).__name__)"
    )
    done = run(python_of(driver), "-c", program)
    name = NATIVE.__name__ if switch else type(BoundStatement.bind.__wrapped__).__name__
    assert done.stdout.split() == ["True"] * 3 + [name], done.stderr


def test_attributes_may_be_set(accelerated: None) -> None:
    function: Any = BoundStatement.bind
    function.mark = 1
    try:
        assert function.mark == function.__wrapped__.mark == 1
    finally:
        del function.mark
    assert not hasattr(function, "mark")
    assert "__get__" in dir(function)
    assert answer(getattr, function, "\ud800").cls is AttributeError
    assert answer(NATIVE).cls is TypeError
    assert function.__get__(None, BoundStatement) is function


def test_functions_are_collected(accelerated: None) -> None:
    class Holder(BoundStatement):  # type: ignore[misc]
        pass

    kept = BoundStatement.bind
    Holder.fill = kept
    kept.holder = Holder
    reference = weakref.ref(Holder)
    assert any(found is kept.__wrapped__ for found in gc.get_referents(kept))
    del kept.holder, Holder
    gc.collect()
    assert reference() is None


def test_methods_are_bound_as_those_of_python(accelerated: None) -> None:
    bound: Any = BoundStatement(statement(cqltypes.Int32Type))
    method = bound.bind
    assert inspect.ismethod(method)
    function: Any = BoundStatement.bind
    assert [method.__func__, method.__self__] == [function, bound]
    assert method == bound.bind
    assert [method([1])] == [bound]
    original = function.__wrapped__
    assert answer(bound.bind, [1], 2).cls is answer(original, bound, [1], 2).cls
    assert str(inspect.signature(method)) == "(values)"
