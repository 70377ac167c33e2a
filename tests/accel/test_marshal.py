"""The accelerator replaces the functions of `cassandra.marshal` in all modules of the driver, and
restores them when it is switched off.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from cassandra import cluster, cqltypes, marshal, metadata, protocol
from tests.accel.marshal_tasks import FUNCTIONS
from tests.accel.statements import seams

from turbocql import accel

assert cluster


def references() -> dict[tuple[str, str], Any]:
    """Maps the name of a module of the driver and the name of a function in `FUNCTIONS` to the
    function in this module.
    """
    return {
        (module_name, name): vars(module)[name]
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("cassandra.")
        for name in FUNCTIONS
        if name in vars(module)
    }


def test_every_reference_is_replaced_and_restored() -> None:
    before = references()
    assert {("cassandra.metadata", "varint_unpack"), ("cassandra.protocol", "int32_unpack")} <= set(
        before
    )
    accel.accelerate()
    during = references()
    assert during.keys() == before.keys()
    for (module, name), function in during.items():
        assert function is not before[module, name], (module, name)
        assert function is vars(marshal)[name], (module, name)
    # A module that is imported while the accelerator is on gets the replacements. `uninstall` must
    # remove them from this module too.
    late = ModuleType("cassandra.late")
    sys.modules["cassandra.late"] = late
    try:
        vars(late)["varint_pack"] = marshal.varint_pack
        accel.uninstall()
        assert vars(late)["varint_pack"] is before["cassandra.marshal", "varint_pack"]
    finally:
        del sys.modules["cassandra.late"]
    assert references() == before


def test_the_drivers_own_calls_are_native(accelerated: None) -> None:
    kept = marshal.varint_pack
    assert metadata.MD5Token.hash_fn(b"key") == 80325066489831061459460196859901989661
    assert cqltypes.Int32Type.deserialize(b"\0\0\0\5", 4) == 5
    counts = seams()
    assert counts["marshal.varint_unpack"].native == 1
    assert counts["marshal.int32_unpack"].native == 1
    assert kept(-129) == b"\xff\x7f"
    assert seams()["marshal.varint_pack"].native == 1
    accel.uninstall()
    # The program may have kept a reference to a replacement. The replacement now calls the driver's
    # function.
    assert kept(-129) == b"\xff\x7f"


@pytest.mark.parametrize("name", ["varint_pack", "int32_unpack"])
def test_replaced_functions_win(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(argument: Any) -> Any:
        return "mine"

    monkeypatch.setattr(marshal, name, mine)
    with accel.accelerated():
        assert getattr(marshal, name) is mine
        assert "replaced" in seams()[f"marshal.{name}"].why
    monkeypatch.undo()
    # If the program has put its own function into one module of the driver, the function stays in
    # this module.
    monkeypatch.setattr(protocol, "int32_unpack", mine)
    with accel.accelerated():
        assert protocol.int32_unpack is mine
        assert seams()["marshal.int32_unpack"].patched
    assert protocol.int32_unpack is mine
    monkeypatch.undo()
    own = getattr(marshal, name)
    try:
        with accel.accelerated():
            setattr(marshal, name, mine)
        assert getattr(marshal, name) is mine
        assert "replaced by somebody" in str(accel.status())
        assert all(vars(module).get(name, own) in (own, mine) for module in (cqltypes, protocol))
    finally:
        setattr(marshal, name, own)
