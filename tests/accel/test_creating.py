"""The native `Session._create_response_future` makes what the driver's method makes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from cassandra import ConsistencyLevel, cluster, metadata, protocol
from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile, ResponseFuture, Session
from cassandra.cqltypes import Int32Type, UTF8Type
from cassandra.encoder import Encoder
from cassandra.metadata import Metadata, Murmur3Token, TokenMap
from cassandra.policies import ConstantSpeculativeExecutionPolicy, FallthroughRetryPolicy
from cassandra.query import (
    BatchStatement,
    BatchType,
    BoundStatement,
    SimpleStatement,
    dict_factory,
    tuple_factory,
)
from tests.accel.answers import answer
from tests.accel.environments import LEFT, installed_driver
from tests.accel.futures import IS_SCYLLA, Connection, described
from tests.accel.replacements import expect_same
from tests.accel.statements import seams, statement

from turbocql import accel

CREATE = "cluster.Session._create_response_future"
# turbocql knows the source code of the sessions of some releases only.
pytestmark = pytest.mark.needs(CREATE not in LEFT[installed_driver()], "a known release")
LEGACY, PROFILES = 1, 2
NOT_SET = cluster._NOT_SET


class Balancing:
    """A load balancing policy of the program, whose plans name their statement's keyspace."""

    def make_query_plan(self, working_keyspace: Any = None, query: Any = None) -> Any:
        return [working_keyspace, query.keyspace]


def a_metadata() -> Any:
    made = Metadata()
    made.partitioner = "org.apache.cassandra.dht.Murmur3Partitioner"
    made.token_map = TokenMap(Murmur3Token, {}, [Murmur3Token(0)], made)
    return made


class OwnSession(Session):  # type: ignore[misc]
    """A program's own class of sessions."""


def a_session(mode: int = PROFILES, cls: Any = Session) -> Any:
    """Returns a session without connections."""
    session = cls.__new__(cls)
    profile = ExecutionProfile(
        load_balancing_policy=Balancing(), retry_policy=FallthroughRetryPolicy()
    )
    profiles = {EXEC_PROFILE_DEFAULT: profile, "long": ExecutionProfile(request_timeout=77.0)}
    profiles["long"].load_balancing_policy = profile.load_balancing_policy
    session.cluster = SimpleNamespace(
        _config_mode=mode,
        profile_manager=SimpleNamespace(profiles=profiles),
        metadata=a_metadata(),
        connection_class=Connection,
        timestamp_generator=lambda: 12345,
        allow_beta_protocol_version=False,
        default_retry_policy="retry policy of the cluster",
        load_balancing_policy=profile.load_balancing_policy,
        _default_load_balancing_policy=profile.load_balancing_policy,
    )
    session.keyspace = "shop"
    session.encoder = Encoder()
    session._protocol_version = 4
    session._metrics = None
    session._default_timeout, session._row_factory = 3.5, dict_factory
    session._default_consistency_level = ConsistencyLevel.TWO
    session._default_serial_consistency_level = ConsistencyLevel.LOCAL_SERIAL
    return session


def a_statement() -> Any:
    bound = statement(Int32Type, UTF8Type, key=[0]).bind((5, "text"))
    bound.keyspace = "shop"
    if IS_SCYLLA:
        bound.table = "t"
    return bound


def a_batch() -> Any:
    batch = BatchStatement(BatchType.UNLOGGED, consistency_level=ConsistencyLevel.QUORUM)
    batch.add(a_statement())
    batch.add("INSERT INTO t (k) VALUES (%s)", (5,))
    return batch


def seen(made: Any) -> Any:
    """Returns everything that can be seen of a future, its message and its statement."""
    if not isinstance(made, ResponseFuture):
        return made
    attributes = {
        name: value if isinstance(value, float) else described(value)
        for name, value in vars(made).items()
        if name not in {"session", "_start_time", "message", "_timer"}
    }
    token = vars(made).get("_routing_token")
    message = {name: described(value) for name, value in vars(made.message).items()}
    query = {name: described(value) for name, value in vars(made.query).items()}
    return (
        *(attributes, list(vars(made)), getattr(token, "value", None)),
        *(type(made.message), message, list(vars(made.message)), type(made.query), query),
        type(made._start_time),
    )


