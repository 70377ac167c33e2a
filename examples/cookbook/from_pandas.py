"""Writes a DataFrame to a new table, and reads results of queries as DataFrames."""

import subprocess
import sys
from decimal import Decimal

import pandas as pd

import turbocql

frame = pd.DataFrame(
    {
        "symbol": ["ACME", "ACME", "ACME", "ZORG"],
        "at": pd.to_datetime(
            ["2026-03-01 09:00", "2026-03-01 10:00", "2026-03-02 09:00", "2026-03-01 09:00"]
        ).tz_localize("Europe/Berlin"),
        "price": [Decimal("10.10"), Decimal("10.25"), None, Decimal("7.00")],
        "volume": pd.array([100, None, 250, 40], dtype="Int64"),
        "venue": pd.Categorical(["XETR", "XETR", "XLON", "XLON"]),
        "tags": [["open"], [], ["split", "late"], None],
    }
)

# 1. The command line creates a table for the columns of a file. Check the types that it chooses.
frame.to_parquet("prices.parquet")
create = ["load", "prices.parquet", "prices", "--create", "--key", "symbol", "--clustering", "at"]
types = ["--type", "tags=set<text>"]
subprocess.run([sys.executable, "-m", "turbocql.cli", *create, *types], check=True)

with turbocql.connect(config=turbocql.Config.from_env()) as session:
    # 2. `load` writes later frames without a file.
    later = pd.DataFrame(
        {
            "symbol": ["ZORG"],
            "at": [pd.Timestamp("2026-03-03 09:00", tz="UTC")],
            "price": [Decimal("7.45")],
        }
    )
    print(session.load(f"{session.keyspace}.prices", later).succeeded, "row more")

    # 3. Results become DataFrames: a partition by a query, the whole table by a parallel scan.
    select = "SELECT at, price, volume FROM prices WHERE symbol = ?"
    acme = session.execute(select, ("ACME",)).to_pandas().set_index("at")
    print(acme.tz_convert("Europe/Berlin"))
    print(acme.dtypes)

    prices = session.scan(f"{session.keyspace}.prices").to_pandas()
    print(prices.groupby("symbol")["volume"].sum())
