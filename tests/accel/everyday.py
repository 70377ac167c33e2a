"""Values that programs bind. Most of them are not instances of the built-in class that is usual for
the CQL type.
"""

from __future__ import annotations

import array
import collections
import datetime
import enum
import importlib
import importlib.util
import ipaddress
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
from cassandra.cqltypes import (
    AsciiType,
    BooleanType,
    BytesType,
    ByteType,
    CounterColumnType,
    DateType,
    DecimalType,
    DoubleType,
    DurationType,
    FloatType,
    InetAddressType,
    Int32Type,
    IntegerType,
    ListType,
    LongType,
    MapType,
    SetType,
    ShortType,
    SimpleDateType,
    TimeType,
    TimeUUIDType,
    TupleType,
    UserType,
    UTF8Type,
    UUIDType,
    VectorType,
)
from cassandra.util import Duration, OrderedMapSerializedKey, SortedSet

PANDAS = importlib.util.find_spec("pandas") is not None
PYTZ = importlib.util.find_spec("pytz") is not None
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
SUBSECOND = datetime.timezone(datetime.timedelta(seconds=-1, microseconds=-5))
WHEN = datetime.datetime(2026, 3, 29, 1, 59, 59, 678_901)
VECTORS = hasattr(VectorType, "serial_size")


def listed(element: Any) -> Any:
    return ListType.apply_parameters([element])


def set_of(element: Any) -> Any:
    return SetType.apply_parameters([element])


def mapped(key: Any, value: Any) -> Any:
    return MapType.apply_parameters([key, value])


def vector(element: Any, dimension: int) -> Any:
    return VectorType.apply_parameters([element, dimension], None)


UDT = UserType.make_udt_class("everyday", "pair", ("a", "b"), (FloatType, UTF8Type))
PAIR = TupleType.apply_parameters([FloatType, UTF8Type])


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 300


class Color(enum.Enum):
    RED = 1


class Name(str):
    """A subclass of `str`."""


class Text(str, enum.Enum):
    """A `str` that is a member of an `Enum`."""

    A = "a"


class Shouting(str):
    def encode(self, *arguments: Any) -> bytes:
        return self.upper().encode("utf-8")


class Amount(Decimal):
    """A subclass of `Decimal`."""


class Rounded(Decimal):
    def as_tuple(self) -> Any:
        return Decimal(int(self)).as_tuple()


class Key(uuid.UUID):
    """A subclass of `UUID`."""


class Moment(datetime.datetime):
    """A subclass of `datetime`."""


class Midnight(datetime.datetime):
    def utctimetuple(self) -> Any:
        return self.replace(hour=0, minute=0, second=0).timetuple()


class Day(datetime.date):
    """A subclass of `date`."""


class Indexed:
    """An object that converts to an `int` by `__index__`."""

    def __index__(self) -> int:
        return 7


class Floating:
    """An object that converts to a `float` by `__float__`."""

    def __float__(self) -> float:
        return 2.5


class Failing:
    def __float__(self) -> float:
        raise ZeroDivisionError("no number")

    def __index__(self) -> int:
        raise ZeroDivisionError("no number")

    def __len__(self) -> int:
        raise ZeroDivisionError("no length")


class Properties:
    """A record with properties."""

    @property
    def a(self) -> Any:
        return np.float32(0.5)

    @property
    def b(self) -> str:
        return Name("b")


class Shrinking(list):  # type: ignore[type-arg]
    """A list whose iterator ends early."""

    def __iter__(self) -> Any:
        return iter(list.__getitem__(self, slice(0, 1)))


