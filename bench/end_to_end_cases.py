"""The end-to-end benchmark's cases: which client does what, in which shape, how often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from clients import data
from timing import chosen

__all__ = [
    "ACCELERATED",
    "CANNOT",
    "CLIENTS",
    "FLOOR",
    "PYTHON",
    "RAW",
    "Case",
    "accelerated_cases",
    "cases",
    "counterpart",
    "environments",
    "named",
    "program",
]

FLOOR = "engine"
"""No driver: what the network engine takes by itself, without Python."""

RAW = "turbocql-raw"
"""The floors of columns: turbocql's session, where nothing is decoded or encoded."""

CLIENTS = {
    "turbocql": (".venv", "clients.with_turbocql"),
    RAW: (".venv", "clients.with_turbocql"),
    # The same with vectors read as NumPy arrays.
    "turbocql-numpy": (".venv", "clients.with_turbocql"),
    "scylla-driver": (".venv-scylla-driver", "clients.with_cassandra"),
    "cassandra-driver": (".venv-cassandra-driver", "clients.with_cassandra"),
    "acsylla": (".venv-acsylla", "clients.with_acsylla"),
    "scyllapy": (".venv-scyllapy", "clients.with_scyllapy"),
    FLOOR: (".venv", "clients.with_engine"),
    "scylla-driver-accelerated": (".venv-scylla-driver", "clients.with_accelerated"),
    "cassandra-driver-accelerated": (".venv-cassandra-driver", "clients.with_accelerated"),
}
"""The environment of each client and its program. Cases of columns have programs of their own."""

FRAMES = ("pandas", "polars")
WITH_FRAMES = ".venv-columns"
"""The environment with pyarrow, pandas and polars."""
LOADED = ("load_vector", "load_mixed")
IN_BULK = 256
"""Requests in flight of a load, where nothing else is asked for."""

ACCELERATED = "-accelerated"
"""What the name of a driver ends in where the accelerator is on."""

AWAITED = ("turbocql", "acsylla", "scyllapy")
PYTHON = ("scylla-driver", "cassandra-driver")

CANNOT = {
    ("scyllapy", "select_vector"): "cannot: its driver refuses results with custom types",
    ("scyllapy", "scan tuples"): "cannot: its rows are dicts, or objects made from dicts",
    ("acsylla", "scan named"): "cannot: its as_named_tuple gives pairs of name and value",
}
"""What a client has no way for, by scenario or by scenario and shape. It is tried all the same, so
that a later release is not wronged."""


@dataclass(frozen=True)
class Case:
    """One line of the benchmark."""

    scenario: str
    shape: str
    client: str
    in_flight: int
    variant: str = ""

    def __str__(self) -> str:
        words = (self.scenario, self.variant, self.shape, self.client, str(self.in_flight))
        return " ".join(filter(None, words))

    @property
    def kind(self) -> str:
        return self.scenario.partition("_")[2]

    @property
    def writes(self) -> bool:
        return self.scenario.startswith(("insert", "bulk", "load"))

    @property
    def has_columns(self) -> bool:
        """Whether it is about columns, or about what these are held against."""
        if self.shape == "bulk":
            return False
        shapes = ("arrow", "stream", "numpy", *FRAMES, "raw", "kept")
        return self.shape in shapes or self.scenario.startswith(("page", "load"))

    @property
    def table(self) -> str:
        """The table that it writes to."""
        if self.scenario in LOADED:
            return f"{self.kind}_{'ready' if self.client == RAW else 'loaded'}"
        return f"{self.kind}_written"

    @property
    def cannot(self) -> str | None:
        """Why the client is expected to fail."""
        by_shape = CANNOT.get((self.client, f"{self.scenario} {self.shape}"))
        return CANNOT.get((self.client, self.scenario)) or by_shape

    @property
    def requests(self) -> int:
        """So many that a sample takes a second or three; the order of magnitude is enough."""
        slow = self.client.startswith(PYTHON) or self.client == "scyllapy"
        if self.scenario.startswith("page"):
            return 500_000 if self.kind == "vector" else 2_000_000 if slow else 10_000_000
        if self.scenario in LOADED and self.shape != "bulk":
            return 20_000 if self.kind == "vector" else 100_000
        if self.in_flight == 1:
            return 2000 if slow else 3000
        count = 8000 if slow else 20_000
        if self.kind == "vector":
            count //= 2
        return 2 * count if self.shape == "bulk" else count

    @property
    def warm_up(self) -> int:
        if self.scenario.startswith("scan"):
            return 2 * data.SCANNED[self.scenario][1]
        if self.scenario.startswith("page"):
            return 20_000
        return 300 if self.in_flight == 1 else 2500

    @property
    def latency_requests(self) -> int:
        return 1500 if self.in_flight == 1 else 4000


