"""Reads a table of embeddings in parallel with Ray, and writes a computed column back.

The embeddings form a few clusters in 64 dimensions. Ray projects each embedding onto the plane of
the two directions in which the embeddings differ most, and writes the projections to a column of
the table. The program then reads the projections and draws them.

Run the program with `make demo-ray`. It draws `build/ray.png`.
"""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import ray
import ray.data

import turbocql
import turbocql.ray
from turbocql.testing import Cassandra

ROWS, DIMENSIONS, CLUSTERS = 100_000, 64, 6
PICTURE = Path("build/ray.png")
SCHEMA = [
    """CREATE KEYSPACE demo
       WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}""",
    f"""CREATE TABLE demo.documents
        (id int PRIMARY KEY, topic int, emb vector<float, {DIMENSIONS}>, place vector<float, 2>)""",
]


def make(session: turbocql.Session) -> None:
    """Fills the table with random embeddings in clusters."""
    chosen = np.random.default_rng(11)
    centres = chosen.standard_normal((CLUSTERS, DIMENSIONS)) * 1.5
    topic = chosen.integers(0, CLUSTERS, ROWS)
    emb = centres[topic] + chosen.standard_normal((ROWS, DIMENSIONS))
    session.load(
        "demo.documents",
        {
            "id": np.arange(ROWS, dtype=np.int32),
            "topic": topic.astype(np.int32),
            "emb": emb.astype(np.float32),
        },
    )


def plane(sample: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float64], ...]:
    """Returns the mean of some embeddings, and the two directions in which they differ most."""
    middle = sample.mean(axis=0)
    directions = np.linalg.svd(sample - middle, full_matrices=False)[2][:2]
    return middle, directions


def draw(session: turbocql.Session) -> None:
    """Reads the projections from the table, and draws them."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = session.scan("demo.documents", columns=["topic", "place"]).to_numpy()
    figure, axes = plt.subplots(figsize=(7, 6))
    x, y = found["place"].T
    axes.scatter(x, y, c=found["topic"], s=1, cmap="tab10", alpha=0.4)
    axes.set_title(f"{len(found['topic']):,} embeddings, placed by Ray, read from the table")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Fills a table, computes a column with Ray, writes it back, and draws it."""
    ray.init(num_cpus=2, logging_level="ERROR", include_dashboard=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    with Cassandra() as cluster, turbocql.connect(cluster.contact_points) as session:
        for statement in SCHEMA:
            session.execute(statement)
        make(session)
        print(f"the table has {ROWS:,} embeddings of {DIMENSIONS} floats")

        config = turbocql.Config(contact_points=cluster.contact_points)
        documents = turbocql.ray.read("demo.documents", config=config, columns=["id", "emb"])
        sample = documents.take_batch(5000, batch_format="numpy")["emb"]
        middle, directions = plane(sample)

        def place(batch: dict[str, npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[np.float32]]:
            placed = (batch["emb"] - middle) @ directions.T
            return {"id": batch["id"], "place": placed.astype(np.float32)}

        began = time.perf_counter()
        sink = turbocql.ray.sink("demo.documents", config=config)
        documents.map_batches(place, batch_format="numpy").write_datasink(sink)
        print(f"two workers read, placed and wrote {sink.rows:,} rows", end=" ")
        print(f"in {time.perf_counter() - began:.1f} s")
        draw(session)
    print(f"drawn: {PICTURE}")


if __name__ == "__main__":
    main()