class Tensor:
    """An object with some methods of a tensor."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.asarray(numbers, "f4")

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Any:
        return iter(self.numbers)

    def __array__(self, *arguments: Any, **named: Any) -> Any:
        return self.numbers


class TorchTensor(Tensor):
    """A stand-in for a tensor of PyTorch: the `__module__` of its class names the package torch."""


TorchTensor.__module__ = "torch"


def _numpy_values() -> list[Any]:
    kinds = "float16 float32 float64 longdouble int8 int16 int32 int64 uint8 uint16 uint32 uint64"
    numbers = [getattr(np, kind)(3) for kind in kinds.split()]
    large = [
        np.uint64(2**64 - 1),
        np.int64(-(2**63)),
        np.int32(-1),
        np.longlong(5),
        np.float64(0.1),
    ]
    odd = [np.float32("nan"), np.float64("inf"), np.float64(1e300), np.complex64(1), np.bool_(True)]
    dates = [np.datetime64("2026-01-01"), np.datetime64("NaT"), np.timedelta64(1, "s")]
    texts = [np.str_("ab"), np.bytes_(b"ab"), np.void(b"ab")]
    arrays = [
        np.array([1, 2, 3], kind)
        for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">i8")
    ]
    more = [
        np.array([1.5, 2, 3], object),
        np.array([1, None, 3], object),
        np.array([True, False, True]),
        np.array(["a", "b", "c"]),
        np.array([[1, 2], [3, 4], [5, 6]], "f4"),
        np.array(1.5),
        np.array([], "f4"),
        np.arange(6, dtype="f4")[::2],
        np.array(["2026-01-01", "NaT", "2026-01-02"], "M8[ms]"),
        np.ma.masked_array(np.array([1, 2, 3], "f4"), [False, True, False]),
        np.array([1e300, 2, 3]),
        np.array([2**40, 2, 3]),
        np.array([-1, 0, 1], "f4").view(np.recarray),
    ]
    listed_numbers = [list(values) for values in arrays]
    return [*numbers, *large, *odd, *dates, *texts, *arrays, *more, *listed_numbers]


def _pandas_values() -> list[Any]:
    if not PANDAS:
        return []
    pandas: Any = importlib.import_module("pandas")
    stamp = pandas.Timestamp
    stamps = [
        stamp("2026-03-29 01:59:59.678901234"),
        stamp("1969-12-31 23:59:59.999999999"),
        stamp("2026-03-29 03:00", tz="Europe/Berlin"),
        stamp("2026-10-25 02:30:00.5").tz_localize(BERLIN, ambiguous=True),
        stamp("2026-01-01", tz="UTC"),
        stamp(2**33, unit="s"),
        stamp("1677-09-22"),
        stamp("1996-11-01 03:29:46.999999", tz=SUBSECOND),
    ]
    if hasattr(stamp, "as_unit"):
        stamps += [stamp("9999-12-31").as_unit("s"), stamp(np.datetime64("12000-01-01", "s"))]
    return [
        *stamps,
        *(pandas.NaT, pandas.NA, pandas.Timedelta(1, "s"), pandas.Period("2026-01")),
        stamps[:3],
        [stamps[0], None],
        *(pandas.Series([1.5, 2, 3]), pandas.Series([1, 2, 3]), pandas.Series(["a", "b", "c"])),
        pandas.Series([1, None, 3], dtype="Int64"),
        pandas.Series([1.5, None, 3], dtype="Float64"),
        pandas.Series(stamps[:3]),
        pandas.Index([1.5, 2, 3]),
        pandas.array([1.5, 2, 3]),
        pandas.DataFrame({"a": [1.5, 2, 3]}),
        pandas.DataFrame({"a": [1.5], "b": ["x"]}).iloc[0],
    ]


def _times() -> list[Any]:
    second = datetime.timedelta(seconds=1)
    zones = [
        datetime.timezone.utc,
        BERLIN,
        datetime.timezone(datetime.timedelta(hours=5, minutes=30)),
        datetime.timezone(datetime.timedelta(microseconds=-1)),
        datetime.timezone(-second),
        zoneinfo.ZoneInfo("America/New_York"),
    ]
    times = [WHEN.replace(tzinfo=zone) for zone in zones]
    if PYTZ:
        pytz: Any = importlib.import_module("pytz")
        zone = pytz.timezone("Europe/Berlin")
        times += [zone.localize(WHEN), WHEN.replace(tzinfo=zone), WHEN.replace(tzinfo=pytz.utc)]
    east = datetime.timezone(datetime.timedelta(hours=14))
    hidden = Moment(2026, 1, 2)
    hidden.utctimetuple = lambda: (1970, 1, 2, 0, 0, 0)  # type: ignore[method-assign,assignment,return-value]
    return [
        WHEN,
        *times,
        datetime.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
        datetime.datetime(1, 1, 1, tzinfo=east),
        datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(-datetime.timedelta(hours=5))),
        datetime.datetime(1893, 3, 31, tzinfo=BERLIN),
        *(Moment(2026, 1, 2, 3, tzinfo=BERLIN), Midnight(2026, 1, 2, 3), hidden),
        *(WHEN.date(), Day(1, 1, 1), datetime.date(9999, 12, 31)),
        *(WHEN.time(), WHEN.timetz().replace(tzinfo=datetime.timezone.utc), datetime.time.max),
        *(second, Duration(1, 2, 3)),
        *("2026-02-28", "2026-02-29", "0000-01-01", "2026-2-8", "+2026-02-28", "2026-02-28 "),
        *("12:30:15", "12:30:15.123456789"),
    ]


def values() -> list[Any]:
    """Returns everyday and odd values of many classes."""
    return [
        *(True, Level.LOW, Level.HIGH, Color.RED, Indexed(), Floating(), Failing(), Fraction(1, 2)),
        *(
            0,
            -1,
            255,
            2**31,
            2**63,
            -(2**63),
            2**64,
            2**70,
            10**400,
            1.5,
            -0.0,
            1e308,
            float("nan"),
        ),
        *(float("inf"), 9.3e18, -9.3e18, 2.0**63, -(2.0**63), 1e15 + 0.5),
        *(Name("name"), Name("näme"), Text.A, Shouting("x"), "näme", "\ud800", "a", ""),
        *(b"abc", bytearray(b"abc"), memoryview(b"abc"), memoryview(b"abcd")[::2]),
        *(array.array("f", [1, 2, 3]), array.array("i", [1, 2, 3]), array.array("d", [1, 2, 3])),
        *(Decimal("1.50"), Decimal("NaN"), Decimal("1E+50"), Amount("-2.5"), Rounded("2.5")),
        *("1.5", "x", (0, (1, 5), -1)),
        *(uuid.UUID(int=5), Key(int=6), uuid.uuid1(), str(uuid.UUID(int=5))),
        *(SimpleNamespace(bytes=b"short"), SimpleNamespace(bytes=bytearray(16))),
        *("127.0.0.1", "127.1", "::1", "::ffff:1.2.3.4", "fe80::1%lo", "1.2.3.4 ", "01.2.3.4", "x"),
        *(ipaddress.ip_address("1.2.3.4"), ipaddress.ip_address("::1")),
        *(ipaddress.ip_address("fe80::1%eth0"), ipaddress.ip_network("1.2.3.0/24")),
        *_times(),
        *_numpy_values(),
        *_pandas_values(),
        *((1, 2, 3), [1.5, 2, 3], [Floating(), 1, Indexed()], ["a", Name("b"), "c"], [None] * 3),
        *(range(3), collections.deque([1, 2, 3]), {1: 2, 3: 4}.keys(), iter([1, 2, 3])),
        *((n for n in range(3)), Shrinking([1, 2, 3]), {1, 2, 3}, frozenset({1, 2, 3})),
        *({1: 2}, collections.OrderedDict({1: 2}), collections.defaultdict(int, {1: 2})),
        *(MappingProxyType({"a": 1.5}), collections.ChainMap({"a": 1.5}), {"a": np.float32(1)}),
        *({np.int64(1): Floating()}, {None: 1}, {1: None}, [(1, 2), (3, 4)]),
        *(SortedSet([1, 2, 3]), OrderedMapSerializedKey(Int32Type, 4), collections.Counter("ab")),
        *(Properties(), SimpleNamespace(a=1, b="b"), SimpleNamespace(a=np.float64(1), b=None)),
        *({"a": 1.5, "b": "x"}, (1.5, "x"), (np.float32(1), Name("x")), [np.float64(1)], ()),
        *(Tensor([1, 2, 3]), TorchTensor([1, 2, 3]), TorchTensor([[1], [2], [3]])),
        *([[1.5, 2], (np.float32(1),)], [np.array([1, 2], "f4"), np.array([1], "f4")], [[], [b""]]),
        *(object(), ..., int, Failing, lambda: 1),
    ]


def types() -> dict[str, Any]:
    """Maps names to the driver's types. The tests serialize each of `values()` with each type."""
    scalars = [
        *(AsciiType, BooleanType, BytesType, ByteType, CounterColumnType, DateType, DecimalType),
        *(DoubleType, DurationType, FloatType, InetAddressType, Int32Type, IntegerType, LongType),
        *(ShortType, SimpleDateType, TimeType, TimeUUIDType, UTF8Type, UUIDType),
    ]
    made = [*scalars, *(listed(scalar) for scalar in scalars), *(set_of(s) for s in scalars[:12])]
    made += [mapped(UTF8Type, FloatType), mapped(Int32Type, Int32Type), PAIR, UDT]
    made += [listed(listed(FloatType)), listed(PAIR), listed(UDT), mapped(Int32Type, listed(UDT))]
    if VECTORS:
        made += [vector(scalar, 3) for scalar in scalars if scalar is not CounterColumnType]
        made += [vector(vector(FloatType, 2), 3), vector(listed(FloatType), 2)]
    return {f"{n} {cls.cql_parameterized_type()}": cls for n, cls in enumerate(made)}


