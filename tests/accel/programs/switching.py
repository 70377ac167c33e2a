"""Switches the accelerator on and off 3,200 times.

Prints the number of bytes by which the resident memory grows during the last 1,500 switches.
"""

from __future__ import annotations

import gc

import cassandra.cqltypes
import cassandra.protocol
import cassandra.query

from turbocql import accel

assert cassandra.cqltypes
assert cassandra.protocol
assert cassandra.query


def toggle(count: int) -> int:
    """Switches the accelerator on and off `count` times. Returns the resident memory in bytes."""
    for _ in range(count):
        with accel.accelerated():
            pass
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def main() -> None:
    before = toggle(1700)
    print(toggle(1500) - before)


if __name__ == "__main__":
    main()
