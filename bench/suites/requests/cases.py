"""The end-to-end benchmark's cases: a client, a scenario, a shape, and a number in flight."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.suites.requests import data
from bench.suites.requests.scenario import Scenario

__all__ = [
    "ACCELERATED",
    "CANNOT",
    "CLIENTS",
    "COUNTERPARTS",
    "FLOOR",
    "FRAMES",
    "IN_BULK",
    "LOADED",
    "PYTHON",
    "RAW",
    "SCENARIOS",
    "SCYLLADB_RS",
    "SIMULATED",
    "Case",
    "accelerated_cases",
    "counterpart",
    "environments",
    "program",
    "request_cases",
]

SCENARIOS = {
    "insert_text": "INSERT (int, text)",
    "select_text": "SELECT one row by key",
    "insert_vector": "INSERT (int, vector<float, 768>)",
    "select_vector": "SELECT (int, vector<float, 768>) by key",
    "bulk_text": "INSERT (int, text), in bulk",
    "bulk_vector": "INSERT (int, vector<float, 768>), in bulk",
    "scan": "scan of 100,000 rows x 6 columns, per row",
    "scan_vector": "scan of 20,000 rows (int, vector<float, 768>), per row",
    "page": "one page of 5,000 rows x 6 columns, decoded, per row",
    "page_vector": "one page of 1,000 rows (int, vector<float, 768>), decoded, per row",
    "load_vector": "load of (int, vector<float, 768>), per row",
    "load_mixed": "load of (bigint, text, double, timestamp), per row",
}
"""The title of each scenario."""

COUNTERPARTS = {"callbacks": "workers", "concurrent": "tasks"}
"""Maps a shape of other drivers to the shape of turbocql that it is compared with."""

FLOOR = "engine"
"""The client that runs the network engine alone, without Python. It is not a driver."""

RAW = "turbocql-raw"
"""The client that measures the floors of cases about columns: it receives pages without decoding
them, swaps bytes of vectors with NumPy, or writes cells that are already encoded."""

SCYLLADB_RS = "scylladb-rs-driver"

_ACCELERATED = "bench.clients.cassandra.accelerated_requests"
CLIENTS = {
    "turbocql": (".venv", "bench.clients.turbocql.requests"),
    RAW: (".venv", "bench.clients.turbocql.requests"),
    # This client is turbocql with vectors read as NumPy arrays.
    "turbocql-numpy": (".venv", "bench.clients.turbocql.requests"),
    "scylla-driver": (".venv-scylla-driver", "bench.clients.cassandra.requests"),
    "cassandra-driver": (".venv-cassandra-driver", "bench.clients.cassandra.requests"),
    "acsylla": (".venv-acsylla", "bench.clients.acsylla.requests"),
    "scyllapy": (".venv-scyllapy", "bench.clients.scyllapy"),
    SCYLLADB_RS: (".venv-scylladb-rs-driver", "bench.clients.scylladb_rs"),
    FLOOR: (".venv", "bench.clients.engine"),
    "scylla-driver-accelerated": (".venv-scylla-driver", _ACCELERATED),
    "cassandra-driver-accelerated": (".venv-cassandra-driver", _ACCELERATED),
}
"""Maps each client to its environment and its program. Cases of columns run in other programs: see
`program`."""

SIMULATED = "simulated ScyllaDB"
"""The `server` of a case that runs on a simulated ScyllaDB: a node of Cassandra behind a simulator,
which adds ScyllaDB's extensions to the protocol."""

FRAMES = ("pandas", "polars")
WITH_FRAMES = ".venv-columns"
"""The environment with pyarrow, pandas and polars."""
LOADED = ("load_vector", "load_mixed")
IN_BULK = 256
"""The number of requests in flight during a load."""

ACCELERATED = "-accelerated"
"""The suffix of a driver's name when the accelerator is on."""

AWAITED = ("turbocql", SCYLLADB_RS, "acsylla", "scyllapy")
PYTHON = ("scylla-driver", "cassandra-driver")

CANNOT = {
    ("scyllapy", "select_vector"): "cannot: its driver refuses results with custom types",
    ("scyllapy", "scan tuples"): "cannot: its rows are dicts, or objects made from dicts",
    ("acsylla", "scan named"): "cannot: its as_named_tuple gives pairs of name and value",
}
"""Maps a client and a scenario (or a scenario in one shape) to the reason why the client cannot run
it. The benchmark checks such cases nevertheless. If a later release of the client can run a case,
the check reports a failure. Then remove the entry."""


