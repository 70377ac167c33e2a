"""Tests that errors about unknown names say which name is nearest."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

import turbocql
from turbocql import Balancing, Config, ExecutionProfile, Tls
from turbocql._checks import nearest, with_nearest
from turbocql._files.source import _csv_options
from turbocql._transfer.load import Load
from turbocql._transfer.scan import Scan, missing_table
from turbocql._transfer.unload import Unload
from turbocql._transfer.verify import Verification
from turbocql.errors import ConfigError, EncodeError
from turbocql.policies import ConstantSpeculation, LatencyAwareness, PercentileSpeculation

SETTINGS = Config.__dataclass_fields__


def call(function: Any, *arguments: Any, **options: Any) -> object:
    """Calls a function with arguments that its types do not allow."""
    return function(*arguments, **options)


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("time_out_s", SETTINGS, "timeout_s"),
        ("timeout", SETTINGS, "timeout_s"),
        ("TIMEOUT_S", SETTINGS, "timeout_s"),
        ("contact_point", SETTINGS, "contact_points"),
        ("username", SETTINGS, "user"),
        ("load_balancing_policy", SETTINGS, "balancing"),
        ("hosts", SETTINGS, "contact_points"),
        ("ssl_context", SETTINGS, "tls"),
        ("fetch_size", SETTINGS, "page_size"),
        ("cert", Tls.__dataclass_fields__, "certificate"),
        ("ca_file", Tls.__dataclass_fields__, "ca"),
        ("local_dc", Balancing.__dataclass_fields__, "datacenter"),
        ("QUROUM", ["ONE", "QUORUM", "LOCAL_QUORUM"], "QUORUM"),
        ("Name", ["id", "name"], "name"),
        ("nmae", ["id", "name"], "name"),
        ("colour", SETTINGS, None),
        ("delimiter", ["limit", "csv"], "csv"),
        ("delimiter", ["delimiter", "quote"], "delimiter"),
        ("", SETTINGS, None),
        ("é", SETTINGS, None),
        ("name", [], None),
    ],
)
def test_the_nearest_name(name: str, names: Any, expected: str | None) -> None:
    assert nearest(name, names) == expected


def test_the_message_has_the_nearest_name_before_the_list() -> None:
    assert with_nearest("no 'ab'", "ab", ["abc", "x"]) == "no 'ab'; did you mean abc? It has abc, x"
    assert with_nearest("no 'y'", "y", ["abc", "x"]) == "no 'y'; it has abc, x"
    assert with_nearest("no 'y'", "y", [], "known are") == "no 'y'; known are none"
    assert with_nearest("no 5", 5, ["x"], show=repr) == "no 5; it has 'x'"
    many = ["abc", *map(str, range(10))]
    assert with_nearest("no 'ab'", "ab", many) == "no 'ab'; did you mean abc?"
    assert with_nearest("no 'y'", "y", many) == f"no 'y'; it has {', '.join(many)}"


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (
            lambda: call(Config, time_out_s=3),
            "Config has no setting 'time_out_s'; did you mean timeout_s?",
        ),
        (
            lambda: call(Tls, cert="x"),
            "Tls has no setting 'cert'; did you mean certificate? It has ca, ",
        ),
        (
            lambda: call(Balancing, dc="x"),
            "Balancing has no setting 'dc'; did you mean datacenter?",
        ),
        (lambda: call(ExecutionProfile, retries=1), "did you mean retry?"),
        (lambda: call(ConstantSpeculation, delay=1), "did you mean delay_s?"),
        (lambda: call(PercentileSpeculation, percent=1), "did you mean percentile?"),
        (lambda: call(LatencyAwareness, scale=1), "did you mean scale_s?"),
        (lambda: call(dataclasses.replace, Config(), time_out=1), "did you mean timeout_s?"),
        (
            lambda: call(turbocql.connect, pagesize=1),
            "unknown setting 'pagesize'; did you mean page_size?",
        ),
        (
            lambda: call(turbocql.connect, local_dc="a"),
            "'local_dc'; did you mean balancing=turbocql.Balancing(datacenter=...)?",
        ),
        (
            lambda: call(turbocql.connect, certificate="a.pem"),
            "'certificate'; did you mean tls=turbocql.Tls(certificate=...)?",
        ),
        (
            lambda: call(turbocql.aio.connect, pagesize=1),
            "unknown setting 'pagesize'; did you mean page_",
        ),
        (
            lambda: call(Load, "k.t", None, {"concurency": 1}, shows_values=True),
            "no option 'concurency'; did you mean conc",
        ),
        (
            lambda: call(Load, "k.t", None, {"delimiter": ";"}, shows_values=True),
            "load has no option 'delimiter': pass csv={'delimiter': ...}",
        ),
        (
            lambda: call(Verification, "k.t", None, {"header": False}, shows_values=True),
            "verify has no option 'header': pass csv={'header': ...}",
        ),
        (
            lambda: call(Scan, "k.t", None, {"filter": "x"}),
            "scan has no option 'filter'; did you mean whe",
        ),
        (
            lambda: call(Scan, "k.t", None, {"where": "x > :x", "values": {"x": 30}}),
            "got dict; pass the values of a dict in the order of the ?",
        ),
        (lambda: call(Unload, "k.t", None, "a.csv", {"file": 1}), "did you mean files?"),
        (
            lambda: call(Verification, "k.t", None, {"samples": 1}, shows_values=True),
            "did you mean sample?",
        ),
    ],
)
def test_an_unknown_setting_or_option(create: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        create()


def test_a_subclass_has_settings_of_its_own() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Mine(Config):
        region: str = "eu"

    assert Mine(region="us", page_size=7).page_size == 7


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: call(Config, rows="dicts"), "got 'dicts'; did you mean 'dict'?"),
        (lambda: call(Config, compression="lz-4"), "got 'lz-4'; did you mean 'lz4'?"),
        (lambda: call(Config, retry="fall_through"), "did you mean 'fallthrough'?"),
        (lambda: call(Config, consistency="QUROUM"), "got 'QUROUM'; did you mean QUORUM?"),
        (lambda: call(Config, serial_consistency="LOCALSERIAL"), "did you mean LOCAL_SERIAL?"),
        (
            lambda: call(Load, "k.t", None, {"nulls": "unsets"}, shows_values=True),
            "did you mean 'unset'?",
        ),
        (
            lambda: call(Load, "k.t", None, {"format": "cvs"}, shows_values=True),
            "did you mean 'csv'?",
        ),
        (lambda: call(Unload, "k.t", None, "a", {"format": "parket"}), "did you mean 'parquet'?"),
        (lambda: call(_csv_options, {"delimeter": ";"}), "'delimeter'; did you mean delimiter?"),
        (
            lambda: call(Config.from_url, "cql://a?consistency=QUROUM"),
            "got 'QUROUM'; did you mean QUORUM?",
        ),
        (lambda: call(Config.from_url, "cql://a?rows=dicts"), "got 'dicts'; did you mean dict?"),
    ],
)
def test_a_misspelt_choice(create: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        create()


@pytest.mark.parametrize(
    ("create", "kind", "message"),
    [
        (lambda: call(turbocql.Batch, "loged"), ConfigError, "got 'loged'; did you mean 'logged'?"),
        (
            lambda: call(turbocql.Batch, ["a"]),
            ConfigError,
            "got list: add statements with Batch.add",
        ),
        (
            lambda: call(turbocql.Batch().add, "a", 1),
            TypeError,
            "int: a single value is passed as (v",
        ),
        (
            lambda: call(turbocql.Batch().add, "a", "b"),
            TypeError,
            "str: a single value is passed as",
        ),
        (
            lambda: call(turbocql.connect, Config()),
            ConfigError,
            "pass a Config by its name: connect(con",
        ),
        (
            lambda: call(Config, tls={"ca": "a"}),
            ConfigError,
            "tls must be a Tls such as Tls(ca='ca.pem')",
        ),
        (
            lambda: call(Scan, "k.t", None, {"where": " where k = 1"}),
            ConfigError,
            "without the word WHERE",
        ),
    ],
)
def test_arguments_in_a_wrong_form(
    create: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        create()


def test_an_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'conect'") as caught:
        _ = turbocql.conect  # type: ignore[attr-defined]
    # Python's traceback uses these attributes of the error to suggest a similar name.
    assert (caught.value.name, caught.value.obj) == ("conect", turbocql)


def test_the_error_for_calling_a_session_class_names_connect() -> None:
    for session in (turbocql.Session, turbocql.aio.AsyncSession):
        with pytest.raises(TypeError, match=r"opened by turbocql.connect\(...\) or turbocql.aio"):
            call(session, "127.0.0.1")


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (
            lambda: call(turbocql.Query, "x", page_sise=1),
            "'page_sise'; did you mean page_size? The",
        ),
        (lambda: call(turbocql.Query, "x", colour=1), "'colour'; the options are consistency, "),
        (lambda: call(turbocql.Batch, fetch_size=1), "'fetch_size'; the options are consistency"),
        (lambda: call(turbocql.Batch, consistancy=1), "'consistancy'; did you mean consistency? T"),
        (lambda: call(turbocql.Query, "x", consistency=4), "Consistency or its name, got int 4"),
        (lambda: call(turbocql.Query, "x", timeout_s="5"), 'a number of seconds, got str "5"'),
        (lambda: call(turbocql.Query, "x", page_size="5"), 'a number of rows, got str "5"'),
        (lambda: call(turbocql.Query, "x", timestamp=1.5), "since 1970, got float 1.5"),
        (
            lambda: call(turbocql.Query, "x", idempotent="y"),
            'idempotent must be a bool, got str "y"',
        ),
        (lambda: call(turbocql.Query, "x", profile=5), "one of Config.profiles, got int 5"),
        (lambda: call(turbocql.Query, ["x"]), "got a list: several statements are a Batch"),
        (lambda: call(turbocql.Query, turbocql.Query("x")), "got a Query: pass its text"),
    ],
)
def test_a_wrong_option_of_a_statement(create: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        create()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"consistency": "QUROUM"}, "LOCAL_ONE; did you mean QUORUM?"),
        ({"serial_consistency": "LOCALSERIAL"}, "LOCAL_SERIAL; did you mean LOCAL_SERIAL?"),
        ({"serial_consistency": "QUORUM"}, "expected one of SERIAL, LOCAL_SERIAL"),
    ],
)
def test_a_misspelt_consistency_of_a_statement(options: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        turbocql.Query("x", **options)
    assert str(caught.value).endswith(message)


def test_a_misspelt_field_of_a_value() -> None:
    with pytest.raises(
        EncodeError, match=r'no field "stret"; did you mean street\? Its fields are s'
    ):
        turbocql.codec.encode("place{street text, zip int}", {"stret": "a"})


def test_a_choice_that_may_be_a_secret_is_not_shown() -> None:
    with pytest.raises(ConfigError, match=r"got str \(not shown\)$"):
        call(Config, compression="cql://ann:hunter2@db1")


TABLE = [("id", "partition_key", "int"), ("name", "regular", "text"), ("age", "regular", "int")]


@pytest.mark.parametrize(
    ("options", "names", "message"),
    [
        (
            {},
            ["id", "nmae"],
            "k.t has no column 'nmae'; did you mean 'name'? It has 'id', 'name', ",
        ),
        (
            {},
            ["id", "colour"],
            "k.t has no column 'colour'; it has 'id', 'name', 'age'. Pass rename",
        ),
        (
            {"rename": {"nmae": "name"}},
            ["id", "name"],
            "'nmae'; did you mean 'name'? It has 'id', ",
        ),
        ({"columns": ["id", "nam"]}, ["id", "name"], "no column for 'nam'; did you mean 'name'?"),
        ({"ttl": "ttls"}, ["id", "ttl"], "ttl: the data has no column 'ttls'; did you mean 'ttl'?"),
        ({}, ["name"], "no column for 'id' of the key of k.t; it has columns for 'name'"),
    ],
)
def test_a_misspelt_column_of_a_load(options: Any, names: list[str], message: str) -> None:
    if "ttl" in options:
        names = ["id", "ttl"]
        options = {**options, "columns": ["id"]}
    with pytest.raises(EncodeError, match=re.escape(message)):
        Load("k.t", None, options, shows_values=True).match(names, TABLE)


def test_a_misspelt_column_of_a_scan() -> None:
    columns = [(name, kind, cql_type, 0) for name, kind, cql_type in TABLE]
    with pytest.raises(ConfigError, match=r"no column 'nmae'; did you mean 'name'\? It has 'id', "):
        Scan("k.t", None, {"columns": ["nmae"]}).match(columns, None)


@pytest.mark.parametrize(
    ("table", "tables", "keyspaces", "message"),
    [
        (("k", "peopel"), ["people", "t"], ["k"], "no table k.peopel; did you mean k.people?"),
        (("k", "T"), ["t"], ["k"], 'there is no table k."T"; did you mean k.t?'),
        (("k", "zzz"), ["t", "people"], ["k"], "no table k.zzz; the keyspace has people, t"),
        (("k", "t"), [], ["k"], "there is no table k.t; the keyspace has no tables"),
        (("shpo", "t"), [], ["shop"], "there is no keyspace shpo; did you mean shop?"),
        (
            ("x", "t"),
            [],
            ["shop"],
            "there is no table x.t: there is no keyspace x; for a single node, create it: CREATE"
            " KEYSPACE x WITH replication = {'class': 'NetworkTopologyStrategy',"
            " 'replication_factor': 1}",
        ),
        (("k", "q"), [f"n{i:02}" for i in range(30)], ["k"], "n18, n19, ..."),
    ],
)
def test_a_table_that_does_not_exist(
    table: tuple[str, str], tables: list[str], keyspaces: list[str], message: str
) -> None:
    error = missing_table(table, tables, keyspaces)
    assert isinstance(error, ConfigError)
    assert str(error).endswith(message)
