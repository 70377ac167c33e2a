"""All suites, in the order in which they run."""

from __future__ import annotations

from bench.harness.suites import Suite
from bench.suites.accelerator.suite import INSTRUCTIONS as ACCELERATOR_INSTRUCTIONS
from bench.suites.accelerator.suite import SUITE as ACCELERATOR
from bench.suites.availability.suite import SUITE as AVAILABILITY
from bench.suites.codec.suite import SUITE as CODEC
from bench.suites.engines.suite import SUITE as ENGINES
from bench.suites.growth.suite import SUITE as GROWTH
from bench.suites.instructions.suite import SUITE as INSTRUCTIONS
from bench.suites.mapper.suite import SUITE as MAPPER
from bench.suites.memory.suite import SUITE as MEMORY
from bench.suites.profiles.suite import SUITE as PROFILES
from bench.suites.requests.suite import COLUMNS
from bench.suites.requests.suite import SUITE as REQUESTS
from bench.suites.tables.suite import SUITE as TABLES
from bench.suites.threads.suite import SUITE as THREADS

__all__ = ["SUITES"]

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        CODEC,
        REQUESTS,
        GROWTH,
        THREADS,
        ACCELERATOR,
        COLUMNS,
        TABLES,
        ENGINES,
        AVAILABILITY,
        MEMORY,
        MAPPER,
        INSTRUCTIONS,
        ACCELERATOR_INSTRUCTIONS,
        PROFILES,
    )
}
