"""Counts the calls of turbocql's codec that several threads make at the same time.

The threads share the codec. Each thread has its own values, so that threads do not contend for
reference counts.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.support.results import result

import turbocql
from bench.harness.provenance import provenance
from bench.harness.timing import say
from bench.suites.threads.cases import CASES, COLUMNS, LIST, MAP, THREADS, row
from turbocql.codec import RowEncoder, find_deserializer, find_serializer
from turbocql.protocol import RowsDecoder

ROUNDS = 7
ROUND_S = 0.15
BATCH = 20
"""How many calls are made between two readings of the clock."""


def makers() -> dict[str, Callable[[int], Callable[[], Any]]]:
    """Maps each case to a function that makes the call of one thread, with the thread's values."""
    serializers = [find_serializer(cql_type) for _, cql_type in COLUMNS]
    deserializers = [find_deserializer(cql_type) for _, cql_type in COLUMNS]
    bind, rows = RowEncoder(COLUMNS).bind, RowsDecoder(rows="tuple").decode
    of_list, of_map = find_serializer(LIST[0]), find_serializer(MAP[0])
    to_map = find_deserializer(MAP[0])

    def encoded(number: int) -> list[bytes]:
        pairs = zip(serializers, row(number), strict=True)
        return [bytes(bytearray(serializer.serialize(value))) for serializer, value in pairs]

    def encode_list(number: int) -> Callable[[], Any]:
        values = [value + number for value in LIST[1]]
        return lambda: of_list.serialize(values)

    def encode_scalars(number: int) -> Callable[[], Any]:
        pairs = list(
            zip([serializer.serialize for serializer in serializers], row(number), strict=True)
        )
        return lambda: [serialize(value) for serialize, value in pairs]

    def decode_map(number: int) -> Callable[[], Any]:
        data = bytes(bytearray(of_map.serialize(MAP[1])))
        return lambda: to_map.deserialize(data)

    def decode_scalars(number: int) -> Callable[[], Any]:
        decoders = [deserializer.deserialize for deserializer in deserializers]
        pairs = list(zip(decoders, encoded(number), strict=True))
        return lambda: [deserialize(data) for deserialize, data in pairs]

    def bind_row(number: int) -> Callable[[], Any]:
        values = row(number)
        return lambda: bind(values)

    def read_rows(number: int) -> Callable[[], Any]:
        body = result(COLUMNS, [encoded(number + at) for at in range(100)])
        return lambda: rows(body).rows

    made = (encode_list, encode_scalars, decode_map, decode_scalars, bind_row, read_rows)
    return dict(zip(CASES, made, strict=True))


def calls_per_second(make: Callable[[int], Callable[[], Any]], threads: int) -> tuple[float, float]:
    """Returns the calls per second of wall-clock time, and those per second of thread time.

    Each of the two rates is the highest of several rounds. Other processes lower the wall-clock
    rate. The rate by thread time (the processor time of the threads) shows even on a busy machine
    whether threads slow each other down. But it does not show that threads wait for a lock.
    """
    calls = [make(1000 * number) for number in range(threads)]
    by_clock, by_time = zip(*(_round(calls) for _ in range(ROUNDS)), strict=True)
    return max(by_clock), max(by_time)


def _round(calls: list[Callable[[], Any]]) -> tuple[float, float]:
    start, rates = threading.Barrier(len(calls)), [(0.0, 0.0)] * len(calls)

    def repeat(number: int) -> None:
        call, done = calls[number], 0
        start.wait()
        began_time = time.thread_time()
        began = now = time.perf_counter()
        while now - began < ROUND_S:
            for _ in range(BATCH):
                call()
            done += BATCH
            now = time.perf_counter()
        rates[number] = done / (now - began), done / (time.thread_time() - began_time)

    running = [threading.Thread(target=repeat, args=(number,)) for number in range(len(calls))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(rate for rate, _ in rates), sum(rate for _, rate in rates)


def main(case: str) -> None:
    """Prints a sample for each number of threads."""
    quick = "on" if any(path.on for path in turbocql.diagnosis().quick_paths) else "off"
    for threads in THREADS:
        rate, rate_of_time = calls_per_second(makers()[case], threads)
        rates = {"per_s": rate, "per_thread_s": rate_of_time}
        origin = provenance("turbocql", turbocql.__version__)
        say({"case": case, "variant": quick, "threads": threads, **rates, **origin})


if __name__ == "__main__":
    main(sys.argv[1])
