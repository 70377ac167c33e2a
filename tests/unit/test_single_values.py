"""Compares serializers and deserializers of single values with `struct`, including range checks."""

from __future__ import annotations

import array
import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from turbocql.codec import (
    CqlType,
    Deserializer,
    Serializer,
    find_deserializer,
    find_serializer,
    make_deserializers,
    make_serializers,
)
from turbocql.errors import EncodeError

FLOAT_MAX = 3.4028234663852886e38
ROUNDING_EDGE = 3.4028235677973366e38
"""The lowest number that rounds to infinity: half a step above the largest float32."""


def serialize(cql_type: str, value: Any) -> bytes:
    return find_serializer(cql_type).serialize(value)


class TestEquivalence:
    @pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.5, 3.14159, 1e-45, 1e-38, FLOAT_MAX])
    def test_float_equals_struct_pack(self, value: float) -> None:
        assert serialize("float", value) == struct.pack(">f", value)

    @pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 1e308, 5e-324, -2.5])
    def test_double_equals_struct_pack(self, value: float) -> None:
        assert serialize("double", value) == struct.pack(">d", value)

    @pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31), True])
    def test_int_equals_struct_pack(self, value: int) -> None:
        assert serialize("int", value) == struct.pack(">i", value)

    def test_int_uses_index(self) -> None:
        class Index:
            def __index__(self) -> int:
                return 42

        assert serialize("int", Index()) == struct.pack(">i", 42)

    def test_float_takes_integers(self) -> None:
        assert serialize("float", 7) == struct.pack(">f", 7)

    def test_numpy_scalars(self) -> None:
        assert serialize("float", np.float32(1.5)) == struct.pack(">f", 1.5)
        assert serialize("double", np.float64(1.5)) == struct.pack(">d", 1.5)
        assert serialize("int", np.int16(-3)) == struct.pack(">i", -3)


class TestOverflow:
    @pytest.mark.parametrize("value", [1e39, -1e39, 1.7e308, ROUNDING_EDGE, -ROUNDING_EDGE])
    def test_finite_float_that_would_become_infinite_is_refused(self, value: float) -> None:
        with pytest.raises(OverflowError):
            struct.pack(">f", value)
        with pytest.raises(EncodeError, match="out of the range of float"):
            serialize("float", value)

    def test_rounding_edge_is_accepted(self) -> None:
        below = math.nextafter(ROUNDING_EDGE, 0)
        for value in (3.4028235e38, below, -below):
            assert serialize("float", value) == struct.pack(">f", value)

    @pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63, 2**200])
    def test_int_out_of_range_is_refused(self, value: int) -> None:
        with pytest.raises(EncodeError, match="out of the range of int"):
            serialize("int", value)

    @pytest.mark.parametrize("value", [1.0, "1", b"1", None, [1], 1j])
    def test_int_refuses_other_types(self, value: Any) -> None:
        with pytest.raises(TypeError):
            serialize("int", value)

    def test_double_refuses_integers_beyond_it(self) -> None:
        with pytest.raises(EncodeError, match="out of the range of double"):
            serialize("double", 10**400)


class TestSpecialValues:
    @pytest.mark.parametrize("value", [math.inf, -math.inf])
    def test_infinities_pass(self, value: float) -> None:
        assert serialize("float", value) == struct.pack(">f", value)
        assert serialize("double", value) == struct.pack(">d", value)

    def test_nan_passes(self) -> None:
        assert serialize("float", math.nan) == struct.pack(">f", math.nan)
        assert serialize("double", math.nan) == struct.pack(">d", math.nan)

    def test_double_keeps_the_payload_of_a_nan(self) -> None:
        (payload,) = struct.unpack(">d", bytes.fromhex("7ff8000000abcdef"))
        assert serialize("double", payload).hex() == "7ff8000000abcdef"

    def test_negative_zero_keeps_its_sign(self) -> None:
        assert serialize("float", -0.0) == b"\x80\0\0\0"

    def test_subnormals(self) -> None:
        assert serialize("float", 1e-45) == b"\0\0\0\x01"
        assert serialize("double", 5e-324) == b"\0\0\0\0\0\0\0\x01"


