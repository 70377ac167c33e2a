"""Compares tables with a model of their contents after generated loads.

The tests load rows, repeat loads, kill and resume loads, and unload tables and load them again. A
`Story` is a random sequence of these steps on one table.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from tests.support.children import start_python

import turbocql
from turbocql._transfer import target
from turbocql.testing import Cassandra

from .conftest import SPACE, Table
from .model import (
    BIGINT,
    UDTS,
    Column,
    Model,
    Row,
    Write,
    arrow_array,
    csv_cell,
    generated_shape,
    json_cell,
    value_of,
)

SEEDS = range(80)
PROOF_SEEDS = range(240)
KILLED = (6, 18)
"""A story kills a process if its seed, modulo the number of `SEEDS`, is one of these numbers. Only
a few stories do so, because killing a process takes seconds."""
Form = Literal["parquet", "csv", "jsonl", "arrow"]
FILES: tuple[Form, ...] = ("parquet", "csv", "jsonl", "arrow")
FORMS = (*FILES, "table", "dict")
TIME = "written_at"
"""The name of the data column with the write times."""
NOW = 2 * 10**15
"""The time that the model uses as the server's time. It is later than most write times that loads
pass."""


@dataclass(frozen=True)
class Load:
    """The rows of a load, and the options that decide what it writes."""

    rows: list[Row]
    names: list[str]
    """The columns of the table that the load writes."""
    others: list[str]
    """The columns of the data that the load does not write, because `columns=` is `names`."""
    nulls: str
    time: int | None = None
    """The write time of all rows, or `None` if `timestamp=` does not set one for all rows."""
    has_times: bool = False
    """Whether the data has a column with a write time for each row. The time can be null."""

    @property
    def options(self) -> dict[str, Any]:
        made: dict[str, Any] = {"nulls": self.nulls}
        if self.others:
            made["columns"] = self.names
        if self.is_timed:
            made["timestamp"] = TIME if self.has_times else self.time
        return made

    @property
    def is_timed(self) -> bool:
        return self.has_times or self.time is not None

    @property
    def untimed(self) -> Load:
        return replace(self, time=None, has_times=False)

    def __str__(self) -> str:
        return f"{len(self.rows)} rows of {', '.join(self.names)}, {self.options}"


LOADER = """
import json, sys, turbocql

point, where, path, options = sys.argv[1:]
with turbocql.connect(point, timeout_s=60) as session:
    print("begun", flush=True)
    session.load(where, path, **json.loads(options))
