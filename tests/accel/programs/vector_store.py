"""Stores embeddings as cassio and langchain do: prepared statements, metadata maps, ANN queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from cassandra.query import SimpleStatement
from tests.accel.programs.running import attempt, connected, print_native

TABLE = (
    "TABLE IF NOT EXISTS embeddings (row_id text PRIMARY KEY, attributes_blob text,"
    " body_blob text, metadata_s map<text, text>, vector vector<float, 8>)"
)
INDEX = (
    "CUSTOM INDEX IF NOT EXISTS embeddings_vector ON embeddings (vector)"
    " USING 'StorageAttachedIndex' WITH OPTIONS = {'similarity_function': 'cosine'}"
)
PUT = (
    "INSERT INTO embeddings (row_id, body_blob, vector, metadata_s) VALUES (?, ?, ?, ?) USING TTL ?"
)
SEARCH = (
    "SELECT row_id, metadata_s, similarity_cosine(vector, ?) AS distance, vector FROM embeddings"
    " ORDER BY vector ANN OF ? LIMIT ?"
)


class Store:
    """Prepares each statement once. Prints a line about each call, as a log would."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.prepared: dict[str, Any] = {}

    def run(self, text: str, values: tuple[Any, ...], is_async: bool = False) -> Any:
        if text not in self.prepared:
            self.prepared[text] = self.session.prepare(text)
        shown = [repr(value)[:60] for value in values]
        print(f"{text[:11]} with {len(values)} values: {', '.join(shown)}")
        send = self.session.execute_async if is_async else self.session.execute
        return send(self.prepared[text], values)


def main() -> None:
    random = np.random.default_rng(7)
    vectors = random.standard_normal((24, 8)).astype(np.float32)
    with connected(TABLE, INDEX) as session:
        store = Store(session)
        futures = []
        for number, vector in enumerate(vectors):
            metadata = {"source": f"it's {number}", "page": str(number % 3)}
            # cassio passes lists of floats. Other vector stores pass the NumPy scalars of an array.
            embedding = (list(vector), vector.tolist(), vector, tuple(vector.tolist()))[number % 4]
            row = (f"row{number}", f"text of {number}", embedding, metadata, 3600)
            futures.append(store.run(PUT, row, is_async=True))
        for future in futures:
            future.result()
        for wanted in (vectors[3].tolist(), list(vectors[3]), vectors[3]):
            for row in store.run(SEARCH, (wanted, wanted, 3)):
                print({**row._asdict(), "distance": round(row.distance, 4)})
        get = "SELECT * FROM embeddings WHERE row_id = ?"
        print([store.run(get, (key,)).one() for key in ("row5", "row6", "nothing")])
        wrong = [list(vectors[0])[:5], ["a"] * 8, None, [None] * 8, "12345678", [1e300] * 8]
        for vector in wrong:
            attempt(lambda v=vector: store.run(PUT, ("wrong", "", v, {}, 1)).one())
        attempt(store.run, PUT, ("wrong", "", [0.0] * 8, {"page": 5}, 1))
        statement = SimpleStatement("SELECT row_id, vector FROM embeddings", fetch_size=5)
        print(sorted((row.row_id, row.vector) for row in session.execute(statement)))
    print_native()


if __name__ == "__main__":
    main()
