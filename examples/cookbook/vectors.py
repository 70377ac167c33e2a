"""Stores texts with embeddings, and finds the texts that are nearest to a question."""

import hashlib
import re

import numpy as np

import turbocql

DIMENSIONS = 256
TABLE = f"""
    CREATE TABLE IF NOT EXISTS passages (
        id int PRIMARY KEY,
        language text,
        passage text,
        embedding vector<float, {DIMENSIONS}>)"""
INDEXES = [
    "CREATE INDEX IF NOT EXISTS passages_embedding ON passages (embedding) USING 'sai'"
    " WITH OPTIONS = {'similarity_function': 'cosine'}",
    "CREATE INDEX IF NOT EXISTS passages_language ON passages (language) USING 'sai'",
]
PASSAGES = [
    ("en", "A partition key decides which nodes store a row."),
    ("en", "A clustering key orders the rows of a partition."),
    ("en", "Bread needs flour, water, salt and time."),
    ("en", "Water the tomatoes in the morning."),
    ("de", "Ein partition key bestimmt, welche Knoten eine Zeile speichern."),
    ("de", "Brot braucht Mehl, Wasser, Salz und Zeit."),
]


def embed(text: str) -> np.ndarray:
    """Stands in for a model: hashes words. Texts that share words get similar vectors."""
    vector = np.zeros(DIMENSIONS, np.float32)
    for word in re.findall(r"\w+", text.lower()):
        vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % DIMENSIONS] += 1
    vector /= np.linalg.norm(vector)
    return vector


def store(session: turbocql.Session) -> None:
    session.execute(TABLE)
    for index in INDEXES:
        session.execute(index)
    languages, passages = zip(*PASSAGES, strict=True)
    columns = {
        "id": np.arange(len(PASSAGES), dtype=np.int32),
        "language": list(languages),
        "passage": list(passages),
        "embedding": np.stack([embed(passage) for passage in passages]),
    }
    session.load(f"{session.keyspace}.passages", columns)


def nearest(session: turbocql.Session, question: str, language: str) -> list[tuple[float, str]]:
    """Returns pairs of a similarity and a passage, the nearest passage first."""
    rows = session.execute(
        "SELECT passage, similarity_cosine(embedding, :question) AS similarity FROM passages"
        " WHERE language = :language ORDER BY embedding ANN OF :question LIMIT 2",
        {"question": embed(question), "language": language},
        consistency="LOCAL_ONE",
    )
    return [(round(row.similarity, 2), row.passage) for row in rows]


with turbocql.connect(config=turbocql.Config.from_env(vectors="numpy")) as session:
    store(session)
    for language in ("en", "de"):
        for similarity, passage in nearest(session, "Which partition key stores a row?", language):
            print(language, similarity, passage)