def same(call: Callable[[], Any], *, native: bool | None = None) -> Any:
    """Asserts that a call returns the same with and without the accelerator."""
    random.seed(5)
    plain = call()
    with accel.accelerated():
        before = seams()[CREATE].native
        random.seed(5)
        assert call() == plain
        if native is not None:
            assert bool(seams()[CREATE].native - before) == native
    return plain


def create(session: Any, query: Any, *arguments: Any, **named: Any) -> Any:
    """Calls the method as `execute_async` does, with defaults for missing arguments."""
    defaults: tuple[Any, ...] = (None, False, {}, NOT_SET)[len(arguments) :]
    if "timeout" in named:
        defaults = defaults[:-1]
    return session._create_response_future(query, *arguments, *defaults, **named)


STATEMENTS: dict[str, Callable[[], Any]] = {
    "bound": lambda: (a_statement(), None),
    "prepared": lambda: (statement(Int32Type, UTF8Type, key=[0]), (5, "text")),
    "simple": lambda: (SimpleStatement("SELECT 1"), None),
    "simple with values": lambda: (SimpleStatement("SELECT %s, %s"), (5, "text")),
    "text": lambda: ("SELECT 1", None),
    "text with values": lambda: ("SELECT %s, %s", [5, "te'xt"]),
    "text with named values": lambda: ("SELECT %(a)s", {"a": [1, 2]}),
    "text without values": lambda: ("SELECT '100 %s'", ()),
    "batch": lambda: (a_batch(), None),
    "batch without statements": lambda: (BatchStatement(), (5,)),
}


@pytest.mark.parametrize("mode", [LEGACY, PROFILES])
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_request_is_made(name: str, mode: int) -> None:
    def outcome() -> Any:
        query, parameters = STATEMENTS[name]()
        return seen(create(a_session(mode), query, parameters))

    attributes, *_ = same(outcome, native=True)
    assert attributes["timeout"] == (3.5 if mode == LEGACY else 10.0)


@pytest.mark.needs(IS_SCYLLA, "tokens of requests")
def test_tokens_equal_those_of_the_driver() -> None:
    def outcome() -> Any:
        session, tokens = a_session(), []
        for number in range(-50, 50):
            query = statement(Int32Type, key=[0]).bind((number * 7_654_321,))
            tokens.append(create(session, query)._routing_token.value)
        return tokens

    same(outcome, native=True)


def tablets(version: int | None) -> Callable[[Any, Any], None]:
    def change(session: Any, query: Any) -> None:
        from cassandra.tablets import Tablet

        tablet = Tablet(-(2**63), 2**63 - 1, [])
        tablet.tablet_version = version
        session.cluster.metadata._tablets.add_tablet("shop", "t", tablet)

    return change


def of(name: str, **attributes: Any) -> Callable[[Any, Any], None]:
    """Returns a function that sets attributes of the session, its cluster, or the statement."""

    def change(session: Any, query: Any) -> None:
        owner = {
            "session": session,
            "cluster": session.cluster,
            "metadata": session.cluster.metadata,
            "profile": session.cluster.profile_manager.profiles[EXEC_PROFILE_DEFAULT],
            "query": query,
            "prepared": query.prepared_statement,
        }[name]
        for attribute, value in attributes.items():
            setattr(owner, attribute, value)

    return change


def columns(identifier: Any) -> Callable[[Any, Any], None]:
    def change(session: Any, query: Any) -> None:
        prepared = query.prepared_statement
        if hasattr(prepared, "update_result_metadata"):
            prepared.update_result_metadata([("ks", "t", "c", Int32Type)], identifier)
        else:
            prepared.result_metadata = [("ks", "t", "c", Int32Type)]
            prepared.result_metadata_id = identifier

    return change


def speculation(session: Any, query: Any) -> None:
    query.is_idempotent = True
    profile = session.cluster.profile_manager.profiles[EXEC_PROFILE_DEFAULT]
    profile.speculative_execution_policy = ConstantSpeculativeExecutionPolicy(0.5, 2)


