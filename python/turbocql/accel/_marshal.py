"""Patches the functions of `cassandra.marshal`, which pack and unpack numbers."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from .. import _core
from ._origin import NotReplaced, expect_parameters, is_function_of
from ._patch import Driver, Group, Patch

__all__ = ["MARSHAL", "marshal_groups"]

MARSHAL = "cassandra.marshal"

_PACKED = [
    *("00", "7f", "80", "ff", "0080", "00ff", "7fff", "ff7f", "8000", "ffff", "c100"),
    *("f00fffffff", "fe00000000000000", "ffffffffffffffffff", "0102"),
    *("0123456789abcdef", "fedcba9876543210", "7f800001", "7ff0000000000001"),
    "80" + "00" * 20,
]
_NUMBERS = [
    number * sign
    for number in (0, 1, 63, 64, 65, 127, 128, 255, 256, 8191, 8192, 1 << 40, (1 << 62) - 1)
    for sign in (1, -1)
]
_VARINTS = [*_NUMBERS, -(1 << 63), 1 << 64, -(10**40), 10**40]
_UNSIGNED = [number for number in _NUMBERS if number >= 0] + [1 << 55, 1 << 56, (1 << 64) - 1]

_FUNCTIONS: dict[str, tuple[str, list[Any]]] = {
    "varint_pack": ("big", _VARINTS),
    "varint_unpack": ("term", [bytes.fromhex(data) for data in _PACKED]),
    "vints_pack": ("values", [[number] for number in _NUMBERS] + [[], [0, -129, 1 << 62]]),
    "vints_unpack": ("term", [bytes.fromhex(data) for data in ("", "01", "8081c10102", "ff" * 9)]),
    "uvint_pack": ("val", _UNSIGNED),
    "uvint_unpack": ("bytes", [bytes.fromhex(data) for data in ("01", "8081", "ff" * 9, "c1aabb")]),
}
"""The functions that the module defines with `def`, each with its parameter's name and samples."""
_FORMATS = {
    "int64_unpack": ">q",
    "int32_unpack": ">i",
    "int16_unpack": ">h",
    "int8_unpack": ">b",
    "uint64_unpack": ">Q",
    "uint32_unpack": ">I",
    "uint32_le_unpack": "<I",
    "uint16_unpack": ">H",
    "uint8_unpack": ">B",
    "float_unpack": ">f",
    "double_unpack": ">d",
}
"""The functions that are lambdas, each with the format of the `struct.Struct` that it calls."""


@dataclass
class _SharedPatch(Patch):
    """Replaces a function of `cassandra.marshal`, also in the driver's modules that import it."""

    def apply(self) -> None:
        super().apply()
        for module in _modules_with(self.name, self.original):
            setattr(module, self.name, self.replacement)

    def undo(self) -> bool:
        # Modules of the driver that were imported after `apply` have imported the replacement. So
        # the modules are searched again.
        for module in _modules_with(self.name, self.replacement):
            if module is not self.owner:
                setattr(module, self.name, self.original)
        return super().undo()


def _modules_with(name: str, value: Any) -> Iterator[ModuleType]:
    """Yields the imported modules of the driver in which `name` is `value`."""
    for module_name, module in list(sys.modules.items()):
        is_driver = module_name.startswith("cassandra.") and isinstance(module, ModuleType)
        if is_driver and vars(module).get(name) is value:
            yield module


class MarshalFunction(Group):
    """Patches a function of `cassandra.marshal`, and the references to it in other modules."""

    part = "marshal"

    def __init__(self, name: str) -> None:
        self._name = name
        self.names = (f"marshal.{name}",)

    def patches(self, driver: Driver) -> list[Patch]:
        marshal = sys.modules[MARSHAL]
        original = vars(marshal).get(self._name)
        if original is None:
            raise NotReplaced("the driver has no such function")
        if not isinstance(original, FunctionType) or not is_function_of(marshal, original):
            raise NotReplaced("it has been replaced")
        samples = self._samples(original)
        stand_in = _core.MarshalStandIn(original, self._name)
        replacement = stand_in.function()
        for sample in samples:
            if repr(replacement(sample)) != repr(original(sample)):
                raise NotReplaced(f"it converts {sample!r} differently from turbocql")
        patch = _SharedPatch(marshal, self._name, self.names[0], replacement, stand_in.counts)
        patch.count_from_here()
        return [patch]

    def _samples(self, original: FunctionType) -> list[Any]:
        """Returns sample arguments, for comparing the driver's function with its native stand-in.

        Raises: NotReplaced, if the function is not the one that turbocql knows.
        """
        if self._name in _FUNCTIONS:
            parameter, samples = _FUNCTIONS[self._name]
            expect_parameters(original, (parameter,))
            if original.__qualname__ != self._name:
                raise NotReplaced("it has been replaced")
            return samples
        expect_parameters(original, ("s",))
        cells = [cell.cell_contents for cell in original.__closure__ or ()]
        packer = cells[0] if len(cells) == 1 else None
        if not isinstance(packer, struct.Struct) or packer.format != _FORMATS[self._name]:
            raise NotReplaced("it has been replaced")
        numbers = (bytes.fromhex(data) for data in _PACKED)
        return [number for number in numbers if len(number) == packer.size]


def marshal_groups() -> list[Group]:
    """Returns a group for each function of `cassandra.marshal` that is replaced."""
    return [MarshalFunction(name) for name in (*_FUNCTIONS, *_FORMATS)]
