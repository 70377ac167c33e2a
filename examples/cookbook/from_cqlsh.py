"""Loads a file that cqlsh wrote with COPY TO, and compares the table with the file."""

from pathlib import Path

import turbocql

# cqlsh wrote the file with: COPY people TO 'people.csv' WITH HEADER = true
PEOPLE = Path(__file__).with_name("people.csv")
SCHEMA = [
    "CREATE TYPE IF NOT EXISTS address (street text, city text)",
    """CREATE TABLE IF NOT EXISTS people (
           id int PRIMARY KEY,
           name text,
           is_member boolean,
           born date,
           joined timestamp,
           height double,
           languages set<text>,
           phones map<text, text>,
           scores list<int>,
           photo blob,
           home frozen<address>)""",
]
# cqlsh and dsbulk write a quote within a cell as \", not as "".
CSV = {"escape": "\\"}


def main() -> None:
    with turbocql.connect(config=turbocql.Config.from_env()) as session:
        for statement in SCHEMA:
            session.execute(statement)
        table = f"{session.keyspace}.people"
        report = session.load(table, PEOPLE, csv=CSV, rejects="people.rejects.jsonl")
        print(report.succeeded, "rows loaded")
        print("equal:", session.verify(table, PEOPLE, csv=CSV).equal)
        for person in session.execute("SELECT * FROM people", rows="dict"):
            for column, value in person.items():
                print(f"{column:10}{value!r}")


main()