def fails(*arguments: Any, **named: Any) -> Any:
    raise KeyError("broken")


def other_tokens(session: Any, query: Any) -> None:
    session.cluster.metadata.token_map.token_class = SimpleNamespace(
        from_key=lambda key: Murmur3Token(77)
    )


def own_profile_method(session: Any, query: Any) -> None:
    profile = ExecutionProfile(load_balancing_policy=Balancing(), request_timeout=66.0)
    session.get_execution_profile = lambda name: profile


def no_keyspaces(session: Any, query: Any) -> None:
    session.keyspace = query.keyspace = None


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "consistency": of("query", consistency_level=ConsistencyLevel.ALL),
    "serial": of("query", serial_consistency_level=ConsistencyLevel.SERIAL),
    "retry policy": of("query", retry_policy="the statement's"),
    "false retry policy": of("query", retry_policy=0),
    "page size": of("query", fetch_size=7),
    "no page size": of("query", fetch_size=None),
    "default page size": of("session", default_fetch_size=70),
    "no client timestamps": of("session", use_client_timestamp=False),
    "timestamps fail": of("cluster", timestamp_generator=fails),
    "statement's payload": of("query", custom_payload={"a": b"1"}),
    "payload of another class": of("query", custom_payload=5),
    "columns": columns(None),
    "columns with an id": columns(b"columns"),
    "no keyspace": of("query", keyspace=None),
    "no keyspace at all": no_keyspaces,
    "no table": of("query", table=None),
    "no token map": of("metadata", token_map=None),
    "no partitioner": of("metadata", partitioner=None),
    "cannot hash": of("metadata", can_support_partitioner=lambda: False),
    "other tokens": other_tokens,
    "routing key of another class": of("query", _routing_key=bytearray(b"key")),
    "own partitioner": of("metadata", partitioner=type("Text", (str,), {})("Murmur3")),
    "beta": of("cluster", allow_beta_protocol_version=True),
    "speculation": speculation,
    "old protocol": of("session", _protocol_version=2),
    "new protocol": of("session", _protocol_version=5),
    "odd protocol": of("session", _protocol_version=4.0),
    "paging of DSE": of("profile", continuous_paging_options=SimpleNamespace(max_queue_size=4)),
    "row factory": of("profile", row_factory=tuple_factory),
    "no row factory": of("profile", row_factory=None),
    "metrics": of("session", _metrics=SimpleNamespace(request_timer=None)),
    "own get_execution_profile": own_profile_method,
    "own block": of("session", _compute_tablet_version_block=lambda *arguments: 44),
    "not configured": of("cluster", _config_mode=0),
    "odd mode": of("cluster", _config_mode="LEGACY"),
    "own prepared statement": lambda session, query: setattr(
        query,
        "prepared_statement",
        SimpleNamespace(
            query_id=b"own",
            result_metadata=[],
            result_metadata_id=None,
            result_metadata_and_id=([], None),
        ),
    ),
    "no values": of("query", values=None),
}
OF_SIMPLE: dict[str, Callable[[Any, Any], Any]] = {
    "routing key": of("query", routing_key=b"key"),
    "parts of a routing key": of("query", routing_key=[b"a", b"b"]),
    "newest protocol": of("session", _protocol_version=6),
    "protocol of DSE": of("session", _protocol_version=65),
    "no marker": of("query", _query_string="SELECT 1"),
    "no text": of("query", _query_string=None),
    "encoder": of("session", encoder=SimpleNamespace(cql_encode_all_types=lambda value: "own")),
    "broken encoder": of("session", encoder=SimpleNamespace(cql_encode_all_types=fails)),
    "no encoder": of("session", encoder=None),
}
if IS_SCYLLA:
    CHANGES |= {
        "tablet": tablets(0x1234_5678_9ABC_DEF0),
        "tablet without version": tablets(None),
    }


@pytest.mark.parametrize("mode", [LEGACY, PROFILES])
@pytest.mark.parametrize("name", CHANGES)
def test_rare_ways(name: str, mode: int) -> None:
    def outcome() -> Any:
        session, query = a_session(mode), a_statement()
        CHANGES[name](session, query)
        return seen(answer(create, session, query)), seen(answer(create, session, query))

    same(outcome)