"""


@dataclass
class Story:
    """A table, its model, and a log of the steps."""

    seed: int
    session: turbocql.Session
    point: str
    make: Table
    directory: Path
    log: list[str] = field(default_factory=list)
    last: Load | None = None

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.shape = generated_shape(self.seed, self.rng)
        self.kills = self.seed % len(SEEDS) in KILLED
        self.keys = self.shape.keys(self.rng, *((40, 40) if self.kills else (4, 8)))
        self.model = Model(self.shape)
        self.numbers = count(1)
        self.where = self.make(self.shape.cql)
        self.log.append(f"CREATE TABLE {self.where} ({self.shape.cql})")

    def run(self) -> None:
        steps = ["load", "again", "back", *self.rng.choices(["load", "again", "back"], k=3)]
        self.rng.shuffle(steps)
        for step in ("load", *(("kill", "again") if self.kills else ()), *steps):
            try:
                getattr(self, step)()
            except Exception as error:
                raise AssertionError(f"{self}\n{error!r}") from error

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}", *self.log])

    # Generated loads.

    def generated(self, keys: Sequence[Row]) -> Load:
        rng, shape = self.rng, self.shape
        way = rng.choice(["server", "server", "constant", "column"])
        values = shape.of("static", "regular")
        chosen = values if rng.random() < 0.6 else [it for it in values if rng.random() < 0.5]
        written = [*shape.of("partition", "clustering"), *chosen]
        if {it.role for it in chosen} == {"static"} and rng.random() < 0.5:
            written = [it for it in written if it.role != "clustering"]
        names = [it.name for it in written]
        others = [it.name for it in shape.columns if it.name not in names]
        others = others if rng.random() < 0.5 else []
        # In most loads, all rows of a partition have equal static values. A file that an unload has
        # written is like this too. In the other loads, the values differ. Then the value with the
        # latest write time wins, and if the write times are equal, any of the values can win.
        differ = way != "constant" and rng.random() < 0.3
        statics: dict[str, Row] = {}
        rows = []
        for key in keys:
            row = {**key, **{it.name: self.value(it) for it in values}, TIME: self.time_of_row()}
            partition = shape.key(row, "partition")
            known = statics.setdefault(
                partition, {it.name: row[it.name] for it in shape.of("static")}
            )
            rows.append(row if differ else {**row, **known})
        for row in rng.sample(rows, rng.randint(0, min(6, len(rows)))):
            # This adds a second row with the same key. It has the same values or new regular
            # values.
            if way == "constant" or rng.random() < 0.5:
                other = row
            else:
                fresh = {it.name: self.value(it) for it in shape.of("regular")}
                other = {**row, **fresh, TIME: self.time_of_row()}
            rows.insert(rng.randint(0, len(rows)), other)
        at = self.time() if way == "constant" else None
        nulls = rng.choice(["unset", "unset", "null"])
        return Load(rows, names, others, nulls, at, way == "column")

    def value(self, column: Any) -> Any:
        return None if self.rng.random() < 0.2 else value_of(self.rng, column.kind)

    def time(self) -> int:
        # One write time in ten is after `NOW`. A later write at the server's time then has no
        # effect.
        first = 4 * 10**15 if self.rng.random() < 0.1 else 10**15
        return first + self.rng.randrange(5 * 10**14)

    def time_of_row(self) -> int | None:
        return None if self.rng.random() < 0.1 else self.time()

    def data(self, load: Load, form: str) -> Any:
        """Returns the rows as a dict of lists, a pyarrow table, or the path of a new file."""
        rows, rng = load.rows, self.rng
        columns = [it for it in self.shape.columns if it.name in (*load.names, *load.others)]
        if load.has_times:
            columns.append(Column(TIME, BIGINT, "regular", False))
        if form == "dict":
            return {it.name: [row[it.name] for row in rows] for it in columns}
        path = self.directory / f"{next(self.numbers)}.{form}"
        if form == "jsonl":
            lines = [{it.name: json_cell(it.kind, row[it.name]) for it in columns} for row in rows]
            # A line may leave out names whose value is null. Only the first line must have all
            # names, because it defines the columns.
            for line in lines[1:] if rng.random() < 0.5 else ():
                for name in [name for name, value in line.items() if value is None]:
                    del line[name]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            return path
        if form == "csv":
            texts = [[csv_cell(it.kind, row[it.name]) for it in columns] for row in rows]
            texts.insert(0, [it.name for it in columns])
            path.write_bytes("".join(",".join(line) + "\n" for line in texts).encode())
            return path
        arrays = [arrow_array(it.kind, [row[it.name] for row in rows]) for it in columns]
        made = pa.table(arrays, [it.name for it in columns])
        size = rng.choice([5, 300, 100_000])
        if form == "parquet":
            pq.write_table(made, path, row_group_size=size)
        elif form == "arrow":
            feather.write_feather(made, path, chunksize=size, compression="uncompressed")
        else:
            return pa.Table.from_batches(made.to_batches(max_chunksize=size), made.schema)
        return path

    def writes(self, load: Load) -> list[Write]:
        return [
            self.shape.write(
                row, load.names, load.nulls, row[TIME] if load.has_times else load.time
            )
            for row in load.rows
        ]

    def pace(self) -> dict[str, Any]:
        """Returns options that decide how a load sends its rows."""
        rng = self.rng
        made = {"batches": rng.choice([True, False, "auto"]), "concurrency": rng.randint(1, 64)}
        return made | ({"batch_bytes": rng.choice([100, 1000])} if rng.random() < 0.2 else {})

    # Steps of a story.

    def load(self) -> None:
        keys = [key for partition in self.keys[:4] for key in partition[:8]]
        if len(self.keys[0]) == 1:
            keys = [key for (key,) in self.keys[:24]]
        self.last = self.generated(self.rng.sample(keys, self.rng.randint(1, 20)))
        self.written(self.last)

    def again(self) -> None:
        """Loads the rows of the last load again, with or without their write times."""
        assert self.last is not None
        is_timed = self.rng.random() < 0.7
        self.written(self.last if is_timed else self.last.untimed)

    def written(self, load: Load) -> None:
        form, pace = self.rng.choice(FORMS), self.pace()
        self.log.append(f"{form}: {load}, {pace}")
        data = self.data(load, form)
        report = self.session.load(self.where, data, **load.options, **pace)
        assert (report.rows, report.succeeded) == (len(load.rows), len(load.rows)), report
        self.model.take(self.writes(load), NOW + next(self.numbers))
        self.check()

    def kill(self) -> None:
        """Starts a process that loads a file, kills it, and resumes the load in this process."""
        self.last = self.generated([key for partition in self.keys for key in partition])
        self.killed(self.last)

    def killed(self, load: Load) -> None:
        form, pace = self.rng.choice(FILES), self.pace()
        checkpoint = self.directory / f"{next(self.numbers)}.checkpoint"
        path = self.data(load, form)
        wait_s = self.rng.uniform(0.3, 0.8)
        self.log.append(f"{form}: {load}, {pace}, killed after {wait_s:.2f} s")
        begun = {"checkpoint": str(checkpoint), "rate_limit": 2000, **load.options, **pace}
        child = start_python(LOADER, self.point, self.where, str(path), json.dumps(begun))
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "begun\n", child.communicate()[1]
            while child.poll() is None and not checkpoint.exists():
                time.sleep(0.01)
            if child.poll() is None:
                time.sleep(wait_s)
        finally:
            child.kill()
            _, complaints = child.communicate()
        assert not complaints, complaints
        writes, now = self.writes(load), NOW + next(self.numbers)
        partly = copy.deepcopy(self.model)
        partly.take(writes, now, begun=True)
        self.check(partly)
        self.log.append("resumed")
        report = self.session.load(
            self.where, path, resume=checkpoint, **load.options, **self.pace()
        )
        self.log.append(f"{report.rows} rows after the kill")
        assert report.rows == report.succeeded
        self.model.take(writes, now)
        self.check()

    def back(self) -> None:
        """Unloads the table to files, empties it, and loads the files."""
        form: Form = self.rng.choice(FILES)
        rows, alone = self.model.read()
        if not rows:
            return
        at = self.time() if self.rng.random() < 0.25 else None
        load = Load([], [it.name for it in self.shape.columns], [], "unset", at)
        self.log.append(f"{form}: unload, truncate, load, {load.options}")
        number, files = next(self.numbers), self.rng.choice([1, 3])
        target = self.directory / (f"{number}.{form}" if files == 1 else f"{number}")
        report = self.session.unload(self.where, target, format=form, files=files)
        assert report.rows == len(rows) + alone
        self.session.execute(f"TRUNCATE {self.where}")
        self.model = Model(self.shape)
        self.check()
        self.loaded_back(load, target, rows, alone)

    def loaded_back(self, load: Load, target: Path, rows: list[Write], alone: int) -> None:
        report = self.session.load(
            self.where, target, raise_failures=False, **load.options, **self.pace()
        )
        # A partition with only static values is unloaded as a row without a clustering key. A load
        # refuses such a row.
        assert (report.succeeded, len(report.failures)) == (len(rows), alone), report
        writes = [write._replace(time=load.time) for write in rows]
        self.model.take(writes, NOW + next(self.numbers))
        self.check()

    def check(self, model: Model | None = None) -> None:
        """Compares the whole table with the model."""
        names = [it.name for it in self.shape.columns]
        if self.rng.random() < 0.7:
            rows = self.session.scan(self.where, columns=names, rows="tuple").all()
        else:
            query = f"SELECT {', '.join(names)} FROM {self.where}"
            rows = self.session.execute(query, rows="tuple").all()
        clustering, found = [it.name for it in self.shape.of("clustering")], {}
        for values in rows:
            row = dict(zip(names, values, strict=True))
            alone = clustering and all(row[name] is None for name in clustering)
            key = None if alone else self.shape.key(row, "clustering")
            cells = {it.name: it.cell(row[it.name]) for it in self.shape.of("static", "regular")}
            place = self.shape.key(row, "partition"), key
            assert place not in found, f"the row {place} comes twice"
            found[place] = cells
        differences = (model or self.model).settle(found)
        if differences:
            shown = [f"{len(differences)} cells and rows differ", *differences[:5]]
            pytest.fail("\n".join([str(self), *shown]), pytrace=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        proof = metafunc.config.getoption("--proof")
        metafunc.parametrize("seed", PROOF_SEEDS if proof else SEEDS)


@pytest.fixture(scope="module")
def types(session: turbocql.Session) -> None:
    for udt in UDTS:
        fields = ", ".join(f"{name} {kind.cql}" for name, kind in udt.fields)
        session.execute(f"CREATE TYPE IF NOT EXISTS {SPACE}.{udt.name} ({fields})")


@pytest.mark.usefixtures("types")
def test_a_table_equals_its_model(
    seed: int, session: turbocql.Session, cassandra: Cassandra, table: Table, tmp_path: Path
) -> None:
    Story(seed, session, cassandra.contact_points[0], table, tmp_path).run()


def _without(*names: str) -> Any:
    """Returns a faulty replacement for the method `Care.native`.

    It ignores some columns that need special care: it sets each attribute of the `Care` whose name
    is in `names` to an empty list, and then calls the original method.
    """
    known = target.Care.native

    def native(self: target.Care, *arguments: Any) -> Any:
        for name in names:
            setattr(self, name, [])
        timestamp, now_ms, reads, indexes = arguments
        return known(self, timestamp, now_ms, reads if "_reads" not in names else [], indexes)

    return native


@pytest.mark.usefixtures("types")
@pytest.mark.parametrize(
    ("forgotten", "seeds"),
    [(("_statics",), (1, 29, 53, 56, 61, 66)), (("_lists", "_reads"), (3, 9, 11, 17, 20, 31))],
    ids=["static columns in each row of a batch", "lists with one write time"],
)
def test_the_model_finds_planted_faults(
    forgotten: tuple[str, ...],
    seeds: tuple[int, ...],
    session: turbocql.Session,
    cassandra: Cassandra,
    table: Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target.Care, "native", _without(*forgotten))
    found = 0
    for seed in seeds:
        directory = tmp_path / str(seed)
        directory.mkdir()
        try:
            Story(seed, session, cassandra.contact_points[0], table, directory).run()
        except pytest.fail.Exception:
            found += 1
    assert found >= len(seeds) // 2
