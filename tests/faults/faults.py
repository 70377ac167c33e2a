"""Plans faults from a seed, injects them step by step, and heals them.

"The load" is the process of `load.py`, which makes calls of turbocql during the faults.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.faults.audit import LATE_S
from tests.faults.calls import SESSION_S
from tests.faults.child import Child, NoReply
from tests.faults.records import Window
from tests.faults.stored import ASIDE_TABLE, KEYSPACE, aside

from turbocql.testing import Cassandra

__all__ = [
    "EVERYWHERE",
    "KINDS",
    "PROXY",
    "REHEARSAL",
    "Fault",
    "Injector",
    "Step",
    "long_plan",
    "short_plan",
]

PROXY = ("delay", "throttle", "swallow", "drop", "cut", "half-close", "silent", "reset")
"""Faults of a proxy: see `wire.FAULTS`."""
EVERYWHERE = ", all nodes"
"""A fault whose kind ends with this suffix hits all proxies at once."""
NODES = ("kill and restart", "kill two", "rolling restart", "pause", "pause all")
SCHEMA = ("alter table", "alter while paused", "evict statements", "drop keyspace")
KINDS = (*PROXY, *NODES, *SCHEMA)

_NODES = 3
_PACE_OF_SCHEMA_S, _PACE_OF_STARTS_S = 1.2, 2.0
_DDL_S = 8.0
_EVICT, _EVICT_ROUNDS = 60, 12
_APIS = ("sync", "async")
_DDL_TRIES = 10
_COMMAND_S = 120.0


@dataclass(frozen=True)
class Fault:
    """One fault. `node` is the index of a node, and its meaning depends on `kind`.

    "kill two" kills the other two nodes, "rolling restart" restarts this node first, and "evict
    statements" counts the statements in the cache of this node. "alter table", "drop keyspace" and
    the faults that hit all nodes ignore `node`. A fault of any other kind hits this node.
    """

    kind: str
    node: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} (node {self.node + 1}, {self.seconds:.1f} s)"


@dataclass(frozen=True)
class Step:
    """Faults that are injected at the same time, and a pause after them.

    Each caller of the load waits `pace_s` seconds on average after each operation. On a machine
    with two processors, 200 callers that never wait delay schema changes and the start of a node by
    many seconds.
    """

    faults: tuple[Fault, ...]
    rest_s: float
    pace_s: float = 0.0


REHEARSAL = Step((Fault(f"reset{EVERYWHERE}", 0, 1.5),), 0.1)
"""The step that `run.py` injects during the warm-up. It makes every thread handle errors before the
audit takes its first sample of the load's resources."""


def short_plan(seed: str) -> list[Step]:
    """Returns one short step for each kind of fault, and one for "reset, all nodes".

    The plan leaves out "kill two" and "rolling restart", which take about a minute.
    """
    chance = random.Random(seed)
    kinds = [*PROXY, f"reset{EVERYWHERE}", "pause", "pause all"]
    slow = [*SCHEMA]
    chance.shuffle(kinds)
    chance.shuffle(slow)
    nodes = _nodes(chance)
    faults = [Fault(kind, next(nodes), 1.5) for kind in kinds]
    faults += [Fault(kind, next(nodes), 1.0) for kind in (*slow, "kill and restart")]
    return [Step((fault,), 0.1, _pace_s(fault.kind)) for fault in faults]


def long_plan(seed: str) -> Iterator[Step]:
    """Yields steps without end.

    Each round has every kind at least once, in random order. Some steps have two faults.
    """
    chance = random.Random(seed)
    nodes = _nodes(chance)
    while True:
        kinds = [*KINDS, *PROXY]
        chance.shuffle(kinds)
        for kind in kinds:
            if kind in PROXY and chance.random() < 0.2:
                kind += EVERYWHERE
            faults = [Fault(kind, next(nodes), chance.uniform(2, 15))]
            if kind in PROXY and chance.random() < 0.4:
                second = chance.choice((*PROXY, "alter table", "evict statements", "pause"))
                faults.append(Fault(second, next(nodes), chance.uniform(2, 15)))
            yield Step(tuple(faults), chance.uniform(0.5, 6), _pace_s(kind))


def _nodes(chance: random.Random) -> Iterator[int]:
    """Yields random indices of nodes.

    Two successive indices differ, so that turbocql has time to reconnect to a node after a fault.
    """
    node = chance.randrange(_NODES)
    while True:
        yield node
        node = (node + chance.randrange(1, _NODES)) % _NODES


