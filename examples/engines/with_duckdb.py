"""Joins two live tables in duckdb."""

import sys

import duckdb
import numpy as np

import turbocql
import turbocql.duckdb

point = sys.argv[1]
with turbocql.connect(point) as session:
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS with_duckdb WITH replication ="
        " {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
    )
    session.execute(
        "CREATE TABLE IF NOT EXISTS with_duckdb.orders"
        " (id int PRIMARY KEY, customer int, cents int)"
    )
    session.execute(
        "CREATE TABLE IF NOT EXISTS with_duckdb.customers (id int PRIMARY KEY, city text)"
    )
    number = np.arange(30_000, dtype=np.int32)
    bought = {"id": number, "customer": number % 300, "cents": number % 1000}
    session.load("with_duckdb.orders", bought)
    cities = [["Lisbon", "Lagos", "Lima"][one % 3] for one in range(300)]
    session.load("with_duckdb.customers", {"id": number[:300], "city": cities})

    connection = duckdb.connect()
    orders = turbocql.duckdb.scan(connection, session, "with_duckdb.orders")
    customers = turbocql.duckdb.scan(connection, session, "with_duckdb.customers")
    print(
        connection.sql(
            "SELECT city, count(*) AS orders, sum(cents) AS cents FROM orders"
            " JOIN customers ON customers.id = customer GROUP BY city ORDER BY city"
        )
    )

    # The server evaluates `where`, and does not send the rows that it excludes.
    dear = turbocql.duckdb.scan(
        connection, session, "with_duckdb.orders", where="cents > ?", values=[997]
    )
    print(dear.aggregate("count(*) AS dear_orders"))