class TestVectors:
    VALUES = (1.0, -2.5, 0.0)

    def test_vector_of_float_from_list(self) -> None:
        assert serialize("vector<float, 3>", list(self.VALUES)) == struct.pack(">3f", *self.VALUES)

    def test_vector_of_float_from_tuple(self) -> None:
        assert serialize("vector<float, 3>", self.VALUES) == struct.pack(">3f", *self.VALUES)

    def test_vector_of_double(self) -> None:
        assert serialize("vector<double, 3>", self.VALUES) == struct.pack(">3d", *self.VALUES)

    def test_vector_of_int(self) -> None:
        assert serialize("vector<int, 2>", [1, -1]) == struct.pack(">2i", 1, -1)

    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ">f4", "<f8", ">f8"])
    def test_vector_of_float_from_ndarray(self, dtype: str) -> None:
        value = np.array(self.VALUES, dtype=dtype)
        assert serialize("vector<float, 3>", value) == struct.pack(">3f", *self.VALUES)

    @pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint16", ">i4", ">i8"])
    def test_vector_of_int_from_ndarray(self, dtype: str) -> None:
        value = np.array([1, 2, 100], dtype=dtype)
        assert serialize("vector<int, 3>", value) == struct.pack(">3i", 1, 2, 100)

    def test_vector_from_array_array(self) -> None:
        value = array.array("f", self.VALUES)
        assert serialize("vector<float, 3>", value) == struct.pack(">3f", *self.VALUES)

    def test_vector_from_memoryview(self) -> None:
        value = memoryview(array.array("d", self.VALUES))
        assert serialize("vector<double, 3>", value) == struct.pack(">3d", *self.VALUES)

    def test_vector_from_read_only_array(self) -> None:
        value = np.array(self.VALUES, dtype="float32")
        value.flags.writeable = False
        assert serialize("vector<float, 3>", value) == struct.pack(">3f", *self.VALUES)

    def test_vector_from_strided_views(self) -> None:
        value = np.arange(6, dtype="float32")
        assert serialize("vector<float, 3>", value[::2]) == struct.pack(">3f", 0, 2, 4)
        assert serialize("vector<float, 3>", value[::-2]) == struct.pack(">3f", 5, 3, 1)

    def test_vector_from_ready_bytes(self) -> None:
        ready = struct.pack(">3f", *self.VALUES)
        assert serialize("vector<float, 3>", ready) == ready
        assert serialize("vector<float, 3>", bytearray(ready)) == ready

    def test_a_two_dimensional_array_is_a_list_of_vectors(self) -> None:
        value = np.arange(6, dtype="float32").reshape(2, 3)
        rows = [value[0].tolist(), value[1].tolist()]
        cql_type = "list<frozen<vector<float, 3>>>"
        assert serialize(cql_type, value) == serialize(cql_type, rows)

    def test_range_checks_of_arrays(self) -> None:
        with pytest.raises(EncodeError, match="cannot be stored as float"):
            serialize("vector<float, 2>", np.array([0, 1e39]))
        with pytest.raises(EncodeError, match="cannot be stored as int"):
            serialize("vector<int, 2>", np.array([0, 2**31]))

    def test_special_values_in_arrays(self) -> None:
        value = np.array([math.inf, -math.inf, -0.0], dtype="float64")
        assert serialize("vector<float, 3>", value) == struct.pack(">3f", *value)

    @pytest.mark.parametrize("got", [0, 2, 4])
    def test_wrong_dimension_is_a_value_error_naming_both(self, got: int) -> None:
        for value in ([0.5] * got, np.zeros(got, dtype="float32")):
            with pytest.raises(ValueError, match=f"expected 3 elements .* got {got}"):
                serialize("vector<float, 3>", value)

    def test_empty_vector_is_empty_bytes(self) -> None:
        empty = CqlType.vector_of("float", 0)
        assert find_serializer(empty).serialize([]) == b""
        assert find_serializer(empty).serialize(np.zeros(0, dtype="float32")) == b""
        assert find_deserializer(empty).deserialize(b"") == []

    def test_null_elements_are_refused(self) -> None:
        with pytest.raises(EncodeError, match=r"value\[1\].*an element of a vector cannot be null"):
            serialize("vector<float, 2>", [1.0, None])

    def test_non_indexable_iterables_with_a_length(self) -> None:
        class Sized:
            def __len__(self) -> int:
                return 3

            def __iter__(self) -> Iterator[float]:
                return iter(TestVectors.VALUES)

        assert serialize("vector<float, 3>", Sized()) == struct.pack(">3f", *self.VALUES)
        values = dict.fromkeys(self.VALUES).keys()
        assert serialize("vector<float, 3>", values) == struct.pack(">3f", *self.VALUES)

    def test_vector_of_text_carries_lengths(self) -> None:
        assert serialize("vector<text, 2>", ["a", "bc"]) == b"\x01a\x02bc"

    def test_vector_of_vectors(self) -> None:
        written = serialize("vector<vector<float, 2>, 2>", [[1, 2], [3, 4]])
        assert written == struct.pack(">4f", 1, 2, 3, 4)