TAKEN: dict[str, tuple[Any, Callable[[], Any]]] = {
    "list(ndarray) as a vector": (vector(FloatType, 3), lambda: list(np.array([1, 2, 3], "f4"))),
    "list of float64 as a vector": (vector(FloatType, 3), lambda: list(np.array([1.5, 2, 3]))),
    "an object array as a vector": (vector(FloatType, 3), lambda: np.array([1.5, 2, 3], object)),
    "a tensor as a vector": (vector(FloatType, 3), lambda: TorchTensor([1, 2, 3])),
    "an ndarray as a list": (listed(FloatType), lambda: np.array([1, 2, 3], "f4")),
    "an int ndarray as a list": (listed(LongType), lambda: np.array([1, 2, 3])),
    "NumPy numbers in a list": (listed(Int32Type), lambda: list(np.array([1, 2, 3]))),
    "a NumPy number": (DoubleType, lambda: np.float32(1.5)),
    "a NumPy int": (LongType, lambda: np.int64(5)),
    "NumPy text": (UTF8Type, lambda: np.str_("ab")),
    "a date as a timestamp": (DateType, lambda: WHEN.date()),
    "an int as a timestamp": (DateType, lambda: 1_700_000_000_000),
    "a float as a timestamp": (DateType, lambda: 1.7e12),
    "an aware time": (DateType, lambda: WHEN.replace(tzinfo=BERLIN)),
    "aware times in a list": (listed(DateType), lambda: [WHEN.replace(tzinfo=BERLIN)] * 3),
    "a subclass of datetime": (DateType, lambda: Moment(2026, 1, 2)),
    "a datetime as a date": (SimpleDateType, lambda: WHEN),
    "text as a date": (SimpleDateType, lambda: "2026-02-28"),
    "a time": (TimeType, lambda: WHEN.time()),
    "a member of an IntEnum": (Int32Type, lambda: Level.LOW),
    "a member of an IntEnum as a varint": (IntegerType, lambda: Level.HIGH),
    "a subclass of str": (UTF8Type, lambda: Name("näme")),
    "a subclass of Decimal": (DecimalType, lambda: Amount("-2.5")),
    "a float as a decimal": (DecimalType, lambda: 0.5),
    "text as a decimal": (DecimalType, lambda: "1.50"),
    "a subclass of UUID": (UUIDType, lambda: Key(int=6)),
    "a bytearray": (BytesType, lambda: bytearray(b"abc")),
    "memoryviews in a list": (listed(BytesType), lambda: [memoryview(b"abc")]),
    "an address": (InetAddressType, lambda: "127.0.0.1"),
    "addresses in a list": (listed(InetAddressType), lambda: ["::1", "1.2.3.4"]),
    "an ipaddress": (InetAddressType, lambda: ipaddress.ip_address("::1")),
    "a deque": (listed(Int32Type), lambda: collections.deque([1, 2, 3])),
    "a range as a set": (set_of(Int32Type), lambda: range(3)),
    "an OrderedDict": (mapped(Int32Type, Int32Type), lambda: collections.OrderedDict({1: 2})),
    "a Counter": (mapped(UTF8Type, FloatType), lambda: collections.Counter("aab")),
    "a record with properties": (UDT, Properties),
    "NumPy numbers in a tuple": (PAIR, lambda: (np.float32(1), "x")),
    "text in a vector": (vector(UTF8Type, 3), lambda: ["a", "b", "c"]),
    "an array.array as a list": (listed(Int32Type), lambda: array.array("i", [1, 2, 3])),
}
"""Maps a name to a pair: a type, and a function. The function returns a value of this type that is
serialized natively."""
if PANDAS:
    _stamp: Any = importlib.import_module("pandas").Timestamp
    TAKEN |= {
        "a pandas Timestamp": (DateType, lambda: _stamp(WHEN)),
        "an aware pandas Timestamp": (DateType, lambda: _stamp(WHEN, tz="Europe/Berlin")),
        "pandas Timestamps in a list": (listed(DateType), lambda: [_stamp(WHEN)] * 3),
        "a pandas Series as a list": (
            listed(DoubleType),
            lambda: importlib.import_module("pandas").Series([1.5, 2]),
        ),
    }
