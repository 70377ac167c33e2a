"""Writes vectors to a real Cassandra, and searches for their nearest neighbors there.

Takes the 1,797 handwritten digits that come with scikit-learn, and writes four fifths of them as
`vector<float, 64>`. Cassandra's storage-attached index finds the five nearest neighbors of each
remaining digit. These five vote on which digit it is.

Run it with `make demo`.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import turbocql
from turbocql.testing import Cassandra

NEIGHBOURS = 5
IN_FLIGHT = 32
SHOWN = 8
PICTURE = Path("digits.png")

SCHEMA = [
    """CREATE KEYSPACE demo
       WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}""",
    """CREATE TABLE demo.digits (
           id int PRIMARY KEY,
           label tinyint,
           pixels blob,
           embedding vector<float, 64>)""",
    """CREATE CUSTOM INDEX digits_by_embedding ON demo.digits (embedding)
       USING 'StorageAttachedIndex' WITH OPTIONS = {'similarity_function': 'euclidean'}""",
]
INSERT = "INSERT INTO demo.digits (id, label, pixels, embedding) VALUES (?, ?, ?, ?)"
SEARCH = """SELECT id, label FROM demo.digits
            ORDER BY embedding ANN OF ? LIMIT 5"""


class Meter:
    """Measures the wall-clock time and the client's CPU time of a `with` block, in seconds."""

    def __enter__(self) -> Meter:
        self._start = time.perf_counter(), _cpu()
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._start
        self.wall_s, self.cpu_s = time.perf_counter() - wall, _cpu() - cpu

    def per(self, count: int, one: str, many: str) -> str:
        """Formats rate and CPU time of `count` items: `one` is the singular, `many` the plural."""
        rate, cpu_us = count / self.wall_s, self.cpu_s / count * 1e6
        return f"{rate:,.0f} {many} per second, {cpu_us:.1f} us of client CPU per {one}"


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def write(session: turbocql.Session, digits: Any, kept: Any) -> None:
    """Writes the digits whose numbers are in `kept`, reads them back, and checks them."""
    # Each pixel is one float. turbocql takes rows of the NumPy array without conversion.
    embeddings = digits.data.astype(np.float32)
    pixels = digits.data.astype(np.uint8)
    rows = ((int(i), int(digits.target[i]), pixels[i], embeddings[i]) for i in kept)
    with Meter() as meter:
        report = session.execute_many(INSERT, rows)
    print(f"wrote {report.succeeded:,} digits: {meter.per(report.succeeded, 'row', 'rows')}")

    with Meter() as meter:
        stored = {row.id: row for row in session.execute("SELECT * FROM demo.digits")}
    print(f"read {len(stored)} digits back: {meter.per(len(stored), 'row', 'rows')}")
    for i in kept:
        row = stored[int(i)]
        assert row.label == digits.target[i]
        assert row.pixels == pixels[i].tobytes()
        assert np.array_equal(row.embedding, embeddings[i])


async def search(contact_points: list[str], digits: Any, queries: Any) -> list[list[Any]]:
    """Returns the nearest neighbors of each query. Runs up to `IN_FLIGHT` queries at a time."""
    async with turbocql.aio.connect(contact_points, consistency="ONE") as session:
        prepared = await session.prepare(SEARCH)
        slots = asyncio.Semaphore(IN_FLIGHT)

        async def nearest(embedding: Any) -> list[Any]:
            async with slots:
                return await (await session.execute(prepared, (embedding,))).all()

        embeddings = digits.data.astype(np.float32)
        with Meter() as meter:
            found = await asyncio.gather(*(nearest(embeddings[i]) for i in queries))
    print(f"searched {len(found)} neighbourhoods: {meter.per(len(found), 'query', 'queries')}")
    return found


def draw(digits: Any, queries: Any, found: list[list[Any]], votes: list[int]) -> None:
    """Draws some queries, each beside its neighbors. Shows a wrong vote last, if there is one."""
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        SHOWN, NEIGHBOURS + 1, figsize=(NEIGHBOURS + 1.6, SHOWN), layout="constrained"
    )
    figure.suptitle("A digit (left) and its nearest neighbors in Cassandra", fontsize=11)
    wrong = [n for n, i in enumerate(queries) if votes[n] != digits.target[i]]
    right = [n for n in range(len(queries)) if n not in wrong]
    shown = [*right[: SHOWN - 1], *(wrong or right[SHOWN - 1 :])[:1]]
    for line, number in zip(axes, shown, strict=True):
        query, neighbors = queries[number], found[number]
        is_wrong = number in wrong
        vote = f", voted {votes[number]}" if is_wrong else ""
        pictures = [
            (query, f"{digits.target[query]}{vote}"),
            *((row.id, str(row.label)) for row in neighbors),
        ]
        for axis, (i, text) in zip(line, pictures, strict=False):
            axis.imshow(digits.images[i], cmap="gray_r")
            color = "black" if i != query else "tab:orange" if is_wrong else "tab:blue"
            axis.set_title(text, fontsize=9, color=color)
            axis.axis("off")
    figure.savefig(PICTURE, dpi=120)
    pyplot.close(figure)


def main() -> None:
    """Starts a Cassandra, writes and searches, draws the matches, and stops the Cassandra."""
    digits = load_digits()
    kept, queries = train_test_split(
        np.arange(len(digits.target)), test_size=0.2, random_state=0, stratify=digits.target
    )
    print("starting Cassandra ...")
    with Cassandra() as cluster:
        with turbocql.connect(cluster.contact_points, consistency="ONE") as session:
            for statement in SCHEMA:
                session.execute(statement)
            write(session, digits, kept)
        found = asyncio.run(search(cluster.contact_points, digits, queries))
    votes = [Counter(row.label for row in rows).most_common(1)[0][0] for rows in found]
    right = sum(vote == digits.target[i] for vote, i in zip(votes, queries, strict=True))
    print(f"accuracy of the vote: {right / len(queries):.1%} ({right} of {len(queries)})")
    draw(digits, queries, found, votes)
    print(f"drew some of them: {PICTURE.resolve()}")


if __name__ == "__main__":
    main()
