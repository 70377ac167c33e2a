"""The end-to-end benchmark's cases: which client does what, in which shape, how often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from timing import chosen

__all__ = [
    "ACCELERATED",
    "CANNOT",
    "CLIENTS",
    "FLOOR",
    "PYTHON",
    "Case",
    "accelerated_cases",
    "cases",
    "counterpart",
    "named",
]

FLOOR = "engine"
"""No driver: what the network engine takes by itself, without Python."""

CLIENTS = {
    "turbocql": (".venv", "clients.with_turbocql"),
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
"""The environment of each client and its program."""

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
        return self.scenario.startswith(("insert", "bulk"))

    @property
    def cannot(self) -> str | None:
        """Why the client is expected to fail."""
        by_shape = CANNOT.get((self.client, f"{self.scenario} {self.shape}"))
        return CANNOT.get((self.client, self.scenario)) or by_shape

    @property
    def requests(self) -> int:
        """So many that a sample takes a second or three; the order of magnitude is enough."""
        slow = self.client.startswith(PYTHON) or self.client == "scyllapy"
        if self.in_flight == 1:
            return 2000 if slow else 3000
        count = 8000 if slow else 20_000
        if self.kind == "vector":
            count //= 2
        return 2 * count if self.shape == "bulk" else count

    @property
    def warm_up(self) -> int:
        if self.scenario == "scan":
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
    return found


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
    shapes = (case.shape, _BESIDE.get(case.shape, case.shape))
    return any(chosen(str(replace(case, shape=s)), [pattern], "end_to_end") for s in shapes)
