"""Reads embeddings with Ray, computes the norm of each, and writes the norms back."""

import sys

import numpy as np
import ray

import turbocql
import turbocql.ray

point = sys.argv[1]
rows = 20_000
with turbocql.connect(point) as session:
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS with_ray WITH replication ="
        " {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
    )
    session.execute(
        "CREATE TABLE IF NOT EXISTS with_ray.texts"
        " (id int PRIMARY KEY, emb vector<float, 64>, norm float)"
    )
    emb = np.random.default_rng(1).standard_normal((rows, 64), dtype=np.float32)
    session.load("with_ray.texts", {"id": np.arange(rows, dtype=np.int32), "emb": emb})

ray.init(num_cpus=2, logging_level="ERROR", include_dashboard=False)
config = turbocql.Config(contact_points=point)


def norms(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"id": batch["id"], "norm": np.linalg.norm(batch["emb"], axis=1)}


texts = turbocql.ray.read("with_ray.texts", config=config, columns=["id", "emb"])
sink = turbocql.ray.sink("with_ray.texts", config=config)
texts.map_batches(norms).write_datasink(sink)
print(f"{sink.rows:,} norms written")

read = turbocql.ray.read("with_ray.texts", config=config)
print(f"mean {read.mean('norm'):.4f}, of the embeddings {np.linalg.norm(emb, axis=1).mean():.4f}")
print(read.select_columns(["id", "norm"]).schema())