def cases() -> list[Case]:
    """All, those to be compared beside each other."""
    found = []
    for scenario in ("insert_text", "select_text", "insert_vector", "select_vector"):
        for in_flight in (1, 100, 1000):
            awaited: tuple[str, ...] = AWAITED
            if scenario == "select_vector":
                awaited += ("turbocql-numpy",)
            shapes: dict[str, tuple[str, ...]] = {
                "workers": awaited,
                "tasks": awaited,
                "callbacks": PYTHON,
                "concurrent": PYTHON,
            }
            if scenario.startswith("insert"):
                shapes["workers"] += (FLOOR,)
            if in_flight == 1:
                shapes["sync"] = ("turbocql", *PYTHON)
            found += [
                Case(scenario, shape, client, in_flight)
                for shape, clients in shapes.items()
                for client in clients
            ]
    for scenario in ("bulk_text", "bulk_vector"):
        for in_flight in (100, 1000):
            found += [Case(scenario, "bulk", client, in_flight) for client in ("turbocql", *PYTHON)]
            # Nothing of theirs is faster than workers.
            found += [Case(scenario, "bulk", client, in_flight) for client in AWAITED[1:]]
            found.append(Case(scenario, "bulk", FLOOR, in_flight))
    for shape in ("tuples", "named", "dicts"):
        found += [
            Case("scan", shape, client, 1)
            for client in ("turbocql", *PYTHON, "acsylla", "scyllapy")
        ]
    return found + column_cases()


def column_cases() -> list[Case]:
    """Results as columns and loads of columns, with the floors and scylla-driver beside them.

    The scan to tuples, which some of these are held against, is among the other cases.
    """
    ours, stock = "turbocql", "scylla-driver"
    found = [
        Case("page", "arrow", ours, 1),
        Case("page", "tuples", stock, 1),
        Case("page_vector", "arrow", ours, 1),
        Case("page_vector", "byteswap", RAW, 1),
        Case("page_vector", "copyto", RAW, 1),
    ]
    found += [Case("scan", shape, ours, 1) for shape in ("arrow", "stream", "numpy", *FRAMES)]
    found += [Case("scan", shape, RAW, 1) for shape in ("raw", "kept")]
    found += [Case("scan", shape, stock, 1) for shape in ("numpy", "pandas")]
    found += [Case("scan_vector", "numpy", client, 1) for client in (ours, stock)]
    found += [Case("scan_vector", shape, RAW, 1) for shape in ("raw", "kept")]
    for scenario in LOADED:
        found += [Case(scenario, shape, ours, IN_BULK) for shape in ("arrow", "numpy")]
        found += [Case(scenario, shape, RAW, IN_BULK) for shape in ("blobs", "ready")]
        found += [Case(scenario, "bulk", client, IN_BULK) for client in (ours, stock)]
    # Its program, which is in Rust, writes rows of a key and one value.
    found.append(Case("load_vector", "bulk", FLOOR, IN_BULK))
    return found


def program(case: Case, *, check: bool = False) -> tuple[str, str]:
    """The environment that a case runs in, and its program."""
    environment, module = CLIENTS[case.client]
    if not case.has_columns:
        return environment, module
    # turbocql makes Arrow data without pyarrow; to look at it takes pyarrow, and so does a load.
    looks = check and case.shape == "arrow"
    if case.shape in FRAMES or case.scenario in LOADED or looks:
        environment = WITH_FRAMES
    return environment, f"{module}_columns"


def environments(case: Case) -> set[str]:
    """All environments that a case needs."""
    mine = CLIENTS[case.client][0]
    return {mine, program(case)[0], program(case, check=True)[0]}


def accelerated_cases() -> list[Case]:
    """The drivers plain and accelerated, beside each other."""
    kinds = [
        *(("insert_text", ""), ("insert_vector", "list"), ("insert_vector", "ndarray")),
        *(("select_text", "tuples"), ("select_text", "named")),
    ]
    shapes = [(*kind, shape, 100) for kind in kinds for shape in ("callbacks", "concurrent")]
    shapes += [("scan", "", shape, 1) for shape in ("tuples", "named", "dicts")]
    return [
        Case(scenario, shape, f"{driver}{ending}", in_flight, variant)
        for scenario, variant, shape, in_flight in shapes
        for driver in PYTHON
        for ending in ("", ACCELERATED)
    ]


def counterpart(case: Case) -> Case:
    """The case of turbocql that this is held against."""
    shape = _COUNTERPARTS.get(case.shape, case.shape)
    return Case(case.scenario, shape, "turbocql", case.in_flight)


_COUNTERPARTS = {"callbacks": "workers", "concurrent": "tasks"}
_HELD_AGAINST = {
    **dict.fromkeys(
        ("tuples", "raw", "kept", "blobs", "ready", "byteswap", "copyto"),
        ("arrow", "stream", "numpy"),
    ),
    "numpy": FRAMES,
    "pandas": ("numpy", "polars"),
}
"""The shapes of columns that scylla-driver's shapes and the floors' stand beside."""
_BESIDE = {**_COUNTERPARTS, **{ours: theirs for theirs, ours in _COUNTERPARTS.items()}}


def named(patterns: Iterable[str]) -> list[Case]:
    """The cases that the patterns choose, all clients of them unless a pattern names a client.

    A shape also chooses the one that it is held against. A client's whole name means it alone:
    `turbocql` is not `turbocql-numpy`.
    """
    patterns = [pattern for pattern in patterns if pattern.strip()]
    if not patterns:
        return cases()
    return [case for case in cases() if any(_is_named(case, pattern) for pattern in patterns)]


def _is_named(case: Case, pattern: str) -> bool:
    clients = [word for word in pattern.lower().split() if word in CLIENTS]
    if clients and case.client not in clients:
        return False
    shapes = [case.shape, _BESIDE.get(case.shape, case.shape)]
    if case.client in (RAW, "scylla-driver"):
        shapes += _HELD_AGAINST.get(case.shape, ())
    if case.client == RAW:
        shapes += FRAMES
    return any(chosen(str(replace(case, shape=s)), [pattern], "end_to_end") for s in shapes)
