"""Uses a cluster of three nodes in most ways that the driver offers, with and without faults of
nodes.

    python -m tests.accel.programs.cluster_faults HOSTS PORT KEYSPACE VERSION PART ...

`HOSTS` has the nodes' addresses with commas between them. The part `usual` needs no faults. The
part `faults` asks the test for faults of the last node in `HOSTS`. For example, it prints the line
`? kill`, and waits for a line from the test, which the test writes after it has killed the node.
The part `endings` shuts sessions and clusters down during requests.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

warnings.simplefilter("ignore")

from cassandra import ConsistencyLevel, policies  # noqa: E402
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile  # noqa: E402
from cassandra.concurrent import execute_concurrent, execute_concurrent_with_args  # noqa: E402
from cassandra.query import BatchStatement, BatchType, SimpleStatement  # noqa: E402
from tests.accel.programs.running import attempt, print_native  # noqa: E402

HOSTS, PORT, KEYSPACE = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
VERSION, PARTS = int(sys.argv[4]), sys.argv[5:]
ROWS, QUORUM = 300, ConsistencyLevel.QUORUM
Work = Callable[[Any], None]


class Retries(policies.RetryPolicy):  # type: ignore[misc]
    """Retries on the next node, up to five times, and notes each decision."""

    def __init__(self) -> None:
        self.decisions: list[str] = []

    def _decide(self, what: str, retry_num: int) -> tuple[int, None]:
        self.decisions.append(f"{what} {retry_num}")
        return (self.RETRY_NEXT_HOST if retry_num < 5 else self.RETHROW), None

    def on_read_timeout(self, *_: Any, retry_num: int, **named: Any) -> tuple[int, None]:
        return self._decide("read timeout", retry_num)

    def on_write_timeout(self, *_: Any, retry_num: int, **named: Any) -> tuple[int, None]:
        return self._decide("write timeout", retry_num)

    def on_unavailable(self, *_: Any, retry_num: int, **named: Any) -> tuple[int, None]:
        return self._decide("unavailable", retry_num)

    def on_request_error(self, *_: Any, retry_num: int, **named: Any) -> tuple[int, None]:
        return self._decide("request error", retry_num)


class States(policies.HostStateListener):  # type: ignore[misc]
    """Notes which nodes go down and come up."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_up(self, host: Any) -> None:
        self.seen.append(f"up {HOSTS.index(host.address)}")

    def on_down(self, host: Any) -> None:
        self.seen.append(f"down {HOSTS.index(host.address)}")

    def on_add(self, host: Any) -> None:
        self.seen.append(f"add {HOSTS.index(host.address)}")

    def on_remove(self, host: Any) -> None:
        self.seen.append(f"remove {HOSTS.index(host.address)}")


RETRIES, STATES = Retries(), States()


def profiles() -> dict[Any, Any]:
    nodes = policies.TokenAwarePolicy(policies.RoundRobinPolicy())
    last = policies.WhiteListRoundRobinPolicy(HOSTS[-1:])
    eager = policies.ConstantSpeculativeExecutionPolicy(0.1, 5)
    return {
        EXEC_PROFILE_DEFAULT: ExecutionProfile(nodes, RETRIES, QUORUM, request_timeout=60),
        "last": ExecutionProfile(
            last, policies.FallthroughRetryPolicy(), QUORUM, request_timeout=1.5
        ),
        "eager": ExecutionProfile(
            policies.RoundRobinPolicy(),
            RETRIES,
            QUORUM,
            request_timeout=60,
            speculative_execution_policy=eager,
        ),
    }


def cluster(**options: Any) -> Any:
    return Cluster(
        HOSTS,
        port=PORT,
        protocol_version=VERSION,
        execution_profiles=profiles(),
        reconnection_policy=policies.ConstantReconnectionPolicy(0.5),
        **options,
    )


def eventually(name: str, holds: Callable[[], bool], timeout_s: float = 90) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    print(f"{name}: {holds()}")