@pytest.mark.parametrize("mode", [LEGACY, PROFILES])
@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("name", sorted(CHANGES.keys() | OF_SIMPLE))
def test_rare_ways_of_statements_that_are_not_bound(name: str, is_batch: bool, mode: int) -> None:
    def outcome() -> Any:
        session = a_session(mode)
        query = a_batch() if is_batch else SimpleStatement("SELECT %s", keyspace="shop")
        query.prepared_statement = statement(Int32Type, UTF8Type, key=[0])
        (CHANGES | OF_SIMPLE)[name](session, query)
        call = partial(create, session, query, (5,))
        return seen(answer(call)), seen(answer(call))

    same(outcome)


class OwnStatement(BoundStatement):  # type: ignore[misc]
    """A program's own class of statements."""


class OwnSimple(SimpleStatement):  # type: ignore[misc]
    """A program's own class of simple statements."""


class OwnBatch(BatchStatement):  # type: ignore[misc]
    """A program's own class of batches."""


def of_first_protocol(session: Any) -> Any:
    session._protocol_version = 1
    return session


class OwnText(str):
    """A program's own class of texts."""


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "trace": lambda session, query: create(session, query, None, True),
    "payload": lambda session, query: create(session, query, None, False, {"b": b"2"}),
    "timeout": lambda session, query: create(session, query, timeout=9.0),
    "no timeout": lambda session, query: create(session, query, timeout=None),
    "state": lambda session, query: create(session, query, paging_state=b"state"),
    "host": lambda session, query: create(session, query, host="host 1"),
    "named profile": lambda session, query: create(session, query, execution_profile="long"),
    "default profile": lambda session, query: create(
        session, query, execution_profile=EXEC_PROFILE_DEFAULT
    ),
    "profile": lambda session, query: create(
        session, query, execution_profile=ExecutionProfile(Balancing(), request_timeout=1.0)
    ),
    "unknown profile": lambda session, query: create(session, query, execution_profile="none"),
    "profile of another class": lambda session, query: create(session, query, execution_profile=[]),
    "all by position": lambda session, query: session._create_response_future(
        query, None, False, None, 1.0, EXEC_PROFILE_DEFAULT, None, None
    ),
    "too few": lambda session, query: session._create_response_future(query),
    "too many": lambda session, query: session._create_response_future(*[query] * 9),
    "unknown name": lambda session, query: create(session, query, unknown=5),
    "text of another class": lambda session, query: create(session, OwnText("SELECT 1")),
    "own simple statement": lambda session, query: create(session, OwnSimple("SELECT 1")),
    "text with too few values": lambda session, query: create(session, "SELECT %s, %s", (5,)),
    "text with one value": lambda session, query: create(session, "SELECT %s", 5),
    "text with a profile": lambda session, query: create(session, "S", execution_profile=[]),
    "simple": lambda session, query: create(session, SimpleStatement("SELECT 1"), timeout=1.0),
    "own batch": lambda session, query: create(session, OwnBatch()),
    "batch of the first protocol": lambda session, query: create(
        of_first_protocol(session), BatchStatement()
    ),
    "nothing": lambda session, query: create(session, None),
    "wrong parameters": lambda session, query: create(
        session, query.prepared_statement, ("no number",)
    ),
    "own statement": lambda session, query: create(session, OwnStatement(query.prepared_statement)),
}


@pytest.mark.parametrize("mode", [LEGACY, PROFILES])
@pytest.mark.parametrize("name", CALLS)
def test_arguments(name: str, mode: int) -> None:
    def outcome() -> Any:
        return seen(answer(CALLS[name], a_session(mode), a_statement()))

    same(outcome)


def test_a_statement_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = []
    bind = BoundStatement.bind

    def counting(self: Any, values: Any) -> Any:
        bound.append(values)
        return bind(self, values)

    monkeypatch.setattr(BoundStatement, "bind", counting)

    def outcome() -> Any:
        bound.clear()
        prepared = statement(Int32Type, key=[0])
        answers = []
        profiles: tuple[Any, ...] = (EXEC_PROFILE_DEFAULT, "long", "none", [])
        for profile in profiles:
            call = partial(create, a_session(), prepared, (5,), execution_profile=profile)
            made = answer(call)
            answers.append(seen(made))
        return answers, list(bound)

    assert same(outcome, native=True)[1] == [(5,)] * 4