def _pace_s(kind: str) -> float:
    """Returns the `pace_s` of a step whose first fault has this kind: see `Step`."""
    if kind in ("kill and restart", "kill two", "rolling restart"):
        return _PACE_OF_STARTS_S
    return _PACE_OF_SCHEMA_S if kind in SCHEMA else 0.0


class Injector:
    """Injects faults into the nodes and the proxies, and changes the schema through the load."""

    def __init__(
        self, cluster: Cassandra, proxies: Child, load: Child, keyspace: str, seed: str
    ) -> None:
        self.windows: list[Window] = []
        self.failures: list[str] = []
        """Messages about commands without a reply, and about schema statements that failed in all
        `_DDL_TRIES` tries."""
        self._cluster = cluster
        self._proxies = proxies
        self._load = load
        self._keyspace = keyspace
        self._chance = random.Random(f"{seed} injector")
        self._columns = 0

    def run(self, step: Step) -> None:
        """Injects the faults of a step, heals them, and pauses for `rest_s`.

        If one of the faults is of a kind that is not in `PROXY`, the method waits until the nodes
        see each other, and only then pauses. Kinds that end with `EVERYWHERE` are not in `PROXY`,
        so the method waits after these faults too.
        """
        self._load.ask("pace", seconds=step.pace_s)
        if len(step.faults) == 1:
            self._inject(step.faults[0])
        else:
            with ThreadPoolExecutor(len(step.faults)) as threads:
                list(threads.map(self._inject, step.faults))
        if any(fault.kind not in PROXY for fault in step.faults):
            self._cluster.wait_until_settled()
        time.sleep(step.rest_s)

    def heal(self) -> None:
        """Resumes and starts all nodes, and ends the faults of all proxies.

        It returns when all nodes answer and see each other.
        """
        for node in self._cluster.nodes:
            node.resume()
            node.launch()
        for number in range(_NODES):
            self._proxies.ask("fault", node=number, kind="pass")
        for node in self._cluster.nodes:
            node.wait_until_answering()
        self._cluster.wait_until_settled()

    def _inject(self, fault: Fault) -> None:
        handlers: dict[str, Callable[[Fault], str]] = {
            "kill and restart": self._kill,
            "kill two": self._kill_two,
            "rolling restart": self._roll,
            "pause": self._pause,
            "pause all": self._pause_all,
            "alter table": self._alter,
            "alter while paused": self._alter_while_paused,
            "evict statements": self._evict,
            "drop keyspace": self._drop,
        }
        begun = time.monotonic()
        effect = handlers.get(fault.kind, self._proxy)(fault)
        target = f"node {fault.node + 1}"
        self.windows.append(Window(fault.kind, target, begun, time.monotonic(), effect))

    def _ask(self, do: str, **arguments: Any) -> list[str | None]:
        """Sends a command to the load, which makes calls of turbocql to carry it out.

        Returns the class name of each call's error, or `None` for an answered call. If the load
        does not reply in time, returns `["no reply"]`.
        """
        try:
            answer = self._load.ask(do, within_s=_COMMAND_S, **arguments)
        except NoReply as error:
            # The load's other calls continue. The audit reports the call that hangs.
            self.failures.append(f"{error}: {arguments}")
            return ["no reply"]
        errors: list[str | None] = answer["errors"]
        return errors

    # This method injects faults into the proxies.

    def _proxy(self, fault: Fault) -> str:
        settings = {
            "delay": {"seconds": self._chance.uniform(0.2, 1.0)},
            "throttle": {"bytes_per_s": float(self._chance.randrange(2_000, 40_000))},
            "drop": {"share": self._chance.uniform(0.02, 0.3)},
        }
        kind = fault.kind.removesuffix(EVERYWHERE)
        numbers = [fault.node] if kind == fault.kind else list(range(_NODES))
        for number in numbers:
            self._proxies.ask("fault", node=number, kind=kind, **settings.get(kind, {}))
        time.sleep(fault.seconds)
        healed = [self._proxies.ask("fault", node=number, kind="pass") for number in numbers]
        return str(sum(reply["effect"] for reply in healed))

    # These methods inject faults into the nodes.

    def _kill(self, fault: Fault) -> str:
        node = self._cluster.nodes[fault.node]
        node.kill()
        time.sleep(fault.seconds)
        node.start()
        return "1"

    def _kill_two(self, fault: Fault) -> str:
        """Kills two of three nodes, so that no quorum is left.

        As soon as the third node has noticed that the other two are down, it refuses requests.
        """
        nodes = [node for n, node in enumerate(self._cluster.nodes) if n != fault.node]
        for node in nodes:
            node.kill()
        time.sleep(fault.seconds)
        for node in nodes:
            node.launch()
        for node in nodes:
            node.wait_until_answering()
        return str(len(nodes))

    def _roll(self, fault: Fault) -> str:
        for number in range(_NODES):
            node = self._cluster.nodes[(fault.node + number) % _NODES]
            node.stop()
            node.start()
        return str(_NODES)

    def _pause(self, fault: Fault) -> str:
        node = self._cluster.nodes[fault.node]
        node.pause()
        time.sleep(fault.seconds)
        node.resume()
        return "1"

    def _pause_all(self, fault: Fault) -> str:
        for node in self._cluster.nodes:
            node.pause()
        time.sleep(fault.seconds)
        for node in self._cluster.nodes:
            node.resume()
        return str(_NODES)

    # These methods change the schema, or fill the nodes' caches of prepared statements.

    def _alter(self, fault: Fault) -> str:
        deadline, done = time.monotonic() + fault.seconds, 0
        while not done or time.monotonic() < deadline:
            # `SELECT *` returns the key first, and then the other columns in alphabetical order. By
            # its name, the new column is the first or the last of these other columns.
            self._columns += 1
            column = f"{self._chance.choice(('added', 'zadded'))}_{self._columns}"
            kind = self._chance.choice(("int", "text", "list<bigint>"))
            table = f"ALTER TABLE {self._keyspace}.writes"
            self._ddl([f"{table} ADD IF NOT EXISTS {column} {kind}"])
            self._ddl([f"{table} DROP IF EXISTS {column}"])
            done += 2
        return str(done)

    def _alter_while_paused(self, fault: Fault) -> str:
        node = self._cluster.nodes[fault.node]
        self._columns += 1
        column = f"paused_{self._columns}"
        text = f"ALTER TABLE {self._keyspace}.writes ADD IF NOT EXISTS {column} int"
        node.pause()
        work: list[Callable[[], object]] = [
            lambda: self._ask(
                "statements",
                api=self._chance.choice(_APIS),
                kind="ddl, a node paused",
                timeout_s=SESSION_S,
                texts=[text],
            )
        ]
        for api in _APIS:
            work.append(
                lambda api=api: self._ask(  # type: ignore[misc]
                    "use_keyspace", api=api, name=self._keyspace, timeout_s=SESSION_S
                )
            )
        with ThreadPoolExecutor(len(work)) as threads:
            calls = [threads.submit(one) for one in work]
            # The node is paused for longer than the time limit of the calls that wait for it.
            time.sleep(max(fault.seconds, SESSION_S + LATE_S + 0.5))
            node.resume()
            for call in calls:
                call.result()
        return "1"

    def _evict(self, fault: Fault) -> str:
        """Prepares statements until the node of `fault` has evicted statements from its cache.

        Gives up after `_EVICT_ROUNDS` rounds. Returns the number of evicted statements.
        """
        expected, evicted = self._kept_statements(fault.node), 0
        for _ in range(_EVICT_ROUNDS):
            for api in _APIS:
                self._ask("prepare", api=api, count=_EVICT, timeout_s=SESSION_S)
            expected += 2 * _EVICT
            evicted = expected - self._kept_statements(fault.node)
            if evicted > 0:
                break
        return str(max(0, evicted))

    def _kept_statements(self, node: int) -> int:
        with self._cluster.nodes[node].probe() as connection:
            return len(connection.query("SELECT prepared_id FROM system.prepared_statements").rows)

    def _drop(self, fault: Fault) -> str:
        name = aside(self._keyspace)
        self._ddl([f"DROP KEYSPACE IF EXISTS {name}"])
        time.sleep(min(1.0, fault.seconds))
        self._ddl([KEYSPACE.format(name), f"CREATE TABLE IF NOT EXISTS {name}.{ASIDE_TABLE}"])
        return "1"

    def _ddl(self, texts: list[str]) -> None:
        """Sends schema statements one after another, and repeats a statement that failed.

        The method makes at most `_DDL_TRIES` tries for all statements together. A statement that
        timed out may have been applied, so it must be possible to execute each statement twice.
        """
        left = list(texts)
        for _ in range(_DDL_TRIES):
            (error,) = self._ask(
                "statements",
                api=self._chance.choice(_APIS),
                kind="ddl",
                timeout_s=_DDL_S,
                texts=left[:1],
            )
            if error is None:
                del left[0]
                if not left:
                    return
        self.failures.append(f"{_DDL_TRIES} tries, and not answered: {left}")