class TestRoundTrips:
    @pytest.mark.parametrize(
        ("cql_type", "value"),
        [
            ("float", 1.5),
            ("double", math.pi),
            ("int", -(2**31)),
            ("bigint", 2**63 - 1),
            ("text", "grüße \U0001f600\0"),
            ("blob", b"\0\xff"),
            ("boolean", False),
            ("vector<float, 2>", [0.5, -1.0]),
            ("vector<double, 1>", [math.pi]),
            ("vector<int, 3>", [1, 2, 3]),
            ("vector<text, 2>", ["", "x"]),
        ],
    )
    def test_round_trip(self, cql_type: str, value: Any) -> None:
        written = find_serializer(cql_type).serialize(value)
        assert find_deserializer(cql_type).deserialize(written) == value

    @pytest.mark.parametrize("protocol_version", [3, 4, 5])
    def test_protocol_versions_have_the_same_bytes(self, protocol_version: int) -> None:
        serializer = find_serializer("list<int>")
        written = serializer.serialize([1, None], protocol_version)
        assert written == serializer.serialize([1, None])
        again = find_deserializer("list<int>").deserialize(written, protocol_version)
        assert again == [1, None]

    @pytest.mark.parametrize("protocol_version", [-1, 0, 2, 6, 66])
    def test_other_protocol_versions_are_refused(self, protocol_version: int) -> None:
        with pytest.raises(ValueError, match="must be 3, 4 or 5"):
            find_serializer("int").serialize(1, protocol_version)
        with pytest.raises(ValueError, match="must be 3, 4 or 5"):
            find_deserializer("int").deserialize(b"\0\0\0\1", protocol_version)


class TestFactories:
    def test_find_serializer(self) -> None:
        found = find_serializer("vector<float, 3>")
        assert isinstance(found, Serializer)
        assert found.cql_type == CqlType("vector<float, 3>")
        assert find_serializer("vector<float, 3>") is found

    def test_find_deserializer(self) -> None:
        found = find_deserializer("int")
        assert isinstance(found, Deserializer)
        assert str(found.cql_type) == "int"

    def test_make_serializers(self) -> None:
        made = make_serializers(["int", CqlType("text")])
        assert [s.serialize(v) for s, v in zip(made, [1, "a"], strict=True)] == [b"\0\0\0\1", b"a"]
        assert make_serializers([]) == []

    def test_make_deserializers(self) -> None:
        made = make_deserializers(["int", CqlType("text")])
        read = [d.deserialize(b) for d, b in zip(made, [b"\0\0\0\1", b"a"], strict=True)]
        assert read == [1, "a"]
        assert make_deserializers([]) == []

    def test_invalid_types_are_refused(self) -> None:
        with pytest.raises(ValueError, match="not a CQL type"):
            find_serializer("lisst<int>")
        with pytest.raises(TypeError, match="a CQL type is"):
            find_serializer(int)
        with pytest.raises(TypeError, match="a CQL type is"):
            find_serializer(7)  # type: ignore[call-overload]
