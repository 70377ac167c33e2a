"""Writes a DataFrame to a table, and reads it back."""

import pandas as pd

import turbocql

frame = pd.DataFrame({"city": ["Bern", "Oslo"], "celsius": [7.5, -1.0], "visits": [12, 3]})

with turbocql.connect(config=turbocql.Config.from_env()) as session:
    session.execute(
        "CREATE TABLE IF NOT EXISTS weather (city text PRIMARY KEY, celsius double, visits bigint)"
    )
    print(session.load(f"{session.keyspace}.weather", frame).succeeded, "rows")
    print(session.execute("SELECT city, celsius, visits FROM weather").to_pandas())