def attempts(call: Callable[[], Any], timeout_s: float = 60) -> Any:
    """Calls `call` until it raises nothing, because the driver notices late that a node is back."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def outcomes(futures: list[Any]) -> Counter[str]:
    """Waits for all futures. Counts the answers and the errors of each class."""
    counts: Counter[str] = Counter()
    for future in futures:
        try:
            future.result()
            counts["answer"] += 1
        except Exception as error:
            counts[type(error).__name__] += 1
    return counts


def usual(session: Any) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, name text, data blob)")
    insert = session.prepare("INSERT INTO t (id, name, data) VALUES (?, ?, ?)")
    select = session.prepare("SELECT * FROM t WHERE id = ?")
    for number in range(30):
        session.execute(insert, (number, f"name {number}", bytes(number * 300)))
        row = session.execute(select, (number,)).one()
        assert (row.id, row.name, row.data) == (number, f"name {number}", bytes(number * 300))
    several_at_a_time(session, insert, select)
    arguments = [(number, f"name {number}", bytes(number)) for number in range(ROWS)]
    written = execute_concurrent_with_args(session, insert, arguments, concurrency=40)
    print(len(written), {success for success, _ in written})
    for generates in (False, True):
        options: dict[str, Any] = {"raise_on_first_error": False, "results_generator": generates}
        pairs = [(select, (number if number % 50 else "x",)) for number in range(ROWS)]
        for success, result in execute_concurrent(session, pairs, **options):
            print(success, result.one().name if success else type(result).__name__)
    attempt(execute_concurrent, session, [(select, ("x",)), (select, (1,))])
    batches(session, insert, select)
    pages(session)
    schema(session)
    details(session, select)
    metrics()
    print(STATES.seen, RETRIES.decisions)
    # With only one replica, a request with consistency TWO fails. `RETRIES` tries other nodes and
    # then gives up.
    text = f"CREATE KEYSPACE {KEYSPACE}_1 WITH replication ="
    session.execute(f"{text} {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.execute(f"CREATE TABLE {KEYSPACE}_1.t (id int PRIMARY KEY)")
    text = f"SELECT * FROM {KEYSPACE}_1.t"
    print(
        outcomes(
            [session.execute_async(SimpleStatement(text, consistency_level=ConsistencyLevel.TWO))]
        ),
        RETRIES.decisions,
    )
    session.execute(f"DROP KEYSPACE {KEYSPACE}_1")


def several_at_a_time(session: Any, insert: Any, select: Any) -> None:
    ended: list[str] = []
    done = threading.Semaphore(0)

    def succeed(rows: Any, prefix: str, suffix: str = "") -> None:
        ended.append(f"{prefix} {[row.id for row in rows]} {suffix}")
        done.release()

    def fail(error: Any, prefix: str) -> None:
        ended.append(f"{prefix} {type(error).__name__}")
        done.release()

    futures = []
    for number in range(60):
        text = "SELECT nothing FROM t"
        future = session.execute_async(text if number % 10 == 0 else select.bind((number % 40,)))
        options: dict[str, Any] = {"callback_args": (f"{number}",), "errback_args": (f"{number}",)}
        future.add_callbacks(succeed, fail, callback_kwargs={"suffix": "!"}, **options)
        future.add_errback(lambda error, name: ended.append(f"{name} again"), f"{number}")
        futures.append(future)
    for _ in futures:
        assert done.acquire(timeout=60)
    print(outcomes(futures))
    print("\n".join(sorted(ended)))
    threads = [
        threading.Thread(target=lambda: [session.execute(select, (n,)) for n in range(50)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def batches(session: Any, insert: Any, select: Any) -> None:
    for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
        batch = BatchStatement(kind, consistency_level=QUORUM)
        for number in range(1000, 1010):
            batch.add(insert, (number, str(kind), None))
        batch.add("DELETE FROM t WHERE id = %s", (1009,))
        session.execute(batch)
        found = [session.execute(select, (number,)).one() for number in (1000, 1009)]
        print([row and row.name for row in found])


def pages(session: Any) -> None:
    statement = SimpleStatement("SELECT id FROM t", fetch_size=50)
    result = session.execute(statement)
    print(len(result.current_rows), result.has_more_pages, len(sorted(result)))
    state = session.execute(statement).paging_state
    print(len(list(session.execute(statement, paging_state=state))))
    ids: list[int] = []
    future, done = session.execute_async(statement), threading.Event()

    def page(rows: Any) -> None:
        ids.extend(row.id for row in rows)
        future.start_fetching_next_page() if future.has_more_pages else done.set()

    future.add_callback(page)
    print(done.wait(60), len(ids), len(set(ids)))


def schema(session: Any) -> None:
    for text in ("CREATE TABLE s (a int PRIMARY KEY)", "ALTER TABLE s ADD b text"):
        session.execute(text)
        tables = session.cluster.metadata.keyspaces[KEYSPACE].tables
        print(sorted(tables), sorted(tables["s"].columns))
    wide = session.prepare("SELECT * FROM s WHERE a = 1")
    session.execute("INSERT INTO s (a, b) VALUES (1, 'b')")
    print(session.execute(wide).one())
    session.execute("ALTER TABLE s ADD c int")
    print([attempts(lambda: session.execute(wide).one())[:2] for _ in range(6)])
    session.execute("DROP TABLE s")
    print(sorted(session.cluster.metadata.keyspaces[KEYSPACE].tables))


def details(session: Any, select: Any) -> None:
    future = session.execute_async(select, (1,), trace=True)
    trace = (future.result(), future.get_query_trace(30))[1]
    print(trace.request_type, sorted(trace.parameters)[:3], trace.events is not None)
    if VERSION > 3:
        future = session.execute_async(select, (1,), custom_payload={"key": b"value"})
        print(future.result().one(), future.custom_payload, future.warnings)
    attempt(session.execute, select, (1, 2))
    attempt(session.execute, "SELECT * FROM t WHERE id = %s", ("it's",))


def metrics() -> None:
    """Uses a cluster that counts its requests and their errors."""
    opened = cluster(metrics_enabled=True)
    session = opened.connect(KEYSPACE)
    select = session.prepare("SELECT * FROM t WHERE id = ?")
    print(outcomes([session.execute_async(select, (number,)) for number in range(40)]))
    print(outcomes([session.execute_async("SELECT nothing FROM t") for _ in range(3)]))
    stats = opened.metrics.get_stats()
    errors = ("connection_errors", "write_timeouts", "read_timeouts", "unavailables")
    others = ("other_errors", "retries", "ignores")
    print(stats["request_timer"]["count"], [stats[name] for name in (*errors, *others)])
    opened.shutdown()


def faults(session: Any) -> None:
    session.execute("CREATE TABLE f (id int PRIMARY KEY, data blob)")
    insert = session.prepare("INSERT INTO f (id, data) VALUES (?, ?)")
    select = session.prepare("SELECT * FROM f WHERE id = ?")
    insert.is_idempotent = select.is_idempotent = True
    values = [(number, bytes([number % 256]) * 3000) for number in range(ROWS)]
    execute_concurrent_with_args(session, insert, values)
    session.execute(select, (1,), execution_profile="last")
    request("pause")
    began = time.monotonic()
    futures = [session.execute_async(select, (n,), execution_profile="last") for n in range(10)]
    print(outcomes(futures), 1.4 < time.monotonic() - began < 20)
    hasty = session.execute_async(select, (1,), timeout=0.3, execution_profile="last")
    print(outcomes([hasty]))
    # The INSERTs do not fit into the buffer of the socket to the paused node. Nevertheless,
    # `execute_async` must not block.
    futures, slowest = [], 0.0
    for number in range(1500):
        began = time.monotonic()
        value = bytes([number % 256]) * 20_000
        arguments = (insert, (10_000 + number, value))
        futures.append(session.execute_async(*arguments, execution_profile="last"))
        slowest = max(slowest, time.monotonic() - began)
    print(set(outcomes(futures)) <= {"OperationTimedOut", "NoHostAvailable"}, slowest < 1.5)
    futures = [session.execute_async(select, (n,), execution_profile="eager") for n in range(60)]
    print(outcomes(futures), any(len(future.attempted_hosts) > 1 for future in futures))
    request("resume")
    print(attempts(lambda: session.execute(select, (1,), execution_profile="last").one().id))
    time.sleep(3)
    rows = list(session.execute("SELECT id, data FROM f", timeout=60))
    print(all(set(row.data) == {row.id % 256} or row.id >= 10_000 for row in rows))
    print(all(set(row.data) == {(row.id - 10_000) % 256} for row in rows if row.id >= 10_000))
    stop = threading.Event()
    counts: Counter[str] = Counter()

    def load() -> None:
        while not stop.is_set():
            futures = [session.execute_async(select, (number,)) for number in range(20)]
            counts.update(outcomes(futures))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    down = f"down {len(HOSTS) - 1}"
    STATES.seen.clear()
    request("kill")
    eventually("down", lambda: down in STATES.seen)
    attempt(lambda: type(session.execute(select, (1,), execution_profile="last")))
    request("start")
    eventually("up", lambda: down.replace("down", "up") in STATES.seen)
    stop.set()
    for thread in threads:
        thread.join()
    print(sorted(counts), counts["answer"] > 100)
    print(attempts(lambda: session.execute(select, (2,), execution_profile="last").one().id))


def request(fault: str) -> None:
    """Asks the test for a fault, and waits until it has happened."""
    print(f"? {fault}", flush=True)
    sys.stdin.readline()


def endings(session: Any) -> None:
    session.execute("CREATE TABLE e (id int PRIMARY KEY, name text)")
    for ends_cluster in (True, False) * 2:
        opened = cluster()
        other = opened.connect(KEYSPACE)
        insert = other.prepare("INSERT INTO e (id, name) VALUES (?, ?)")
        ended: list[str] = []
        sent = 0

        def send() -> None:
            nonlocal sent
            for number in range(2000):
                try:
                    future = other.execute_async(insert, (number, "n"), timeout=2)  # noqa: B023
                except Exception as error:
                    print(type(error).__name__, file=sys.stderr)
                    return
                sent += 1
                ends = (lambda _: ended.append(""),) * 2  # noqa: B023
                future.add_callbacks(*ends)

        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(0.1)
        (opened if ends_cluster else other).shutdown()
        sender.join(30)
        eventually("all ended", lambda: len(ended) >= sent, 10)  # noqa: B023
        opened.shutdown()
        print(sender.is_alive())
        try:
            other.execute(insert, (1, "late"), timeout=2)
        except Exception as error:
            # Only the class of the error is printed, because its text names the nodes in a varying
            # order.
            print(type(error).__name__)


def main() -> None:
    works: dict[str, Work] = {"usual": usual, "faults": faults, "endings": endings}
    opened = cluster()
    opened.register_listener(STATES)
    session = opened.connect(KEYSPACE)
    for part in PARTS:
        print(part)
        works[part](session)
    opened.shutdown()
    print_native()


if __name__ == "__main__":
    main()
