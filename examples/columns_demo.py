"""Writes share prices from DataFrames to a real Cassandra, and reads them back with duckdb.

Uses two data sets that come with matplotlib: daily prices of Google's shares from 2004 to 2008, and
monthly prices of eight companies and two indices from 1990 to 2022. Writes them with
`Session.load`, and queries both tables. duckdb aggregates each result while it reads the result.
Draws both aggregates.

Run it with `make demo-columns`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib import cbook

import turbocql
from turbocql.testing import Cassandra

PICTURE = Path("build/columns.png")

SCHEMA = [
    """CREATE KEYSPACE demo
       WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}""",
    """CREATE TABLE demo.days (
           symbol text,
           day date,
           open double,
           high double,
           low double,
           close double,
           volume bigint,
           PRIMARY KEY (symbol, day))""",
    """CREATE TABLE demo.months (
           symbol text,
           month date,
           close double,
           PRIMARY KEY (symbol, month))""",
]

CANDLES = """
    SELECT date_trunc('month', day) AS month, arg_min(open, day) AS open, max(high) AS high,
           min(low) AS low, arg_max(close, day) AS close, sum(volume)::BIGINT AS volume
    FROM rows GROUP BY ALL ORDER BY month
"""
RETURNS = """
    SELECT symbol, year, 100 * (close / lag(close) OVER (PARTITION BY symbol ORDER BY year) - 1)
           AS percent
    FROM (SELECT symbol, year(month) AS year, arg_max(close, month) AS close
          FROM rows GROUP BY ALL)
    ORDER BY symbol, year
"""


def days() -> pl.DataFrame:
    """Returns the prices of Google's shares on each day, and the number of shares sold."""
    found: Any = cbook.get_sample_data("goog.npz")
    prices = found["price_data"]
    columns = {name: prices[name] for name in ("open", "high", "low", "close", "volume")}
    return pl.DataFrame({"symbol": "GOOG", "day": prices["date"], **columns})


def months() -> pl.DataFrame:
    """Returns monthly prices, with one column per share. A month without a price is null."""
    path: Any = cbook.get_sample_data("Stocks.csv", asfileobj=False)
    return pl.read_csv(path, comment_prefix="#", try_parse_dates=True, infer_schema_length=None)


def write(session: turbocql.Session) -> None:
    """Writes both data sets."""
    frame = days()
    report = session.load("demo.days", frame)
    print(f"wrote {report.succeeded} days of Google's shares: {_types(frame)}")

    # The table has one row per share and month.
    long = months().unpivot(index="Date", variable_name="symbol", value_name="close").drop_nulls()
    report = session.load("demo.months", long, rename={"Date": "month"})
    print(f"wrote {report.succeeded} prices of {long['symbol'].n_unique()} shares: {_types(long)}")


def _types(frame: pl.DataFrame) -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in frame.schema.items())


def candles_of(rows: turbocql.Rows[Any]) -> dict[str, Any]:
    """Aggregates days to months. The SQL names the variable `rows`, and duckdb finds it."""
    candles: dict[str, Any] = duckdb.sql(CANDLES).fetchnumpy()
    print(f"duckdb made {len(candles['month'])} months of the days")
    return candles


def returns_of(rows: turbocql.Rows[Any]) -> pl.DataFrame:
    """Computes the yearly gain of every share from `rows`, and prints the largest gains."""
    returns = duckdb.sql(RETURNS).pl().drop_nulls()
    print(f"duckdb made {len(returns)} yearly gains of the prices; the largest:")
    for symbol, year, percent in returns.top_k(3, by="percent").iter_rows():
        print(f"    {symbol} {year}: {percent:+.0f} %")
    return returns


def draw(candles: dict[str, Any], returns: pl.DataFrame) -> None:
    """Draws the months of Google's shares as candles, and the yearly gains as a heat map."""
    mpl.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(11, 8.5), layout="constrained")
    prices, sold, gains = figure.subplots(3, 1, height_ratios=[3, 1, 3.4])

    opened, closed = candles["open"], candles["close"]
    colors = np.where(closed >= opened, "tab:blue", "tab:orange")
    middle = candles["month"].astype("M8[D]").astype(float) + 14
    prices.vlines(middle, candles["low"], candles["high"], color=colors, linewidth=1)
    prices.bar(middle, closed - opened, 20, opened, color=colors, edgecolor=colors)
    prices.set_title(
        "Google's shares by month: open, high, low, close (dollars); blue: it rose", loc="left"
    )
    prices.tick_params(labelbottom=False)
    sold.bar(middle, candles["volume"] / 1e6, 20, color="tab:gray")
    sold.set_title("shares sold by month (millions)", loc="left")
    sold.sharex(prices)
    sold.xaxis_date()
    for axes in (prices, sold):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)

    table = returns.pivot("year", index="symbol", values="percent")
    years = sorted(name for name in table.columns if name != "symbol")
    picture = gains.imshow(
        np.ma.masked_invalid(table.select(years).to_numpy().astype(float)),
        cmap="RdBu",
        vmin=-100,
        vmax=100,
        aspect="auto",
    )
    gains.set_xticks(range(len(years)), [year[2:] for year in years])
    gains.set_yticks(range(len(table)), table["symbol"].to_list())
    gains.set_xlabel("year, 1991 to June 2022; white: no price at the end of the year before")
    gains.set_title("gain by year (percent)", loc="left")
    figure.colorbar(picture, ax=gains, extend="max", pad=0.01)

    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    pyplot.close(figure)
    print(f"drew both: {PICTURE.resolve()}")


def main() -> None:
    """Starts a Cassandra. Writes, reads and draws the prices, and stops the Cassandra."""
    print("starting Cassandra ...")
    with (
        Cassandra() as cluster,
        turbocql.connect(cluster.contact_points, consistency="ONE") as session,
    ):
        for statement in SCHEMA:
            session.execute(statement)
        write(session)
        # duckdb reads these results page by page.
        candles = candles_of(session.execute("SELECT * FROM demo.days WHERE symbol = 'GOOG'"))
        returns = returns_of(session.execute("SELECT symbol, month, close FROM demo.months"))
    draw(candles, returns)


if __name__ == "__main__":
    main()