@dataclass(frozen=True)
class Case(Scenario):
    """A scenario in one shape, through one client, with a number of requests in flight."""

    scenario: str
    shape: str
    client: str
    in_flight: int
    variant: str = ""
    server: str = ""
    """`SIMULATED`, or empty for a Cassandra node."""

    def __str__(self) -> str:
        words = (self.scenario, self.variant, self.shape, self.client, str(self.in_flight))
        return " ".join(filter(None, (*words, self.server)))

    @property
    def has_columns(self) -> bool:
        """Whether the client's program for columns runs this case."""
        if self.shape == "bulk":
            return False
        shapes = ("arrow", "stream", "numpy", *FRAMES, "raw", "kept")
        return self.shape in shapes or self.scenario.startswith(("page", "load"))

    @property
    def table(self) -> str:
        """The table that the case writes to."""
        if self.scenario in LOADED:
            return f"{self.kind}_{'ready' if self.client == RAW else 'loaded'}"
        return f"{self.kind}_written"

    @property
    def cannot(self) -> str | None:
        """The reason why the client is expected to fail, or None if it is expected to succeed."""
        by_shape = CANNOT.get((self.client, f"{self.scenario} {self.shape}"))
        return CANNOT.get((self.client, self.scenario)) or by_shape

    @property
    def requests(self) -> int:
        """The number of requests, or rows of pages and loads, in a sample: 1 to 3 s of work."""
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


def request_cases() -> list[Case]:
    """Returns all cases that are not about columns. Cases to compare are next to each other."""
    cases = []
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
                shapes["sync"] = ("turbocql", SCYLLADB_RS, *PYTHON)
            cases += [
                Case(scenario, shape, client, in_flight)
                for shape, clients in shapes.items()
                for client in clients
            ]
    for scenario in ("bulk_text", "bulk_vector"):
        for in_flight in (100, 1000):
            cases += [Case(scenario, "bulk", client, in_flight) for client in ("turbocql", *PYTHON)]
            # The other clients have no faster bulk call than workers.
            cases += [Case(scenario, "bulk", client, in_flight) for client in AWAITED[1:]]
            cases.append(Case(scenario, "bulk", FLOOR, in_flight))
    for shape in ("tuples", "named", "dicts"):
        cases += [
            Case("scan", shape, client, 1)
            for client in ("turbocql", SCYLLADB_RS, *PYTHON, "acsylla", "scyllapy")
        ]
    return cases


def program(case: Case, *, check: bool = False) -> tuple[str, str]:
    """Returns the environment that a case runs in, and its program."""
    environment, module = CLIENTS[case.client]
    if not case.has_columns:
        return environment, module
    # turbocql makes Arrow data without pyarrow. Only checks of such data, and loads, need pyarrow.
    looks = check and case.shape == "arrow"
    if case.shape in FRAMES or case.scenario in LOADED or looks:
        environment = WITH_FRAMES
    return environment, module.replace(".requests", ".columns")


def environments(case: Case) -> set[str]:
    """Returns all environments that a case needs."""
    mine = CLIENTS[case.client][0]
    return {mine, program(case)[0], program(case, check=True)[0]}


def accelerated_cases() -> list[Case]:
    """Returns the cases of Python drivers, each followed by the same case with the accelerator."""
    kinds = [
        *(("insert_text", ""), ("insert_vector", "list"), ("insert_vector", "ndarray")),
        *(("select_text", "tuples"), ("select_text", "named")),
    ]
    shapes = [(*kind, shape, 100) for kind in kinds for shape in ("callbacks", "concurrent")]
    shapes += [("insert_text", "", "sync", 1), ("select_text", "named", "sync", 1)]
    shapes += [("scan", "", shape, 1) for shape in ("tuples", "named", "dicts")]
    cases = [
        Case(scenario, shape, f"{driver}{ending}", in_flight, variant)
        for scenario, variant, shape, in_flight in shapes
        for driver in PYTHON
        for ending in ("", ACCELERATED)
    ]
    driver = "scylla-driver"
    cases += [
        replace(case, server=SIMULATED)
        for case in cases
        if case.client in (driver, driver + ACCELERATED)
        and (case.scenario == "insert_text" or case.variant == "named")
    ]
    return cases


def counterpart(case: Case) -> Case:
    """Returns turbocql's case that this case is compared with."""
    shape = COUNTERPARTS.get(case.shape, case.shape)
    return Case(case.scenario, shape, "turbocql", case.in_flight)
