"""Tests the named tuple classes of rows and user-defined types."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.children import run_python

from turbocql._native.records import field_names, record_class
from turbocql.codec import decode, encode


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["id", "name"], ["id", "name"]),
        (["Mixed Case", "a.b", "a-b-c"], ["Mixed_Case", "a_b", "a_b_c"]),
        (["system.count(*)", "_hidden", "__x__"], ["system_count", "hidden", "x"]),
        (["", "_", "***"], ["field_0", "field_1", "field_2"]),
        (["1st", "2"], ["field_0", "field_1"]),
        (["class", "None", "async"], ["field_0", "field_1", "field_2"]),
        (["a", "a", "a"], ["a", "field_1", "field_2"]),
        (["a b", "a_b"], ["field_0", "a_b"]),
        (["1", "field_0"], ["field_0_", "field_0"]),
        (["grün", "日本"], ["grün", "日本"]),
        (["count", "index"], ["count", "index"]),
        ([], []),
    ],
)
def test_field_names(names: list[str], expected: list[str]) -> None:
    assert field_names(tuple(names)) == expected


def test_no_import_is_needed_after_that_of_the_package() -> None:
    program = """
        import sys
        import turbocql
        from turbocql.codec import Deserializer
        # As where no file can be opened any more.
        sys.meta_path.clear()
        read = Deserializer(turbocql.codec.CqlType.udt("t", {"a": "int"}))
        print(read.deserialize(b"\\0\\0\\0\\4\\0\\0\\0\\5"))
        print("turbocql._native.row_classes" in sys.modules)
    """
    assert run_python(program) == "t(a=5)\nTrue\n"


@given(st.lists(st.text('aAb_1 .-"é²٣', max_size=4) | st.just("field_1"), max_size=6))
def test_any_names_make_a_class(names: list[str]) -> None:
    fields = field_names(tuple(names))
    assert len(set(fields)) == len(fields) == len(names)
    record = record_class("row", tuple(names))._make(range(len(names)))
    assert [getattr(record, field) for field in fields] == list(range(len(names)))


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("address", "address"),
        ("Home Address", "Home_Address"),
        ("class", "Record"),
        ("1", "Record"),
        ("", "Record"),
    ],
)
def test_class_names(name: str, class_name: str) -> None:
    cls = record_class(name, ("a",))
    assert cls.__name__ == class_name
    assert repr(cls(1)) == f"{class_name}(a=1)"


def test_the_same_names_make_the_same_class() -> None:
    names = ("a", "b c")
    assert record_class("Row", names) is record_class("Row", names)
    assert record_class("Row", names) is not record_class("Row", ("a", "b"))
    assert record_class("Row", names) is not record_class("Other", names)


UDT = 'person{name text, "Zip Code" int, class text}'


def person() -> Any:
    return decode(UDT, encode(UDT, ("Ann", 7, None)))


def test_records_are_named_tuples() -> None:
    record = person()
    assert issubclass(type(record), tuple)
    assert tuple(record) == ("Ann", 7, None)
    assert record._asdict() == {"name": "Ann", "Zip_Code": 7, "field_2": None}
    assert record._replace(name="Eve") == ("Eve", 7, None)
    name, *rest = record
    assert (name, rest) == ("Ann", [7, None])
    assert type(decode(f"list<{UDT}>", encode(f"list<{UDT}>", [record]))[0]) is type(record)


def test_records_are_copied_and_pickled() -> None:
    record = person()
    copies = [copy.copy(record), copy.deepcopy(record)]
    copies += [pickle.loads(pickle.dumps(record, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for same in copies:
        assert same == record
        assert type(same) is type(record)


def test_nested_records_are_pickled() -> None:
    outer = f"outer{{people list<{UDT}>, names set<text>}}"
    record = decode(outer, encode(outer, ([person(), None], {"a"})))
    same = pickle.loads(pickle.dumps(record))
    assert same == record
    assert same.people[0].Zip_Code == 7


def test_a_pickle_is_loaded_in_a_process_without_its_class() -> None:
    program = (
        "import pickle, sys; record = pickle.loads(sys.stdin.buffer.read());"
        "print(repr(record), type(record)._fields)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(person()),
        capture_output=True,
        check=True,
    )
    shown = done.stdout.decode().strip()
    assert shown == f"{person()!r} ('name', 'Zip_Code', 'field_2')"


def test_a_record_of_an_evicted_class_is_encoded_by_its_fields() -> None:
    record = person()
    record_class.cache_clear()
    # The codec has a cache of classes too, which still has the class.
    assert type(person()) is type(record)
    loaded = pickle.loads(pickle.dumps(record))
    assert type(loaded) is not type(record)
    assert encode(UDT, loaded) == encode(UDT, record) == encode(UDT, tuple(record))


def test_names_that_python_normalizes_to_the_same_identifier() -> None:
    names = ("ﬁ", "fi")
    assert len(set(field_names(names))) == 2
    assert tuple(record_class("Row", names)(1, 2)) == (1, 2)