def test_a_programs_sessions_win() -> None:
    def outcome() -> Any:
        return seen(create(a_session(cls=OwnSession), a_statement()))

    same(outcome, native=False)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_pass(error: type[BaseException]) -> None:
    def stop() -> Any:
        raise error("stop")

    def outcome() -> Any:
        session = a_session()
        session.cluster.timestamp_generator = stop
        try:
            create(session, a_statement())
        except error as raised:
            return raised.args
        raise AssertionError

    same(outcome)


class OwnFuture(ResponseFuture):  # type: ignore[misc]
    """A program's own class of futures."""


class OwnMessage(protocol.QueryMessage):  # type: ignore[misc]
    """A program's own class of messages."""


class OwnBatchMessage(protocol.BatchMessage):  # type: ignore[misc]
    """A program's own class of messages."""


class OwnExecute(protocol.ExecuteMessage):  # type: ignore[misc]
    """A program's own class of messages."""


def _marked(function: Any) -> Any:
    def replacement(self: Any, *arguments: Any, **named: Any) -> None:
        function(self, *arguments, **named)
        self.marked = len(arguments), sorted(named)

    return replacement


REPLACEMENTS: dict[str, tuple[Any, str, Any]] = {
    "futures": (cluster, "ResponseFuture", OwnFuture),
    "future's __init__": (ResponseFuture, "__init__", _marked(ResponseFuture.__init__)),
    "message's __init__": (
        protocol.ExecuteMessage,
        "__init__",
        _marked(protocol.ExecuteMessage.__init__),
    ),
    "simple statement's __init__": (
        SimpleStatement,
        "__init__",
        _marked(SimpleStatement.__init__),
    ),
    "text's message": (
        protocol.QueryMessage,
        "__init__",
        _marked(protocol.QueryMessage.__init__),
    ),
    "messages": (cluster, "ExecuteMessage", OwnExecute),
    "batches": (protocol.BatchMessage, "__init__", _marked(protocol.BatchMessage.__init__)),
    "messages of batches": (cluster, "BatchMessage", OwnBatchMessage),
    "messages of texts": (cluster, "QueryMessage", OwnMessage),
    "bound statements": (cluster, "BoundStatement", OwnStatement),
    "simple statements": (cluster, "SimpleStatement", OwnSimple),
    "literals": (cluster, "bind_params", lambda text, values, encoder: "replaced"),
    "versions": (cluster, "ProtocolVersion", SimpleNamespace(uses_keyspace_flag=lambda v: True)),
    "payloads": (
        protocol._MessageType,
        "update_custom_payload",
        lambda self, other: setattr(self, "seen", [*getattr(self, "seen", []), other]),
    ),
    "profiles": (
        Session,
        "get_execution_profile",
        lambda self, name: ExecutionProfile(Balancing(), request_timeout=55.0),
    ),
    "time": (cluster, "time", SimpleNamespace(time=lambda: 1000)),
    "mode": (cluster._ConfigMode, "LEGACY", 2),
}
if IS_SCYLLA:
    REPLACEMENTS |= {
        "token's hash": (Murmur3Token, "hash_fn", classmethod(lambda cls, key: 99)),
        "murmur3": (metadata, "murmur3", lambda key: 98),
        "random block": (cluster, "random_tablet_version_block", lambda: 97),
    }


@pytest.mark.parametrize("name", REPLACEMENTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_replaced_functions_win(name: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> Any:
        random.seed(5)
        bound = answer(create, a_session(), a_statement(), None, False, {"a": b"1"})
        text = answer(create, a_session(), "SELECT %s", (5,), False, {"a": b"1"})
        batch = answer(create, a_session(), a_batch(), None, False, {"a": b"1"})
        answers = (bound, text, batch)
        return [(seen(each), type(each), getattr(each, "marked", None)) for each in answers]

    expect_same(outcome, REPLACEMENTS[name], when, monkeypatch)
